// Sending writes: documents into commands of bounded size, replies into one tally.

const BATCH_DOCUMENTS = 10000;
const BATCH_BYTES = 14 * 1024 * 1024; // a command is a document itself and must stay below 16 MB

// Split statements into runs that fit into one command each.
function* batchesOf(statements) {
  let batch = [],
    size = 0;
  for (const statement of statements) {
    const bytesNeeded = bsonSize(statement) + 16;
    if (batch.length && (batch.length >= BATCH_DOCUMENTS || size + bytesNeeded > BATCH_BYTES)) {
      yield batch;
      batch = [];
      size = 0;
    }
    batch.push(statement);
    size += bytesNeeded;
  }
  if (batch.length) yield batch;
}

const FIELD_OF = { insert: "documents", update: "updates", delete: "deletes" };

// Run write statements of one kind; stops at the first error when `ordered`. `base` is the index of the first one.
function writeStatements(collection, kind, statements, options, tally, base) {
  const database = collection.getDB();
  let index = base;
  for (const batch of batchesOf(statements)) {
    const command = { [kind]: collection.getName(), ordered: options.ordered !== false, [FIELD_OF[kind]]: batch };
    const concern = options.writeConcern || database.getMongo().getWriteConcern();
    if (concern !== undefined) command.writeConcern = concern;
    for (const name of ["let", "bypassDocumentValidation", "comment"]) {
      if (options[name] !== undefined) command[name] = options[name];
    }
    const reply = database.getMongo().run(database.getName(), command);
    if (!reply.ok) throw new WriteCommandError(reply);
    addReply(tally, kind, reply, batch, index);
    index += batch.length;
    if (tally.writeErrors.length && options.ordered !== false) return false;
  }
  return true;
}

class WriteCommandError extends Error {
  constructor(reply) {
    super(reply.errmsg);
    this.code = reply.code;
    hide(this, { reply: shownReply(reply) });
  }
  toString() {
    return `WriteCommandError(${tojson(this.reply)})`;
  }
  tojson() {
    return this.toString();
  }
}

function addReply(tally, kind, reply, batch, base) {
  const upserted = (reply.upserted || []).map((entry) => ({ index: entry.index + base, _id: entry._id }));
  if (kind === "insert") tally.nInserted += Number(reply.n);
  else if (kind === "delete") tally.nRemoved += Number(reply.n);
  else {
    tally.nUpserted += upserted.length;
    tally.nMatched += Number(reply.n) - upserted.length;
    tally.nModified += Number(reply.nModified);
    tally.upserted.push(...upserted);
  }
  for (const error of reply.writeErrors || []) {
    const operation = batch[error.index];
    tally.writeErrors.push(new WriteError({ ...error, index: error.index + base }, operation));
  }
  if (reply.writeConcernError) tally.writeConcernErrors.push(new WriteConcernError(reply.writeConcernError));
}

// The modern write functions throw where the old ones return the error.
function throwFailures(tally, many) {
  if (many && (tally.writeErrors.length || tally.writeConcernErrors.length)) throw new BulkWriteError(tally);
  if (tally.writeErrors.length) throw tally.writeErrors[0];
  if (tally.writeConcernErrors.length) throw tally.writeConcernErrors[0];
}

function withId(document) {
  if (document === null || typeof document !== "object" || Array.isArray(document)) {
    throw new Error("the document to insert must be an object");
  }
  if (document._id !== undefined) return document;
  return { _id: ObjectId(), ...document };
}

const isOperatorUpdate = (update) => Array.isArray(update) || (Object.keys(update)[0] || "").startsWith("$");

function requireOperators(update) {
  if (update === null || typeof update !== "object" || !isOperatorUpdate(update)) {
    throw new Error("an update needs operators such as $set; replaceOne() replaces the document");
  }
}

function refuseOperators(replacement) {
  if (replacement === null || typeof replacement !== "object" || isOperatorUpdate(replacement)) {
    throw new Error("a replacement may not contain update operators");
  }
}

function updateStatement(filter, update, options) {
  const statement = { q: filter, u: update, multi: Boolean(options.multi), upsert: Boolean(options.upsert) };
  for (const name of ["collation", "arrayFilters", "hint", "c"])
    if (options[name] !== undefined) statement[name] = options[name];
  return statement;
}

function deleteStatement(filter, limit, options) {
  const statement = { q: filter, limit };
  for (const name of ["collation", "hint"]) if (options[name] !== undefined) statement[name] = options[name];
  return statement;
}

// ---- Bulk operations: statements in order, those of one kind that follow each other sent together.

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

function runBulk(collection, statements, options) {
  const tally = emptyTally();
  let start = 0;
  while (start < statements.length) {
    const [kind] = statements[start];
    let stop = start;
    while (stop < statements.length && statements[stop][0] === kind) stop++;
    const group = statements.slice(start, stop).map((entry) => entry[1]);
    if (!writeStatements(collection, kind, group, options, tally, start)) break;
    start = stop;
  }
  return tally;
}

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
    return new BulkFind(this, filter);
  }
  execute(writeConcern) {
    if (this.executed) throw new Error("a bulk can be executed only once");
    if (!this.statements.length) throw new Error("the bulk has no operations");
    hide(this, { executed: true });
    const tally = runBulk(this.collection, this.statements, { ordered: this.ordered, writeConcern });
    throwFailures(tally, true);
    return new BulkWriteResult(tally);
  }
  tojson() {
    const count = (kind) => this.statements.filter((entry) => entry[0] === kind).length;
    return tojson({ nInsertOps: count("insert"), nUpdateOps: count("update"), nRemoveOps: count("delete") });
  }
  toString() {
    return this.tojson();
  }
}
