// BSON types that JavaScript lacks, as the classic shell shows them.
//
// * State sits in private fields, so these values have no own keys (Timestamp, DBRef and Code excepted, as in the
//   shell).
// * Each type is a factory callable with and without `new`; `instanceof` works on the factory.
// * Names here are visible to all files of the runtime; nothing is global until a host asks for `globals()`.

const LATIN1_HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const TWO_32 = 4294967296;
const INT64_MIN = -(1n << 63n);
const INT64_MAX = (1n << 63n) - 1n;

function hide(target, properties) {
  for (const name of Reflect.ownKeys(properties)) {
    Object.defineProperty(target, name, {
      value: properties[name],
      writable: true,
      configurable: true,
      enumerable: false,
    });
  }
}

// Give `factory` the prototype of `body`, so that values made by either are instances of both.
function factoryFor(body, factory) {
  Object.defineProperty(factory, "prototype", { value: body.prototype, writable: false });
  hide(body.prototype, { constructor: factory });
  return factory;
}

function latin1ToHex(raw) {
  let hex = "";
  for (let i = 0; i < raw.length; i++) hex += LATIN1_HEX[raw.charCodeAt(i)];
  return hex;
}

function hexToLatin1(hex) {
  let raw = "";
  for (let i = 0; i < hex.length; i += 2) raw += String.fromCharCode(parseInt(hex.substr(i, 2), 16));
  return raw;
}

// ---- ObjectId: twelve bytes as a Latin-1 string, which doubles as the grouping key.

class ObjectIdBody {
  #raw;
  constructor(raw) {
    this.#raw = raw;
  }
  static raw(id) {
    return id.#raw;
  }
  get str() {
    return latin1ToHex(this.#raw);
  }
  valueOf() {
    return latin1ToHex(this.#raw);
  }
  toString() {
    return `ObjectId("${latin1ToHex(this.#raw)}")`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return { $oid: this.str };
  }
  equals(other) {
    return other instanceof ObjectIdBody && other.#raw === this.#raw;
  }
  getTimestamp() {
    return new Date(parseInt(this.str.substr(0, 8), 16) * 1000);
  }
}

const randomByte = () => String.fromCharCode(Math.floor(Math.random() * 256));
const machine = randomByte() + randomByte() + randomByte() + randomByte() + randomByte();
let objectIdCounter = Math.floor(Math.random() * 0x1000000);

function freshObjectId() {
  objectIdCounter = (objectIdCounter + 1) & 0xffffff;
  const seconds = Math.floor(Date.now() / 1000);
  const hex =
    seconds.toString(16).padStart(8, "0") + latin1ToHex(machine) + objectIdCounter.toString(16).padStart(6, "0");
  return new ObjectIdBody(hexToLatin1(hex));
}

const ObjectId = factoryFor(ObjectIdBody, function ObjectId(hex) {
  if (hex === undefined) return freshObjectId();
  if (hex instanceof ObjectIdBody) return new ObjectIdBody(ObjectIdBody.raw(hex));
  const text = String(hex);
  if (text.length !== 24) throw new Refusal(10448, "invalid object id: length");
  if (!/^[0-9a-fA-F]{24}$/.test(text)) throw new Refusal(10430, "invalid object id: not hex");
  return new ObjectIdBody(hexToLatin1(text.toLowerCase()));
});
hide(ObjectId, {
  fromDate(date) {
    const seconds = Math.floor((date instanceof Date ? date.getTime() : Number(date)) / 1000);
    return ObjectId(seconds.toString(16).padStart(8, "0") + "0000000000000000");
  },
});

// ---- 64-bit and 32-bit integers: objects that behave as numbers in arithmetic and loose comparison.

class NumberLongBody {
  #high;
  #low;
  constructor(high, low) {
    this.#high = high | 0;
    this.#low = low | 0;
  }
  static high(long) {
    return long.#high;
  }
  static low(long) {
    return long.#low;
  }
  static approximate(long) {
    return long.#high * TWO_32 + (long.#low >>> 0);
  }
  static exact(long) {
    return (BigInt(long.#high) << 32n) | BigInt(long.#low >>> 0);
  }
  static fits(long) {
    return long.#high >= -0x200000 && long.#high < 0x200000;
  } // within ±2^53
  get floatApprox() {
    return NumberLongBody.approximate(this);
  }
  get top() {
    return this.#high;
  }
  get bottom() {
    return this.#low >>> 0;
  }
  toNumber() {
    return NumberLongBody.approximate(this);
  }
  valueOf() {
    return NumberLongBody.approximate(this);
  }
  toString() {
    const digits = String(NumberLongBody.exact(this));
    return Math.abs(NumberLongBody.approximate(this)) < 2147483648
      ? `NumberLong(${digits})`
      : `NumberLong("${digits}")`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return { $numberLong: String(NumberLongBody.exact(this)) };
  }
  compare(other) {
    const mine = NumberLongBody.exact(this);
    const theirs = NumberLongBody.exact(NumberLong(other));
    return mine < theirs ? -1 : mine > theirs ? 1 : 0;
  }
}

function longFromBigInt(value) {
  return new NumberLongBody(Number(BigInt.asIntN(32, value >> 32n)), Number(BigInt.asIntN(32, value)));
}

function longFromText(text) {
  const digits = text.trim();
  if (!/^[+-]?[0-9]+$/.test(digits)) throw new Refusal(2, "could not convert string to long long");
  const value = BigInt(digits.replace(/^\+/, ""));
  if (value < INT64_MIN || value > INT64_MAX) throw new Refusal(2, "could not convert string to long long");
  return longFromBigInt(value);
}

const NumberLong = factoryFor(NumberLongBody, function NumberLong(value, top, bottom) {
  if (arguments.length === 0) return new NumberLongBody(0, 0);
  if (arguments.length === 2) return new NumberLongBody(value, top);
  if (arguments.length === 3) return new NumberLongBody(top, bottom);
  if (value instanceof NumberLongBody)
    return new NumberLongBody(NumberLongBody.high(value), NumberLongBody.low(value));
  if (typeof value === "bigint") return longFromText(String(value));
  if (typeof value === "string") return longFromText(value);
  const number = Number(value);
  if (!Number.isInteger(number) || number < -9223372036854775808 || number >= 9223372036854775808) {
    throw new Refusal(2, "number passed to NumberLong must be representable as an int64_t");
  }
  return longFromBigInt(BigInt(number));
});

class NumberIntBody {
  #value;
  constructor(value) {
    this.#value = value | 0;
  }
  static value(int) {
    return int.#value;
  }
  toNumber() {
    return this.#value;
  }
  valueOf() {
    return this.#value;
  }
  toString() {
    return `NumberInt(${this.#value})`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return this.#value;
  }
}

const NumberInt = factoryFor(NumberIntBody, function NumberInt(value) {
  const number = typeof value === "string" ? parseInt(value, 10) : Number(value === undefined ? 0 : value);
  return new NumberIntBody(Number.isFinite(number) ? Math.trunc(number) : 0);
});

// ---- Timestamp: seconds and an ordinal, both plain properties.

function timestampPart(value, label) {
  if (typeof value !== "number" && !(value instanceof NumberLongBody) && !(value instanceof NumberIntBody)) {
    throw new Refusal(2, `Timestamp ${label} must be a number`);
  }
  const number = Number(value);
  if (!(number >= 0 && number <= 4294967295)) {
    throw new Refusal(2, `Timestamp ${label} must be non-negative and not greater than 4294967295, got ${number}`);
  }
  return Math.trunc(number);
}

class TimestampBody {
  constructor(seconds, ordinal) {
    this.t = seconds;
    this.i = ordinal;
  }
  getTime() {
    return this.t;
  }
  getInc() {
    return this.i;
  }
  toString() {
    return `Timestamp(${this.t}, ${this.i})`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return { $timestamp: { t: this.t, i: this.i } };
  }
}

const Timestamp = factoryFor(TimestampBody, function Timestamp(seconds, ordinal) {
  if (arguments.length === 0) return new TimestampBody(0, 0);
  if (arguments.length !== 2) throw new Refusal(2, "Timestamp needs 0 or 2 arguments");
  return new TimestampBody(timestampPart(seconds, "time (seconds)"), timestampPart(ordinal, "ordinal"));
});

// ---- Binary data: a subtype and the bytes as a Latin-1 string.

const BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function base64FromLatin1(raw) {
  let text = "";
  for (let i = 0; i < raw.length; i += 3) {
    const a = raw.charCodeAt(i),
      b = raw.charCodeAt(i + 1),
      c = raw.charCodeAt(i + 2);
    text += BASE64[a >> 2] + BASE64[((a & 3) << 4) | (b >> 4)];
    text += i + 1 < raw.length ? BASE64[((b & 15) << 2) | (c >> 6)] : "=";
    text += i + 2 < raw.length ? BASE64[c & 63] : "=";
  }
  return text;
}

function latin1FromBase64(text) {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) throw new Refusal(10270, "invalid base64");
  let raw = "";
  for (let i = 0; i < text.length; i += 4) {
    const [a, b, c, d] = [0, 1, 2, 3].map((k) => BASE64.indexOf(text[i + k]));
    raw += String.fromCharCode((a << 2) | (b >> 4));
    if (c >= 0) raw += String.fromCharCode(((b & 15) << 4) | (c >> 2));
    if (d >= 0) raw += String.fromCharCode(((c & 3) << 6) | d);
  }
  return raw;
}

class BinDataBody {
  #subtype;
  #raw;
  constructor(subtype, raw) {
    this.#subtype = subtype;
    this.#raw = raw;
  }
  static raw(binary) {
    return binary.#raw;
  }
  static subtype(binary) {
    return binary.#subtype;
  }
  get len() {
    return this.#raw.length;
  }
  get type() {
    return this.#subtype;
  }
  subtype() {
    return this.#subtype;
  }
  length() {
    return this.#raw.length;
  }
  hex() {
    return latin1ToHex(this.#raw);
  }
  base64() {
    return base64FromLatin1(this.#raw);
  }
  toString() {
    if (this.#subtype === 4 && this.#raw.length === 16) {
      return `UUID("${this.hex().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5")}")`;
    }
    return `BinData(${this.#subtype},"${this.base64()}")`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return { $binary: this.base64(), $type: LATIN1_HEX[this.#subtype] };
  }
}

const BinData = factoryFor(BinDataBody, function BinData(subtype, base64) {
  if (arguments.length !== 2) throw new Refusal(2, "BinData takes 2 arguments -- BinData(subtype,data)");
  const number = Number(subtype);
  if (!(number >= 0 && number <= 255))
    throw new Refusal(2, "BinData subtype must be a Number between 0 and 255 inclusive");
  if (typeof base64 !== "string") throw new Refusal(2, "BinData data must be a String");
  return new BinDataBody(number, latin1FromBase64(base64));
});

function binaryFromHex(subtype, hex) {
  if (typeof hex !== "string" || hex.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(hex)) {
    throw new Refusal(2, "HexData data must be an even number of hexadecimal digits");
  }
  return new BinDataBody(subtype, hexToLatin1(hex));
}

function HexData(subtype, hex) {
  if (arguments.length !== 2) throw new Refusal(2, "HexData takes 2 arguments -- HexData(subtype,hex)");
  return binaryFromHex(Number(subtype), hex);
}

function MD5(hex) {
  if (typeof hex !== "string" || hex.length !== 32) throw new Refusal(2, "MD5 string must have 32 characters");
  return binaryFromHex(5, hex);
}

function UUID(hex) {
  if (hex === undefined) {
    let raw = "";
    for (let i = 0; i < 16; i++) raw += randomByte();
    const version = String.fromCharCode((raw.charCodeAt(6) & 0x0f) | 0x40);
    const variant = String.fromCharCode((raw.charCodeAt(8) & 0x3f) | 0x80);
    return new BinDataBody(4, raw.slice(0, 6) + version + raw[7] + variant + raw.slice(9));
  }
  if (typeof hex === "string" && /^[0-9a-fA-F]{32}$/.test(hex)) return binaryFromHex(3, hex); // the old, undashed form
  if (typeof hex !== "string" || !/^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/.test(hex)) {
    throw new Refusal(207, "Invalid UUID string: " + hex);
  }
  return binaryFromHex(4, hex.replace(/-/g, ""));
}

// ---- MinKey and MaxKey: each is one value, and calling it gives that value.

const MinKey = function MinKey() {
  return MinKey;
};
const MaxKey = function MaxKey() {
  return MaxKey;
};
for (const [key, name, json] of [
  [MinKey, "MinKey", "$minKey"],
  [MaxKey, "MaxKey", "$maxKey"],
]) {
  hide(key, { toString: () => `[object ${name}]`, tojson: () => `{ "${json}" : 1 }`, toJSON: () => ({ [json]: 1 }) });
}

// ---- References and code.

class DBRefBody {
  constructor(collection, id, database) {
    this.$ref = collection;
    this.$id = id;
    if (database !== undefined) this.$db = database;
  }
  getRef() {
    return this.$ref;
  }
  getCollection() {
    return this.$ref;
  }
  getId() {
    return this.$id;
  }
  getDb() {
    return this.$db;
  }
  toString() {
    const database = this.$db === undefined ? "" : `, ${tojson(this.$db)}`;
    return `DBRef(${tojson(this.$ref)}, ${tojson(this.$id, "", true)}${database})`;
  }
  tojson() {
    return this.toString();
  }
}

const DBRef = factoryFor(DBRefBody, function DBRef(collection, id, database) {
  if (arguments.length < 2 || arguments.length > 3) throw new Refusal(2, "DBRef needs 2 or 3 arguments");
  if (typeof collection !== "string") throw new Refusal(2, "DBRef 1st parameter must be a string");
  return new DBRefBody(collection, id, database);
});

class DBPointerBody {
  constructor(namespace, id) {
    this.ns = namespace;
    this.id = id;
  }
  getCollection() {
    return this.ns;
  }
  getId() {
    return this.id;
  }
  toString() {
    return `DBPointer(${tojson(this.ns)}, ${tojson(this.id)})`;
  }
  tojson() {
    return this.toString();
  }
}

const DBPointer = factoryFor(DBPointerBody, function DBPointer(namespace, id) {
  if (arguments.length !== 2) throw new Refusal(2, "DBPointer needs 2 arguments");
  if (typeof namespace !== "string") throw new Refusal(2, "DBPointer 1st parameter must be a string");
  if (!(id instanceof ObjectIdBody)) throw new Refusal(2, "DBPointer 2nd parameter must be an ObjectId");
  return new DBPointerBody(namespace, id);
});

class CodeBody {
  constructor(code, scope) {
    this.code = code;
    if (scope !== undefined) this.scope = scope;
  }
}

const Code = factoryFor(CodeBody, function Code(code, scope) {
  return new CodeBody(code === undefined ? "" : String(code), scope);
});

// Code read from a document is a function that is compiled when it is first called, never before: reading a document
// must not run anything. Its source and scope are kept for writing it back.
const storedCode = new WeakMap();

function functionFromCode(source, scopeBytes) {
  let compiled;
  const stored = function () {
    if (compiled === undefined) compiled = compileFunction(source);
    return compiled.apply(this, arguments);
  };
  hide(stored, { toString: () => source, tojson: () => source });
  storedCode.set(stored, { source, scopeBytes });
  return stored;
}
