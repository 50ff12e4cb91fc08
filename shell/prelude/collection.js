// Collections: `db.name` and `db.name.sub`.

// Lets `db.foo.bar` be the collection "foo.bar".
const SUBCOLLECTIONS = {
  get(target, name, receiver) {
    if (typeof name !== "string" || Reflect.has(target, name)) return Reflect.get(target, name, receiver);
    return target.getCollection(name);
  },
};

class DBCollection {
  constructor(database, name) {
    hide(this, { _db: database, _shortName: name, _writeConcern: undefined });
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
    return this._db.getCollection(`${this._shortName}.${name}`);
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
  runReadCommand(name, fields) {
    return this.runCommand(name, fields);
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
    const [settings, preference] = splitPreference(options);
    const query = filterFrom(filter);
    const command = {
      count: this._shortName,
      query: query === undefined || query === null ? {} : query,
      ...settings,
    };
    return Number(checkReply(runOn(this, command, preference), "count failed").n);
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
    if (typeof key !== "string") throw new Error("distinct() needs the name of a field");
    const [settings, preference] = splitPreference(options);
    const query = filterFrom(filter);
    const command = { distinct: this._shortName, key, query: query === undefined ? {} : query, ...settings };
    return checkReply(runOn(this, command, preference), "distinct failed").values;
  }
  aggregate(...stages) {
    const whole = Array.isArray(stages[0]);
    const pipeline = whole ? stages[0] : stages;
    return aggregateOn(this._db, this._shortName, pipeline, (whole && stages[1]) || {});
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
    if (documents === undefined) throw new Error("no object passed to insert!");
    const many = Array.isArray(documents);
    const tally = emptyTally();
    const settings = typeof options === "number" ? { ordered: !(options & 1) } : options || {};
    const statements = (many ? documents : [documents]).map(withId);
    const started = Date.now();
    writeStatements(this, "insert", statements, settings, tally);
    sayVerbosely(() => `Inserted ${tally.nInserted} record(s) in ${Date.now() - started}ms`);
    if (!many) return new WriteResult(tally, "insert");
    throwFailures(tally, true);
    return new BulkWriteResult(tally);
  }
  insertOne(document, options) {
    const stored = withId(document);
    const tally = emptyTally();
    writeStatements(this, "insert", [stored], options || {}, tally);
    throwFailures(tally, false);
    return { acknowledged: tally.acknowledged, insertedId: stored._id };
  }
  insertMany(documents, options) {
    if (!Array.isArray(documents)) throw new Error("insertMany() takes an array of documents");
    const stored = documents.map(withId);
    const tally = emptyTally();
    writeStatements(this, "insert", stored, options || {}, tally);
    throwFailures(tally, true);
    return { acknowledged: tally.acknowledged, insertedIds: stored.map((document) => document._id) };
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
    const statement = deleteStatement(filterFrom(filter), settings.justOne ? 1 : 0, settings);
    const tally = emptyTally();
    const started = Date.now();
    writeStatements(this, "delete", [statement], settings, tally);
    sayVerbosely(() => `Removed ${tally.nRemoved} record(s) in ${Date.now() - started}ms`);
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
    if (!tally.acknowledged) return { acknowledged: false };
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
    const command = { findandmodify: this._shortName, ...options };
    const concern = command.writeConcern || this.getWriteConcern();
    if (concern !== undefined) command.writeConcern = { ...concern };
    const reply = checkReply(runOn(this, command), "findAndModifyFailed failed");
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
    if (settings !== undefined && settings !== null && typeof settings !== "object")
      throw new Error("the options of an index are a document, a name, or true for a unique one");
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
    if (index === undefined || index === "*" || Array.isArray(index))
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
    const reply = runOn(this, { drop: this._shortName, ...withConcern(this, options) });
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
    return figure(this, "size");
  }
  storageSize() {
    return figure(this, "storageSize");
  }
  totalIndexSize(verbose) {
    const stats = collectionStats(this);
    if (verbose) for (const name of Object.keys(stats.indexSizes)) print(`${name}\t${stats.indexSizes[name]}`);
    return Number(stats.totalIndexSize);
  }
  totalSize() {
    return this.storageSize() + this.totalIndexSize();
  }
  isCapped() {
    const found = this.exists();
    return Boolean(found !== null && found.options && found.options.capped);
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
  getPlanCache() {
    return new PlanCache(this);
  }
  getShardVersion() {
    return this.getMongo().adminCommand({ getShardVersion: this.getFullName() });
  }
  getShardDistribution() {
    printShardDistribution(this);
  }
  getSecondaryOk() {
    return this._db.getSecondaryOk();
  }
  setSecondaryOk(wanted) {
    this._db.setSecondaryOk(wanted);
  }
  getSlaveOk() {
    return this.getSecondaryOk();
  }
  setSlaveOk(wanted) {
    this.setSecondaryOk(wanted);
  }
  getWriteConcern() {
    return this._writeConcern === undefined ? this._db.getWriteConcern() : this._writeConcern;
  }
  setWriteConcern(...parts) {
    hide(this, { _writeConcern: concernFrom(parts) });
  }
  unsetWriteConcern() {
    hide(this, { _writeConcern: undefined });
  }
  watch(pipeline, options) {
    return watchOn(this._db, this._shortName, pipeline, options);
  }
}

// Internal helpers are functions, not methods: every method name hides a subcollection of that name.

function runOn(collection, command, options) {
  return runIn(collection.getDB(), command, options);
}

// Options of a read without its read preference, and that preference as `run` takes it.
function splitPreference(options) {
  const { readPreference, ...settings } = options || {};
  return [settings, readPreference === undefined ? {} : { readPreference }];
}

function withConcern(holder, options) {
  const concern = (options && options.writeConcern) || holder.getWriteConcern();
  return { ...options, ...(concern === undefined ? {} : { writeConcern: { ...concern } }) };
}

function aggregateOn(database, target, pipeline, { explain, batchSize, cursor, ...options }) {
  const [settings, preference] = splitPreference(options);
  const command = { aggregate: target, pipeline, cursor: { ...cursor }, ...settings };
  if (batchSize !== undefined) command.cursor.batchSize = batchSize;
  const last = pipeline[pipeline.length - 1];
  if (last && (last.$out !== undefined || last.$merge !== undefined) && command.writeConcern === undefined) {
    const concern = database.getWriteConcern();
    if (concern !== undefined) command.writeConcern = { ...concern };
  }
  if (explain) return explainOn(database, command, typeof explain === "string" ? explain : undefined);
  const reply = checkWorked(runIn(database, command, preference), "aggregate failed");
  return new DBCommandCursor(database, reply, { batchSize: command.cursor.batchSize });
}

// A change stream: a cursor that waits for events. `target` is a collection's name, or 1 for the whole database.
const STREAM_OPTIONS = [
  "batchSize",
  "maxAwaitTimeMS",
  "readPreference",
  "readConcern",
  "collation",
  "comment",
  "maxTimeMS",
];

function watchOn(database, target, pipeline, options) {
  const stream = { ...options };
  const outer = {};
  for (const name of STREAM_OPTIONS) {
    if (stream[name] !== undefined) outer[name] = stream[name];
    delete stream[name];
  }
  const { batchSize, maxAwaitTimeMS, ...rest } = outer;
  const [settings, preference] = splitPreference(rest);
  const stages = Array.isArray(pipeline) ? pipeline : pipeline === undefined ? [] : [pipeline];
  const command = { aggregate: target, pipeline: [{ $changeStream: stream }, ...stages], cursor: {}, ...settings };
  if (batchSize !== undefined) command.cursor.batchSize = batchSize;
  const reply = checkWorked(runIn(database, command, preference), "aggregate failed");
  return new DBCommandCursor(database, reply, { batchSize, maxAwaitTimeMS, tailable: true });
}

function collectionStats(collection) {
  return checkReply(collection.stats(), "collStats failed");
}

const figure = (collection, name) => Number(collectionStats(collection)[name]);

function modify(collection, filter, update, options) {
  const tally = emptyTally();
  const started = Date.now();
  writeStatements(collection, "update", [updateStatement(filterFrom(filter), update, options)], options, tally);
  sayVerbosely(() => {
    const kind = tally.nUpserted ? "new" : "existing";
    return `Updated ${tally.nMatched + tally.nUpserted} ${kind} record(s) in ${Date.now() - started}ms`;
  });
  return new WriteResult(tally, "update");
}

function acknowledgedUpdate(collection, filter, update, options) {
  const result = modify(collection, filter, update, options);
  throwFailures(result.tally, false);
  if (!result.tally.acknowledged) return { acknowledged: false };
  const outcome = { acknowledged: true, matchedCount: result.nMatched, modifiedCount: result.nModified };
  if (result.tally.upserted.length) outcome.upsertedId = result.tally.upserted[0]._id;
  return outcome;
}

function acknowledgedDelete(collection, filter, limit, options) {
  if (filter === null || typeof filter !== "object") throw new Error("a delete needs a filter document");
  const tally = emptyTally();
  writeStatements(collection, "delete", [deleteStatement(filter, limit, options || {})], options || {}, tally);
  throwFailures(tally, false);
  if (!tally.acknowledged) return { acknowledged: false };
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
