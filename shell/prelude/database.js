// Databases: the global `db` and what `db.getSiblingDB(...)` gives.

const COLLECTIONS = {
  get(target, name, receiver) {
    if (typeof name !== "string" || Reflect.has(target, name)) return Reflect.get(target, name, receiver);
    return target.getCollection(name);
  },
};

function databaseNamed(mongo, name, session) {
  return new DB(mongo, name, session);
}

// Run a command on a database, in its session where it has one.
function runIn(database, command, options) {
  const { _mongo: mongo, _session: session } = database;
  return mongo.run(database._name, command, session === undefined ? options : { ...options, session });
}

class DB {
  constructor(mongo, name, session) {
    const valid = typeof name === "string" && name !== "" && !/[\s./\\$"\0]/.test(name);
    // The database of users who authenticate by certificates.
    if (!valid && name !== "$external")
      throw new Error(`[${name}] is not a valid database name`);
    hide(this, { _mongo: mongo, _name: name, _session: session, _writeConcern: undefined, _known: new Map() });
    return new Proxy(this, COLLECTIONS);
  }
  getName() {
    return this._name;
  }
  getMongo() {
    return this._mongo;
  }
  getSession() {
    if (this._session === undefined) throw new Error("this database belongs to no session: see startSession()");
    return this._session;
  }
  getSiblingDB(name) {
    return databaseNamed(this._mongo, name, this._session);
  }
  getSisterDB(name) {
    return this.getSiblingDB(name);
  }
  // The same object each time, so that what is set on it stays.
  getCollection(name) {
    let known = this._known.get(name);
    if (known === undefined) this._known.set(name, (known = new DBCollection(this, name)));
    return known;
  }
  toString() {
    return this._name;
  }
  tojson() {
    return this._name;
  }
  shellPrint() {
    print(this._name);
  }
  help() {
    printHelp("database");
  }

  runCommand(command, fields) {
    return runIn(this, typeof command === "string" ? { [command]: 1, ...fields } : { ...command, ...fields });
  }
  runReadCommand(command, fields) {
    return this.runCommand(command, fields);
  }
  adminCommand(command, fields) {
    return this.getSiblingDB("admin").runCommand(command, fields);
  }
  aggregate(pipeline, options) {
    if (!Array.isArray(pipeline)) throw new Error("aggregate() on a database needs an array of stages");
    return aggregateOn(this, 1, pipeline, options || {});
  }
  watch(pipeline, options) {
    return watchOn(this, 1, pipeline, options);
  }

  // ---- Collections

  getCollectionInfos(filter, nameOnly, authorizedCollections) {
    const command = { listCollections: 1, filter: typeof filter === "string" ? { name: filter } : filter || {} };
    if (nameOnly) command.nameOnly = true;
    if (authorizedCollections) command.authorizedCollections = true;
    const cursor = new DBCommandCursor(this, checkReply(this.runCommand(command), "listCollections failed"));
    return cursor.toArray().sort((a, b) => compareText(a.name, b.name));
  }
  getCollectionNames() {
    return this.getCollectionInfos({}, true).map((found) => found.name);
  }
  createCollection(name, options) {
    return this.runCommand({ create: name, ...withConcern(this, options) });
  }
  createView(name, source, pipeline, options) {
    return this.runCommand({ create: name, viewOn: source, pipeline: pipeline || [], ...options });
  }
  dropDatabase(writeConcern) {
    return this.runCommand({ dropDatabase: 1, ...withConcern(this, writeConcern && { writeConcern }) });
  }
  stats(options) {
    return this.runCommand({ dbStats: 1, ...(typeof options === "number" ? { scale: options } : options) });
  }
  loadServerScripts() {
    for (const { _id, value } of this.getCollection("system.js").find().toArray())
      globalThis[_id] = value instanceof CodeBody ? globalEval(`(${value.code})`) : value;
  }
  printCollectionStats(scale) {
    print("---");
    for (const name of this.getCollectionNames()) {
      print(name);
      printjson(this.getCollection(name).stats(scale));
      print("---");
    }
  }

  // ---- The server

  isMaster() {
    return this.runCommand("isMaster");
  }
  hello() {
    return this.runCommand("hello");
  }
  serverStatus(options) {
    return this.adminCommand({ serverStatus: 1, ...options });
  }
  serverBuildInfo() {
    return this.adminCommand("buildInfo");
  }
  version() {
    return this.serverBuildInfo().version;
  }
  serverBits() {
    return this.serverBuildInfo().bits;
  }
  serverCmdLineOpts() {
    return this.adminCommand("getCmdLineOpts");
  }
  hostInfo() {
    return this.adminCommand("hostInfo");
  }
  listCommands() {
    const { commands } = checkReply(this.runCommand("listCommands"), "listCommands failed");
    for (const name of Object.keys(commands).sort(compareText)) print(commandLines(name, commands[name]));
  }
  commandHelp(name) {
    const { commands } = checkReply(this.runCommand("listCommands"), "listCommands failed");
    if (commands[name] === undefined) throw new Error(`no such command: ${name}`);
    return commandLines(name, commands[name]);
  }
  currentOp(filter) {
    return this.adminCommand({ currentOp: 1, ...(typeof filter === "boolean" ? { $all: filter } : filter) });
  }
  currentOpCursor(filter) {
    const {
      $all: allUsers,
      $ownOps: ownOps,
      ...match
    } = typeof filter === "boolean" ? { $all: filter } : filter || {};
    const stage = { allUsers: !ownOps, idleConnections: Boolean(allUsers) };
    return this.getSiblingDB("admin").aggregate([{ $currentOp: stage }, { $match: match }]);
  }
  killOp(op) {
    if (op === undefined) throw new Error("no opNum to kill specified");
    return this.adminCommand({ killOp: 1, op });
  }
  shutdownServer(options) {
    try {
      return this.adminCommand({ shutdown: 1, ...options });
    } catch (failure) {
      if (!(failure instanceof NetworkFailure)) throw failure; // a closed connection is the answer hoped for
      print("server should be down...");
      return undefined;
    }
  }
  fsyncLock() {
    return this.adminCommand({ fsync: 1, lock: true });
  }
  fsyncUnlock() {
    return this.adminCommand({ fsyncUnlock: 1 });
  }
  getLastErrorObj(w, wtimeout) {
    return this.runCommand({
      getLastError: 1,
      ...(w === undefined ? {} : { w }),
      ...(wtimeout === undefined ? {} : { wtimeout }),
    });
  }
  getLastError(w, wtimeout) {
    return checkReply(this.getLastErrorObj(w, wtimeout), "getlasterror failed").err;
  }
  getLastErrorCmd(w, wtimeout) {
    return this.getLastErrorObj(w, wtimeout);
  }
  getPrevError() {
    return this.runCommand({ getPrevError: 1 });
  }
  resetError() {
    return this.runCommand({ resetError: 1 });
  }
  eval(code, ...args) {
    return checkReply(this.runCommand({ $eval: code, args }), "eval failed").retval;
  }
  getProfilingStatus() {
    return checkReply(this.runCommand({ profile: -1 }), "profile failed");
  }
  getProfilingLevel() {
    return this.getProfilingStatus().was;
  }
  setProfilingLevel(level, options) {
    if (!(level >= 0 && level <= 2)) throw new Error("input level " + level + " is not in range 0..2");
    return this.runCommand({ profile: level, ...(typeof options === "number" ? { slowms: options } : options) });
  }
  getLogComponents() {
    return this._mongo.getLogComponents();
  }
  setLogLevel(level, component) {
    return setLogLevel(this._mongo, level, component);
  }
  rotateCertificates(message) {
    return this.adminCommand({ rotateCertificates: 1, ...(message === undefined ? {} : { message }) });
  }

  // ---- Replica sets and shards

  setSecondaryOk(wanted) {
    this._mongo.setSecondaryOk(wanted);
  }
  setSlaveOk(wanted) {
    this._mongo.setSecondaryOk(wanted);
  }
  getSecondaryOk() {
    return this._mongo.getSecondaryOk();
  }
  getSlaveOk() {
    return this._mongo.getSecondaryOk();
  }
  getWriteConcern() {
    return this._writeConcern === undefined ? this._mongo.getWriteConcern() : this._writeConcern;
  }
  setWriteConcern(...parts) {
    hide(this, { _writeConcern: concernFrom(parts) });
  }
  unsetWriteConcern() {
    hide(this, { _writeConcern: undefined });
  }
  getReplicationInfo() {
    return replicationInfo(this);
  }
  printReplicationInfo() {
    printReplicationInfo(this);
  }
  printSecondaryReplicationInfo() {
    printSecondaryReplicationInfo(this);
  }
  printSlaveReplicationInfo() {
    printSecondaryReplicationInfo(this);
  }
  printShardingStatus(verbose) {
    printShardingStatus(this.getSiblingDB("config"), verbose);
  }
}

function explainOn(database, command, verbosity) {
  const level = verbosity === undefined ? "queryPlanner" : verbosity === true ? "allPlansExecution" : verbosity;
  return checkReply(database.runCommand({ explain: command, verbosity: level }), "explain failed");
}

function commandLines(name, about) {
  const marks = [];
  if (about.adminOnly) marks.push("adminOnly");
  if (about.secondaryOk || about.slaveOk) marks.push("secondaryOk");
  const text = String(about.help || "").trim();
  return `${name}: ${marks.map((mark) => mark + " ").join("")}${text ? "\n  " + text.replace(/\n/g, "\n  ") : ""}`;
}

// The verbosity of the whole log, or of one component named by its path.
function setLogLevel(mongo, level, component) {
  let verbosity = { verbosity: level };
  if (component !== undefined && component !== -1)
    for (const part of String(component).split(".").reverse()) verbosity = { [part]: verbosity };
  return mongo.adminCommand({ setParameter: 1, logComponentVerbosity: verbosity });
}
