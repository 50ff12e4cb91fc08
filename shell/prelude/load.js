// Running a file's text from within a script.
//
// V8 runs scripts, whose top-level `let`, `const` and `class` stay, only for Python, which cannot be asked while it
// waits for us; an indirect eval ends them with the file. So functions that reach each such name are handed out at the
// end of the text, and become properties of the global object.

const WORD = /[A-Za-z_$][\w$]*/g;
const DECLARES = /\b(?:let|const|class)\b/;
const RESERVED = new Set(
  (
    "arguments await break case catch class const continue debugger default delete do else enum eval export extends " +
    "false finally for function if implements import in instanceof interface let new null package private protected " +
    "public return static super switch this throw true try typeof undefined var void while with yield"
  ).split(" "),
);
const HANDOVER = "__declarations";

// [get, set] functions for each word of the text that could be a declared name.
function handover(text) {
  const words = [...new Set(text.match(WORD))].filter((word) => !RESERVED.has(word));
  const pairs = words.map((word) => `${word}:[()=>${word},(_)=>{${word}=_}]`);
  return `;globalThis.${HANDOVER}={${pairs.join()}};undefined`;
}

// Whether a word is a name of the text's own: then it does not follow what stands under it in the global object.
function isOwn(name, get) {
  const known = Object.getOwnPropertyDescriptor(globalThis, name);
  if (known !== undefined && !known.configurable && !known.writable) return false;
  const probe = {};
  const read = () => {
    try {
      return get();
    } catch (failure) {
      return undefined; // a name that is not there, or that is declared further down
    }
  };
  if (known !== undefined && !known.configurable) {
    const { value } = known;
    globalThis[name] = probe;
    try {
      return read() !== probe;
    } finally {
      globalThis[name] = value;
    }
  }
  Object.defineProperty(globalThis, name, { value: probe, configurable: true, enumerable: false });
  try {
    return read() !== probe;
  } finally {
    if (known === undefined) delete globalThis[name];
    else Object.defineProperty(globalThis, name, known);
  }
}

function runText(text, name) {
  const source = text.replace(/^#!.*/, "");
  const hands = DECLARES.test(source);
  globalEval(`${source}\n${hands ? handover(source) : ""}\n//# sourceURL=${name}`);
  if (!hands) return;
  const declared = globalThis[HANDOVER];
  delete globalThis[HANDOVER];
  for (const [word, [get, set]] of Object.entries(declared)) {
    if (!isOwn(word, get)) continue;
    const known = Object.getOwnPropertyDescriptor(globalThis, word);
    if (known === undefined || known.configurable)
      Object.defineProperty(globalThis, word, { get, set, configurable: true, enumerable: true });
    else globalThis[word] = get();
  }
}

function load(path) {
  let text;
  try {
    text = callHost("read", String(path));
  } catch (failure) {
    throw new Error(`error loading js file: ${failure.message}`);
  }
  runText(text, String(path));
  return true;
}
