// The shell's global names, and the entry points that Python calls.

function quit(code) {
  callHost("quit", code === undefined ? 0 : Number(code));
  throw new Error("quit");
}

// The user's own prompt where there is one: a text, or a function that gives one.
function promptText() {
  showing = false;
  const own = globalThis.prompt;
  if (typeof own === "string" || own instanceof String) return String(own);
  if (typeof own !== "function") return usualPrompt();
  try {
    return String(own());
  } catch (failure) {
    print(`prompt() failed: ${failure}`);
    return usualPrompt();
  }
}

// What stands before the `> `: nothing for a lone server, the kind for a router, name and state for a member.
function usualPrompt() {
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
  help,
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
  DBExplainQuery: Explainable,
  DriverSession,
  SessionOptions,
  WriteConcern,
  Bulk,
  WriteResult,
  BulkWriteResult,
  WriteError,
  WriteConcernError,
  BulkWriteError,
  WriteCommandError,
  MongoServerError,
  PlanCache,
  Random,
  rs,
  sh,
  help,
  sortDoc,
  passwordPrompt,
  setVerboseShell,
  ...FILES,
  db: undefined,
  sleep: (milliseconds) => callHost("sleep", Number(milliseconds)),
  version: () => callHost("version"),
  hostname: () => callHost("hostname"),
  getHostName: () => callHost("hostname"),
  gc: () => undefined,
  isInteractive: () => callHost("interactive"),
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
