// Databases: the global `db` and what `db.getSiblingDB(...)` gives.

const COLLECTIONS = {
  get(target, name, receiver) {
    if (typeof name !== "string" || Reflect.has(target, name)) return Reflect.get(target, name, receiver);
    return target.getCollection(name);
  },
};

function databaseNamed(mongo, name) {
  return new DB(mongo, name);
}

class DB {
  constructor(mongo, name) {
    if (typeof name !== "string" || name === "" || /[\s./\\$"\0]/.test(name))
      throw new Error(`[${name}] is not a valid database name`);
    hide(this, { _mongo: mongo, _name: name });
    return new Proxy(this, COLLECTIONS);
  }
  getName() {
    return this._name;
  }
  getMongo() {
    return this._mongo;
  }
  getSiblingDB(name) {
    return this._mongo.getDB(name);
  }
  getSisterDB(name) {
    return this.getSiblingDB(name);
  }
  getCollection(name) {
    return new DBCollection(this, name);
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
    const body = typeof command === "string" ? { [command]: 1, ...fields } : command;
    return this._mongo.run(this._name, body);
  }
  runReadCommand(command, fields) {
    return this.runCommand(command, fields);
  }
  adminCommand(command, fields) {
    return this.getSiblingDB("admin").runCommand(command, fields);
  }
  aggregate(pipeline, options) {
    const reply = this.runCommand({ aggregate: 1, pipeline, cursor: {}, ...options });
    return new DBCommandCursor(this, checkReply(reply, "aggregate failed"));
  }
  watch(pipeline, options) {
    return this.aggregate([{ $changeStream: options || {} }, ...(pipeline || [])]);
  }

  // ---- Collections

  getCollectionInfos(filter, nameOnly) {
    const command = { listCollections: 1, filter: filter || {} };
    if (nameOnly) command.nameOnly = true;
    const cursor = new DBCommandCursor(this, checkReply(this.runCommand(command), "listCollections failed"));
    return cursor.toArray().sort((a, b) => compareText(a.name, b.name));
  }
  getCollectionNames() {
    return this.getCollectionInfos({}, true).map((found) => found.name);
  }
  createCollection(name, options) {
    return this.runCommand({ create: name, ...options });
  }
  createView(name, source, pipeline, options) {
    return this.runCommand({ create: name, viewOn: source, pipeline: pipeline || [], ...options });
  }
  dropDatabase(writeConcern) {
    return this.runCommand({ dropDatabase: 1, ...(writeConcern === undefined ? {} : { writeConcern }) });
  }
  stats(options) {
    return this.runCommand({ dbStats: 1, ...(typeof options === "number" ? { scale: options } : options) });
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
  serverCmdLineOpts() {
    return this.adminCommand("getCmdLineOpts");
  }
  hostInfo() {
    return this.adminCommand("hostInfo");
  }
  listCommands() {
    const { commands } = checkReply(this.runCommand("listCommands"), "listCommands failed");
    for (const [name, about] of Object.entries(commands)) print(`${name}: ${about.help || ""}`);
  }
  commandHelp(name) {
    const { commands } = checkReply(this.runCommand("listCommands"), "listCommands failed");
    return commands[name] === undefined ? `no such command: ${name}` : commands[name].help;
  }
  currentOp(filter) {
    const command = { currentOp: 1, ...(typeof filter === "boolean" ? { $all: filter } : filter) };
    return this.adminCommand(command);
  }
  killOp(op) {
    return this.adminCommand({ killOp: 1, op });
  }
  shutdownServer(options) {
    try {
      return this.adminCommand({ shutdown: 1, ...options });
    } catch (failure) {
      if (!(failure instanceof NetworkFailure)) throw failure; // a closed connection is the answer hoped for
      print("the server has closed the connection");
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
    return this.getLastErrorObj(w, wtimeout).err;
  }
  getProfilingStatus() {
    return checkReply(this.runCommand({ profile: -1 }), "profile failed");
  }
  getProfilingLevel() {
    return this.getProfilingStatus().was;
  }
  setProfilingLevel(level, options) {
    return this.runCommand({ profile: level, ...(typeof options === "number" ? { slowms: options } : options) });
  }
  setLogLevel(verbosity) {
    return this.adminCommand({ setParameter: 1, logLevel: verbosity });
  }

  // ---- Replica sets and shards

  setSecondaryOk(wanted) {
    this._mongo.setSecondaryOk(wanted);
  }
  setSlaveOk(wanted) {
    this._mongo.setSecondaryOk(wanted);
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

  // ---- Users and roles

  createUser(user, writeConcern) {
    return userCommand(this, "createUser", user, writeConcern);
  }
  updateUser(name, change, writeConcern) {
    return userCommand(this, "updateUser", { user: name, ...change }, writeConcern);
  }
  changeUserPassword(name, password) {
    return this.updateUser(name, { pwd: password });
  }
  dropUser(name) {
    const reply = this.runCommand({ dropUser: name });
    if (!reply.ok && reply.code === 11) return false;
    checkReply(reply, "dropUser failed");
    return true;
  }
  removeUser(name) {
    return this.dropUser(name);
  }
  dropAllUsers() {
    return checkReply(this.runCommand({ dropAllUsersFromDatabase: 1 }), "dropAllUsers failed").n;
  }
  getUser(name, options) {
    const { users } = checkReply(this.runCommand({ usersInfo: name, ...options }), "usersInfo failed");
    return users.length ? users[0] : null;
  }
  getUsers(options) {
    return checkReply(this.runCommand({ usersInfo: 1, ...options }), "usersInfo failed").users;
  }
  grantRolesToUser(name, roles) {
    checkReply(this.runCommand({ grantRolesToUser: name, roles }), "grantRolesToUser failed");
  }
  revokeRolesFromUser(name, roles) {
    checkReply(this.runCommand({ revokeRolesFromUser: name, roles }), "revokeRolesFromUser failed");
  }
  createRole({ role, ...rest }) {
    return checkReply(this.runCommand({ createRole: role, ...rest }), "createRole failed");
  }
  dropRole(name) {
    return Boolean(this.runCommand({ dropRole: name }).ok);
  }
  getRoles(options) {
    return checkReply(this.runCommand({ rolesInfo: 1, ...options }), "rolesInfo failed").roles;
  }
}

function explainOn(database, command, verbosity) {
  const level = verbosity === undefined ? "queryPlanner" : verbosity === true ? "allPlansExecution" : verbosity;
  return checkReply(database.runCommand({ explain: command, verbosity: level }), "explain failed");
}

function userCommand(database, name, { user, ...rest }, writeConcern) {
  const reply = database.runCommand({
    [name]: user,
    ...rest,
    ...(writeConcern === undefined ? {} : { writeConcern }),
  });
  if (!reply.ok) throw commandFailure(`${name} failed`, reply);
  print(`Successfully ${name === "createUser" ? "added" : "updated"} user: ${tojson(user)}`);
}

// ---- `show ...` and `use ...`

function useDatabase(name) {
  globalThis.db = globalThis.db === undefined ? new Mongo().getDB(name) : globalThis.db.getSiblingDB(name);
  print("switched to db " + globalThis.db.getName());
}

function showDatabases() {
  const { databases } = checkReply(globalThis.db.adminCommand({ listDatabases: 1 }), "listDatabases failed");
  const width = Math.max(0, ...databases.map((found) => found.name.length));
  databases.sort((a, b) => compareText(a.name, b.name));
  for (const { name, sizeOnDisk } of databases) {
    print(
      `${name.padEnd(width)}  ${sizeOnDisk === undefined ? "" : (Number(sizeOnDisk) / 2 ** 30).toFixed(3) + "GB"}`,
    );
  }
}

function showProfile() {
  const recent = globalThis.db
    .getCollection("system.profile")
    .find({ millis: { $gt: 0 } })
    .sort({ $natural: -1 })
    .limit(5);
  if (!recent.hasNext()) print("nothing has been profiled; db.setProfilingLevel(2) records every operation");
  recent.forEach((entry) => print(`${entry.op}\t${entry.ns} ${entry.millis}ms ${entry.ts}`));
}

function showLog(name) {
  const reply = globalThis.db.adminCommand({ getLog: name || "global" });
  if (!reply.ok) print("cannot show the log: " + reply.errmsg);
  else reply.log.forEach((line) => print(line));
}

const SHOW = {
  dbs: showDatabases,
  databases: showDatabases,
  collections() {
    globalThis.db.getCollectionNames().forEach((name) => print(name));
  },
  tables() {
    SHOW.collections();
  },
  users() {
    globalThis.db.getUsers().forEach((user) => printjson(user));
  },
  roles() {
    globalThis.db.getRoles({ showBuiltinRoles: true }).forEach((role) => printjson(role));
  },
  profile: showProfile,
  logs() {
    checkReply(globalThis.db.adminCommand({ getLog: "*" }), "getLog failed").names.forEach((name) => print(name));
  },
  log: showLog,
};

function showThing(what, parameter) {
  if (!Object.hasOwn(SHOW, what)) throw new Error(`don't know how to show [${what}]`);
  SHOW[what](parameter);
}
