// Names for the tab key: globals, databases, collections, methods, and the fields of a collection's documents.

const PATH_AT_END = /(?:^|[^\w$.)\]'"])((?:[A-Za-z_$][\w$]*\.)*)([\w$]*)$/;
const COMMAND_AT_END = /^\s*(use|show|help)\s+([^\s]*)$/;
const FIELD_AT_END = /[{,[(]\s*["']?((?:\$?[\w$]+\.)*[\w$]*)$/;
const CALL_OF_COLLECTION = /\bdb\.([\w$.]+)\.[A-Za-z]\w*\s*\($/;
const SAMPLED_DOCUMENTS = 20;
const FIRST_WORDS = ["use", "show", "it", "exit"];

function completions(text) {
  return [...new Set([...commandWords(text), ...fieldsAt(text), ...pathsAt(text)])].sort().join("\n");
}

function commandWords(text) {
  const command = COMMAND_AT_END.exec(text);
  if (command === null) return /^\s*\w*$/.test(text) ? startingWith(FIRST_WORDS, text.trim()) : [];
  const [, name, start] = command;
  if (name === "show") return startingWith(Object.keys(SHOW), start);
  if (name === "help") return startingWith([...HELP.keys()], start);
  return globalThis.db === undefined ? [] : startingWith(globalThis.db.getMongo().getDBNames(), start);
}

function pathsAt(text) {
  const match = COMMAND_AT_END.test(text) ? null : PATH_AT_END.exec(" " + text);
  if (match === null) return [];
  let object = globalThis;
  for (const name of match[1].split(".")) {
    if (name === "") continue;
    object = object[name];
    if (object === undefined || object === null) return [];
  }
  const outer = object instanceof DB || object instanceof DBCollection ? collectionNames(object, match[2]) : [];
  return [...outer, ...startingWith(namesIn(Object(object)), match[2])];
}

// Collections under a database or a collection, up to the next dot beyond what is typed.
function collectionNames(object, start) {
  const database = object instanceof DB ? object : object.getDB();
  const prefix = object instanceof DB ? "" : object.getName() + ".";
  return database
    .getCollectionNames()
    .filter((name) => name.startsWith(prefix + start))
    .map((name) => name.slice(prefix.length).split(".")[0]);
}

function namesIn(object) {
  const names = new Set();
  for (let level = object; level !== null && level !== Object.prototype; level = Object.getPrototypeOf(level)) {
    Object.getOwnPropertyNames(level).forEach((name) => names.add(name));
  }
  return [...names].filter((name) => /^[A-Za-z$][\w$]*$/.test(name) && name !== "constructor");
}

// Inside the braces of a call on a collection: the fields that some of its documents have, with dots for inner ones.
function fieldsAt(text) {
  const field = FIELD_AT_END.exec(text);
  const call = field === null ? null : CALL_OF_COLLECTION.exec(text.slice(0, openCall(text)));
  if (call === null || !text.slice(openCall(text)).includes("{") || globalThis.db === undefined) return [];
  const typed = field[1];
  const last = typed.lastIndexOf(".") + 1;
  const names = new Set();
  const collection = globalThis.db.getCollection(call[1]);
  for (const document of collection.find().limit(SAMPLED_DOCUMENTS).maxTimeMS(500).toArray())
    addFields(names, document, "");
  return startingWith([...names], typed).map((name) => name.slice(last).split(".")[0]);
}

function addFields(names, document, prefix) {
  for (const [name, value] of Object.entries(document)) {
    names.add(prefix + name);
    const inner = Array.isArray(value) ? value[0] : value;
    if (inner !== null && typeof inner === "object" && Object.getPrototypeOf(inner) === Object.prototype)
      addFields(names, inner, `${prefix}${name}.`);
  }
}

// Where the outermost bracket that is still open ends what stands before it.
function openCall(text) {
  const open = [];
  for (let i = 0; i < text.length; i++) {
    if (text[i] === "(") open.push(i);
    else if (text[i] === ")") open.pop();
  }
  return open.length ? open[open.length - 1] + 1 : 0;
}

const startingWith = (names, start) => names.filter((name) => name.startsWith(start));
