// Failures as the classic shell words them: the text of an error is what the prompt prints after
// "uncaught exception: ".

class MongoServerError extends Error {
  constructor(message, reply) {
    super(message);
    this.code = reply.code;
    this.codeName = reply.codeName;
    hide(this, { reply });
  }
  get name() {
    return "Error";
  }
}

// `what` is the phrase of the operation that failed, such as "count failed".
function commandFailure(what, reply) {
  return new MongoServerError(`${what}: ${tojson(shownReply(reply))}`, reply);
}

function checkReply(reply, what) {
  if (!reply.ok) throw commandFailure(what, reply);
  return reply;
}

// Fields that members of a set add to every reply, and that only drivers want to see.
const GOSSIP = ["$clusterTime", "operationTime", "$configTime", "$topologyTime", "$gleStats"];

function shownReply(reply) {
  for (const name of GOSSIP) delete reply[name];
  return reply;
}

class WriteError extends Error {
  constructor(error, operation) {
    super(error.errmsg);
    this.index = error.index;
    this.code = error.code;
    this.errmsg = error.errmsg;
    this.op = operation;
    if (error.errInfo !== undefined) this.errInfo = error.errInfo;
  }
  getOperation() {
    return this.op;
  }
  fields() {
    return { index: this.index, code: this.code, errmsg: this.errmsg, op: this.op };
  }
  toString() {
    return `WriteError(${tojson(this.fields())})`;
  }
  tojson() {
    return this.toString();
  }
}

class WriteConcernError extends Error {
  constructor(error) {
    super(error.errmsg);
    this.code = error.code;
    this.codeName = error.codeName;
    this.errmsg = error.errmsg;
    this.errInfo = error.errInfo;
  }
  toString() {
    const shown = { code: this.code, codeName: this.codeName, errmsg: this.errmsg, errInfo: this.errInfo };
    for (const name of Object.keys(shown)) if (shown[name] === undefined) delete shown[name];
    return `WriteConcernError(${tojson(shown)})`;
  }
  tojson() {
    return this.toString();
  }
}

class BulkWriteError extends Error {
  constructor(result) {
    super(result.writeErrors.length ? result.writeErrors[0].errmsg : "write concern error");
    this.result = result;
    if (result.writeErrors.length) this.code = result.writeErrors[0].code;
  }
  toString() {
    const many = this.result.writeErrors.length > 1;
    const tail = many ? ` (${this.result.writeErrors.length} write errors)` : "";
    return `BulkWriteError(${tojson(bulkFields(this.result))})${tail}`;
  }
  tojson() {
    return this.toString();
  }
  toResult() {
    return new BulkWriteResult(this.result);
  }
}

// ---- What writes give back. A tally is {writeErrors, writeConcernErrors, nInserted, nUpserted, nMatched, nModified,
// nRemoved, upserted}.

function emptyTally() {
  return {
    writeErrors: [],
    writeConcernErrors: [],
    nInserted: 0,
    nUpserted: 0,
    nMatched: 0,
    nModified: 0,
    nRemoved: 0,
    upserted: [],
  };
}

function bulkFields(tally) {
  return {
    writeErrors: tally.writeErrors.map((error) => error.fields()),
    writeConcernErrors: tally.writeConcernErrors,
    nInserted: tally.nInserted,
    nUpserted: tally.nUpserted,
    nMatched: tally.nMatched,
    nModified: tally.nModified,
    nRemoved: tally.nRemoved,
    upserted: tally.upserted,
  };
}

// The outcome of one insert, update or remove.
class WriteResult {
  constructor(tally, kind) {
    hide(this, { tally, kind });
  }
  get ok() {
    return 1;
  }
  get nInserted() {
    return this.tally.nInserted;
  }
  get nUpserted() {
    return this.tally.nUpserted;
  }
  get nMatched() {
    return this.tally.nMatched;
  }
  get nModified() {
    return this.tally.nModified;
  }
  get nRemoved() {
    return this.tally.nRemoved;
  }
  getUpsertedId() {
    return this.tally.upserted[0];
  }
  hasWriteError() {
    return this.tally.writeErrors.length > 0;
  }
  getWriteError() {
    return this.tally.writeErrors[0];
  }
  hasWriteConcernError() {
    return this.tally.writeConcernErrors.length > 0;
  }
  getWriteConcernError() {
    return this.tally.writeConcernErrors[0];
  }
  fields() {
    const { tally } = this;
    const fields =
      this.kind === "insert"
        ? { nInserted: tally.nInserted }
        : this.kind === "remove"
          ? { nRemoved: tally.nRemoved }
          : { nMatched: tally.nMatched, nUpserted: tally.nUpserted, nModified: tally.nModified };
    if (tally.upserted.length) fields._id = tally.upserted[0]._id;
    if (this.hasWriteError()) {
      const { code, errmsg } = this.getWriteError();
      fields.writeError = { code, errmsg };
    }
    if (this.hasWriteConcernError()) {
      const { code, codeName, errmsg } = this.getWriteConcernError();
      fields.writeConcernError = codeName === undefined ? { code, errmsg } : { code, codeName, errmsg };
    }
    return fields;
  }
  tojson(indent, oneLine) {
    return `WriteResult(${tojson(this.fields(), indent, oneLine)})`;
  }
  toString() {
    return this.tojson();
  }
  shellPrint() {
    print(this.tojson());
  }
}

class BulkWriteResult {
  constructor(tally) {
    hide(this, { tally });
  }
  get ok() {
    return 1;
  }
  get nInserted() {
    return this.tally.nInserted;
  }
  get nUpserted() {
    return this.tally.nUpserted;
  }
  get nMatched() {
    return this.tally.nMatched;
  }
  get nModified() {
    return this.tally.nModified;
  }
  get nRemoved() {
    return this.tally.nRemoved;
  }
  getUpsertedIds() {
    return this.tally.upserted;
  }
  hasWriteErrors() {
    return this.tally.writeErrors.length > 0;
  }
  getWriteErrors() {
    return this.tally.writeErrors;
  }
  getWriteErrorCount() {
    return this.tally.writeErrors.length;
  }
  getWriteErrorAt(index) {
    return this.tally.writeErrors[index];
  }
  hasWriteConcernError() {
    return this.tally.writeConcernErrors.length > 0;
  }
  getWriteConcernError() {
    return this.tally.writeConcernErrors[0];
  }
  tojson(indent, oneLine) {
    return `BulkWriteResult(${tojson(bulkFields(this.tally), indent, oneLine)})`;
  }
  toString() {
    return this.tojson();
  }
  shellPrint() {
    print(this.tojson());
  }
}
