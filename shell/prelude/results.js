// What writes give back. A tally is {writeErrors, writeConcernErrors, nInserted, nUpserted, nMatched, nModified,
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
    acknowledged: true,
  };
}

function bulkFields(tally) {
  if (!tally.acknowledged) return {};
  return {
    writeErrors: tally.writeErrors.map((error) => error.fields()),
    writeConcernErrors: tally.writeConcernErrors.map((error) => error.fields()),
    nInserted: tally.nInserted,
    nUpserted: tally.nUpserted,
    nMatched: tally.nMatched,
    nModified: tally.nModified,
    nRemoved: tally.nRemoved,
    upserted: tally.upserted,
  };
}

// What the outcomes of one write and of many have in common: the figures of the tally.
class TalliedResult {
  constructor(fields) {
    hide(this, fields);
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
}

// The outcome of one insert, update or remove.
class WriteResult extends TalliedResult {
  constructor(tally, kind) {
    super({ tally, kind });
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
    if (!tally.acknowledged) return {};
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
      fields.writeConcernError = this.getWriteConcernError().fields();
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

class BulkWriteResult extends TalliedResult {
  constructor(tally) {
    super({ tally });
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
