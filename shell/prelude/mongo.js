// A connection: one server, or a list of them with the primary followed.

class Mongo {
  constructor(address) {
    const connection = address === undefined ? 0 : callHost("connect", String(address));
    hide(this, {
      connection,
      readPreference: undefined,
      writeConcern: undefined,
      host: callHost("host", connection),
    });
  }
  getDB(name) {
    return databaseNamed(this, name);
  }
  getDBs() {
    return this.adminCommand({ listDatabases: 1 });
  }
  getDBNames() {
    return checkReply(this.getDBs(), "listDatabases failed").databases.map((found) => found.name);
  }
  adminCommand(command) {
    return this.getDB("admin").runCommand(command);
  }
  isMaster() {
    return this.adminCommand({ isMaster: 1 });
  }
  hello() {
    return this.adminCommand({ hello: 1 });
  }
  setReadPref(mode, tagSets) {
    hide(this, { readPreference: tagSets === undefined ? { mode } : { mode, tags: tagSets } });
  }
  getReadPref() {
    return this.readPreference;
  }
  getReadPrefMode() {
    return this.readPreference === undefined ? null : this.readPreference.mode;
  }
  setSecondaryOk(wanted) {
    hide(this, { readPreference: wanted === false ? undefined : { mode: "secondaryPreferred" } });
  }
  setSlaveOk(wanted) {
    this.setSecondaryOk(wanted);
  }
  setWriteConcern(concern) {
    hide(this, { writeConcern: concern });
  }
  getWriteConcern() {
    return this.writeConcern;
  }
  getHost() {
    return this.host;
  }
  toString() {
    return "connection to " + this.host;
  }
  tojson() {
    return this.toString();
  }
  shellPrint() {
    print(this.toString());
  }

  // Run a command document on a database. Replies with ok: 0 are returned, not thrown.
  run(database, command, options) {
    const body = { ...command }; // the mark of int32 fields is copied along
    const preference = (options && options.readPreference) || this.readPreference;
    const anyMember = preference !== undefined && preference.mode !== "primary";
    if (anyMember && body.$readPreference === undefined) body.$readPreference = preference;
    body.$db = database;
    return shownReply(exchange(COMMAND, body, this.connection, anyMember));
  }
}

function connect(address) {
  const mongo = new Mongo(address);
  return mongo.getDB(callHost("databaseOf", String(address)));
}
