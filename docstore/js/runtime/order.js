// MongoDB's total order of values, and canonical text that is equal exactly for values that compare equal.
//
// The order is that of `docstore.bson.order.compare`: type brackets first (all numbers are one bracket), then the value.
// The two implementations are held together by a test, because sorted runs written here are merged there.

const BRACKETS = {
  number: 10,
  string: 15,
  object: 20,
  array: 25,
  binary: 30,
  id: 35,
  boolean: 40,
  date: 45,
  timestamp: 47,
  expression: 50,
  pointer: 55,
  code: 60,
  scopedCode: 65,
};

function bracketOf(value) {
  switch (typeof value) {
    case "number":
      return BRACKETS.number;
    case "string":
      return BRACKETS.string;
    case "boolean":
      return BRACKETS.boolean;
    case "undefined":
      return 5; // leaves as null
    case "function": {
      if (value === MinKey) return -1;
      if (value === MaxKey) return 127;
      const stored = storedCode.get(value);
      return stored !== undefined && stored.scopeBytes !== undefined ? BRACKETS.scopedCode : BRACKETS.code;
    }
    default:
      return value === null ? 5 : bracketOfObject(value);
  }
}

function bracketOfObject(value) {
  const bracket = OBJECT_BRACKETS.get(Object.getPrototypeOf(value));
  if (bracket !== undefined) return bracket;
  if (Array.isArray(value)) return BRACKETS.array;
  if (value instanceof CodeBody) return value.scope === undefined ? BRACKETS.code : BRACKETS.scopedCode;
  return BRACKETS.object;
}

const OBJECT_BRACKETS = new Map([
  [Object.prototype, BRACKETS.object],
  [ObjectIdBody.prototype, BRACKETS.id],
  [NumberLongBody.prototype, BRACKETS.number],
  [NumberIntBody.prototype, BRACKETS.number],
  [NumberDecimalBody.prototype, BRACKETS.number],
  [Number.prototype, BRACKETS.number],
  [String.prototype, BRACKETS.string],
  [Boolean.prototype, BRACKETS.boolean],
  [BinDataBody.prototype, BRACKETS.binary],
  [Date.prototype, BRACKETS.date],
  [TimestampBody.prototype, BRACKETS.timestamp],
  [RegExp.prototype, BRACKETS.expression],
  [DBPointerBody.prototype, BRACKETS.pointer],
]);

// Under a collation, strings of keys are compared by their sort keys: Latin-1 strings that `fold` gives. Only the driver
// compares so; what user functions call compares by bytes.

const FOLDED_TEXTS = 100000;
const foldedText = { fold: undefined, place: undefined, known: new Map() };
let comparesFolded = false;

function keyText(text) {
  if (foldedText.fold === undefined) return text;
  let key = foldedText.known.get(text);
  if (key === undefined) {
    key = foldedText.fold(text);
    if (foldedText.known.size >= FOLDED_TEXTS) foldedText.known.clear();
    foldedText.known.set(text, key);
  }
  return key;
}

const byOperator = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// Strings compare by their UTF-8 bytes, which is by code point; UTF-16 differs from that only where there are
// surrogates.
function compareText(a, b) {
  if (a === b) return 0;
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i),
      right = b.charCodeAt(i);
    if (left !== right) return codePointRank(left) - codePointRank(right);
  }
  return a.length - b.length;
}

// Surrogates stand for points above all others.
function codePointRank(unit) {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit;
}

const sign = (number) => (number < 0 ? -1 : number > 0 ? 1 : 0);

function compareValues(a, b) {
  const left = bracketOf(a),
    right = bracketOf(b);
  if (left !== right) return byOperator(left, right);
  switch (left) {
    case BRACKETS.number:
      return compareScalars(plainNumber(a), plainNumber(b));
    case BRACKETS.string:
      if (comparesFolded) return sign(compareText(keyText(String(a)), keyText(String(b))));
      return sign(compareText(String(a), String(b)));
    case BRACKETS.object:
      return compareFields(a, b);
    case BRACKETS.array:
      return compareElements(a, b);
    case BRACKETS.binary:
      return compareBinaries(a, b);
    case BRACKETS.id:
      return byOperator(ObjectIdBody.raw(a), ObjectIdBody.raw(b));
    case BRACKETS.boolean:
      return byOperator(a.valueOf(), b.valueOf());
    case BRACKETS.date:
      return byOperator(dateMilliseconds(a), dateMilliseconds(b));
    case BRACKETS.timestamp:
      return byOperator(a.t, b.t) || byOperator(a.i, b.i);
    case BRACKETS.expression:
      return compareExpressions(expressionParts(a), expressionParts(b));
    case BRACKETS.pointer:
      return (
        byOperator(a.ns.length, b.ns.length) ||
        sign(compareText(a.ns, b.ns)) ||
        byOperator(ObjectIdBody.raw(a.id), ObjectIdBody.raw(b.id))
      );
    case BRACKETS.code:
      return sign(compareText(codeText(a), codeText(b)));
    case BRACKETS.scopedCode:
      return sign(compareText(codeText(a), codeText(b))) || byOperator(scopeText(a), scopeText(b));
    default:
      return 0;
  }
}

const compareExpressions = (a, b) => sign(compareText(a[0], b[0]) || compareText(a[1], b[1]));
const plainNumber = (value) =>
  typeof value === "number" ? value : value instanceof Number ? Number(value) : scalarOf(value);

function dateMilliseconds(date) {
  const milliseconds = date.getTime();
  return milliseconds === milliseconds ? milliseconds : date[RAW_DATE];
}

function codeText(value) {
  if (value instanceof CodeBody) return String(value.code);
  const stored = storedCode.get(value);
  return stored !== undefined ? stored.source : Function.prototype.toString.call(value);
}

function scopeText(value) {
  if (value instanceof CodeBody) return canonical(value.scope);
  return Array.from(storedCode.get(value).scopeBytes, (byte) => String.fromCharCode(byte)).join("");
}

function compareBinaries(a, b) {
  const left = BinDataBody.raw(a),
    right = BinDataBody.raw(b);
  return (
    byOperator(left.length, right.length) ||
    byOperator(BinDataBody.subtype(a), BinDataBody.subtype(b)) ||
    byOperator(left, right)
  );
}

function compareFields(a, b) {
  const left = Object.keys(a),
    right = Object.keys(b);
  for (let i = 0; i < left.length && i < right.length; i++) {
    const x = a[left[i]],
      y = b[right[i]];
    const order =
      byOperator(bracketOf(x), bracketOf(y)) || sign(compareText(left[i], right[i])) || compareValues(x, y);
    if (order !== 0) return order;
  }
  return byOperator(left.length, right.length);
}

function compareElements(a, b) {
  for (let i = 0; i < a.length && i < b.length; i++) {
    const order = compareValues(a[i], b[i]);
    if (order !== 0) return order;
  }
  return byOperator(a.length, b.length);
}

// ---- Canonical text: type letter and content, lengths before anything of variable length.

function canonical(value) {
  switch (typeof value) {
    case "string":
      return canonicalText(value);
    case "number":
      return `n${scalarText(value)};`;
    case "boolean":
      return value ? "t" : "f";
    case "undefined":
      return "z";
    case "function":
      return value === MinKey ? "m" : value === MaxKey ? "M" : canonicalCode(value);
    default:
      return value === null ? "z" : canonicalObject(value);
  }
}

function canonicalText(text) {
  const key = keyText(text);
  return `s${key.length}:${key}`;
}

function canonicalCode(value) {
  const text = codeText(value);
  const scoped = bracketOf(value) === BRACKETS.scopedCode;
  return `${scoped ? "C" : "c"}${text.length}:${text}${scoped ? scopeText(value) : ""};`;
}

function canonicalObject(value) {
  switch (bracketOfObject(value)) {
    case BRACKETS.number:
      return `n${scalarText(plainNumber(value))};`;
    case BRACKETS.string:
      return canonicalText(String(value));
    case BRACKETS.boolean:
      return value.valueOf() ? "t" : "f";
    case BRACKETS.id:
      return "o" + ObjectIdBody.raw(value);
    case BRACKETS.date:
      return `d${dateMilliseconds(value)};`;
    case BRACKETS.timestamp:
      return `T${value.t},${value.i};`;
    case BRACKETS.binary:
      return `b${BinDataBody.subtype(value)}:${value.length()}:${BinDataBody.raw(value)}`;
    case BRACKETS.expression: {
      const [pattern, options] = expressionParts(value);
      return `r${pattern.length}:${pattern}${options};`;
    }
    case BRACKETS.pointer:
      return `p${value.ns.length}:${value.ns}${ObjectIdBody.raw(value.id)}`;
    case BRACKETS.code:
    case BRACKETS.scopedCode:
      return canonicalCode(value);
    case BRACKETS.array: {
      let text = "[";
      for (let i = 0; i < value.length; i++) text += canonical(value[i]);
      return text + "]";
    }
    default: {
      let text = "{";
      for (const name of Object.keys(value)) text += `${name.length}:${name}${canonical(value[name])}`;
      return text + "}";
    }
  }
}

// ---- Copies: what a value is after a trip through BSON, without the trip. Returns the copy; adds its size to
// `copiedWeight`.

let copiedWeight = 0;
let integersKept = false; // whether some copy may be a NumberInt standing alone

function copyOf(value, depth) {
  switch (typeof value) {
    case "number":
    case "boolean":
      copiedWeight += 8;
      return value;
    case "string":
      copiedWeight += 16 + value.length;
      return value;
    case "undefined":
      return value; // functions still see it; it becomes null when it is written
    case "function":
      copiedWeight += 64;
      return value;
    case "object":
      return value === null ? null : copyOfObject(value, depth);
    default:
      throw new Refusal(2, `cannot convert a ${typeof value} to BSON`);
  }
}

function copyOfObject(value, depth) {
  if (depth > MAX_DEPTH)
    throw new Refusal(15, `document is nested more than ${MAX_DEPTH} levels deep, or contains itself`);
  copiedWeight += 48;
  if (Array.isArray(value)) {
    const copy = new Array(value.length);
    let ints = value[INT32];
    for (let i = 0; i < value.length; i++) {
      const item = value[i];
      if (item instanceof NumberIntBody) ints = new Set(ints).add(i);
      copy[i] = item instanceof NumberIntBody ? NumberIntBody.value(item) : copyOf(item, depth + 1);
    }
    if (ints !== undefined) copy[INT32] = ints;
    return copy;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || !OBJECT_BRACKETS.has(prototype)) return copyOfFields(value, depth);
  if (prototype === Date.prototype) {
    const copy = new Date(value.getTime());
    if (value[RAW_DATE] !== undefined) copy[RAW_DATE] = value[RAW_DATE];
    return copy;
  }
  if (prototype === TimestampBody.prototype) return new TimestampBody(value.t, value.i);
  if (prototype === RegExp.prototype) {
    const copy = new RegExp(value.source, value.flags);
    if (value[RAW_EXPRESSION] !== undefined) copy[RAW_EXPRESSION] = value[RAW_EXPRESSION];
    return copy;
  }
  if (prototype === BinDataBody.prototype) copiedWeight += value.length();
  if (prototype === NumberIntBody.prototype) integersKept = true;
  return value; // the other types cannot be changed
}

function copyOfFields(value, depth) {
  const copy = value instanceof DBRefBody ? Object.create(DBRefBody.prototype) : {};
  const names = Object.keys(value);
  let ints = value[INT32];
  for (let i = 0; i < names.length; i++) {
    const name = names[i],
      field = value[name];
    copiedWeight += 24;
    if (field instanceof NumberIntBody) {
      ints = new Set(ints).add(name);
      setField(copy, name, NumberIntBody.value(field));
    } else {
      setField(copy, name, copyOf(field, depth + 1));
    }
  }
  if (ints !== undefined) copy[INT32] = ints;
  if (value[ORDER] !== undefined) return listedBy(copy, new Set(names));
  return value instanceof CodeBody ? new CodeBody(copy.code, copy.scope) : copy;
}
