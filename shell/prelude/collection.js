// Collections: `db.name` and `db.name.sub`.

// Lets `db.foo.bar` be the collection "foo.bar".
const SUBCOLLECTIONS = {
  get(target, name, receiver) {
    if (typeof name !== "string" || Reflect.has(target, name)) return Reflect.get(target, name, receiver);
    return target.getCollection(name);
  },
};

const CURSOR_OPTIONS = ["batchSize"];

class DBCollection {
  constructor(database, name) {
    hide(this, { database, shortName: name });
    return new Proxy(this, SUBCOLLECTIONS);
  }
  getName() { return this.shortName; }
  getFullName() { return `${this.database.getName()}.${this.shortName}`; }
  getDB() { return this.database; }
  getMongo() { return this.database.getMongo(); }
  getCollection(name) { return new DBCollection(this.database, `${this.shortName}.${name}`); }
  toString() { return this.getFullName(); }
  tojson() { return this.getFullName(); }
  shellPrint() { print(this.getFullName()); }
  help() { printHelp("collection"); }
  run(command, options) { return this.database.getMongo().run(this.database.getName(), command, options); }
  runCommand(name, fields) {
    return typeof name === "string" ? this.run({ [name]: this.shortName, ...fields }) : this.run(name);
  }

  // ---- Reading

  find(filter, projection, limit, skip, batchSize) {
    return new DBQuery(this, filterFrom(filter), projection, limit, skip, batchSize);
  }
  findOne(filter, projection) {
    const cursor = this.find(filter, projection).limit(-1);
    return cursor.hasNext() ? cursor.next() : null;
  }
  count(filter, options) {
    const command = { count: this.shortName, query: filter === undefined || filter === null ? {} : filter, ...options };
    return Number(checkReply(this.run(command), "count failed").n);
  }
  countDocuments(filter, options) {
    const { skip, limit, ...rest } = options || {};
    const pipeline = [{ $match: filter === undefined ? {} : filter }];
    if (skip) pipeline.push({ $skip: skip });
    if (limit) pipeline.push({ $limit: limit });
    pipeline.push({ $group: { _id: null, n: { $sum: 1 } } });
    const [found] = this.aggregate(pipeline, rest).toArray();
    return found === undefined ? 0 : Number(found.n);
  }
  estimatedDocumentCount(options) { return this.count({}, options); }
  distinct(key, filter, options) {
    const command = { distinct: this.shortName, key, query: filter === undefined ? {} : filter, ...options };
    return checkReply(this.run(command), "distinct failed").values;
  }
  aggregate(...stages) {
    const whole = Array.isArray(stages[0]);
    const pipeline = whole ? stages[0] : stages;
    const { explain, ...options } = (whole && stages[1]) || {};
    const command = { aggregate: this.shortName, pipeline, cursor: {}, ...options };
    for (const name of CURSOR_OPTIONS) {
      if (options[name] !== undefined) { command.cursor[name] = options[name]; delete command[name]; }
    }
    if (explain) return this.database.runExplain(command, typeof explain === "string" ? explain : undefined);
    return new DBCommandCursor(this.database, checkReply(this.run(command), "aggregate failed"), options.batchSize);
  }
  mapReduce(map, reduce, options) {
    const command = { mapreduce: this.shortName, map, reduce };
    if (typeof options === "string" || (options && options.out === undefined)) command.out = options;
    else if (options) Object.assign(command, options);
    if (command.out === undefined) throw new Error("need to supply an optionsOrOutString");
    return new MapReduceResult(this.database, checkReply(this.run(command), "map reduce failed"));
  }
  group(parameters) {
    const { key, keyf, reduce, initial, cond, finalize } = parameters;
    const group = { ns: this.shortName, $reduce: reduce, initial };
    for (const [name, value] of Object.entries({ key, $keyf: keyf, cond, finalize })) if (value !== undefined) group[name] = value;
    return checkReply(this.run({ group }), "group command failed").retval;
  }
  explain(verbosity) { return new Explainable(this, verbosity); }

  // ---- Writing

  insert(documents, options) {
    if (documents === undefined) throw new Error("no object passed to insert!");
    const many = Array.isArray(documents);
    const tally = emptyTally();
    const settings = typeof options === "number" ? { ordered: !(options & 1) } : options || {};
    const statements = (many ? documents : [documents]).map(withId);
    writeStatements(this, "insert", statements, settings, tally, 0);
    if (!many) return new WriteResult(tally, "insert");
    throwFailures(tally, true);
    return new BulkWriteResult(tally);
  }
  insertOne(document, options) {
    const stored = withId(document);
    const tally = emptyTally();
    writeStatements(this, "insert", [stored], options || {}, tally, 0);
    throwFailures(tally, false);
    return { acknowledged: true, insertedId: stored._id };
  }
  insertMany(documents, options) {
    if (!Array.isArray(documents)) throw new Error("insertMany() takes an array of documents");
    const stored = documents.map(withId);
    const tally = emptyTally();
    writeStatements(this, "insert", stored, options || {}, tally, 0);
    throwFailures(tally, true);
    return { acknowledged: true, insertedIds: stored.map((document) => document._id) };
  }
  save(document, options) {
    if (document === null || typeof document !== "object") throw new Error("can't save a " + typeof document);
    if (document._id === undefined) return this.insert(document, options);
    return this.update({ _id: document._id }, document, { upsert: true, ...options });
  }
  update(filter, update, upsert, multi) {
    if (filter === undefined) throw new Error("need a query");
    if (update === undefined) throw new Error("need an object");
    const options = upsert !== null && typeof upsert === "object" ? upsert : { upsert, multi };
    return this.modify(updateStatement(filter, update, options), options);
  }
  modify(statement, options) {
    const tally = emptyTally();
    writeStatements(this, "update", [statement], options, tally, 0);
    return new WriteResult(tally, "update");
  }
  acknowledgedUpdate(filter, update, options) {
    const result = this.modify(updateStatement(filter, update, options), options);
    throwFailures(result.tally, false);
    const outcome = { acknowledged: true, matchedCount: result.nMatched, modifiedCount: result.nModified };
    if (result.tally.upserted.length) outcome.upsertedId = result.tally.upserted[0]._id;
    return outcome;
  }
  updateOne(filter, update, options) {
    requireOperators(update);
    return this.acknowledgedUpdate(filter, update, { ...options, multi: false });
  }
  updateMany(filter, update, options) {
    requireOperators(update);
    return this.acknowledgedUpdate(filter, update, { ...options, multi: true });
  }
  replaceOne(filter, replacement, options) {
    refuseOperators(replacement);
    return this.acknowledgedUpdate(filter, replacement, { ...options, multi: false });
  }
  remove(filter, options) {
    if (filter === undefined) throw new Error("remove needs a query");
    const settings = options !== null && typeof options === "object" ? options : { justOne: options };
    const tally = emptyTally();
    writeStatements(this, "delete", [deleteStatement(filterFrom(filter), settings.justOne ? 1 : 0, settings)], settings, tally, 0);
    return new WriteResult(tally, "remove");
  }
  acknowledgedDelete(filter, limit, options) {
    if (filter === null || typeof filter !== "object") throw new Error("delete needs a filter document");
    const tally = emptyTally();
    writeStatements(this, "delete", [deleteStatement(filter, limit, options || {})], options || {}, tally, 0);
    throwFailures(tally, false);
    return { acknowledged: true, deletedCount: tally.nRemoved };
  }
  deleteOne(filter, options) { return this.acknowledgedDelete(filter, 1, options); }
  deleteMany(filter, options) { return this.acknowledgedDelete(filter, 0, options); }
  bulkWrite(operations, options) {
    const tally = runBulk(this, operations.map(bulkStatement), options || {});
    throwFailures(tally, true);
    const { nInserted, nRemoved, nMatched, nModified, nUpserted, upserted } = tally;
    const upsertedIds = Object.fromEntries(upserted.map((entry) => [entry.index, entry._id]));
    return { acknowledged: true, deletedCount: nRemoved, insertedCount: nInserted, matchedCount: nMatched,
      modifiedCount: nModified, upsertedCount: nUpserted, upsertedIds };
  }
  initializeOrderedBulkOp() { return new Bulk(this, true); }
  initializeUnorderedBulkOp() { return new Bulk(this, false); }
  findAndModify(options) {
    const reply = checkReply(this.run({ findandmodify: this.shortName, ...options }), "findAndModifyFailed failed");
    return reply.value === undefined ? null : reply.value;
  }
  findOneAndDelete(filter, options) { return this.findAndModify({ query: filter, remove: true, ...modifyOptions(options) }); }
  findOneAndReplace(filter, replacement, options) {
    refuseOperators(replacement);
    return this.findAndModify({ query: filter, update: replacement, ...modifyOptions(options) });
  }
  findOneAndUpdate(filter, update, options) {
    requireOperators(update);
    return this.findAndModify({ query: filter, update, ...modifyOptions(options) });
  }

  // ---- Indexes

  createIndex(keys, options, commitQuorum) { return this.createIndexes([keys], options, commitQuorum); }
  ensureIndex(keys, options) { return this.createIndex(keys, options); }
  createIndexes(keysList, options, commitQuorum) {
    const settings = typeof options === "string" ? { name: options } : typeof options === "boolean" ? { unique: options } : options;
    const indexes = keysList.map((key) => ({ key, name: indexName(key), ...settings }));
    const command = { createIndexes: this.shortName, indexes };
    if (commitQuorum !== undefined) command.commitQuorum = commitQuorum;
    return this.run(command);
  }
  getIndexes() {
    const reply = this.run({ listIndexes: this.shortName });
    if (reply.code === 26) return [];
    return new DBCommandCursor(this.database, checkReply(reply, "listIndexes failed")).toArray();
  }
  getIndices() { return this.getIndexes(); }
  getIndexSpecs() { return this.getIndexes(); }
  getIndexKeys() { return this.getIndexes().map((index) => index.key); }
  dropIndex(index) {
    if (index === undefined || index === "*") throw new Error("need an index name or its keys to drop; dropIndexes() drops all");
    return this.run({ dropIndexes: this.shortName, index });
  }
  dropIndexes(indexes) { return this.run({ dropIndexes: this.shortName, index: indexes === undefined ? "*" : indexes }); }
  reIndex() { return this.run({ reIndex: this.shortName }); }
  hideIndex(index) { return this.setIndexHidden(index, true); }
  unhideIndex(index) { return this.setIndexHidden(index, false); }
  setIndexHidden(index, hidden) {
    const which = typeof index === "string" ? { name: index } : { keyPattern: index };
    return this.run({ collMod: this.shortName, index: { ...which, hidden } });
  }

  // ---- The collection as a whole

  drop(options) {
    const reply = this.run({ drop: this.shortName, ...options });
    if (!reply.ok && reply.code === 26) return false;
    checkReply(reply, "drop failed");
    return true;
  }
  renameCollection(name, dropTarget) {
    const to = `${this.database.getName()}.${name}`;
    return this.getMongo().adminCommand({ renameCollection: this.getFullName(), to, dropTarget: Boolean(dropTarget) });
  }
  stats(options) {
    const settings = typeof options === "number" ? { scale: options } : options;
    return this.run({ collStats: this.shortName, ...settings });
  }
  dataSize() { return Number(this.stats().size); }
  storageSize() { return Number(this.stats().storageSize); }
  totalIndexSize() { return Number(this.stats().totalIndexSize); }
  totalSize() { return this.storageSize() + this.totalIndexSize(); }
  isCapped() { return Boolean(this.stats().capped); }
  exists() {
    const [found] = this.database.getCollectionInfos({ name: this.shortName });
    return found === undefined ? null : found;
  }
  convertToCapped(size) { return this.run({ convertToCapped: this.shortName, size }); }
  validate(options) {
    return this.run({ validate: this.shortName, ...(typeof options === "boolean" ? { full: options } : options) });
  }
  latencyStats(options) { return this.aggregate([{ $collStats: { latencyStats: options || {} } }]); }
  getShardVersion() { return this.getMongo().adminCommand({ getShardVersion: this.getFullName() }); }
  getShardDistribution() { printShardDistribution(this); }
  getWriteConcern() { return this.getMongo().getWriteConcern(); }
  watch(pipeline, options) { return this.aggregate([{ $changeStream: options || {} }, ...(pipeline || [])]); }
}

// A filter may also be an id or a condition written in JavaScript.
function filterFrom(filter) {
  if (filter instanceof ObjectIdBody) return { _id: filter };
  if (typeof filter === "string" || typeof filter === "function") return { $where: filter };
  if (filter !== undefined && filter !== null && typeof filter !== "object") {
    throw new Error(`a filter is a document, not a ${typeof filter}`);
  }
  return filter;
}

function indexName(keys) {
  return Object.entries(keys).map(([field, kind]) => `${field}_${kind}`).join("_").replace(/ /g, "_");
}

function modifyOptions(options) {
  const { returnNewDocument, projection, ...rest } = options || {};
  const translated = { ...rest };
  if (returnNewDocument !== undefined) translated.new = returnNewDocument;
  if (projection !== undefined) translated.fields = projection;
  return translated;
}

// `collection.explain().find(...)` and the like: the command goes into explain instead of being run.
class Explainable {
  constructor(collection, verbosity) { hide(this, { collection, verbosity }); }
  find(...parameters) {
    const query = this.collection.find(...parameters);
    hide(query, { shellPrint: () => printjson(query.explain(this.verbosity)), finish: () => query.explain(this.verbosity) });
    return query;
  }
  run(command) { return this.collection.getDB().runExplain(command, this.verbosity); }
  count(filter) { return this.run({ count: this.collection.getName(), query: filter || {} }); }
  distinct(key, filter) { return this.run({ distinct: this.collection.getName(), key, query: filter || {} }); }
  aggregate(pipeline, options) { return this.run({ aggregate: this.collection.getName(), pipeline, cursor: {}, ...options }); }
  update(filter, update, options) {
    return this.run({ update: this.collection.getName(), updates: [updateStatement(filter, update, options || {})] });
  }
  remove(filter, justOne) {
    return this.run({ delete: this.collection.getName(), deletes: [deleteStatement(filter, justOne ? 1 : 0, {})] });
  }
  findAndModify(options) { return this.run({ findAndModify: this.collection.getName(), ...options }); }
}

// The reply of mapReduce, with the output collection at hand.
class MapReduceResult {
  constructor(database, reply) {
    Object.assign(this, reply);
    hide(this, { database });
  }
  target() {
    const { result } = this;
    if (result === undefined) throw new Error("the results were returned inline: see .results");
    return typeof result === "string" ? this.database.getCollection(result)
      : this.database.getSiblingDB(result.db).getCollection(result.collection);
  }
  find(...parameters) { return this.target().find(...parameters); }
  drop() { return this.result === undefined ? undefined : this.target().drop(); }
  convertToSingleObject() {
    return Object.fromEntries((this.results || this.find().toArray()).map((found) => [found._id, found.value]));
  }
}
