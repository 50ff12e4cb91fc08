// JavaScript values to BSON bytes, into one growing buffer.
//
// * A plain number is a double, unless the object it sits in remembers the field as int32 and the value still is one.
// * Objects contribute their own enumerable string keys; undefined is written as null, a function as code.
// * `rewind()` starts over; what has been written is `output.subarray(0, end)`.

const MAX_DOCUMENT = 16 * 1024 * 1024;
const MAX_DEPTH = 180;

let output = new Uint8Array(FIXED_OUTPUT || 1 << 21);
let outputView = new DataView(output.buffer);
let end = 0;
let undefinedType = 10;

// A failure with MongoDB's code, as opposed to an error thrown by user code.
class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.refusalCode = code;
  }
}

function rewind() {
  end = 0;
}

function reserve(size) {
  if (end + size <= output.length) return;
  if (FIXED_OUTPUT) throw new Refusal(10334, `a message of more than ${FIXED_OUTPUT} bytes is too large`);
  const larger = new Uint8Array(Math.max(output.length * 2, end + size));
  larger.set(output.subarray(0, end));
  output = larger;
  outputView = new DataView(output.buffer);
}

function writeInt32(value) {
  outputView.setInt32(end, value, true);
  end += 4;
}

// UTF-8 of a string, without its length; room for it has been reserved. Lone surrogates become U+FFFD.
function writeUtf8(text) {
  for (let i = 0; i < text.length; i++) {
    let point = text.charCodeAt(i);
    if (point < 0x80) {
      output[end++] = point;
      continue;
    }
    if (point >= 0xd800 && point < 0xe000) {
      const next = i + 1 < text.length ? text.charCodeAt(i + 1) : 0;
      if (point < 0xdc00 && next >= 0xdc00 && next < 0xe000) {
        point = 0x10000 + ((point - 0xd800) << 10) + (next - 0xdc00);
        i++;
      } else {
        point = 0xfffd;
      }
    }
    if (point < 0x800) {
      output[end++] = 0xc0 | (point >> 6);
    } else {
      if (point < 0x10000) {
        output[end++] = 0xe0 | (point >> 12);
      } else {
        output[end++] = 0xf0 | (point >> 18);
        output[end++] = 0x80 | ((point >> 12) & 0x3f);
      }
      output[end++] = 0x80 | ((point >> 6) & 0x3f);
    }
    output[end++] = 0x80 | (point & 0x3f);
  }
}

function writeCString(text) {
  reserve(text.length * 3 + 1);
  if (text.includes("\0"))
    throw new Refusal(2, "field names and regular expressions may not contain a NUL character");
  writeUtf8(text);
  output[end++] = 0;
}

function writeString(text) {
  reserve(text.length * 3 + 5);
  const start = end;
  end += 4;
  writeUtf8(text);
  output[end++] = 0;
  outputView.setInt32(start, end - start - 4, true);
}

function writeLatin1(raw) {
  reserve(raw.length);
  for (let i = 0; i < raw.length; i++) output[end++] = raw.charCodeAt(i);
}

// The type byte and the name of a field; the type is often only known after the value has been looked at.
function writeHead(type, name) {
  reserve(1);
  output[end++] = type;
  writeCString(name);
}

function writeDouble(name, value) {
  writeHead(1, name);
  reserve(8);
  outputView.setFloat64(end, value, true);
  end += 8;
}

// One field. `wasInt` says that the containing object remembers this field as int32.
function writeField(name, value, wasInt, depth) {
  switch (typeof value) {
    case "number":
      if (wasInt && (value | 0) === value && !Object.is(value, -0)) {
        writeHead(16, name);
        reserve(4);
        writeInt32(value);
      } else {
        writeDouble(name, value);
      }
      return;
    case "string":
      writeHead(2, name);
      writeString(value);
      return;
    case "boolean":
      writeHead(8, name);
      reserve(1);
      output[end++] = value ? 1 : 0;
      return;
    case "undefined":
      writeHead(undefinedType, name);
      return;
    case "function":
      writeFunction(name, value);
      return;
    case "object":
      if (value === null) writeHead(10, name);
      else writeObject(name, value, depth);
      return;
    default:
      throw new Refusal(2, `cannot convert a ${typeof value} to BSON`);
  }
}

function writeObject(name, value, depth) {
  if (depth > MAX_DEPTH)
    throw new Refusal(15, `document is nested more than ${MAX_DEPTH} levels deep, or contains itself`);
  const prototype = Object.getPrototypeOf(value);
  if (prototype === Object.prototype) {
    writeHead(3, name);
    writeBody(value, depth);
    return;
  }
  if (Array.isArray(value)) {
    writeHead(4, name);
    writeElements(value, depth);
    return;
  }
  const writer = WRITERS.get(prototype);
  if (writer !== undefined) {
    writer(name, value, depth);
  } else if (value instanceof Date) {
    // a value whose prototype was replaced is still what it is
    writeDate(name, value);
  } else {
    writeHead(3, name);
    writeBody(value, depth);
  }
}

// A whole document, top level or nested.
function writeBody(value, depth) {
  reserve(5);
  const start = end;
  end += 4;
  const ints = value[INT32];
  const names = Object.keys(value);
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    writeField(name, value[name], ints !== undefined && ints.has(name), depth + 1);
  }
  finish(start);
}

function writeElements(array, depth) {
  reserve(5);
  const start = end;
  end += 4;
  const ints = array[INT32];
  for (let i = 0; i < array.length; i++) {
    writeField(String(i), array[i], ints !== undefined && ints.has(i), depth + 1);
  }
  finish(start);
}

function finish(start) {
  reserve(1);
  output[end++] = 0;
  outputView.setInt32(start, end - start, true);
}

function writeFunction(name, value) {
  if (value === MinKey) {
    writeHead(255, name);
    return;
  }
  if (value === MaxKey) {
    writeHead(127, name);
    return;
  }
  const stored = storedCode.get(value);
  if (stored !== undefined && stored.scopeBytes !== undefined) {
    writeScopedCode(name, stored.source, stored.scopeBytes);
  } else {
    writeHead(13, name);
    writeString(stored !== undefined ? stored.source : Function.prototype.toString.call(value));
  }
}

function writeScopedCode(name, source, scopeBytes) {
  writeHead(15, name);
  reserve(4);
  const start = end;
  end += 4;
  writeString(source);
  reserve(scopeBytes.length);
  output.set(scopeBytes, end);
  end += scopeBytes.length;
  outputView.setInt32(start, end - start, true);
}

function writeHalves(high, low) {
  reserve(8);
  outputView.setInt32(end, low, true);
  outputView.setInt32(end + 4, high, true);
  end += 8;
}

function writeDate(name, value) {
  writeHead(9, name);
  const milliseconds = Date.prototype.getTime.call(value);
  let exact = value[RAW_DATE];
  if (milliseconds === milliseconds) exact = BigInt(milliseconds);
  else if (exact === undefined) exact = 0n; // an invalid date
  reserve(8);
  outputView.setBigInt64(end, exact, true);
  end += 8;
}

function writeBinary(name, value) {
  const raw = BinDataBody.raw(value);
  const subtype = BinDataBody.subtype(value);
  writeHead(5, name);
  reserve(9);
  writeInt32(subtype === 2 ? raw.length + 4 : raw.length);
  output[end++] = subtype;
  if (subtype === 2) writeInt32(raw.length);
  writeLatin1(raw);
}

function writeExpression(name, value) {
  writeHead(11, name);
  const [pattern, options] = expressionParts(value);
  writeCString(pattern);
  writeCString(options);
}

function writeDecimal(name, value) {
  writeHead(19, name);
  reserve(16);
  outputView.setBigUint64(end, NumberDecimalBody.low(value), true);
  outputView.setBigUint64(end + 8, NumberDecimalBody.high(value), true);
  end += 16;
}

function writeCode(name, value) {
  if (value.scope === undefined) {
    writeHead(13, name);
    writeString(String(value.code));
    return;
  }
  writeHead(15, name);
  reserve(4);
  const start = end;
  end += 4;
  writeString(String(value.code));
  writeBody(value.scope, 1);
  outputView.setInt32(start, end - start, true);
}

const WRITERS = new Map([
  [
    ObjectIdBody.prototype,
    (name, value) => {
      writeHead(7, name);
      writeLatin1(ObjectIdBody.raw(value));
    },
  ],
  [
    NumberLongBody.prototype,
    (name, value) => {
      writeHead(18, name);
      writeHalves(NumberLongBody.high(value), NumberLongBody.low(value));
    },
  ],
  [
    NumberIntBody.prototype,
    (name, value) => {
      writeHead(16, name);
      reserve(4);
      writeInt32(NumberIntBody.value(value));
    },
  ],
  [NumberDecimalBody.prototype, writeDecimal],
  [
    TimestampBody.prototype,
    (name, value) => {
      writeHead(17, name);
      writeHalves(value.t, value.i);
    },
  ],
  [BinDataBody.prototype, writeBinary],
  [Date.prototype, writeDate],
  [RegExp.prototype, writeExpression],
  [CodeBody.prototype, writeCode],
  [
    DBPointerBody.prototype,
    (name, value) => {
      writeHead(12, name);
      writeString(value.ns);
      writeLatin1(ObjectIdBody.raw(value.id));
    },
  ],
  [Number.prototype, (name, value) => writeDouble(name, Number(value))],
  [
    String.prototype,
    (name, value) => {
      writeHead(2, name);
      writeString(String(value));
    },
  ],
  [
    Boolean.prototype,
    (name, value) => {
      writeHead(8, name);
      reserve(1);
      output[end++] = value.valueOf() ? 1 : 0;
    },
  ],
]);

function writeDocument(value) {
  writeBody(value, 0);
}
