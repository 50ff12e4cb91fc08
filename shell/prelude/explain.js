// What explain and mapReduce give back, and the plan cache.

// `collection.explain().find(...)` and the like: the command goes into explain instead of being run.
class Explainable {
  constructor(collection, verbosity) {
    hide(this, { collection, verbosity });
  }
  find(...parameters) {
    const query = this.collection.find(...parameters);
    const finish = () => query.explain(this.verbosity);
    let done = false;
    hide(query, {
      shellPrint: () => printjson(finish()),
      finish,
      hasNext: () => !done,
      next() {
        if (done) throw new Error("the explanation was taken already");
        done = true;
        return finish();
      },
    });
    return query;
  }
  run(command) {
    return explainOn(this.collection.getDB(), command, this.verbosity);
  }
  count(filter, options) {
    return this.run({ count: this.collection.getName(), query: filter || {}, ...options });
  }
  distinct(key, filter, options) {
    return this.run({ distinct: this.collection.getName(), key, query: filter || {}, ...options });
  }
  aggregate(...stages) {
    const whole = Array.isArray(stages[0]);
    const pipeline = whole ? stages[0] : stages;
    return this.run({ aggregate: this.collection.getName(), pipeline, cursor: {}, ...(whole ? stages[1] : {}) });
  }
  update(filter, update, upsert, multi) {
    const options = upsert !== null && typeof upsert === "object" ? upsert : { upsert, multi };
    return this.run({ update: this.collection.getName(), updates: [updateStatement(filter, update, options)] });
  }
  remove(filter, options) {
    const settings = options !== null && typeof options === "object" ? options : { justOne: options };
    const statement = deleteStatement(filterFrom(filter), settings.justOne ? 1 : 0, settings);
    return this.run({ delete: this.collection.getName(), deletes: [statement] });
  }
  findAndModify(options) {
    return this.run({ findAndModify: this.collection.getName(), ...options });
  }
  mapReduce(map, reduce, options) {
    const out = typeof options === "string" || options === undefined ? { out: options } : options;
    return this.run({ mapReduce: this.collection.getName(), map, reduce, ...out });
  }
  getCollection() {
    return this.collection;
  }
  getVerbosity() {
    return this.verbosity === undefined ? "queryPlanner" : this.verbosity;
  }
  setVerbosity(verbosity) {
    this.verbosity = verbosity;
    return this;
  }
  help() {
    printHelp("explain");
  }
  tojson() {
    return `Explainable(${this.collection})`;
  }
  toString() {
    return this.tojson();
  }
  shellPrint() {
    print(this.toString());
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

// The plans that the server keeps for a collection's queries.
class PlanCache {
  constructor(collection) {
    hide(this, { collection });
  }
  getName() {
    return this.collection.getName();
  }
  list(stages) {
    return this.collection.aggregate([{ $planCacheStats: {} }, ...(stages || [])]).toArray();
  }
  clear() {
    checkReply(runOn(this.collection, { planCacheClear: this.getName() }), "planCacheClear failed");
  }
  clearPlansByQuery(query, projection, sort) {
    const shape = { query: query || {} };
    if (projection !== undefined) shape.projection = projection;
    if (sort !== undefined) shape.sort = sort;
    checkReply(runOn(this.collection, { planCacheClear: this.getName(), ...shape }), "planCacheClear failed");
  }
  help() {
    printHelp("plan cache");
  }
  tojson() {
    return `PlanCache for collection ${this.collection}`;
  }
  toString() {
    return this.tojson();
  }
  shellPrint() {
    print(this.toString());
  }
}
