// What people type, as the shell's users write it, to canonical extended JSON. A parser, not an evaluation: names,
// texts in either quotes, numbers, regular expressions, and the constructors of types.

export class SyntaxProblem extends Error {}

const CONSTRUCTORS = {
  ObjectId: ([hex]) => ({ $oid: String(hex) }),
  ISODate: ([date]) => ({ $date: { $numberLong: millis(date) } }),
  Date: ([date]) => ({ $date: { $numberLong: typeof raw(date) === "number" ? String(raw(date)) : millis(date) } }),
  NumberInt: ([value]) => ({ $numberInt: String(raw(value)) }),
  NumberLong: ([value]) => ({ $numberLong: String(raw(value)) }),
  NumberDecimal: ([value]) => ({ $numberDecimal: String(raw(value)) }),
  UUID: ([value]) => ({ $uuid: String(value) }),
  Timestamp: ([t, i]) => ({ $timestamp: { t: raw(t), i: raw(i) } }),
  BinData: ([kind, base64]) => ({ $binary: { base64: String(base64), subType: raw(kind).toString(16).padStart(2, "0") } }),
  RegExp: ([pattern, options]) => ({ $regularExpression: { pattern, options: options ?? "" } }),
};
const WORDS = {
  true: true, false: false, null: null, undefined: { $undefined: true }, MinKey: { $minKey: 1 }, MaxKey: { $maxKey: 1 },
  NaN: { $numberDouble: "NaN" }, Infinity: { $numberDouble: "Infinity" },
};
const NUMBER = /-?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)/y;
const WORD = /[A-Za-z_$][\w$]*/y;
const ESCAPES = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", 0: "\0" };
const DEEPEST = 150;

function raw(value) {
  if (value !== null && typeof value === "object") return Number(Object.values(value)[0]);
  return value;
}

function millis(date) {
  const found = date === undefined ? Date.now() : Date.parse(date);
  if (Number.isNaN(found)) throw new SyntaxProblem(`${date} is no date`);
  return String(found);
}

class Reader {
  constructor(source) {
    this.source = source;
    this.at = 0;
    this.depth = 0;
  }

  fail(wanted) {
    const found = this.at < this.source.length ? `"${this.source.slice(this.at, this.at + 10)}"` : "the end";
    throw new SyntaxProblem(`at ${this.at + 1}: ${wanted} is missing before ${found}`);
  }

  space() {
    const found = /(?:\s+|\/\/[^\n]*|\/\*[^]*?\*\/)*/y;
    found.lastIndex = this.at;
    this.at += found.exec(this.source)[0].length;
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.source);
    if (found) this.at += found[0].length;
    return found?.[0];
  }

  take(character) {
    this.space();
    if (this.source[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  value() {
    this.space();
    this.depth += 1;
    if (this.depth > DEEPEST) throw new SyntaxProblem("it is nested too deeply");
    const found = this.one(this.source[this.at]);
    this.depth -= 1;
    return found;
  }

  one(next) {
    if (next === "{") return this.object();
    if (next === "[") { this.at += 1; return this.list("]"); }
    if (next === '"' || next === "'") return this.string(next);
    if (next === "/") return this.expression();
    const digits = this.match(NUMBER);
    if (digits !== undefined) return numeric(digits);
    const word = this.match(WORD);
    if (word === undefined) return this.fail("a value");
    return this.word(word);
  }

  word(word) {
    if (word === "new") { this.space(); return this.word(this.match(WORD) ?? this.fail("a type")); }
    if (this.take("(")) {
      if (!Object.hasOwn(CONSTRUCTORS, word)) throw new SyntaxProblem(`there is no type ${word}`);
      return CONSTRUCTORS[word](this.list(")"));
    }
    if (!Object.hasOwn(WORDS, word)) throw new SyntaxProblem(`${word} is no value; texts stand in quotes`);
    return WORDS[word];
  }

  list(end) {
    const found = [];
    while (!this.take(end)) {
      found.push(this.value());
      if (!this.take(",")) { if (!this.take(end)) this.fail(`, or ${end}`); break; }
    }
    return found;
  }

  object() {
    this.at += 1;
    const found = {};
    while (!this.take("}")) {
      this.space();
      const quote = this.source[this.at];
      const name = quote === '"' || quote === "'" ? this.string(quote) : (this.match(/[\w$.]+/y) ?? this.fail("a name"));
      if (!this.take(":")) this.fail(":");
      Object.defineProperty(found, name, { value: this.value(), enumerable: true, writable: true, configurable: true });
      if (!this.take(",")) { if (!this.take("}")) this.fail(", or }"); break; }
    }
    return found;
  }

  string(quote) {
    let found = "";
    for (this.at += 1; this.at < this.source.length; this.at += 1) {
      const next = this.source[this.at];
      if (next === quote) { this.at += 1; return found; }
      found += next === "\\" ? this.escape() : next;
    }
    return this.fail("the end of a text");
  }

  escape() {
    this.at += 1;
    const next = this.source[this.at];
    const digits = { u: 4, x: 2 }[next];
    if (digits === undefined) return ESCAPES[next] ?? next ?? "";
    const code = this.source.slice(this.at + 1, this.at + 1 + digits);
    if (!/^[\da-fA-F]+$/.test(code) || code.length < digits) this.fail(`${digits} hexadecimal digits`);
    this.at += digits;
    return String.fromCharCode(parseInt(code, 16));
  }

  expression() {
    const found = this.match(/\/(?:[^/\\\n]|\\.)+\/[a-z]*/y) ?? this.fail("the end of a regular expression");
    const end = found.lastIndexOf("/");
    return { $regularExpression: { pattern: found.slice(1, end).replaceAll("\\/", "/"), options: [...found.slice(end + 1)].sort().join("") } };
  }
}

function numeric(digits) {
  const value = Number(digits);
  if (Object.is(value, -0)) return { $numberDouble: "-0.0" };
  if (!/^-?\d+$/.test(digits)) return { $numberDouble: digits.endsWith("Infinity") ? digits : String(value) };
  if (value >= -2147483648 && value <= 2147483647) return { $numberInt: String(value) };
  return BigInt.asIntN(64, BigInt(digits)) === BigInt(digits) ? { $numberLong: digits } : { $numberDouble: String(value) };
}

/** The value that a text stands for, in canonical extended JSON. Errors: SyntaxProblem. */
export function parse(source) {
  const reader = new Reader(source);
  const found = reader.value();
  reader.space();
  if (reader.at < source.length) reader.fail("the end");
  return found;
}

/** The same of a text that may be empty and has to be a document. */
export function parseDocument(source, what) {
  if (!source.trim()) return {};
  let found;
  try { found = parse(source); } catch (error) {
    if (error instanceof SyntaxProblem) throw new SyntaxProblem(`${what}: ${error.message}`);
    throw error;
  }
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw new SyntaxProblem(`${what} is no document`);
  return found;
}
