// Failures as the classic shell words them: the text of an error is what the prompt prints after
// "uncaught exception: ".

class MongoServerError extends Error {
  constructor(message, reply) {
    super(message);
    this.code = reply.code;
    this.codeName = reply.codeName;
    if (reply.errorLabels !== undefined) this.errorLabels = reply.errorLabels;
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

// The same, in the words of an assertion that a command worked.
function checkWorked(reply, what) {
  if (!reply.ok) throw new MongoServerError(`command failed: ${tojson(shownReply(reply))} : ${what}`, reply);
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
  fields() {
    const shown = { code: this.code, codeName: this.codeName, errmsg: this.errmsg, errInfo: this.errInfo };
    for (const name of Object.keys(shown)) if (shown[name] === undefined) delete shown[name];
    return shown;
  }
  toString() {
    return `WriteConcernError(${tojson(this.fields())})`;
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
