// The wide-column mode: keyspaces, column families and their rows. Results print one column a line.

const PRINTABLE = /^[\x20-\x7e\u00a0-\uffff]*$/;

function shownBytes(value) {
  if (typeof value === "string") return PRINTABLE.test(value) ? value : JSON.stringify(value);
  if (value !== null && typeof value === "object" && typeof value.hex === "function" && value.subtype() === 0)
    return "0x" + value.hex();
  return String(value).replace(/^NumberLong\("?(-?\d+)"?\)$/, "$1");
}

function printColumns(columns, indent) {
  for (const { name, value, timestamp, ttl } of columns) {
    const lives = ttl === undefined ? "" : `, ttl ${ttl}`;
    print(`${indent}${shownBytes(name)} => ${shownBytes(value)}  (${Number(timestamp)}${lives})`);
  }
}

function printRow(found, indent) {
  if (found.columns !== undefined) return printColumns(found.columns, indent);
  for (const { name, columns } of found.superColumns) {
    print(indent + shownBytes(name));
    printColumns(columns, indent + "    ");
  }
}

// What a read gives: the reply's own fields, printed as columns.
function columnsOf(fields) {
  hide(fields, {
    shellPrint() {
      for (const warning of fields.warnings || []) print("warning: " + warning);
      if (fields.rows === undefined) return printRow(fields, "");
      for (const row of fields.rows) {
        print(shownBytes(row.key));
        printRow(row, "    ");
      }
    },
  });
  return fields;
}

function predicateOf(wanted) {
  if (Array.isArray(wanted)) return { columnNames: wanted };
  const { start, finish, reversed, count } = wanted || {};
  const range = {};
  for (const [name, value] of Object.entries({ start, finish, reversed, count }))
    if (value !== undefined) range[name] = value;
  return { sliceRange: range };
}

// The fields beside the predicate: how sure the read is, what it tells of itself, which super column it is in.
function readOptions(wanted, options) {
  const asked = { ...(Array.isArray(wanted) ? {} : wanted), ...options };
  const fields = { bytesAs: "string" };
  for (const name of ["consistency", "superColumn", "explain", "maxTimeMS", "excludeEmpty"])
    if (asked[name] !== undefined) fields[name] = asked[name];
  return fields;
}

class ColumnFamily {
  constructor(database, name) {
    hide(this, { _database: database, _name: name, _super: undefined });
  }
  getName() {
    return this._name;
  }
  toString() {
    return `${this._database.getName()}.${this._name}`;
  }
  shellPrint() {
    print(this.toString());
  }
  help() {
    printHelp("column family");
  }

  _run(command, what) {
    const { ok, operationTime, $clusterTime, ...fields } = checkReply(this._database.runCommand(command), what);
    return fields;
  }
  isSuper() {
    if (this._super === undefined) {
      const found = this._database.cfs().find((family) => family.name === this._name);
      if (found === undefined) throw new Error(`unconfigured columnfamily ${this._name}`);
      this._super = found.columnType === "Super";
    }
    return this._super;
  }

  // insert(key, name, value, options), in a super column with options.superColumn; or a whole super column:
  // insert(key, {sc: name, columns: {...}}, options). A number is stored as its text, unless options.valueType says
  // otherwise.
  insert(key, name, value, options) {
    if (name !== null && typeof name === "object" && name.sc !== undefined) {
      const { timestamp, ...others } = value || {};
      const stamp = timestamp === undefined ? {} : { timestamp: long(timestamp) };
      const columns = Object.entries(name.columns).map(([column, content]) => ({
        name: column, value: contentOf(content), ...stamp,
      }));
      const mutation = { key, columnFamily: this._name, insertSuper: { name: name.sc, columns } };
      return this._run({ wcBatchMutate: 1, mutations: [mutation], ...others }, "insert failed");
    }
    const fields = { ...options };
    if (fields.timestamp !== undefined) fields.timestamp = long(fields.timestamp);
    return this._run({ wcInsert: this._name, key, column: name, value: contentOf(value, fields), ...fields }, "insert failed");
  }
  // get(key, name), get(key, superColumn) and get(key, superColumn, name).
  get(key, name, sub, options) {
    const whole = this.isSuper();
    const path = whole ? { superColumn: name, ...(sub === undefined ? {} : { column: sub }) } : { column: name };
    const asked = whole ? options : sub;
    const found = this._run({ wcGet: this._name, key, ...path, ...readOptions({}, asked) }, "get failed");
    if (found.column !== undefined) return columnsOf({ columns: [found.column] });
    return columnsOf({ superColumns: [found.superColumn] });
  }
  slice(key, wanted, options) {
    const command = { wcGetSlice: this._name, key, predicate: predicateOf(wanted) };
    return columnsOf(this._run({ ...command, ...readOptions(wanted, options) }, "slice failed"));
  }
  multislice(keys, wanted, options) {
    const command = { wcMultigetSlice: this._name, keys, predicate: predicateOf(wanted) };
    return columnsOf(this._run({ ...command, ...readOptions(wanted, options) }, "multislice failed"));
  }
  range(range, wanted, options) {
    const { count, ...bounds } = range || {};
    const command = { wcGetRangeSlices: this._name, predicate: predicateOf(wanted), ...readOptions(wanted, options) };
    if (Object.keys(bounds).length > 0) command.range = bounds;
    if (count !== undefined) command.count = count;
    return columnsOf(this._run(command, "range failed"));
  }
  count(key, superColumn) {
    const path = superColumn === undefined ? {} : { superColumn };
    return Number(this._run({ wcGetCount: this._name, key, ...path }, "count failed").n);
  }
  // remove(key), remove(key, name), and in super families remove(key, superColumn[, name]).
  remove(key, name, sub, options) {
    const path = {};
    if (name !== undefined) {
      if (!this.isSuper()) path.column = name;
      else Object.assign(path, { superColumn: name }, sub === undefined ? {} : { column: sub });
    }
    return this._run({ wcRemove: this._name, key, ...path, ...options }, "remove failed");
  }
  drop() {
    return this._run({ dropColumnFamily: this._name }, "drop failed");
  }
  truncate() {
    return this._run({ wcTruncate: this._name }, "truncate failed");
  }
}

hide(DB.prototype, {
  cf(name) {
    return new ColumnFamily(this, name);
  },
  createKeyspace(name, options) {
    const keyspace = name === undefined ? this.getName() : name;
    return checkReply(this.adminCommand({ createKeyspace: keyspace, ...options }), "createKeyspace failed");
  },
  createCF(name, options) {
    return checkReply(this.runCommand({ createColumnFamily: name, ...options }), "createCF failed");
  },
  cfs() {
    return checkReply(this.runCommand({ describeKeyspace: 1 }), "describeKeyspace failed").columnFamilies;
  },
  dropKeyspace() {
    return checkReply(this.runCommand({ dropKeyspace: 1 }), "dropKeyspace failed");
  },
  loadStorageConf(file, options) {
    const text = callHost("read", String(file));
    const { keyspaces, columnFamilies, warnings } = checkReply(
      this.adminCommand({ loadStorageConf: text, ...options }),
      "loadStorageConf failed",
    );
    return { keyspaces, columnFamilies, warnings };
  },
});

SHOW.keyspaces = () => {
  const reply = checkReply(globalThis.db.adminCommand({ describeKeyspaces: 1 }), "describeKeyspaces failed");
  reply.keyspaces.forEach(({ keyspace }) => print(keyspace));
};
SHOW.columnfamilies = () => {
  globalThis.db.cfs().forEach(({ name, columnType, compareWith }) => {
    print(`${name}  ${columnType}  ${compareWith === undefined ? "" : compareWith.split(".").pop()}`.trimEnd());
  });
};

// Version 1 UUIDs, which sort by time under TimeUUIDType.
const TICKS_BEFORE_1970 = 0x01b21dd213814000n;
const randomBits = (bits) => BigInt(Math.floor(Math.random() * 2 ** bits));

function timeUUID(date, sequence, node) {
  const when = date === undefined ? new Date() : new Date(date);
  const ticks = BigInt(when.getTime()) * 10000n + TICKS_BEFORE_1970;
  const hex = (number, digits) => number.toString(16).padStart(digits, "0");
  const time = hex(ticks & 0x0fffffffffffffffn, 16);
  const clock = sequence === undefined ? randomBits(14) | 0x8000n : BigInt(sequence);
  // A node that is no network card's address has this bit set.
  const own = node === undefined ? randomBits(48) | 0x010000000000n : BigInt(node);
  return UUID(`${time.slice(8)}-${time.slice(4, 8)}-1${time.slice(1, 4)}-${hex(clock, 4)}-${hex(own, 12)}`);
}
timeUUID.date = (uuid) => {
  const hex = uuid.hex();
  if (hex.length !== 32 || hex[12] !== "1") throw new Error("not a version 1 UUID: " + uuid);
  const ticks = BigInt("0x" + hex.slice(13, 16) + hex.slice(8, 12) + hex.slice(0, 8));
  return new Date(Number((ticks - TICKS_BEFORE_1970) / 10000n));
};

// What is stored of a value: columns hold bytes, so a number is its text.
function contentOf(value, { valueType } = {}) {
  return typeof value === "number" && valueType === undefined ? String(value) : value;
}

function long(value) {
  return value !== null && typeof value === "object" ? value : NumberLong(String(value));
}

hide(globalThis, { ColumnFamily, timeUUID, long });

addHelp("shell", "", [
  ["show keyspaces", "show keyspaces, the databases in wide-column mode"],
  ["show columnfamilies", "show column families in current keyspace"],
]);
addHelp("database", "", [
  ["db.cf(name)", "a column family of a keyspace; db.cf(name).help()"],
  ["db.createKeyspace(name, options)", "make a keyspace"],
  ["db.createCF(name, options)", "make a column family"],
  ["db.cfs()", "definitions of the column families"],
  ["db.loadStorageConf(file)", "keyspaces and column families of a storage-conf.xml"],
]);
addHelp("column family", "ColumnFamily methods:", [
  ["insert(key, name, value, {timestamp, ttl, consistency})", "a column"],
  ["insert(key, {sc, columns})", "a super column"],
  ["get(key, name)", "one column or super column"],
  ["slice(key, {start, finish, reversed, count})", "columns in order; or slice(key, [names])"],
  ["multislice(keys, slice)", "the same slice of many rows"],
  ["range({startKey, endKey, count}, slice)", "rows in the order of the ring"],
  ["count(key)", "number of live columns"],
  ["remove(key, name)", "a column or super column; without name the row"],
  ["truncate(), drop()", "all rows; all of it"],
]);
