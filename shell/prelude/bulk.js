// Bulk operations: statements in order, those of one kind that follow each other sent together.

function bulkStatement(operation) {
  const [[name, spec]] = Object.entries(operation);
  switch (name) {
    case "insertOne":
      return ["insert", withId(spec.document)];
    case "updateOne":
      requireOperators(spec.update);
      return ["update", updateStatement(spec.filter, spec.update, spec)];
    case "updateMany":
      requireOperators(spec.update);
      return ["update", updateStatement(spec.filter, spec.update, { ...spec, multi: true })];
    case "replaceOne":
      refuseOperators(spec.replacement);
      return ["update", updateStatement(spec.filter, spec.replacement, spec)];
    case "deleteOne":
      return ["delete", deleteStatement(spec.filter, 1, spec)];
    case "deleteMany":
      return ["delete", deleteStatement(spec.filter, 0, spec)];
    default:
      throw new Error(`unknown bulk operation: ${name}`);
  }
}

// Statements with their places, in batches of one kind: those that follow each other, or all where order does not
// matter.
function bulkBatches(statements, ordered) {
  const batches = [];
  const open = new Map();
  statements.forEach(([kind, statement], place) => {
    let batch = ordered ? batches[batches.length - 1] : open.get(kind);
    if (batch === undefined || batch.kind !== kind) {
      batch = { kind, statements: [], places: [] };
      batches.push(batch);
      open.set(kind, batch);
    }
    batch.statements.push(statement);
    batch.places.push(place);
  });
  return batches;
}

function runBulk(collection, statements, options) {
  const tally = emptyTally();
  for (const { kind, statements: batch, places } of bulkBatches(statements, options.ordered !== false))
    if (!writeStatements(collection, kind, batch, options, tally, places)) break;
  tally.writeErrors.sort((a, b) => a.index - b.index);
  tally.upserted.sort((a, b) => a.index - b.index);
  return tally;
}

const BATCH_TYPES = { insert: 1, update: 2, delete: 3 };

class BulkFind {
  constructor(bulk, filter) {
    Object.assign(this, { bulk, filter, options: {} });
  }
  upsert() {
    this.options.upsert = true;
    return this;
  }
  hint(index) {
    this.options.hint = index;
    return this;
  }
  collation(specification) {
    this.options.collation = specification;
    return this;
  }
  arrayFilters(filters) {
    this.options.arrayFilters = filters;
    return this;
  }
  add(kind, statement) {
    this.bulk.statements.push([kind, statement]);
    return this.bulk;
  }
  update(update) {
    requireOperators(update);
    return this.add("update", updateStatement(this.filter, update, { ...this.options, multi: true }));
  }
  updateOne(update) {
    requireOperators(update);
    return this.add("update", updateStatement(this.filter, update, this.options));
  }
  replaceOne(replacement) {
    refuseOperators(replacement);
    return this.add("update", updateStatement(this.filter, replacement, this.options));
  }
  remove() {
    return this.add("delete", deleteStatement(this.filter, 0, this.options));
  }
  delete() {
    return this.remove();
  }
  removeOne() {
    return this.add("delete", deleteStatement(this.filter, 1, this.options));
  }
  deleteOne() {
    return this.removeOne();
  }
}

class Bulk {
  constructor(collection, ordered) {
    hide(this, { collection, ordered, statements: [], executed: false });
  }
  insert(document) {
    this.statements.push(["insert", withId(document)]);
    return this;
  }
  find(filter) {
    if (filter === undefined) throw new Error("find() needs a filter");
    return new BulkFind(this, filterFrom(filter));
  }
  execute(writeConcern) {
    if (this.executed) throw new Error("a bulk can be executed only once");
    if (!this.statements.length) throw new Error("the bulk has no operations");
    this.executed = true;
    const tally = runBulk(this.collection, this.statements, { ordered: this.ordered, writeConcern });
    throwFailures(tally, true);
    return new BulkWriteResult(tally);
  }
  getOperations() {
    return bulkBatches(this.statements, this.ordered).map(({ kind, statements, places }) => ({
      originalZeroIndex: places[0],
      batchType: BATCH_TYPES[kind],
      operations: statements,
    }));
  }
  help() {
    printHelp("bulk");
  }
  tojson() {
    const count = (kind) => this.statements.filter((entry) => entry[0] === kind).length;
    const counts = { nInsertOps: count("insert"), nUpdateOps: count("update"), nRemoveOps: count("delete") };
    return tojson({ ...counts, nBatches: bulkBatches(this.statements, this.ordered).length });
  }
  toString() {
    return this.tojson();
  }
}
