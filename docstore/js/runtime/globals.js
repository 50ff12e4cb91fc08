// The names that user code finds besides the language's own. Nothing added to a prototype is enumerable.

function md5(text) {
  const input = unescape(encodeURIComponent(text));
  const words = new Int32Array((((input.length + 8) >> 6) + 1) * 16);
  for (let i = 0; i < input.length; i++) words[i >> 2] |= input.charCodeAt(i) << ((i % 4) * 8);
  words[input.length >> 2] |= 0x80 << ((input.length % 4) * 8);
  words[words.length - 2] = input.length * 8;
  const shifts = [
    [7, 12, 17, 22],
    [5, 9, 14, 20],
    [4, 11, 16, 23],
    [6, 10, 15, 21],
  ];
  const state = [0x67452301, 0xefcdab89 | 0, 0x98badcfe | 0, 0x10325476];
  for (let block = 0; block < words.length; block += 16) {
    let [a, b, c, d] = state;
    for (let i = 0; i < 64; i++) {
      const round = i >> 4;
      const mixed = [(b & c) | (~b & d), (b & d) | (c & ~d), b ^ c ^ d, c ^ (b | ~d)][round];
      const index = [i, 5 * i + 1, 3 * i + 5, 7 * i][round] % 16;
      const sum = (a + mixed + Math.floor(Math.abs(Math.sin(i + 1)) * TWO_32) + words[block + index]) | 0;
      const shift = shifts[round][i % 4];
      [a, d, c, b] = [d, c, b, (b + ((sum << shift) | (sum >>> (32 - shift)))) | 0];
    }
    [a, b, c, d].forEach((part, i) => {
      state[i] = (state[i] + part) | 0;
    });
  }
  return state.map((part) => [0, 8, 16, 24].map((shift) => LATIN1_HEX[(part >>> shift) & 255]).join("")).join("");
}

function bsonSize(value) {
  const start = end;
  writeBody(value, 0);
  const size = end - start;
  end = start;
  return size;
}

function bsonBytes(value) {
  const start = end;
  writeBody(value, 0);
  const image = Array.from(output.subarray(start, end)).join();
  end = start;
  return image;
}

function fail(message) {
  throw new Error(
    typeof message === "function" ? message() : message === undefined ? "assert failed" : String(message),
  );
}

function assert(condition, message) {
  if (!condition) fail(message === undefined ? "assert failed" : `assert failed : ${message}`);
}

hide(assert, {
  eq(a, b, message) {
    if (compareValues(a, b) !== 0) fail(`[${tojson(a)}] != [${tojson(b)}] are not equal : ${message}`);
  },
  neq(a, b, message) {
    if (compareValues(a, b) === 0) fail(`[${tojson(a)}] == [${tojson(b)}] are equal : ${message}`);
  },
  throws(body, parameters, message) {
    try {
      body.apply(null, parameters || []);
    } catch (error) {
      return error;
    }
    return fail(`did not throw exception: ${message}`);
  },
});

const ARRAY_FUNCTIONS = {
  contains: (array, wanted) => array.some((item) => item === wanted || (item == wanted && item !== undefined)),
  unique: (array) => array.filter((item, i) => array.findIndex((other) => other === item) === i),
  sum(array) {
    if (array.length === 0) return null;
    return array.slice(1).reduce((total, item) => total + item, array[0]);
  },
  avg: (array) => (array.length === 0 ? null : ARRAY_FUNCTIONS.sum(array) / array.length),
  stdDev(array) {
    const mean = ARRAY_FUNCTIONS.avg(array);
    return Math.sqrt(array.reduce((total, item) => total + (item - mean) ** 2, 0) / array.length);
  },
  tojson: (array, indent, oneLine) => tojsonObject(array, indent, oneLine),
};

const OBJECT_FUNCTIONS = {
  extend(target, source) {
    for (const name in source) target[name] = source[name];
    return target;
  },
  merge: (first, second) => OBJECT_FUNCTIONS.extend(OBJECT_FUNCTIONS.extend({}, first), second),
  keySet: (object) => Object.keys(object),
  bsonsize: (object) => bsonSize(object),
};

const NAMES = {
  ObjectId,
  NumberLong,
  NumberInt,
  NumberDecimal,
  Timestamp,
  BinData,
  HexData,
  MD5,
  UUID,
  ISODate,
  DBRef,
  DBPointer,
  Code,
  MinKey,
  MaxKey,
  tojson,
  tojsonObject,
  tojsononeline,
  assert,
  doassert: fail,
  tostrictjson: (value) => JSON.stringify(value),
  isObject: (value) => typeof value === "object",
  isString: (value) => typeof value === "string",
  isNumber: (value) => typeof value === "number",
  hex_md5(text) {
    if (arguments.length !== 1 || typeof text !== "string") {
      throw new Refusal(10261, "hex_md5 takes a single string argument -- hex_md5(string)");
    }
    return md5(text);
  },
  bsonWoCompare(a, b) {
    if (arguments.length !== 2) throw new Refusal(2, "bsonWoCompare needs 2 arguments");
    return compareValues(a, b);
  },
  bsonBinaryEqual: (a, b) => bsonBytes(a) === bsonBytes(b),
  friendlyEqual: (a, b) => compareValues(a, b) === 0,
};

function installGlobals(extra) {
  hide(globalThis, NAMES);
  hide(globalThis, extra);
  hide(Array, ARRAY_FUNCTIONS);
  hide(Object, OBJECT_FUNCTIONS);
  hide(String.prototype, {
    ltrim: String.prototype.trimStart,
    rtrim: String.prototype.trimEnd,
    pad(length, right, filler) {
      const fill = filler === undefined ? " " : filler;
      return right ? this.padEnd(length, fill) : this.padStart(length, fill);
    },
  });
  hide(Number.prototype, {
    zeroPad(width) {
      return String(this).padStart(width, "0");
    },
    toPercentStr() {
      return (this * 100).toFixed(2) + "%";
    },
  });
  hide(RegExp, { escape: (text) => text.replace(/[-[\]{}()*+?.,\\^$|#\s/]/g, "\\$&") });
  extendNativeTypes();
}
