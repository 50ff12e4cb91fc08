// The shell in the page: the same JavaScript as the shell's own, in a worker, whose one way out is a command sent to the
// server, which the worker waits for. A worker sees no page and no other origin; what is typed is run here alone.
//
// From the page: first the {headers} of requests, then {text} to be run, or {complete} a text. To the page: {write, kind}, {prompt} when the next may come,
// {unfinished} for a text that goes on, {completions}, {ended}.

// Nothing of this is a global name of what is typed.
(() => {

const COMMAND = 1, ANSWERED = 0, FAILED = 1;
const [OPERATION, LENGTH, , , STATUS, SERVER] = [0, 1, 2, 3, 4, 5];
const COMMANDS = /^\s*(use|show|it|help|exit|quit)(?:\s+([^\s;]+))?(?:\s+([^\s;]+))?\s*;?\s*$/;
const WORDS = { use: [0, 1], show: [0, 2], it: [0, 0], help: [0, 1], exit: [0, 0], quit: [0, 0] };
const UNFINISHED = /Unexpected end of input|missing \) after argument list|Unterminated template literal/;
const DECLARATION = /^\s*(?:let|const|class)\b/;
const wait = self.Atomics && self.SharedArrayBuffer ? { cell: new Int32Array(new SharedArrayBuffer(4)), atomics: self.Atomics } : null;
const encoder = new TextEncoder();
const decoder = new TextDecoder();
const post = self.postMessage.bind(self);
let headers = {};
let argument = null;
let ended = false;

// A little of BSON: the calls of the shell's JavaScript have texts, numbers and lists of them.

function read(view, at) {
  const end = at + view.getInt32(at, true) - 1;
  const found = {};
  at += 4;
  while (at < end) {
    const kind = view.getUint8(at);
    const from = at + 1;
    at = from;
    while (view.getUint8(at)) at += 1;
    const name = decoder.decode(new Uint8Array(view.buffer, view.byteOffset + from, at - from));
    at += 1;
    let value = null;
    if (kind === 1) { value = view.getFloat64(at, true); at += 8; }
    else if (kind === 2) { const length = view.getInt32(at, true); value = decoder.decode(new Uint8Array(view.buffer, view.byteOffset + at + 4, length - 1)); at += 4 + length; }
    else if (kind === 3 || kind === 4) { value = read(view, at); if (kind === 4) value = Object.values(value); at += view.getInt32(at, true); }
    else if (kind === 8) { value = view.getUint8(at) === 1; at += 1; }
    else if (kind === 16) { value = view.getInt32(at, true); at += 4; }
    else if (kind === 18) { value = Number(view.getBigInt64(at, true)); at += 8; }
    else if (kind !== 10 && kind !== 6) throw new Error(`a value of the type ${kind}`);
    found[name] = value;
  }
  return found;
}

function number32(value) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setInt32(0, value, true);
  return [...bytes];
}

function element(name, value) {
  const head = (kind) => [kind, ...encoder.encode(name), 0];
  if (typeof value === "string") { const bytes = encoder.encode(value); return [...head(2), ...number32(bytes.length + 1), ...bytes, 0]; }
  if (typeof value === "boolean") return [...head(8), value ? 1 : 0];
  if (typeof value === "number") return [...head(16), ...number32(value)];
  if (value === null || value === undefined) return head(10);
  return [...head(Array.isArray(value) ? 4 : 3), ...written(value)];
}

function written(value) {
  const body = Object.entries(value).flatMap(([name, each]) => element(name, each));
  return [...number32(body.length + 5), ...body, 0];
}

function sleep(milliseconds) {
  if (wait) { wait.atomics.wait(wait.cell, 0, 0, milliseconds); return; }
  for (const until = Date.now() + milliseconds; Date.now() < until;);
}

const CALLS = {
  write: (text) => { post({ write: text }); },
  writeResult: (text) => { post({ write: text, kind: "result" }); },
  progress: (what, done, total) => { post({ progress: what && (total ? `${what}: ${Math.floor((100 * done) / total)} %` : `${what}: ${done}`) }); },
  quit: () => { ended = true; },
  argument: () => argument,
  sleep,
  version: () => VERSION,
  hostname: () => self.location.hostname,
  interactive: () => true,
  host: () => self.location.host,
  defaults: () => ({}),
  database: () => "test",
};

function called(request) {
  const { name, values } = read(request, 0);
  if (!Object.hasOwn(CALLS, name)) throw new Error(`the shell in the page has no ${name}: it reaches this server alone, and no files`);
  return written({ value: CALLS[name](...values) });
}

function commanded(request) {
  const asked = new XMLHttpRequest();
  asked.open("POST", "../../api/bson", false);
  for (const [name, value] of Object.entries(headers)) asked.setRequestHeader(name, value);
  asked.responseType = "arraybuffer";
  asked.send(request);
  if (asked.status === 200) return new Uint8Array(asked.response);
  const told = asked.status === 401 ? "log in first" : JSON.parse(decoder.decode(asked.response)).error;
  throw new Error(told);
}

function host(control, input, output) {
  const request = output.slice(0, control[LENGTH]);
  let answer;
  control[STATUS] = ANSWERED;
  try {
    answer = control[OPERATION] === COMMAND ? commanded(request) : called(new DataView(request.buffer));
    if (answer.length > input.length) throw new Error("the answer is too long");
  } catch (failure) {
    control[STATUS] = FAILED;
    answer = written({ message: failure.message });
  }
  control[SERVER] = 1;
  input.set(answer);
}

importScripts("shell_runtime.js");
const { VERSION, shell } = self.shellEntry;
delete self.shellEntry;
{
  const control = new Float64Array(shell.control());
  const input = new Uint8Array(shell.input());
  const output = new Uint8Array(shell.output());
  shell.setHost(() => host(control, input, output));
}

/** The value of a script of the one global scope: what is declared stays. */
function evaluated(text) {
  if (!DECLARATION.test(text)) return (0, eval)(text);
  const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  // What is wrong with a script that was loaded is not said in full: it is looked at first.
  new Function(text);
  try {
    importScripts(url);
  } catch (failure) {
    throw new failure.constructor(failure.message.replace(/^Failed to execute 'importScripts'[^:]*: /, ""));
  } finally {
    URL.revokeObjectURL(url);
  }
  return undefined;
}

/** The words of what is no JavaScript, or null. */
function command(text) {
  const found = COMMANDS.exec(text);
  if (!found) return null;
  const words = found.slice(2).filter((word) => word !== undefined);
  const [least, most] = WORDS[found[1]];
  if ((words.length && "=.([,".includes(words[0][0])) || words.length < least || words.length > most) return null;
  return [found[1], ...words];
}

function run(text) {
  const words = command(text);
  try {
    if (words === null) shell.show(evaluated(text));
    else if (words[0] === "exit" || words[0] === "quit") ended = true;
    else { argument = words; shell.magic(); }
  } catch (failure) {
    if (failure instanceof SyntaxError && UNFINISHED.test(failure.message) && !ended) { post({ unfinished: true }); return; }
    if (!ended) post({ write: `uncaught exception: ${failure}\n`, kind: "problem" });
  }
  if (ended) post({ ended: true });
  else post({ prompt: shell.promptText() });
}

function begin() {
  try {
    shell.connect();
    post({ prompt: shell.promptText() });
  } catch (failure) {
    post({ write: `${failure}\n`, kind: "problem" });
  }
}

self.onmessage = ({ data }) => {
  if (data.headers) { headers = data.headers; begin(); }
  else if (data.complete === undefined) run(data.text);
  else { argument = data.complete; post({ completions: shell.completions().split("\n").filter((each) => each) }); }
};

})();
