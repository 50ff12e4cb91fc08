// The group command: documents folded one after the other into results, one for each distinct key.
//
// A result begins with the fields of its key and those of `initial`; `$reduce(document, result)` changes it. Keys are
// told apart as everywhere; fields that a document lacks are null in its key.

const MAX_GROUPS = 20000;
const grouping = { paths: [], keyFunction: undefined, initial: undefined, reduce: undefined, finalize: undefined };
const groupResults = [];
const groupsByKey = new Map();

function startGrouping({ key, keyFunction, initial, reduce, finalize, scopes }) {
  for (const scope of scopes) for (const name of Object.keys(scope)) setField(globalThis, name, scope[name]);
  if (keyFunction === undefined) grouping.paths = Object.keys(key).map((path) => [path, path.split(".")]);
  else grouping.keyFunction = compileFunction(keyFunction);
  grouping.initial = initial;
  grouping.reduce = compileFunction(reduce);
  if (finalize !== undefined) grouping.finalize = compileFunction(finalize);
}

function fieldAt(document, names) {
  let value = document;
  for (const name of names) {
    if (value === null || typeof value !== "object") return null;
    value = value[name];
  }
  return value === undefined ? null : value;
}

function groupKey(document) {
  if (grouping.keyFunction === undefined) {
    const key = {};
    for (const [path, names] of grouping.paths) setField(key, path, fieldAt(document, names));
    return key;
  }
  const key = grouping.keyFunction(document);
  if (key === null || typeof key !== "object") throw new Refusal(10042, "return of $key has to be an object");
  return key;
}

function groupDocuments(limit) {
  while (at < limit) {
    const document = readDocument();
    const key = groupKey(document);
    const index = canonical(key);
    let result = groupsByKey.get(index);
    if (result === undefined) {
      if (groupResults.length === MAX_GROUPS) {
        throw new Refusal(10043, `group() can't handle more than ${MAX_GROUPS} unique keys`);
      }
      result = copyOf(key, 1);
      const initial = copyOf(grouping.initial, 1);
      for (const name of Object.keys(initial)) setField(result, name, initial[name]);
      groupsByKey.set(index, result);
      groupResults.push(result);
    }
    grouping.reduce.call({}, document, result);
  }
}

// A finalize function that returns something puts it in the place of the result.
function writeGroups() {
  for (const result of groupResults) {
    const finished = grouping.finalize === undefined ? undefined : grouping.finalize.call({}, result);
    const start = end;
    reserve(5);
    end += 4;
    writeField("v", finished === undefined ? result : finished, false, 1);
    finish(start);
  }
}
