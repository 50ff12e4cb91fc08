// Sessions that the user starts, and the transactions in them.
//
// A session's databases send its id with each command. With causal consistency (unless switched off) a read waits for
// what the session has seen before. In a transaction each command carries the transaction's number; commit and abort
// end it.

const RETRYABLE_WRITES = new Set(["bulkWrite", "insert", "update", "delete", "findAndModify", "findandmodify"]);
const TRANSACTION_SECONDS = 120;

class SessionOptions {
  constructor(options) {
    hide(this, { options });
  }
  getReadPreference() {
    return this.options.readPreference;
  }
  setReadPreference(preference) {
    this.options.readPreference = typeof preference === "string" ? readPreferenceFrom(preference) : preference;
  }
  getReadConcern() {
    return this.options.readConcern;
  }
  setReadConcern(concern) {
    this.options.readConcern = concern;
  }
  getWriteConcern() {
    return this.options.writeConcern;
  }
  setWriteConcern(concern) {
    this.options.writeConcern = concern;
  }
  isCausalConsistency() {
    return this.options.causalConsistency !== false;
  }
  shouldRetryWrites() {
    return Boolean(this.options.retryWrites);
  }
  shellPrint() {
    print(this.tojson());
  }
  tojson() {
    return `SessionOptions(${tojson(this.options)})`;
  }
  toString() {
    return this.tojson();
  }
}

class DriverSession {
  constructor(mongo, options) {
    const id = { id: UUID() };
    const settings = { retryWrites: mongo.retryWrites, ...options };
    hide(this, { mongo, id, settings, ended: false, number: -1 });
    hide(this, { operationTime: undefined, transaction: undefined, committed: undefined });
  }
  getClient() {
    return this.mongo;
  }
  getDatabase(name) {
    return databaseNamed(this.mongo, name, this);
  }
  getSessionId() {
    return this.id;
  }
  getOptions() {
    return new SessionOptions(this.settings);
  }
  getOperationTime() {
    return this.operationTime;
  }
  getClusterTime() {
    return this.mongo.clusterTime;
  }
  advanceOperationTime(time) {
    if (this.operationTime === undefined || compareValues(this.operationTime, time) < 0) this.operationTime = time;
  }
  advanceClusterTime(time) {
    this.mongo.clusterTime = laterTime(this.mongo.clusterTime, time);
  }
  getTxnNumber_forTesting() {
    return NumberLong(this.number);
  }
  hasEnded() {
    return this.ended;
  }
  endSession() {
    if (this.ended) return;
    if (this.transaction !== undefined) this.abortTransaction();
    this.mongo.adminCommand({ endSessions: [this.id] });
    this.ended = true;
  }
  startTransaction(options) {
    this.requireOpen();
    if (this.transaction !== undefined) throw new Error("Transaction already in progress on this session.");
    this.number += 1;
    this.transaction = { options: options || {}, started: false };
    this.committed = undefined;
  }
  commitTransaction() {
    if (this.transaction === undefined && this.committed !== undefined) {
      checkReply(this.finish("commitTransaction", this.committed), "commitTransaction failed"); // once more
      return;
    }
    this.end("commitTransaction");
  }
  abortTransaction() {
    this.end("abortTransaction");
  }
  // Run `body` in a transaction that is begun again when the server asks for it.
  withTransaction(body, options) {
    const last = Date.now() + TRANSACTION_SECONDS * 1000;
    for (;;) {
      this.startTransaction(options);
      try {
        const value = body(this);
        if (this.transaction !== undefined) this.commitUntilKnown(last);
        return value;
      } catch (failure) {
        if (this.transaction !== undefined) this.abortTransaction();
        if (!hasLabel(failure, "TransientTransactionError") || Date.now() > last) throw failure;
      }
    }
  }
  commitUntilKnown(last) {
    for (;;) {
      try {
        this.commitTransaction();
        return;
      } catch (failure) {
        if (!hasLabel(failure, "UnknownTransactionCommitResult") || Date.now() > last) throw failure;
      }
    }
  }
  help() {
    printHelp("session");
  }
  toString() {
    return `session ${tojson(this.id)}`;
  }
  tojson() {
    return this.toString();
  }
  shellPrint() {
    print(this.toString());
  }

  requireOpen() {
    if (this.ended) throw new Error("Cannot use a session that has ended");
  }
  end(name) {
    const { transaction } = this;
    if (transaction === undefined) throw new Error("There is no active transaction on this session.");
    this.transaction = undefined;
    if (!transaction.started) return;
    if (name === "commitTransaction") this.committed = transaction;
    const reply = this.finish(name, transaction);
    if (name === "commitTransaction") checkReply(reply, `${name} failed`);
  }
  finish(name, transaction) {
    const body = { [name]: 1, txnNumber: NumberLong(this.number), autocommit: false };
    const concern = transaction.options.writeConcern || this.settings.writeConcern;
    if (concern !== undefined) body.writeConcern = concern;
    if (transaction.recoveryToken !== undefined) body.recoveryToken = transaction.recoveryToken;
    return this.sendNow("admin", body, false, transaction.server);
  }
  run(database, name, body, { anyMember, server }) {
    this.requireOpen();
    if (this.settings.readPreference !== undefined && isRead(name, body) && body.$readPreference === undefined) {
      body.$readPreference = this.settings.readPreference;
      anyMember = body.$readPreference.mode !== "primary";
    }
    const { transaction } = this;
    if (transaction !== undefined) return this.runInTransaction(database, body, transaction);
    this.addReadConcern(name, body);
    if (this.settings.writeConcern !== undefined && body.writeConcern === undefined && RETRYABLE_WRITES.has(name))
      body.writeConcern = this.settings.writeConcern;
    if (!this.settings.retryWrites || !isRetryable(name, body))
      return this.sendNow(database, body, anyMember, server);
    this.number += 1;
    body.txnNumber = NumberLong(this.number);
    return this.sendTwice(database, body);
  }
  runInTransaction(database, body, transaction) {
    body.txnNumber = NumberLong(this.number);
    body.autocommit = false;
    if (!transaction.started) {
      body.startTransaction = true;
      const concern = transaction.options.readConcern || this.settings.readConcern;
      if (concern !== undefined) body.readConcern = concern;
      transaction.started = true;
    }
    delete body.writeConcern;
    const reply = this.sendNow(database, body, false, transaction.server);
    transaction.server = this.mongo.lastServer;
    if (reply.recoveryToken !== undefined) transaction.recoveryToken = reply.recoveryToken;
    return reply;
  }
  addReadConcern(name, body) {
    if (!CONCERNED_READS.has(name)) return;
    const concern = { ...(body.readConcern || this.settings.readConcern) };
    const causal = this.settings.causalConsistency !== false && this.operationTime !== undefined;
    if (causal && concern.afterClusterTime === undefined) concern.afterClusterTime = this.operationTime;
    if (Object.keys(concern).length) body.readConcern = concern;
  }
  sendNow(database, body, anyMember, server) {
    body.lsid = this.id;
    if (this.mongo.clusterTime !== undefined) body.$clusterTime = this.mongo.clusterTime;
    body.$db = database;
    const reply = this.mongo.send(body, anyMember, server);
    if (this.mongo.lastOperationTime !== undefined) this.advanceOperationTime(this.mongo.lastOperationTime);
    return reply;
  }
  // A write with a transaction number does no harm twice.
  sendTwice(database, body) {
    try {
      const reply = this.sendNow(database, body, false);
      if (!hasLabel(reply, "RetryableWriteError")) return reply;
    } catch (failure) {
      if (!(failure instanceof NetworkFailure)) throw failure;
    }
    return this.sendNow(database, body, false);
  }
}

function hasLabel(failure, label) {
  const labels = failure.errorLabels || (failure.reply && failure.reply.errorLabels) || [];
  return labels.includes(label);
}

function isRetryable(name, body) {
  if (!RETRYABLE_WRITES.has(name) || (body.writeConcern && Number(body.writeConcern.w) === 0)) return false;
  if (name === "update") return body.updates.every((statement) => !statement.multi);
  if (name === "bulkWrite") return body.ops.every((operation) => !operation.multi);
  return name !== "delete" || body.deletes.every((statement) => statement.limit === 1);
}
