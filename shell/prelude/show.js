// The commands that are no JavaScript: `show ...` and `use ...`.

function useDatabase(name) {
  if (name === undefined) {
    print("use what? use <db_name> sets the current database; show dbs lists those there are");
    return;
  }
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
  recent.forEach((entry) => {
    print(`${entry.op}\t${entry.ns} ${entry.millis}ms ${dateText(entry.ts)}`);
    for (const name of ["command", "query", "updateobj", "planSummary", "keysExamined", "docsExamined", "nreturned"])
      if (entry[name] !== undefined) print(`${name}:${tojson(entry[name], "", true)}`);
    print("\n");
  });
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
  if (what === undefined) {
    print(`show what? ${Object.keys(SHOW).join(", ")}`);
    return;
  }
  if (!Object.hasOwn(SHOW, what)) throw new Error(`don't know how to show [${what}]`);
  SHOW[what](parameter);
}
