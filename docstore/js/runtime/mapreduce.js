// The map-reduce driver: batches of raw documents in, grouped and reduced values out as raw `{_id, value}` documents.
//
// * Groups sit in one Map per class of key: strings, numbers that are doubles or BigInts, ObjectIds by their bytes, all
//   others by canonical text. Keys that compare equal share a group, whatever their type; the first one seen is kept.
// * A group is reduced when it has gathered REDUCE_AT values, so pending values stay bounded by the number of keys.
// * `weight` estimates the bytes held. Mapping pauses when it passes the bound, and the host spills: everything is
//   reduced, written in order of key as a run, and forgotten; runs are merged by `mergeBatch`, which needs them in
//   one stream sorted by key.
// * Values are copied on the way in and out of user functions, as if they had been through BSON.
// * User code is called with nothing of the runtime in reach; strict mode here keeps `caller` from leading back in.

const REDUCE_AT = 1000;
const DRAIN_BYTES = 1 << 20;
const GROUP_WEIGHT = 160;

class Group {
  constructor(key, value, valueWeight) {
    this.key = key;
    this.values = [value];
    this.weight = valueWeight;
  }
}

const job = { map: undefined, reduce: undefined, finalize: undefined };
let mapped = 0,
  emitted = 0,
  reduced = 0,
  written = 0;
let strings = new Map(),
  numbers = new Map(),
  ids = new Map(),
  others = new Map();
let weight = 0;

function emit(key, value) {
  if (arguments.length !== 2) throw new Refusal(31220, "emit takes 2 args");
  emitted++;
  let kept = value,
    valueWeight = 16;
  if (typeof value !== "number") {
    copiedWeight = 0;
    kept = copyOf(value, 1);
    valueWeight += copiedWeight;
  }
  if (typeof key === "string") {
    const index = keyText(key);
    const group = strings.get(index);
    if (group === undefined) {
      strings.set(index, new Group(key, kept, valueWeight));
      weight += GROUP_WEIGHT + 2 * key.length + valueWeight;
    } else {
      addToGroup(group, kept, valueWeight);
    }
    return;
  }
  const [groups, index] = groupIndex(key);
  const group = groups.get(index);
  if (group === undefined) {
    copiedWeight = 0;
    groups.set(index, new Group(copyOf(key ?? null, 1), kept, valueWeight));
    weight += GROUP_WEIGHT + 2 * copiedWeight + valueWeight;
  } else {
    addToGroup(group, kept, valueWeight);
  }
}

function addToGroup(group, value, valueWeight) {
  weight += valueWeight;
  group.weight += valueWeight;
  if (group.values.push(value) >= REDUCE_AT) reduceGroup(group);
}

// Which Map a key lives in, and under what.
function groupIndex(key) {
  if (typeof key === "number") return [numbers, key];
  if (key !== null && typeof key === "object") {
    const bracket = bracketOfObject(key);
    if (bracket === BRACKETS.id) return [ids, ObjectIdBody.raw(key)];
    if (bracket === BRACKETS.string) return [strings, keyText(String(key))];
    if (bracket === BRACKETS.number) {
      const scalar = plainNumber(key);
      if (typeof scalar !== "object") return [numbers, scalar];
    }
  }
  return [others, canonical(key)];
}

function reduceGroup(group) {
  reduced++;
  const values = group.values;
  if (integersKept) for (let i = 0; i < values.length; i++) values[i] = plainInteger(values[i]);
  group.values = [];
  const outcome = job.reduce.call({}, plainInteger(group.key), values);
  copiedWeight = 0;
  group.values.push(copyOf(outcome ?? null, 1));
  weight += copiedWeight - group.weight;
  group.weight = copiedWeight;
}

// User functions see an int32 as a number; only a value that no function touches again stays an int32.
function plainInteger(value) {
  return value instanceof NumberIntBody ? NumberIntBody.value(value) : value;
}

// ---- Input

// Map documents up to `limit`, or until the groups weigh more than `spillAt`; `at` tells how far it came.
function mapBatch(limit, spillAt) {
  const map = job.map,
    whole = wantedFields === undefined;
  while (at < limit && weight <= spillAt) {
    const document = whole ? readDocument() : readFields();
    mapped++;
    map.call(document);
  }
}

// ---- Output, in the order of keys

let queue; // groups in order, while draining
let drained = 0;
let finishing = true; // whether finalize is to run
let counting = true; // false while writing a run that will be merged later

const SURROGATE = /[\ud800-\udfff]/;

function orderedText() {
  const keys = [...strings.keys()];
  if (keys.some((key) => SURROGATE.test(key))) keys.sort(compareText);
  else keys.sort(); // by UTF-16 unit, which then is by code point
  return keys.map((key) => strings.get(key));
}

function orderedBy(groups, compare) {
  return [...groups.entries()].sort((a, b) => compare(a[0], b[0])).map((entry) => entry[1]);
}

function orderedGroups() {
  comparesFolded = foldedText.fold !== undefined;
  try {
    return inOrder();
  } finally {
    comparesFolded = false;
  }
}

function inOrder() {
  const text = orderedText();
  const numeric = orderedBy(numbers, compareScalars);
  const identified = orderedBy(ids, byOperator);
  const rest = [...others.values()].sort((a, b) => compareValues(a.key, b.key));
  if (rest.length === 0) return numeric.concat(text, identified);
  const within = (low, high) => rest.filter((group) => bracketOf(group.key) > low && bracketOf(group.key) < high);
  const odd = rest.filter((group) => bracketOf(group.key) === BRACKETS.number);
  const allNumbers = odd.length === 0 ? numeric : numeric.concat(odd).sort((a, b) => compareValues(a.key, b.key));
  return within(-Infinity, BRACKETS.number).concat(
    allNumbers,
    text,
    within(BRACKETS.string, BRACKETS.id),
    identified,
    within(BRACKETS.id, Infinity),
  );
}

function startDrain(final, last) {
  queue = orderedGroups();
  drained = 0;
  finishing = final;
  counting = last;
  strings = new Map();
  numbers = new Map();
  ids = new Map();
  others = new Map();
  weight = 0;
}

// Write results until about a megabyte has gathered; true when there are more.
function drain() {
  rewind();
  while (drained < queue.length && end < DRAIN_BYTES) {
    const group = queue[drained];
    queue[drained++] = undefined;
    if (group.values.length > 1) reduceGroup(group);
    writeResult(group.key, group.values[0]);
  }
  if (drained < queue.length) return true;
  queue = undefined;
  return false;
}

function writeResult(key, value) {
  if (counting) written++;
  if (finishing && job.finalize !== undefined) {
    value = copyOf(job.finalize.call({}, plainInteger(key), plainInteger(value)), 1);
  }
  reserve(5);
  const start = end;
  end += 4;
  writeField("_id", key, false, 1);
  writeField("value", value, false, 1);
  finish(start);
  if (end - start > MAX_DOCUMENT) {
    throw new Refusal(10334, `a result of map-reduce is ${end - start} bytes; the limit is ${MAX_DOCUMENT} bytes`);
  }
}

// ---- Merging runs: `{_id, value}` documents in one stream, sorted by `_id`

let pending; // the group being gathered
let pendingText;

function mergeBatch(limit) {
  rewind();
  while (at < limit) {
    const result = readDocument();
    const ints = result[INT32];
    const key = ints !== undefined && ints.has("_id") ? new NumberIntBody(result._id) : result._id;
    const value = ints !== undefined && ints.has("value") ? new NumberIntBody(result.value) : result.value;
    if (ints !== undefined) integersKept = true;
    const text = typeof key === "string" ? keyText(key) : canonical(key);
    const isText = typeof key === "string";
    if (pending !== undefined && pendingText === text && isText === (typeof pending.key === "string")) {
      addToGroup(pending, value, 0);
    } else {
      flushPending();
      pending = new Group(key, value, 0);
      pendingText = text;
    }
  }
}

function flushPending() {
  if (pending === undefined) return;
  if (pending.values.length > 1) reduceGroup(pending);
  writeResult(pending.key, pending.values[0]);
  pending = undefined;
}
