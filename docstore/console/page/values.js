// Values of canonical extended JSON: as numbers and dates to reckon with, and as texts to read.

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** What a value of canonical extended JSON is in JavaScript: numbers, dates, texts; other types stay as they are. */
export function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (!isObject(value)) return value;
  const names = Object.keys(value);
  if (names.length === 1) {
    const inner = value[names[0]];
    switch (names[0]) {
      case "$numberInt": case "$numberLong": case "$numberDouble": case "$numberDecimal": return Number(inner);
      case "$date": return new Date(isObject(inner) ? Number(inner.$numberLong) : inner);
      case "$oid": return inner;
      case "$timestamp": return new Date(Number(inner.t) * 1000);
      default:
    }
  }
  const found = {};
  // An own property even where the name is __proto__.
  for (const name of names) Object.defineProperty(found, name, { value: plain(value[name]), enumerable: true, writable: true, configurable: true });
  return found;
}

const quoted = (text) => JSON.stringify(text);
const double = (text) => (/^-?\d+$/.test(text) ? `${text}.0` : text);

function dateText(inner) {
  const millis = isObject(inner) ? Number(inner.$numberLong) : Date.parse(inner);
  const date = new Date(millis);
  return Number.isNaN(date.getTime()) ? `new Date(${millis})` : `ISODate(${quoted(date.toISOString())})`;
}

/** The text of a value with a type of its own; undefined for a document. */
function typed(value) {
  const names = Object.keys(value);
  const inner = value[names[0]];
  if (names.length === 1) {
    switch (names[0]) {
      case "$numberInt": return String(inner);
      case "$numberLong": return `NumberLong(${quoted(inner)})`;
      case "$numberDouble": return double(String(inner));
      case "$numberDecimal": return `NumberDecimal(${quoted(inner)})`;
      case "$date": return dateText(inner);
      case "$oid": return `ObjectId(${quoted(inner)})`;
      case "$timestamp": return `Timestamp(${Number(inner.t)}, ${Number(inner.i)})`;
      case "$minKey": return "MinKey";
      case "$maxKey": return "MaxKey";
      case "$undefined": return "undefined";
      case "$symbol": return quoted(inner);
      case "$uuid": return `UUID(${quoted(inner)})`;
      case "$binary": return isObject(inner) ? `BinData(${parseInt(inner.subType, 16)}, ${quoted(inner.base64)})` : undefined;
      case "$regularExpression": return isObject(inner) ? `/${String(inner.pattern).replace(/\\[^]|\//g, (found) => (found === "/" ? "\\/" : found))}/${inner.options}` : undefined;
      default: return undefined;
    }
  }
  return undefined;
}

const nameText = (name) => (/^[A-Za-z_$][\w$]*$/.test(name) && name !== "__proto__" ? name : quoted(name));

/** A value as the shell writes it; `indent` undefined: on one line. */
export function text(value, indent) {
  if (typeof value === "string") return quoted(value);
  if (Array.isArray(value)) return listed(value.map((each) => text(each, deeper(indent))), "[", "]", indent);
  if (!isObject(value)) return String(value);
  const short = typed(value);
  if (short !== undefined) return short;
  const fields = Object.entries(value).map(([name, each]) => `${nameText(name)}: ${text(each, deeper(indent))}`);
  return listed(fields, "{", "}", indent);
}

const deeper = (indent) => (indent === undefined ? undefined : `${indent}  `);

function listed(parts, open, close, indent) {
  if (!parts.length) return open + close;
  const line = `${open} ${parts.join(", ")} ${close}`;
  if (indent === undefined || (line.length + indent.length <= 80 && !line.includes("\n"))) return line;
  return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(",\n")}\n${indent}${close}`;
}

export const short = (value, length = 120) => {
  const whole = typeof value === "string" ? value : text(value);
  return whole.length > length ? `${whole.slice(0, length - 1)}…` : whole;
};

const ENVELOPE = ["$db", "lsid", "$clusterTime", "$readPreference", "txnNumber", "autocommit", "startTransaction", "maxTimeMS", "apiVersion"];

/** A command without what every driver sends along. */
export const withoutEnvelope = (command) => Object.fromEntries(Object.entries(command).filter(([name]) => !ENVELOPE.includes(name)));

/** "1 move", "2 moves". */
export const counted = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (count >= 1024 && at < units.length - 1) { count /= 1024; at += 1; }
  return `${at ? count.toFixed(1) : count} ${units[at]}`;
}

export function seconds(count) {
  if (!Number.isFinite(count)) return "";
  if (count < 10) return `${count.toFixed(1)} s`;
  if (count < 120) return `${Math.round(count)} s`;
  if (count < 7200) return `${Math.round(count / 60)} min`;
  return count < 172800 ? `${Math.round(count / 3600)} h` : `${Math.round(count / 86400)} d`;
}

export const number = (count) => Number(count).toLocaleString("en");
export const time = (date) => (date instanceof Date && !Number.isNaN(date.getTime()) ? date.toISOString().replace("T", " ").slice(0, 19) : "");
