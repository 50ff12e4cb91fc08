// Functions of filters and expressions, called for one batch of documents after the other.
//
// A batch begins with a document that says which function is meant and how it is called (docstore/js/evaluation.py);
// a function's source comes with its first batch. What a call throws is its record in the answer and stops nothing.

const TEST = 0,
  CALL = 1,
  FOLD = 2,
  GROUP = 3,
  GROUP_DOCUMENTS = 4,
  GROUP_END = 5;
const NAMES_DOCUMENT = /(?<![\w$])obj(?![\w$])/;

const known = []; // by number: {run, failure}
const apply = Reflect.apply;

function learn(source, way) {
  const learned = { run: undefined, failure: undefined, named: false };
  try {
    learned.run = way === TEST ? compileCondition(source) : compileFunction(source);
    learned.named = NAMES_DOCUMENT.test(source);
  } catch (thrown) {
    learned.failure = describeFailure(thrown);
  }
  return learned;
}

function evaluate(limit) {
  const definition = readDocument();
  const { way, function: number, source, stored } = definition;
  if (stored !== undefined) for (const name of Object.keys(stored)) setField(globalThis, name, stored[name]);
  rewind();
  if (way === GROUP) return startGrouping(definition);
  if (way === GROUP_DOCUMENTS) return groupDocuments(limit);
  if (way === GROUP_END) return writeGroups();
  undefinedType = 6; // inside of results it is kept
  if (source !== undefined) known[number] = learn(source, way);
  const learned = known[number];
  if (way === TEST) test(learned, limit);
  else if (way === CALL) while (at < limit) record(() => callWith(learned, readArguments()));
  else record(() => fold(learned, limit));
  return undefined;
}

function ready(learned) {
  if (learned.failure !== undefined) throw new Refusal(learned.failure[0], learned.failure[1]);
  return learned.run;
}

function test(learned, limit) {
  let count = 0;
  for (let position = at; position < limit; position += view.getInt32(position, true)) count++;
  reserve(count);
  const start = end;
  end += count;
  for (let i = 0; i < count; i++) {
    const document = readDocument();
    let verdict;
    try {
      const run = ready(learned);
      if (learned.named) globalThis.obj = document;
      verdict = apply(run, document, []) ? 1 : 0;
    } catch (thrown) {
      verdict = 2;
      writeFailure(thrown);
    }
    output[start + i] = verdict;
  }
}

function record(compute) {
  const start = end;
  try {
    const value = compute();
    reserve(5);
    end += 4;
    writeField("v", value === undefined ? null : value, false, 1);
    finish(start);
  } catch (thrown) {
    end = start;
    writeFailure(thrown);
  }
}

function writeFailure(thrown) {
  const [code, message] = describeFailure(thrown);
  writeDocument({ code, message: textOf(message) });
}

// The elements of an array that stands as a document; int32 are plain numbers, as everywhere.
function readArguments() {
  const given = readDocument();
  const list = Object.keys(given).map((name) => given[name]);
  for (const value of list) if (Array.isArray(value)) forgetIntegers(value);
  return list;
}

// An argument that is an array holds plain numbers, unlike one that is a document.
function forgetIntegers(array) {
  delete array[INT32];
  for (const value of array) if (Array.isArray(value)) forgetIntegers(value);
}

function callWith(learned, values) {
  return apply(ready(learned), {}, values);
}

// `$accumulator` functions are called without a receiver: `this` is the global object, which calls share.
function fold(learned, limit) {
  let state = readDocument().v;
  const run = ready(learned);
  while (at < limit) state = apply(run, undefined, [state, ...readArguments()]);
  return state;
}
