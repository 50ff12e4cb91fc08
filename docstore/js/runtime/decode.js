// BSON bytes to JavaScript values, written for millions of small documents.
//
// * All functions here read `bytes`, which is one buffer for the life of the isolate so that V8 can treat it as
//   constant; pages of it that are never written cost nothing. `at` is the reading position.
// * Field names and strings of up to 16 bytes are kept in direct-mapped caches by content, so that the same tag or
//   name is the same JavaScript string each time (already hashed and internalised by V8).
// * int32 fields arrive as plain numbers; the object remembers which they were under the INT32 symbol, shared between
//   all objects with the same such fields, so that writing the object back keeps their type (see encode.js).
// * V8 puts names like "7" before all others. A document where that would change the order is read as a Proxy that
//   lists its fields as they were stored (`listedBy`); other documents are plain objects.
// * The input has been validated by whoever stored it; lengths are trusted.

const INT32 = Symbol("int32 fields");
const ORDER = Symbol("names in stored order");
const RAW_EXPRESSION = Symbol("regular expression as stored");
const RAW_DATE = Symbol("milliseconds out of range");
const SLOTS = 8192; // 13 bits of hash
const NAME_WORDS = 8; // names of up to 31 bytes are cached
const LONG_NAME = 0; // the slot that stands for all longer ones and has no text
const SHORT = 16;

const bytes = new Uint8Array(INPUT_BYTES);
const view = new DataView(bytes.buffer);
let at = 0;

// ---- Text

// Words are compared four bytes at a time; MASKS[n] keeps the first n bytes of a word.
const MASKS = new Int32Array([0, 0xff, 0xffff, 0xffffff, -1]);

const nameText = new Array(SLOTS).fill(undefined);
const nameLength = new Uint8Array(SLOTS);
const nameWords = new Int32Array(SLOTS * NAME_WORDS);
const nameWanted = new Uint8Array(SLOTS);
const nameIsIndex = new Uint8Array(SLOTS); // such names V8 lists first, by number
const follower = new Int32Array(SLOTS); // the name that came after this one the last time
let lastSlot = 0;

// Documents repeat their fields in the same order, so the name that followed last time is tried first.
function readName() {
  const guess = follower[lastSlot];
  if (nameText[guess] !== undefined) {
    const length = nameLength[guess] + 1; // with the NUL
    let word = guess * NAME_WORDS,
      position = at,
      rest = length;
    while (rest > 4 && view.getInt32(position, true) === nameWords[word]) {
      word++;
      position += 4;
      rest -= 4;
    }
    if (rest <= 4 && (view.getInt32(position, true) & MASKS[rest]) === nameWords[word]) {
      at += length;
      lastSlot = guess;
      return nameText[guess];
    }
  }
  return findName();
}

function findName() {
  const start = at;
  let hash = 0,
    byte = 0;
  while ((byte = bytes[at++]) !== 0) hash = (Math.imul(hash, 31) + byte) | 0;
  const text = decodeText(start, at - 1);
  const length = at - 1 - start;
  if (length >= NAME_WORDS * 4) {
    lastSlot = LONG_NAME;
    nameWanted[LONG_NAME] = wantedFields === undefined || wantedFields.has(text) ? 1 : 0;
    return text;
  }
  const slot = ((hash ^ (hash >>> 13)) & (SLOTS - 2)) + 1;
  if (nameText[slot] !== text) {
    for (let i = 0; i <= length; i += 4) {
      nameWords[slot * NAME_WORDS + (i >> 2)] = view.getInt32(start + i, true) & MASKS[Math.min(4, length + 1 - i)];
    }
    nameLength[slot] = length;
    nameText[slot] = text;
    nameIsIndex[slot] = isIndexName(text) ? 1 : 0;
    nameWanted[slot] = wantedFields === undefined || wantedFields.has(text) ? 1 : 0;
  }
  follower[lastSlot] = slot;
  lastSlot = slot;
  return text;
}

function isIndexName(name) {
  return name === "0" || (/^[1-9][0-9]{0,9}$/.test(name) && Number(name) < TWO_32 - 1);
}

function skipName() {
  while (bytes[at++] !== 0);
}

const shortText = new Array(SLOTS).fill(undefined);
const shortLength = new Uint8Array(SLOTS);
const shortWords = new Int32Array(SLOTS * 4);

function readText(start, length) {
  if (length > SHORT) return decodeText(start, start + length);
  const a = view.getInt32(start, true) & MASKS[length < 4 ? length : 4];
  const b = length <= 4 ? 0 : view.getInt32(start + 4, true) & MASKS[length < 8 ? length - 4 : 4];
  const c = length <= 8 ? 0 : view.getInt32(start + 8, true) & MASKS[length < 12 ? length - 8 : 4];
  const d = length <= 12 ? 0 : view.getInt32(start + 12, true) & MASKS[length - 12];
  const mixed = a ^ Math.imul(b, 0x9e3779b1) ^ Math.imul(c, 0x85ebca6b) ^ Math.imul(d, 0xc2b2ae35) ^ (length << 27);
  const slot = Math.imul(mixed ^ (mixed >>> 15), 0x27d4eb2f) >>> 19;
  const word = slot * 4;
  if (
    shortWords[word] === a &&
    shortWords[word + 1] === b &&
    shortWords[word + 2] === c &&
    shortWords[word + 3] === d &&
    shortLength[slot] === length &&
    shortText[slot] !== undefined
  ) {
    return shortText[slot];
  }
  const text = decodeText(start, start + length);
  shortWords[word] = a;
  shortWords[word + 1] = b;
  shortWords[word + 2] = c;
  shortWords[word + 3] = d;
  shortLength[slot] = length;
  shortText[slot] = text;
  return text;
}

const character = String.fromCharCode;

function decodeText(start, end) {
  let text = "";
  let i = start;
  for (; i + 8 <= end; i += 8) {
    const a = bytes[i],
      b = bytes[i + 1],
      c = bytes[i + 2],
      d = bytes[i + 3];
    const e = bytes[i + 4],
      f = bytes[i + 5],
      g = bytes[i + 6],
      h = bytes[i + 7];
    if ((a | b | c | d | e | f | g | h) & 0x80) return text + decodeUtf8(i, end);
    text += character(a, b, c, d, e, f, g, h);
  }
  for (; i < end; i++) {
    if (bytes[i] & 0x80) return text + decodeUtf8(i, end);
    text += character(bytes[i]);
  }
  return text;
}

function decodeUtf8(start, end) {
  let text = "";
  let i = start;
  while (i < end) {
    const lead = bytes[i++];
    if (lead < 0x80) {
      text += character(lead);
      continue;
    }
    const extra = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : 0;
    let point = lead & (0x3f >> extra);
    let taken = 0;
    while (taken < extra && i < end && (bytes[i] & 0xc0) === 0x80) {
      point = (point << 6) | (bytes[i++] & 0x3f);
      taken++;
    }
    const least = extra === 3 ? 0x10000 : extra === 2 ? 0x800 : 0x80;
    if (extra === 0 || taken < extra || point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
      text += "\ufffd";
    } else {
      text += String.fromCodePoint(point);
    }
  }
  return text;
}

function readLatin1(start, length) {
  let text = "";
  for (let i = start; i < start + length; i++) text += character(bytes[i]);
  return text;
}

// ---- Sets of int32 field names, as a tree walked one name at a time

class FieldSet {
  constructor(names) {
    this.names = names;
    this.longer = new Map();
  }
  with(name) {
    let longer = this.longer.get(name);
    if (longer === undefined) {
      longer = new FieldSet(new Set(this.names).add(name));
      if (this.longer.size < 1000) this.longer.set(name, longer);
    }
    return longer;
  }
}

const NO_FIELDS = new FieldSet(new Set());

// ---- Values

function setField(object, name, value) {
  if (name === "__proto__") {
    Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: true });
  } else {
    object[name] = value;
  }
}

// Lists the fields of its target by the names under ORDER; others come last.
const IN_ORDER = {
  ownKeys(target) {
    const names = target[ORDER];
    const own = Reflect.ownKeys(target);
    const added = own.filter((name) => !names.has(name));
    return [...Array.from(names).filter((name) => hasOwn(target, name)), ...added];
  },
};

function listedBy(object, names) {
  hide(object, { [ORDER]: names });
  return new Proxy(object, IN_ORDER);
}

// `{ ...fields, ...object }`, with the order of the object's fields.
function joinedFields(fields, object) {
  const joined = { ...fields, ...object };
  if (object[ORDER] === undefined) return joined;
  return listedBy(joined, new Set([...Object.keys(fields), ...Object.keys(object)]));
}

// The object of the fields from `start` to `end`, so that they are listed in that order.
function keepOrder(object, start, end) {
  const names = new Set();
  at = start;
  lastSlot = LONG_NAME;
  while (at < end) {
    const type = bytes[at++];
    names.add(readName());
    skipValue(type);
  }
  const listed = Object.keys(object).values();
  for (const name of names) {
    if (hasOwn(object, name) && listed.next().value !== name) return listedBy(object, names);
  }
  return object;
}

function readDocument() {
  const end = at + view.getInt32(at, true) - 1;
  at += 4;
  const start = at;
  let object = {};
  let ints = NO_FIELDS;
  let indexes = 0;
  lastSlot = LONG_NAME;
  while (at < end) {
    const type = bytes[at++];
    const name = readName();
    indexes |= nameIsIndex[lastSlot];
    if (type === 16) {
      ints = ints.with(name);
      setField(object, name, view.getInt32(at, true));
      at += 4;
    } else {
      const slot = lastSlot;
      setField(object, name, readValue(type));
      lastSlot = slot;
    }
  }
  if (ints !== NO_FIELDS) object[INT32] = ints.names;
  if (indexes !== 0) object = keepOrder(object, start, end);
  at = end + 1;
  return object.$ref !== undefined && object.$id !== undefined ? asReference(object) : object;
}

// A document that starts with $ref and $id is a reference; others that merely contain such fields stay documents.
function asReference(object) {
  const names = Object.keys(object);
  if (names[0] !== "$ref" || names[1] !== "$id" || typeof object.$ref !== "string") return object;
  if (names.length > 3 || (names.length === 3 && names[2] !== "$db")) return object;
  const reference = new DBRefBody(object.$ref, object.$id, object.$db);
  if (object[INT32] !== undefined) reference[INT32] = object[INT32];
  return reference;
}

let wantedFields; // when set, `readFields` reads only these

function wantOnly(fields) {
  wantedFields = fields;
  nameText.fill(undefined);
}

// Only the wanted fields, in stored order; the others are stepped over without being read.
function readFields() {
  const end = at + view.getInt32(at, true) - 1;
  at += 4;
  const start = at;
  let object = {};
  let ints = NO_FIELDS;
  let indexes = 0;
  lastSlot = LONG_NAME;
  while (at < end) {
    const type = bytes[at++];
    const name = readName();
    indexes |= nameIsIndex[lastSlot];
    if (nameWanted[lastSlot] === 0) {
      skipValue(type);
    } else if (type === 16) {
      ints = ints.with(name);
      setField(object, name, view.getInt32(at, true));
      at += 4;
    } else {
      const slot = lastSlot;
      setField(object, name, readValue(type));
      lastSlot = slot; // what follows a field does not depend on what its value contains
    }
  }
  if (ints !== NO_FIELDS) object[INT32] = ints.names;
  if (indexes !== 0) object = keepOrder(object, start, end);
  at = end + 1;
  return object;
}

function readArray() {
  const end = at + view.getInt32(at, true) - 1;
  at += 4;
  const array = [];
  let ints;
  while (at < end) {
    const type = bytes[at++];
    if (bytes[at + 1] === 0)
      at += 2; // the names "0" to "9"
    else skipName();
    if (type === 2) {
      const length = view.getInt32(at, true) - 1;
      array.push(readText(at + 4, length));
      at += 5 + length;
    } else {
      if (type === 16) (ints === undefined ? (ints = new Set()) : ints).add(array.length);
      array.push(readValue(type));
    }
  }
  at = end + 1;
  if (ints !== undefined) array[INT32] = ints;
  return array;
}

function readString() {
  const length = view.getInt32(at, true) - 1;
  const text = readText(at + 4, length);
  at += 5 + length;
  return text;
}

function readValue(type) {
  switch (type) {
    case 1:
      at += 8;
      return view.getFloat64(at - 8, true);
    case 2:
      return readString();
    case 3:
      return readDocument();
    case 4:
      return readArray();
    case 16:
      at += 4;
      return view.getInt32(at - 4, true);
    case 7:
      at += 12;
      return new ObjectIdBody(readLatin1(at - 12, 12));
    case 8:
      return bytes[at++] === 1;
    case 9:
      return readDate();
    case 10:
      return null;
    case 18:
      at += 8;
      return new NumberLongBody(view.getInt32(at - 4, true), view.getInt32(at - 8, true));
    default:
      return readRare(type);
  }
}

function readDate() {
  const milliseconds = view.getInt32(at + 4, true) * TWO_32 + view.getUint32(at, true);
  at += 8;
  const date = new Date(milliseconds);
  if (date.getTime() !== milliseconds) date[RAW_DATE] = view.getBigInt64(at - 8, true);
  return date;
}

function readRare(type) {
  switch (type) {
    case 5:
      return readBinary();
    case 6:
      return undefined;
    case 11:
      return readExpression();
    case 12: {
      const namespace = readString();
      at += 12;
      return new DBPointerBody(namespace, new ObjectIdBody(readLatin1(at - 12, 12)));
    }
    case 13:
      return functionFromCode(readString());
    case 14:
      return readString();
    case 15:
      return readScopedCode();
    case 17:
      at += 8;
      return new TimestampBody(view.getUint32(at - 4, true), view.getUint32(at - 8, true));
    case 19:
      at += 16;
      return new NumberDecimalBody(view.getBigUint64(at - 8, true), view.getBigUint64(at - 16, true));
    case 255:
      return MinKey;
    case 127:
      return MaxKey;
    default:
      throw new Error(`unknown BSON type ${type}`);
  }
}

function readBinary() {
  let length = view.getInt32(at, true);
  const subtype = bytes[at + 4];
  let start = at + 5;
  at = start + length;
  if (subtype === 2) {
    start += 4;
    length -= 4;
  } // the old form repeats the length inside
  return new BinDataBody(subtype, readLatin1(start, length));
}

function readCString() {
  const start = at;
  skipName();
  return decodeText(start, at - 1);
}

// What JavaScript cannot express (a bare slash, unknown options, foreign syntax) is kept beside the closest it can.
function readExpression() {
  const pattern = readCString();
  const options = readCString();
  let expression;
  try {
    expression = new RegExp(pattern, options.replace(/[^imsu]/g, ""));
  } catch (error) {
    expression = new RegExp(pattern.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  }
  if (expression.source !== pattern || expression.flags !== options) expression[RAW_EXPRESSION] = [pattern, options];
  return expression;
}

// [pattern, options] as stored
function expressionParts(expression) {
  if (expression[RAW_EXPRESSION] !== undefined) return expression[RAW_EXPRESSION];
  const options = [...expression.flags]
    .filter((flag) => "imsu".includes(flag))
    .sort()
    .join("");
  return [expression.source === "(?:)" ? "" : expression.source, options];
}

function readScopedCode() {
  const end = at + view.getInt32(at, true);
  at += 4;
  const source = readString();
  const scopeBytes = bytes.slice(at, end);
  at = end;
  return functionFromCode(source, scopeBytes);
}

const FIXED = new Uint8Array(256).fill(255);
for (const [type, size] of [
  [1, 8],
  [6, 0],
  [7, 12],
  [8, 1],
  [9, 8],
  [10, 0],
  [16, 4],
  [17, 8],
  [18, 8],
  [19, 16],
]) {
  FIXED[type] = size;
}
FIXED[127] = 0;

function skipValue(type) {
  const size = FIXED[type];
  if (size !== 255) {
    at += size;
    return;
  }
  switch (type) {
    case 2:
    case 13:
    case 14:
      at += 4 + view.getInt32(at, true);
      return;
    case 3:
    case 4:
    case 15:
      at += view.getInt32(at, true);
      return;
    case 5:
      at += 5 + view.getInt32(at, true);
      return;
    case 11:
      skipName();
      skipName();
      return;
    case 12:
      at += 16 + view.getInt32(at, true);
      return;
    case 255:
      return;
    default:
      throw new Error(`unknown BSON type ${type}`);
  }
}
