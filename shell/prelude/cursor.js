// Cursors: what find and aggregate give back, read in batches and printed a page at a time.

const shellState = { pageSize: 20, lastCursor: undefined, verbose: false };

// What `setVerboseShell(true)` asks for: how long things took.
function sayVerbosely(text) {
  if (shellState.verbose) print(text());
}

const isIndex = (name) => typeof name === "string" && /^(?:0|[1-9][0-9]*)$/.test(name);

// Lets `cursor[3]` read the fourth document.
const INDEXED = {
  get(target, name, receiver) {
    return isIndex(name) ? target.toArray()[Number(name)] : Reflect.get(target, name, receiver);
  },
};

// Documents of an open server cursor: the first batch, then more on demand, from the server that holds the cursor.
class Batches {
  constructor(database, reply, { batchSize, maxAwaitTimeMS, tailable } = {}) {
    const [name, ...rest] = reply.cursor.ns.split(".");
    Object.assign(this, {
      database: database.getSiblingDB(name),
      collection: rest.join("."),
      tailable: Boolean(tailable),
    });
    Object.assign(this, { batchSize, maxAwaitTimeMS, server: database.getMongo().lastServer, position: 0 });
    this.take(reply.cursor, reply.cursor.firstBatch);
  }
  take(cursor, documents) {
    this.id = cursor.id;
    this.documents = documents;
    this.resumeToken = cursor.postBatchResumeToken;
    this.position = 0;
  }
  open() {
    return Number(this.id) !== 0;
  }
  // A cursor that waits for what is not there yet has nothing when one look finds nothing.
  hasNext() {
    while (this.position >= this.documents.length && this.open()) {
      this.more();
      if (this.tailable) break;
    }
    return this.position < this.documents.length;
  }
  next() {
    return this.documents[this.position++];
  }
  left() {
    return this.documents.length - this.position;
  }
  more() {
    const command = { getMore: this.id, collection: this.collection };
    if (this.batchSize) command.batchSize = this.batchSize;
    if (this.maxAwaitTimeMS !== undefined) command.maxTimeMS = this.maxAwaitTimeMS;
    const reply = checkReply(runIn(this.database, command, { server: this.server }), "getMore command failed");
    this.take(reply.cursor, reply.cursor.nextBatch);
  }
  close() {
    if (this.open())
      runIn(this.database, { killCursors: this.collection, cursors: [this.id] }, { server: this.server });
    this.id = NumberLong(0);
    this.documents = [];
    this.position = 0;
  }
}

class Cursor {
  hasNext() {
    return this.batches().hasNext();
  }
  next() {
    if (!this.hasNext()) throw new Error("error hasNext: false");
    return this.batches().next();
  }
  tryNext() {
    return this.hasNext() ? this.next() : null;
  }
  forEach(body) {
    while (this.hasNext()) body(this.next());
  }
  map(body) {
    const results = [];
    while (this.hasNext()) results.push(body(this.next()));
    return results;
  }
  toArray() {
    if (this.all === undefined) hide(this, { all: this.map((document) => document) });
    return this.all;
  }
  itcount() {
    let count = 0;
    while (this.hasNext()) {
      this.next();
      count++;
    }
    return count;
  }
  objsLeftInBatch() {
    return this.batches().left();
  }
  isExhausted() {
    return !this.batches().open() && this.batches().left() === 0;
  }
  isClosed() {
    return !this.batches().open();
  }
  close() {
    this.batches().close();
  }
  getId() {
    return this.batches().id;
  }
  getResumeToken() {
    return this.batches().resumeToken;
  }
  pretty() {
    hide(this, { _prettyShell: true });
    return this;
  }
  help() {
    printHelp("cursor");
  }
  *[Symbol.iterator]() {
    while (this.hasNext()) yield this.next();
  }
  shellPrint() {
    const size = globalThis.DBQuery.shellBatchSize;
    const started = Date.now();
    let shown = 0;
    for (; shown < size && this.hasNext(); shown++) {
      print(this._prettyShell ? tojson(this.next()) : tojson(this.next(), "", true));
    }
    sayVerbosely(() => `Fetched ${shown} record(s) in ${Date.now() - started}ms`);
    if (this.hasNext()) {
      print("has more");
      print('Type "it" for more');
      shellState.lastCursor = this;
    } else {
      shellState.lastCursor = undefined;
    }
  }
}

class DBCommandCursor extends Cursor {
  constructor(database, reply, options) {
    super();
    hide(this, {
      opened: new Batches(database, reply, typeof options === "object" ? options : { batchSize: options }),
    });
    return new Proxy(this, INDEXED);
  }
  batches() {
    return this.opened;
  }
  toString() {
    return `[object DBCommandCursor]`;
  }
}

// The bits that the first drivers set in a query's message, as `addOption` takes them.
const QUERY_OPTIONS = {
  tailable: 2,
  slaveOk: 4,
  secondaryOk: 4,
  oplogReplay: 8,
  noTimeout: 16,
  awaitData: 32,
  exhaust: 64,
  partial: 128,
};
const OPTION_FIELDS = {
  2: "tailable",
  8: "oplogReplay",
  16: "noCursorTimeout",
  32: "awaitData",
  128: "allowPartialResults",
};

// A find that has not been sent yet; every method that changes it returns it.
class DBQuery extends Cursor {
  constructor(collection, filter, projection, limit, skip, batchSize) {
    super();
    const command = { find: collection.getName(), filter: filter === undefined || filter === null ? {} : filter };
    if (projection !== undefined && projection !== null) command.projection = projection;
    hide(this, { collection, command, options: {}, awaitTime: undefined, opened: undefined });
    if (limit) this.limit(limit);
    if (skip) this.skip(skip);
    if (batchSize) this.batchSize(batchSize);
    return new Proxy(this, INDEXED);
  }
  arrayAccess(index) {
    return this.toArray()[index];
  }
  set(name, value) {
    if (this.opened !== undefined) throw new Error("query already executed");
    this.command[name] = value;
    return this;
  }
  batches() {
    if (this.opened === undefined) {
      const { command } = this;
      const wrapped = command.filter;
      if (wrapped.$query !== undefined) {
        // the form of old drivers
        command.filter = wrapped.$query;
        if (wrapped.$orderby !== undefined) command.sort = wrapped.$orderby;
      }
      const reply = checkReply(runOn(this.collection, command, this.options), "error");
      const { batchSize, tailable } = command;
      this.opened = new Batches(this.collection.getDB(), reply, {
        batchSize,
        tailable,
        maxAwaitTimeMS: this.awaitTime,
      });
    }
    return this.opened;
  }
  limit(count) {
    const wanted = Number(count);
    if (wanted < 0) this.set("singleBatch", true);
    return wanted === 0 ? this : this.set("limit", NumberLong(Math.abs(wanted)));
  }
  skip(count) {
    return this.set("skip", NumberLong(Number(count)));
  }
  sort(keys) {
    return this.set("sort", keys);
  }
  hint(index) {
    return this.set("hint", index);
  }
  min(keys) {
    return this.set("min", keys);
  }
  max(keys) {
    return this.set("max", keys);
  }
  comment(text) {
    return this.set("comment", text);
  }
  batchSize(count) {
    return this.set("batchSize", Number(count));
  }
  maxTimeMS(milliseconds) {
    return this.set("maxTimeMS", Number(milliseconds));
  }
  maxAwaitTimeMS(milliseconds) {
    this.awaitTime = Number(milliseconds);
    return this;
  }
  collation(specification) {
    return this.set("collation", specification);
  }
  readConcern(level) {
    return this.set("readConcern", { level });
  }
  returnKey(wanted) {
    return this.set("returnKey", wanted !== false);
  }
  showRecordId(wanted) {
    return this.set("showRecordId", wanted !== false);
  }
  showDiskLoc() {
    return this.showRecordId(true);
  }
  allowDiskUse(wanted) {
    return this.set("allowDiskUse", wanted !== false);
  }
  allowPartialResults(wanted) {
    return this.set("allowPartialResults", wanted !== false);
  }
  noCursorTimeout(wanted) {
    return this.set("noCursorTimeout", wanted !== false);
  }
  tailable(awaitData) {
    this.set("tailable", true);
    return awaitData === false ? this : this.set("awaitData", true);
  }
  projection(fields) {
    return this.set("projection", fields);
  }
  readPref(mode, tagSets, hedge) {
    this.options.readPreference = readPreferenceFrom(mode, tagSets, hedge);
    return this;
  }
  let(variables) {
    return this.set("let", variables);
  }
  // Options by their bits, and modifiers by their names, as the first drivers had them.
  addOption(bits) {
    if (bits & QUERY_OPTIONS.slaveOk) this.readPref("secondaryPreferred");
    if (bits & QUERY_OPTIONS.exhaust) throw new Error("the option exhaust is not supported by the shell");
    for (const [bit, field] of Object.entries(OPTION_FIELDS)) if (bits & Number(bit)) this.set(field, true);
    return this;
  }
  addSpecial(name, value) {
    const field = { $query: "filter", $orderby: "sort", $maxTimeMS: "maxTimeMS", $showDiskLoc: "showRecordId" }[name];
    return this.set(field === undefined ? String(name).replace(/^\$/, "") : field, value);
  }
  modifiers() {
    return { ...this.command };
  }
  countCommand(applySkipLimit) {
    const { find, filter, hint, collation, maxTimeMS, readConcern, limit, skip } = this.command;
    const command = { count: find, query: filter };
    const given = { hint, collation, maxTimeMS, readConcern, ...(applySkipLimit ? { limit, skip } : {}) };
    for (const [name, value] of Object.entries(given)) if (value !== undefined) command[name] = value;
    return command;
  }
  count(applySkipLimit) {
    const command = this.countCommand(applySkipLimit);
    return Number(checkReply(runOn(this.collection, command, this.options), "count failed").n);
  }
  size() {
    return this.count(true);
  }
  length() {
    return this.toArray().length;
  }
  explain(verbosity) {
    return explainOn(this.collection.getDB(), this.command, verbosity === true ? "allPlansExecution" : verbosity);
  }
  clone() {
    const copy = new DBQuery(this.collection, this.command.filter);
    Object.assign(copy.command, this.command);
    Object.assign(copy.options, this.options);
    copy.awaitTime = this.awaitTime;
    return copy;
  }
  toString() {
    return `DBQuery: ${this.collection} -> ${tojson(this.command.filter)}`;
  }
}

hide(DBQuery, { shellBatchSize: shellState.pageSize, Option: QUERY_OPTIONS });
hide(Cursor.prototype, { _prettyShell: false });

// The command `it`.
function nextPage() {
  if (shellState.lastCursor === undefined) print("no cursor");
  else shellState.lastCursor.shellPrint();
}
