// Cursors: what find and aggregate give back, read in batches and printed a page at a time.

const shellState = { pageSize: 20, lastCursor: undefined };

const isIndex = (name) => typeof name === "string" && /^(?:0|[1-9][0-9]*)$/.test(name);

// Lets `cursor[3]` read the fourth document.
const INDEXED = {
  get(target, name, receiver) {
    return isIndex(name) ? target.toArray()[Number(name)] : Reflect.get(target, name, receiver);
  },
};

// Documents of an open server cursor: the first batch, then more on demand.
class Batches {
  constructor(mongo, reply, batchSize) {
    const [database, ...rest] = reply.cursor.ns.split(".");
    Object.assign(this, { mongo, database, collection: rest.join("."), batchSize });
    this.id = reply.cursor.id;
    this.documents = reply.cursor.firstBatch;
    this.position = 0;
  }
  open() {
    return Number(this.id) !== 0;
  }
  hasNext() {
    while (this.position >= this.documents.length && this.open()) this.more();
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
    const reply = checkReply(this.mongo.run(this.database, command), "getMore command failed");
    this.id = reply.cursor.id;
    this.documents = reply.cursor.nextBatch;
    this.position = 0;
  }
  close() {
    if (this.open()) this.mongo.run(this.database, { killCursors: this.collection, cursors: [this.id] });
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
    if (!this.hasNext()) throw new Error("the cursor has no more documents");
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
  pretty() {
    hide(this, { prettyShell: true });
    return this;
  }
  *[Symbol.iterator]() {
    while (this.hasNext()) yield this.next();
  }
  shellPrint() {
    const size = globalThis.DBQuery.shellBatchSize;
    for (let i = 0; i < size && this.hasNext(); i++) {
      print(this.prettyShell ? tojson(this.next()) : tojson(this.next(), "", true));
    }
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
  constructor(database, reply, batchSize) {
    super();
    hide(this, { opened: new Batches(database.getMongo(), reply, batchSize) });
    return new Proxy(this, INDEXED);
  }
  batches() {
    return this.opened;
  }
  getId() {
    return this.opened.id;
  }
  toString() {
    return `[object DBCommandCursor]`;
  }
}

// A find that has not been sent yet; every method that changes it returns it.
class DBQuery extends Cursor {
  constructor(collection, filter, projection, limit, skip, batchSize) {
    super();
    const command = { find: collection.getName(), filter: filter === undefined || filter === null ? {} : filter };
    if (projection !== undefined && projection !== null) command.projection = projection;
    hide(this, { collection, command, prettyShell: false, options: {} });
    if (limit) this.limit(limit);
    if (skip) this.skip(skip);
    if (batchSize) this.batchSize(batchSize);
    return new Proxy(this, INDEXED);
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
      const mongo = this.collection.getMongo();
      const reply = checkReply(mongo.run(this.collection.getDB().getName(), command, this.options), "error");
      hide(this, { opened: new Batches(mongo, reply, command.batchSize) });
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
  readPref(mode, tagSets) {
    this.options.readPreference = tagSets === undefined ? { mode } : { mode, tags: tagSets };
    return this;
  }
  countCommand() {
    const { find, filter, hint, collation, maxTimeMS } = this.command;
    const command = { count: find, query: filter };
    for (const [name, value] of Object.entries({ hint, collation, maxTimeMS }))
      if (value !== undefined) command[name] = value;
    return command;
  }
  count(applySkipLimit) {
    const command = this.countCommand();
    if (applySkipLimit) {
      if (this.command.limit !== undefined) command.limit = this.command.limit;
      if (this.command.skip !== undefined) command.skip = this.command.skip;
    }
    const database = this.collection.getDB();
    return Number(checkReply(database.getMongo().run(database.getName(), command, this.options), "count failed").n);
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
    return copy;
  }
  help() {
    printHelp("cursor");
  }
  toString() {
    return `DBQuery: ${this.collection} -> ${tojson(this.command.filter)}`;
  }
}

hide(DBQuery, { shellBatchSize: shellState.pageSize });

// The command `it`.
function nextPage() {
  if (shellState.lastCursor === undefined) print("no cursor");
  else shellState.lastCursor.shellPrint();
}
