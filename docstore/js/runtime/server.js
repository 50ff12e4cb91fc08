// The server's end of an isolate: one entry point, called without arguments, that Python drives through shared numbers.
//
// `control` holds the operation and its arguments going in and the outcome coming out; the order of its slots is
// repeated in docstore/js/session.py. A call returns undefined when it succeeded, otherwise the failure as JSON text
// `[code, message]`. Users' functions never see this entry point: it has no name in the global object and is strict.

const START = 0,
  MAP = 1,
  DRAIN_RUN = 2,
  DRAIN_FINAL = 3,
  DRAIN_MORE = 4,
  MERGE = 5,
  MERGE_END = 6,
  MERGE_START = 7,
  EVALUATE = 8;
const OPERATION = 0,
  POSITION = 1,
  LIMIT = 2,
  FINAL = 3,
  SPILL_AT = 4,
  MORE = 5,
  OUTPUT_LENGTH = 6,
  COUNTS = 7;

const FOLDED_LENGTH = 12;

const control = new Float64Array(16);
const toJsonText = JSON.stringify;
const wait = Atomics.wait;
const never = new Int32Array(new SharedArrayBuffer(4));
let printed = "";

function print(...values) {
  const line = values.map((value) => (typeof value === "string" ? value : tojson(value))).join(" ");
  if (printed.length < 65536) printed += line + "\n";
}

function start() {
  hide(globalThis, { emit });
  const definition = readDocument();
  for (const scope of definition.scopes)
    for (const name of Object.keys(scope)) setField(globalThis, name, scope[name]);
  if (definition.fields !== undefined) wantOnly(new Set(definition.fields));
  job.map = compileFunction(definition.map);
  job.reduce = compileFunction(definition.reduce);
  if (definition.finalize !== undefined) job.finalize = compileFunction(definition.finalize);
  finishing = definition.final;
}

function perform(operation, limit) {
  at = control[POSITION];
  switch (operation) {
    case START:
      return start();
    case MAP:
      mapBatch(limit, control[SPILL_AT]);
      control[POSITION] = at;
      return undefined;
    case DRAIN_RUN:
      return startDrain(false, false);
    case DRAIN_FINAL:
      return startDrain(control[FINAL] === 1, true);
    case DRAIN_MORE:
      control[MORE] = drain() ? 1 : 0;
      return undefined;
    case MERGE_START:
      finishing = control[FINAL] === 1;
      counting = true;
      return undefined;
    case EVALUATE:
      return evaluate(limit);
    case MERGE:
      return mergeBatch(limit);
    case MERGE_END:
      rewind();
      return flushPending();
    default:
      throw new Error(`no operation ${operation}`);
  }
}

function step() {
  let failure;
  try {
    perform(control[OPERATION], control[LIMIT]);
  } catch (thrown) {
    failure = toJsonText(describeFailure(thrown));
  }
  control[OUTPUT_LENGTH] = end;
  control[COUNTS] = mapped;
  control[COUNTS + 1] = emitted;
  control[COUNTS + 2] = reduced;
  control[COUNTS + 3] = written;
  return failure;
}

// Sort keys of strings under a collation: a text goes into `place`, the host puts its key there instead.

function foldPlace() {
  foldedText.place = new Uint8Array(2 * INPUT_BYTES);
  return foldedText.place.buffer;
}

function foldWith(host) {
  foldedText.fold = (text) => {
    const start = end;
    reserve(3 * text.length);
    writeUtf8(text);
    foldedText.place.set(output.subarray(start, end));
    control[FOLDED_LENGTH] = end - start;
    end = start;
    host();
    const length = control[FOLDED_LENGTH];
    if (length < 0) throw new Refusal(17280, "a key is too long for its collation");
    let key = "";
    for (let i = 0; i < length; i++) key += character(foldedText.place[i]);
    return key;
  };
}

function takePrinted() {
  const text = printed;
  printed = "";
  return text;
}

installGlobals({
  print,
  printjson: (value) => print(tojson(value)),
  printjsononeline: (value) => print(tojsononeline(value)),
  sleep(milliseconds) {
    if (typeof milliseconds !== "number") {
      throw new Refusal(16259, "sleep takes a single numeric argument -- sleep(milliseconds)");
    }
    wait(never, 0, 0, Number(milliseconds));
  },
  gc: () => undefined,
  version: () => "6.0.5",
});
for (const name of ["Atomics", "SharedArrayBuffer", "WebAssembly", "console"]) delete globalThis[name];
Object.defineProperty(Error, "prepareStackTrace", { value: undefined, writable: false, configurable: false });

return {
  control: () => control.buffer,
  input: () => bytes.buffer,
  output: () => output.buffer,
  takePrinted,
  step,
  foldPlace,
  foldWith,
};
