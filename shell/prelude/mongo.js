// A connection: one server, or a list of them of which each command gets the one that fits.

// Commands that change nothing may be sent to any member that the read preference allows.
const READ_COMMANDS = new Set(
  (
    "aggregate count distinct find collStats collstats dbStats dbstats listCollections listIndexes listDatabases " +
    "geoSearch group mapReduce mapreduce explain ping hello isMaster ismaster buildInfo buildinfo hostInfo " +
    "serverStatus getLog getParameter replSetGetStatus replSetGetConfig connectionStatus currentOp top validate " +
    "getCmdLineOpts listCommands whatsmyuri dataSize datasize planCacheListFilters usersInfo rolesInfo"
  ).split(" "),
);
const CONCERNED_READS = new Set(["aggregate", "count", "distinct", "find"]);
const READ_MODES = ["primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"];

function isRead(name, command) {
  if (!READ_COMMANDS.has(name)) return false;
  if (name === "aggregate") {
    const last = Array.isArray(command.pipeline) ? command.pipeline[command.pipeline.length - 1] : undefined;
    return !(last && typeof last === "object" && (last.$out !== undefined || last.$merge !== undefined));
  }
  if (/^mapreduce$/i.test(name)) return Boolean(command.out && command.out.inline);
  return true;
}

function readPreferenceFrom(mode, tagSets, hedge) {
  if (!READ_MODES.includes(mode))
    throw new Error(`no read preference is called ${tojson(mode)}: ${READ_MODES.join(", ")}`);
  if (mode === "primary" && tagSets !== undefined && tagSets.length)
    throw new Error("the read preference primary takes no tags");
  const preference = { mode };
  if (tagSets !== undefined) preference.tags = tagSets;
  if (hedge !== undefined) preference.hedge = hedge;
  return preference;
}

// A write concern as `setWriteConcern` takes it: a document, or the parts w, wtimeout, j.
class WriteConcern {
  constructor(w, wtimeout, j) {
    const given = w !== null && typeof w === "object" && !(w instanceof NumberIntBody) ? w : { w, wtimeout, j };
    for (const name of ["w", "j", "wtimeout", "fsync"]) if (given[name] !== undefined) this[name] = given[name];
  }
  toJSON() {
    return { ...this };
  }
  toString() {
    return `WriteConcern(${tojson({ ...this })})`;
  }
  tojson() {
    return this.toString();
  }
  shellPrint() {
    print(this.toString());
  }
}

const concernFrom = (parts) => ({ ...(parts[0] instanceof WriteConcern ? parts[0] : new WriteConcern(...parts)) });

class Mongo {
  constructor(address) {
    const connection = address === undefined ? 0 : callHost("connect", String(address));
    const defaults = callHost("defaults", connection);
    hide(this, {
      connection,
      readPreference: defaults.readPreference,
      readConcern: defaults.readConcern,
      writeConcern: defaults.writeConcern,
      retryWrites: Boolean(defaults.retryWrites),
      causal: false,
      clusterTime: undefined,
      lastServer: 0,
      lastOperationTime: undefined,
      host: callHost("host", connection),
    });
  }
  getDB(name) {
    return databaseNamed(this, name);
  }
  getCollection(namespace) {
    const dot = String(namespace).indexOf(".");
    if (dot < 1) throw new Error("need a namespace: database.collection");
    return this.getDB(namespace.slice(0, dot)).getCollection(namespace.slice(dot + 1));
  }
  getDBs(options) {
    return checkReply(this.adminCommand({ listDatabases: 1, ...options }), "listDatabases failed");
  }
  getDBNames() {
    return this.getDBs().databases.map((found) => found.name);
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
  startSession(options) {
    return new DriverSession(this, options || {});
  }
  watch(pipeline, options) {
    return watchOn(this.getDB("admin"), 1, pipeline, { ...options, allChangesForCluster: true });
  }
  setReadPref(mode, tagSets, hedge) {
    hide(this, { readPreference: readPreferenceFrom(mode, tagSets, hedge) });
  }
  getReadPref() {
    return this.readPreference;
  }
  getReadPrefMode() {
    return this.readPreference === undefined ? null : this.readPreference.mode;
  }
  getReadPrefTagSet() {
    return this.readPreference === undefined || this.readPreference.tags === undefined
      ? null
      : this.readPreference.tags;
  }
  setSecondaryOk(wanted) {
    hide(this, { readPreference: wanted === false ? undefined : { mode: "secondaryPreferred" } });
  }
  setSlaveOk(wanted) {
    this.setSecondaryOk(wanted);
  }
  getSecondaryOk() {
    return this.readPreference !== undefined && this.readPreference.mode !== "primary";
  }
  getSlaveOk() {
    return this.getSecondaryOk();
  }
  setReadConcern(level) {
    hide(this, { readConcern: level === undefined || level === null ? undefined : { level } });
  }
  getReadConcern() {
    return this.readConcern === undefined ? null : this.readConcern.level;
  }
  setWriteConcern(...parts) {
    hide(this, { writeConcern: concernFrom(parts) });
  }
  getWriteConcern() {
    return this.writeConcern;
  }
  unsetWriteConcern() {
    hide(this, { writeConcern: undefined });
  }
  setCausalConsistency(wanted) {
    hide(this, { causal: wanted !== false });
  }
  isCausalConsistency() {
    return this.causal;
  }
  setLogLevel(level, component) {
    return setLogLevel(this, level, component);
  }
  getLogComponents() {
    const reply = this.adminCommand({ getParameter: 1, logComponentVerbosity: 1 });
    return checkReply(reply, "getLogComponents failed").logComponentVerbosity;
  }
  auth(...parameters) {
    return this.getDB("admin").auth(...parameters);
  }
  logout() {
    return this.getDB("admin").logout();
  }
  getHost() {
    return this.host;
  }
  close() {
    callHost("disconnect", this.connection);
  }
  help() {
    printHelp("connect");
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

  // Run a command document on a database. Replies with ok: 0 are returned, not thrown. `options`: readPreference,
  // the session, and the server (a number from an earlier reply) that holds a cursor; the reply's own server number
  // is left in `lastServer`.
  run(database, command, options) {
    const { readPreference = this.readPreference, session, server } = options || {};
    const body = { ...command }; // the mark of int32 fields is copied along
    const [name] = Object.keys(body);
    const read = isRead(name, body);
    const anyMember = read && readPreference !== undefined && readPreference.mode !== "primary";
    if (anyMember && body.$readPreference === undefined) body.$readPreference = readPreference;
    if (this.readConcern !== undefined && body.readConcern === undefined && CONCERNED_READS.has(name) && read)
      body.readConcern = this.readConcern;
    if (session !== undefined) return session.run(database, name, body, { anyMember, server });
    body.$db = database;
    return this.send(body, anyMember || body.$readPreference !== undefined, server);
  }
  send(body, anyMember, server) {
    const reply = exchange(COMMAND, body, this.connection, anyMember, server);
    this.lastServer = serverOfAnswer();
    this.lastOperationTime = reply.operationTime;
    if (reply.$clusterTime !== undefined) this.clusterTime = laterTime(this.clusterTime, reply.$clusterTime);
    return shownReply(reply);
  }
}

// Of two cluster times the later one.
function laterTime(known, heard) {
  return known === undefined || compareValues(known.clusterTime, heard.clusterTime) < 0 ? heard : known;
}

function connect(address, user, password) {
  const mongo = new Mongo(address);
  const database = mongo.getDB(callHost("databaseOf", String(address)));
  if (user !== undefined) database.auth(user, password);
  return database;
}
