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
    hide(this, { _db: database, _shortName: name });
    return new Proxy(this, SUBCOLLECTIONS);
  }
  getName() {
    return this._shortName;
  }
  getFullName() {
    return `${this._db.getName()}.${this._shortName}`;
  }
  getDB() {
    return this._db;
  }
  getMongo() {
    return this._db.getMongo();
  }
  getCollection(name) {
    return new DBCollection(this._db, `${this._shortName}.${name}`);
  }
  toString() {
    return this.getFullName();
  }
  tojson() {
    return this.getFullName();
  }
  shellPrint() {
    print(this.getFullName());
  }
  help() {
    printHelp("collection");
  }
  runCommand(name, fields) {
    return typeof name === "string" ? runOn(this, { [name]: this._shortName, ...fields }) : runOn(this, name);
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
    const command = {
      count: this._shortName,
      query: filter === undefined || filter === null ? {} : filter,
      ...options,
    };
    return Number(checkReply(runOn(this, command), "count failed").n);
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
  estimatedDocumentCount(options) {
    return this.count({}, options);
  }
  distinct(key, filter, options) {
    const command = { distinct: this._shortName, key, query: filter === undefined ? {} : filter, ...options };
    return checkReply(runOn(this, command), "distinct failed").values;
  }
  aggregate(...stages) {
    const whole = Array.isArray(stages[0]);
    const pipeline = whole ? stages[0] : stages;
    const { explain, ...options } = (whole && stages[1]) || {};
    const command = { aggregate: this._shortName, pipeline, cursor: {}, ...options };
    for (const name of CURSOR_OPTIONS) {
      if (options[name] !== undefined) {
        command.cursor[name] = options[name];
        delete command[name];
      }
    }
    if (explain) return explainOn(this._db, command, typeof explain === "string" ? explain : undefined);
    return new DBCommandCursor(this._db, checkReply(runOn(this, command), "aggregate failed"), options.batchSize);
  }
  mapReduce(map, reduce, options) {
    const command = { mapreduce: this._shortName, map, reduce };
    if (typeof options === "string" || (options && options.out === undefined)) command.out = options;
    else if (options) Object.assign(command, options);
    if (command.out === undefined)
      throw new Error("mapReduce() needs an output: a collection name, or options with an `out` field");
    return new MapReduceResult(this._db, checkReply(runOn(this, command), "map reduce failed"));
  }
  group(parameters) {
    const { key, keyf, reduce, initial, cond, finalize } = parameters;
    const group = { ns: this._shortName, $reduce: reduce, initial };
    for (const [name, value] of Object.entries({ key, $keyf: keyf, cond, finalize }))
      if (value !== undefined) group[name] = value;
    return checkReply(runOn(this, { group }), "group command failed").retval;
  }
  explain(verbosity) {
    return new Explainable(this, verbosity);
  }

  // ---- Writing

  insert(documents, options) {
    if (documents === undefined) throw new Error("insert() needs a document");
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
    if (filter === undefined) throw new Error("update() needs a filter");
    if (update === undefined) throw new Error("update() needs a change");
    const options = upsert !== null && typeof upsert === "object" ? upsert : { upsert, multi };
    return modify(this, filter, update, options);
  }
  updateOne(filter, update, options) {
    requireOperators(update);
    return acknowledgedUpdate(this, filter, update, { ...options, multi: false });
  }
  updateMany(filter, update, options) {
    requireOperators(update);
    return acknowledgedUpdate(this, filter, update, { ...options, multi: true });
  }
  replaceOne(filter, replacement, options) {
    refuseOperators(replacement);
    return acknowledgedUpdate(this, filter, replacement, { ...options, multi: false });
  }
  remove(filter, options) {
    if (filter === undefined) throw new Error("remove() needs a filter");
    const settings = options !== null && typeof options === "object" ? options : { justOne: options };
    const tally = emptyTally();
    writeStatements(
      this,
      "delete",
      [deleteStatement(filterFrom(filter), settings.justOne ? 1 : 0, settings)],
      settings,
      tally,
      0,
    );
    return new WriteResult(tally, "remove");
  }
  deleteOne(filter, options) {
    return acknowledgedDelete(this, filter, 1, options);
  }
  deleteMany(filter, options) {
    return acknowledgedDelete(this, filter, 0, options);
  }
  bulkWrite(operations, options) {
    const tally = runBulk(this, operations.map(bulkStatement), options || {});
    throwFailures(tally, true);
    const { nInserted, nRemoved, nMatched, nModified, nUpserted, upserted } = tally;
    const upsertedIds = Object.fromEntries(upserted.map((entry) => [entry.index, entry._id]));
    return {
      acknowledged: true,
      deletedCount: nRemoved,
      insertedCount: nInserted,
      matchedCount: nMatched,
      modifiedCount: nModified,
      upsertedCount: nUpserted,
      upsertedIds,
    };
  }
  initializeOrderedBulkOp() {
    return new Bulk(this, true);
  }
  initializeUnorderedBulkOp() {
    return new Bulk(this, false);
  }
  findAndModify(options) {
    const reply = checkReply(runOn(this, { findandmodify: this._shortName, ...options }), "findAndModify failed");
    return reply.value === undefined ? null : reply.value;
  }
  findOneAndDelete(filter, options) {
    return this.findAndModify({ query: filter, remove: true, ...modifyOptions(options) });
  }
  findOneAndReplace(filter, replacement, options) {
    refuseOperators(replacement);
    return this.findAndModify({ query: filter, update: replacement, ...modifyOptions(options) });
  }
  findOneAndUpdate(filter, update, options) {
    requireOperators(update);
    return this.findAndModify({ query: filter, update, ...modifyOptions(options) });
  }

  // ---- Indexes

  createIndex(keys, options, commitQuorum) {
    return this.createIndexes([keys], options, commitQuorum);
  }
  ensureIndex(keys, options) {
    return this.createIndex(keys, options);
  }
  createIndexes(keysList, options, commitQuorum) {
    const settings =
      typeof options === "string" ? { name: options } : typeof options === "boolean" ? { unique: options } : options;
    const indexes = keysList.map((key) => ({ key, name: indexName(key), ...settings }));
    const command = { createIndexes: this._shortName, indexes };
    if (commitQuorum !== undefined) command.commitQuorum = commitQuorum;
    return runOn(this, command);
  }
  getIndexes() {
    const reply = runOn(this, { listIndexes: this._shortName });
    if (reply.code === 26) return [];
    return new DBCommandCursor(this._db, checkReply(reply, "listIndexes failed")).toArray();
  }
  getIndices() {
    return this.getIndexes();
  }
  getIndexSpecs() {
    return this.getIndexes();
  }
  getIndexKeys() {
    return this.getIndexes().map((index) => index.key);
  }
  dropIndex(index) {
    if (index === undefined || index === "*")
      throw new Error("need an index name or its keys to drop; dropIndexes() drops all");
    return runOn(this, { dropIndexes: this._shortName, index });
  }
  dropIndexes(indexes) {
    return runOn(this, { dropIndexes: this._shortName, index: indexes === undefined ? "*" : indexes });
  }
  reIndex() {
    return runOn(this, { reIndex: this._shortName });
  }
  hideIndex(index) {
    return setIndexHidden(this, index, true);
  }
  unhideIndex(index) {
    return setIndexHidden(this, index, false);
  }

  // ---- The collection as a whole

  drop(options) {
    const reply = runOn(this, { drop: this._shortName, ...options });
    if (!reply.ok && reply.code === 26) return false;
    checkReply(reply, "drop failed");
    return true;
  }
  renameCollection(name, dropTarget) {
    const to = `${this._db.getName()}.${name}`;
    return this.getMongo().adminCommand({
      renameCollection: this.getFullName(),
      to,
      dropTarget: Boolean(dropTarget),
    });
  }
  stats(options) {
    const settings = typeof options === "number" ? { scale: options } : options;
    return runOn(this, { collStats: this._shortName, ...settings });
  }
  dataSize() {
    return Number(this.stats().size);
  }
  storageSize() {
    return Number(this.stats().storageSize);
  }
  totalIndexSize() {
    return Number(this.stats().totalIndexSize);
  }
  totalSize() {
    return this.storageSize() + this.totalIndexSize();
  }
  isCapped() {
    return Boolean(this.stats().capped);
  }
  exists() {
    const [found] = this._db.getCollectionInfos({ name: this._shortName });
    return found === undefined ? null : found;
  }
  convertToCapped(size) {
    return runOn(this, { convertToCapped: this._shortName, size });
  }
  validate(options) {
    return runOn(this, {
      validate: this._shortName,
      ...(typeof options === "boolean" ? { full: options } : options),
    });
  }
  latencyStats(options) {
    return this.aggregate([{ $collStats: { latencyStats: options || {} } }]);
  }
  getShardVersion() {
    return this.getMongo().adminCommand({ getShardVersion: this.getFullName() });
  }
  getShardDistribution() {
    printShardDistribution(this);
  }
  getWriteConcern() {
    return this.getMongo().getWriteConcern();
  }
  watch(pipeline, options) {
    return this.aggregate([{ $changeStream: options || {} }, ...(pipeline || [])]);
  }
}

// Internal helpers are functions, not methods: every method name hides a subcollection of that name.

function runOn(collection, command, options) {
  const database = collection.getDB();
  return database.getMongo().run(database.getName(), command, options);
}

function modify(collection, filter, update, options) {
  const tally = emptyTally();
  writeStatements(collection, "update", [updateStatement(filter, update, options)], options, tally, 0);
  return new WriteResult(tally, "update");
}

function acknowledgedUpdate(collection, filter, update, options) {
  const result = modify(collection, filter, update, options);
  throwFailures(result.tally, false);
  const outcome = { acknowledged: true, matchedCount: result.nMatched, modifiedCount: result.nModified };
  if (result.tally.upserted.length) outcome.upsertedId = result.tally.upserted[0]._id;
  return outcome;
}

function acknowledgedDelete(collection, filter, limit, options) {
  if (filter === null || typeof filter !== "object") throw new Error("a delete needs a filter document");
  const tally = emptyTally();
  writeStatements(collection, "delete", [deleteStatement(filter, limit, options || {})], options || {}, tally, 0);
  throwFailures(tally, false);
  return { acknowledged: true, deletedCount: tally.nRemoved };
}

function setIndexHidden(collection, index, hidden) {
  const which = typeof index === "string" ? { name: index } : { keyPattern: index };
  return runOn(collection, { collMod: collection.getName(), index: { ...which, hidden } });
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
  return Object.entries(keys)
    .map(([field, kind]) => `${field}_${kind}`)
    .join("_")
    .replace(/ /g, "_");
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
  constructor(collection, verbosity) {
    hide(this, { collection, verbosity });
  }
  find(...parameters) {
    const query = this.collection.find(...parameters);
    hide(query, {
      shellPrint: () => printjson(query.explain(this.verbosity)),
      finish: () => query.explain(this.verbosity),
    });
    return query;
  }
  run(command) {
    return explainOn(this.collection.getDB(), command, this.verbosity);
  }
  count(filter) {
    return this.run({ count: this.collection.getName(), query: filter || {} });
  }
  distinct(key, filter) {
    return this.run({ distinct: this.collection.getName(), key, query: filter || {} });
  }
  aggregate(pipeline, options) {
    return this.run({ aggregate: this.collection.getName(), pipeline, cursor: {}, ...options });
  }
  update(filter, update, options) {
    return this.run({ update: this.collection.getName(), updates: [updateStatement(filter, update, options || {})] });
  }
  remove(filter, justOne) {
    return this.run({ delete: this.collection.getName(), deletes: [deleteStatement(filter, justOne ? 1 : 0, {})] });
  }
  findAndModify(options) {
    return this.run({ findAndModify: this.collection.getName(), ...options });
  }
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
    return typeof result === "string"
      ? this.database.getCollection(result)
      : this.database.getSiblingDB(result.db).getCollection(result.collection);
  }
  find(...parameters) {
    return this.target().find(...parameters);
  }
  drop() {
    return this.result === undefined ? undefined : this.target().drop();
  }
  convertToSingleObject() {
    return Object.fromEntries((this.results || this.find().toArray()).map((found) => [found._id, found.value]));
  }
}
