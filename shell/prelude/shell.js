// The shell's global names, and the entry points that Python calls.

function load(path) {
  const text = callHost("read", String(path));
  runScript(text, String(path));
  return true;
}

// Scripts run as scripts, so that their top-level declarations stay; V8 offers that only to Python, which cannot be
// asked while it waits for us. An indirect eval is the next best: `var` and functions stay, `let` and `const` end
// with the file.
function runScript(text, name) {
  globalEval(`${text.replace(/^#!.*/, "")}\n//# sourceURL=${name}`);
}

function quit(code) {
  callHost("quit", code === undefined ? 0 : Number(code));
  throw new Error("quit");
}

function completions(text) {
  const match = /(?:^|[^\w$.)\]'"])((?:[A-Za-z_$][\w$]*\.)*)([\w$]*)$/.exec(" " + text);
  if (match === null) return "";
  const path = match[1].split(".").filter((part) => part !== "");
  let object = globalThis;
  for (const name of path) {
    object = object[name];
    if (object === undefined || object === null) return "";
  }
  return namesIn(Object(object))
    .filter((name) => name.startsWith(match[2]))
    .join("\n");
}

function namesIn(object) {
  const names = new Set();
  if (object instanceof DB) object.getCollectionNames().forEach((name) => names.add(name));
  for (let level = object; level !== null && level !== Object.prototype; level = Object.getPrototypeOf(level)) {
    Object.getOwnPropertyNames(level).forEach((name) => names.add(name));
  }
  return [...names].filter((name) => /^[A-Za-z$][\w$.]*$/.test(name) && name !== "constructor").sort();
}

// What stands before the `> `: nothing for a lone server, the kind for a router, name and state for a member.
function promptText() {
  const { db } = globalThis;
  if (db === undefined) return "> ";
  let hello;
  try {
    hello = db.getMongo().isMaster();
  } catch (failure) {
    return "> ";
  }
  if (hello.msg === "isdbgrid") return "mongos> ";
  if (hello.setName === undefined) return "> ";
  return `${hello.setName}:${memberState(db, hello)}> `;
}

function memberState(db, hello) {
  if (hello.ismaster) return "PRIMARY";
  if (hello.secondary) return "SECONDARY";
  if (hello.arbiterOnly) return "ARBITER";
  const status = db.adminCommand({ replSetGetStatus: 1 });
  const [self] = (status.members || []).filter((member) => member.self);
  return self === undefined ? "OTHER" : self.stateStr;
}

const MAGIC = {
  use: useDatabase,
  show: showThing,
  it: nextPage,
  help: (topic) =>
    topic === undefined ? printHelp("shell") : printHelp(Object.hasOwn(HELP, topic) ? topic : "shell"),
};

installGlobals({
  print,
  printjson,
  printjsononeline,
  load,
  quit,
  exit: quit,
  connect,
  Mongo,
  DB,
  DBCollection,
  DBQuery,
  DBCommandCursor,
  Bulk,
  WriteResult,
  BulkWriteResult,
  WriteError,
  WriteConcernError,
  BulkWriteError,
  WriteCommandError,
  MongoServerError,
  rs,
  sh,
  help,
  db: undefined,
  sleep: (milliseconds) => callHost("sleep", Number(milliseconds)),
  version: () => callHost("version"),
  cat: (path) => callHost("read", String(path)),
  pwd: () => callHost("pwd"),
  cd: (path) => callHost("cd", String(path)),
  ls: (path) => callHost("ls", path === undefined ? "." : String(path)),
  hostname: () => callHost("hostname"),
  getHostName: () => callHost("hostname"),
  gc: () => undefined,
  printShardingStatus: (config, verbose) =>
    printShardingStatus(config || globalThis.db.getSiblingDB("config"), verbose),
});
for (const name of ["Atomics", "SharedArrayBuffer", "WebAssembly", "console"]) delete globalThis[name];

// They are called without arguments; what they need they ask for with `argument`.
return {
  control: () => control.buffer,
  input: () => bytes.buffer,
  output: () => output.buffer,
  setHost: (callback) => {
    host = callback;
  },
  show,
  promptText,
  connect: () => {
    globalThis.db = new Mongo().getDB(callHost("database"));
  },
  completions: () => completions(callHost("argument")),
  magic: () => {
    const [name, ...rest] = callHost("argument");
    MAGIC[name](...rest);
  },
};
