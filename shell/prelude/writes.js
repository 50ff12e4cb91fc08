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

// Run write statements of one kind; stops at the first error when `ordered`. `indexes` are the statements' places in
// the whole, where that is not how they stand here.
function writeStatements(collection, kind, statements, options, tally, indexes) {
  const database = collection.getDB();
  const given = options.writeConcern || collection.getWriteConcern();
  const concern = given === undefined ? undefined : { ...given };
  const progress = new Progress(`${kind} ${collection}`, statements.length);
  const placeOf = (position) => (indexes === undefined ? position : indexes[position]);
  let sent = 0;
  for (const batch of batchesOf(statements)) {
    const command = { [kind]: collection.getName(), ordered: options.ordered !== false, [FIELD_OF[kind]]: batch };
    if (concern !== undefined) command.writeConcern = concern;
    for (const name of ["let", "bypassDocumentValidation", "comment"]) {
      if (options[name] !== undefined) command[name] = options[name];
    }
    const reply = runIn(database, command);
    if (!reply.ok) throw new WriteCommandError(reply);
    if (concern !== undefined && concern.w === 0) tally.acknowledged = false;
    else addReply(tally, kind, reply, batch, (position) => placeOf(sent + position));
    sent += batch.length;
    progress.reached(sent);
    if (tally.writeErrors.length && options.ordered !== false) break;
  }
  progress.end();
  return !tally.writeErrors.length || options.ordered === false;
}

class WriteCommandError extends Error {
  constructor(reply) {
    super(reply.errmsg);
    this.code = reply.code;
    hide(this, { reply: shownReply(reply) });
  }
  get errorLabels() {
    return this.reply.errorLabels;
  }
  toString() {
    return `WriteCommandError(${tojson(this.reply)})`;
  }
  tojson() {
    return this.toString();
  }
}

function addReply(tally, kind, reply, batch, placeOf) {
  const upserted = (reply.upserted || []).map((entry) => ({ index: placeOf(entry.index), _id: entry._id }));
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
    tally.writeErrors.push(new WriteError({ ...error, index: placeOf(error.index) }, operation));
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
  return joinedFields({ _id: ObjectId() }, document);
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
  for (const name of ["collation", "arrayFilters", "hint", "c", "sort"])
    if (options[name] !== undefined) statement[name] = options[name];
  return statement;
}

function deleteStatement(filter, limit, options) {
  const statement = { q: filter, limit };
  for (const name of ["collation", "hint"]) if (options[name] !== undefined) statement[name] = options[name];
  return statement;
}
