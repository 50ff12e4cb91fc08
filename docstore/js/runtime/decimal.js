// Decimal128: text to the sixteen bytes of the BSON form and back, and exact comparison with other numbers.
//
// A finite value is `sign * coefficient * 10^exponent` with a coefficient of at most 34 digits and an exponent in
// [-6176, 6111]; the text form is that of the General Decimal Arithmetic specification. Sources: IEEE 754-2008 (binary
// integer encoding) and the BSON Decimal128 specification.

const DECIMAL_BIAS = 6176;
const DECIMAL_LIMIT = 10n ** 34n;

class NumberDecimalBody {
  #high;
  #low;
  constructor(high, low) {
    this.#high = high;
    this.#low = low;
  } // two unsigned 64-bit halves
  static high(decimal) {
    return decimal.#high;
  }
  static low(decimal) {
    return decimal.#low;
  }
  toString() {
    return `NumberDecimal("${decimalText(this)}")`;
  }
  tojson() {
    return this.toString();
  }
  toJSON() {
    return { $numberDecimal: decimalText(this) };
  }
}

// {special: "NaN" | "Infinity"} or {negative, coefficient, exponent}
function decimalParts(decimal) {
  const high = NumberDecimalBody.high(decimal);
  const negative = high >> 63n === 1n;
  const combination = (high >> 58n) & 0x1fn;
  if (combination === 0x1fn) return { special: "NaN", negative };
  if (combination === 0x1en) return { special: "Infinity", negative };
  let exponent, coefficient;
  if (combination >> 3n === 3n) {
    // the second form can only hold coefficients out of range: they count as zero
    exponent = Number((high >> 47n) & 0x3fffn);
    coefficient = 0n;
  } else {
    exponent = Number((high >> 49n) & 0x3fffn);
    coefficient = ((high & 0x1ffffffffffffn) << 64n) | NumberDecimalBody.low(decimal);
    if (coefficient >= DECIMAL_LIMIT) coefficient = 0n;
  }
  return { negative, coefficient, exponent: exponent - DECIMAL_BIAS };
}

function decimalText(decimal) {
  const { special, negative, coefficient, exponent } = decimalParts(decimal);
  if (special === "NaN") return "NaN";
  const sign = negative ? "-" : "";
  if (special) return sign + special;
  const digits = String(coefficient);
  const scientific = exponent + digits.length - 1;
  if (exponent > 0 || scientific < -6) {
    const fraction = digits.length > 1 ? "." + digits.slice(1) : "";
    return `${sign}${digits[0]}${fraction}E${scientific >= 0 ? "+" : ""}${scientific}`;
  }
  if (exponent === 0) return sign + digits;
  const padded = digits.padStart(1 - exponent, "0");
  return `${sign}${padded.slice(0, exponent)}.${padded.slice(exponent)}`;
}

function decimalFromParts(negative, coefficient, exponent) {
  const sign = negative ? 1n << 63n : 0n;
  const high = sign | (BigInt(exponent + DECIMAL_BIAS) << 49n) | (coefficient >> 64n);
  return new NumberDecimalBody(high, coefficient & 0xffffffffffffffffn);
}

// Drop digits beyond 34, ties to even.
function roundCoefficient(coefficient, exponent) {
  while (coefficient >= DECIMAL_LIMIT) {
    const excess = String(coefficient).length - 34;
    const unit = 10n ** BigInt(excess);
    const rest = coefficient % unit;
    coefficient /= unit;
    exponent += excess;
    if (rest * 2n > unit || (rest * 2n === unit && coefficient % 2n === 1n)) coefficient += 1n;
  }
  return [coefficient, exponent];
}

function decimalFromText(text) {
  const special = /^([+-]?)(?:(inf(?:inity)?)|nan)$/i.exec(text);
  if (special) {
    if (!special[2]) return new NumberDecimalBody(0x7c00000000000000n, 0n);
    return new NumberDecimalBody(special[1] === "-" ? 0xf800000000000000n : 0x7800000000000000n, 0n);
  }
  const match = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,9}))?$/.exec(text);
  if (match === null || (!match[2] && !match[3])) throw new Refusal(2, "Input is not a valid Decimal128 value.");
  const fraction = match[3] || "";
  let [coefficient, exponent] = roundCoefficient(
    BigInt((match[2] || "") + fraction),
    Number(match[4] || 0) - fraction.length,
  );
  while (exponent > 6111 && coefficient !== 0n && coefficient * 10n < DECIMAL_LIMIT) {
    coefficient *= 10n;
    exponent -= 1;
  }
  while (exponent < -6176 && coefficient !== 0n && coefficient % 10n === 0n) {
    coefficient /= 10n;
    exponent += 1;
  }
  if (coefficient === 0n) exponent = Math.max(-6176, Math.min(6111, exponent));
  if (exponent > 6111 || exponent < -6176) throw new Refusal(2, "Input is not a valid Decimal128 value.");
  return decimalFromParts(match[1] === "-", coefficient, exponent);
}

const NumberDecimal = factoryFor(NumberDecimalBody, function NumberDecimal(value) {
  if (arguments.length === 0) return decimalFromText("0");
  if (value instanceof NumberDecimalBody) {
    return new NumberDecimalBody(NumberDecimalBody.high(value), NumberDecimalBody.low(value));
  }
  if (value instanceof NumberLongBody) return decimalFromText(String(NumberLongBody.exact(value)));
  if (value instanceof NumberIntBody) return decimalFromText(String(NumberIntBody.value(value)));
  if (typeof value !== "number") return decimalFromText(String(value).trim());
  if (!Number.isFinite(value)) return decimalFromText(String(value));
  if (Number.isInteger(value) && Math.abs(value) < 2147483648) return decimalFromText(String(value));
  return decimalFromText(value.toPrecision(15)); // a double carries fifteen decimal digits
});

// ---- One order for numbers of every type. A "scalar" is a number, a BigInt, or (for a decimal that is neither) its
// parts.

function scalarOf(value) {
  if (typeof value === "number") return value;
  if (value instanceof NumberLongBody) {
    return NumberLongBody.fits(value) ? NumberLongBody.approximate(value) : narrow(NumberLongBody.exact(value));
  }
  if (value instanceof NumberIntBody) return NumberIntBody.value(value);
  const parts = decimalParts(value);
  if (parts.special) return parts.special === "NaN" ? NaN : parts.negative ? -Infinity : Infinity;
  const signed = parts.negative ? -parts.coefficient : parts.coefficient;
  if (signed === 0n) return 0;
  if (parts.exponent >= 0 && parts.exponent < 400) return narrow(signed * 10n ** BigInt(parts.exponent));
  const near = Number(`${signed}e${parts.exponent}`);
  if (Number.isFinite(near) && compareFraction(signed, parts.exponent, near) === 0) return near;
  return { signed, exponent: parts.exponent };
}

// An integer as a double when the double is exact, so that equal values are equal as Map keys.
function narrow(integer) {
  const near = Number(integer);
  return Number.isFinite(near) && BigInt(near) === integer ? near : integer;
}

// signed * 10^exponent against a finite double, exactly
function compareFraction(signed, exponent, double) {
  let scale = 0n;
  let rest = double;
  while (!Number.isInteger(rest)) {
    rest *= 2;
    scale += 1n;
  }
  let left = signed << scale;
  let right = BigInt(rest);
  if (exponent >= 0) left *= 10n ** BigInt(exponent);
  else right *= 10n ** BigInt(-exponent);
  return left < right ? -1 : left > right ? 1 : 0;
}

function compareScalars(a, b) {
  const nanA = a !== a,
    nanB = b !== b;
  if (nanA || nanB) return nanA ? (nanB ? 0 : -1) : 1;
  const partsA = typeof a === "object",
    partsB = typeof b === "object";
  if (!partsA && !partsB) return a < b ? -1 : a > b ? 1 : 0;
  if (!partsA) return -compareScalars(b, a);
  if (partsB) {
    const least = Math.min(a.exponent, b.exponent);
    const left = a.signed * 10n ** BigInt(a.exponent - least);
    const right = b.signed * 10n ** BigInt(b.exponent - least);
    return left < right ? -1 : left > right ? 1 : 0;
  }
  if (b === Infinity) return -1;
  if (b === -Infinity) return 1;
  if (typeof b === "bigint") {
    const right = a.exponent < 0 ? b * 10n ** BigInt(-a.exponent) : b;
    const left = a.exponent < 0 ? a.signed : a.signed * 10n ** BigInt(a.exponent);
    return left < right ? -1 : left > right ? 1 : 0;
  }
  return compareFraction(a.signed, a.exponent, b);
}

// Text that is the same for equal numbers of any type.
function scalarText(scalar) {
  if (typeof scalar === "number") return Number.isInteger(scalar) ? String(BigInt(scalar)) : String(scalar);
  if (typeof scalar === "bigint") return String(scalar);
  let { signed, exponent } = scalar;
  while (signed % 10n === 0n) {
    signed /= 10n;
    exponent += 1;
  }
  return `${signed}e${exponent}`;
}
