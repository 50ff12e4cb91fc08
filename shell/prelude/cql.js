// `cql(statement)`: tables of the wide-column mode, in the database that is in use.

const CQL_NUMBERS = ["tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal", "counter"];

// What a SELECT gives: rows as objects, read page by page as they are asked for.
class CqlRows {
  constructor(db, command, reply) {
    hide(this, { db, command, page: reply.rows, at: 0, state: reply.pagingState });
    this.columns = reply.columns;
  }
  hasNext() {
    while (this.at === this.page.length && this.state !== undefined) {
      const reply = checkReply(this.db.runCommand({ ...this.command, pagingState: this.state }), "cql failed");
      this.page = reply.rows;
      this.state = reply.pagingState;
      this.at = 0;
    }
    return this.at < this.page.length;
  }
  values() {
    if (!this.hasNext()) throw new Error("there are no more rows");
    return this.page[this.at++];
  }
  next() {
    const values = this.values();
    return Object.fromEntries(this.columns.map(({ name }, place) => [name, values[place]]));
  }
  forEach(act) {
    while (this.hasNext()) act(this.next());
  }
  toArray() {
    const rows = [];
    this.forEach((row) => rows.push(row));
    return rows;
  }
  // A table of at most a screenful; typing `it` goes on.
  shellPrint() {
    const shown = [];
    while (shown.length < DBQuery.shellBatchSize && this.hasNext()) shown.push(this.values().map(cqlText));
    const titles = this.columns.map(({ name }) => name);
    const widths = titles.map((title, place) => Math.max(title.length, ...shown.map((row) => row[place].length)));
    const line = (cells, pad) => " " + cells.map(pad).join(" | ").trimEnd();
    print(line(titles, (title, place) => title.padEnd(widths[place])));
    print(widths.map((width) => "-".repeat(width + 2)).join("+"));
    for (const row of shown) {
      print(
        line(row, (text, place) =>
          CQL_NUMBERS.includes(this.columns[place].type) ? text.padStart(widths[place]) : text.padEnd(widths[place]),
        ),
      );
    }
    print(`(${shown.length} row${shown.length === 1 ? "" : "s"})`);
    shellState.lastCursor = this;
    if (this.hasNext()) print('Type "it" for more');
  }
}

function cqlText(value) {
  if (value === null || typeof value === "string") return String(value);
  if (value instanceof NumberLong || value instanceof NumberDecimal) return value.toString().replace(/^\w+\("?|"?\)$/g, "");
  return tojsononeline(value);
}

// `params`: an array, or a document for markers with names. `options`: consistency, pageSize.
function cql(statement, params, options) {
  const db = globalThis.db;
  const command = { cql: statement, ...(params === undefined ? {} : { params }), ...options };
  const reply = checkReply(db.runCommand(command), "cql failed");
  for (const warning of reply.warnings || []) print("warning: " + warning);
  if (reply.rows !== undefined) return new CqlRows(db, command, reply);
  if (reply.keyspace !== undefined) useDatabase(reply.keyspace);
  return undefined;
}

hide(globalThis, { cql });

addHelp("shell", "", [['cql("SELECT ...", [params])', "run a statement of CQL in the keyspace in use"]]);
