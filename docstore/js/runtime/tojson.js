// Values as text, laid out as the classic shell lays them out: tabs, `"name" : value`, and one line when it is short.

const ONE_LINE = 80;

const ESCAPES = new Map([
  ["\b", "\\b"],
  ["\t", "\\t"],
  ["\n", "\\n"],
  ["\f", "\\f"],
  ["\r", "\\r"],
  ['"', '\\"'],
  ["\\", "\\\\"],
]);

function quoted(text) {
  // eslint-disable-next-line no-control-regex
  return (
    '"' +
    text.replace(
      /["\\\u0000-\u001f]/g,
      (found) => ESCAPES.get(found) || "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"),
    ) +
    '"'
  );
}

// `indent` is the text before each line; `oneLine` true never breaks lines, false always does, undefined breaks long
// ones.
function tojson(value, indent, oneLine, depth) {
  if (value === null) return "null";
  switch (typeof value) {
    case "undefined":
      return "undefined";
    case "number":
    case "boolean":
      return String(value);
    case "string":
      return quoted(value);
    case "bigint":
      return String(value);
    case "function":
      return hasOwn(value, "tojson") ? value.tojson() : value.toString();
    case "object": {
      const prefix = indent === undefined || indent === null ? "" : indent;
      const text = tojsonObject(value, prefix, oneLine, depth);
      const short =
        (oneLine === undefined || oneLine === null || oneLine === true) && text.length < ONE_LINE && prefix === "";
      return short ? text.replace(/[\t\r\n]+/g, " ") : text;
    }
    default:
      throw new Error(`tojson can't handle type ${typeof value}`);
  }
}

const hasOwn = (object, name) => Object.prototype.hasOwnProperty.call(object, name);

function tojsonObject(value, indent, oneLine, depth) {
  const prefix = indent === undefined || indent === null ? "" : indent;
  const level = depth || 0;
  if (level > 150) return '"[nested more than 150 levels deep]"';
  if (typeof value.tojson === "function" && value.tojson !== tojson) return value.tojson(prefix, oneLine, level);
  if (Array.isArray(value)) return tojsonArray(value, prefix, oneLine, level);
  if (value instanceof Error || value instanceof RegExp) return String(value);
  if (value instanceof Map || value instanceof Set) {
    const items = value.size ? tojsonArray([...value], prefix, oneLine, level) : "";
    return `new ${value instanceof Map ? "Map" : "Set"}(${items})`;
  }
  const newline = oneLine ? " " : "\n";
  const inner = prefix + (oneLine ? "" : "\t");
  const fields = [];
  for (const name in value) {
    const field = value[name];
    if (typeof field !== "function" || hasOwn(value, name)) {
      fields.push(`${inner}${quoted(name)} : ${tojson(field, inner, oneLine, level + 1)}`);
    }
  }
  const body = fields.length ? fields.join("," + newline) : inner;
  return `{${newline}${body}${newline}${closing(inner)}}`;
}

// The closing bracket stands one step left of what it encloses.
function closing(inner) {
  return inner.substring(1);
}

function tojsonArray(array, indent, oneLine, depth) {
  if (array.length === 0) return "[ ]";
  const newline = oneLine ? " " : "\n";
  const inner = oneLine ? "" : indent + "\t";
  const items = Array.from(array, (item) => inner + tojson(item, inner, oneLine, depth + 1));
  return `[${newline}${items.join("," + newline)}${newline}${oneLine ? "" : indent}]`;
}

function tojsononeline(value) {
  return tojson(value, " ", true);
}

// JavaScript's own types get their classic-shell text too.
const nativeDateText = Date.prototype.toString;

function extendNativeTypes() {
  hide(Date.prototype, {
    toString() {
      return nativeDateText.call(this).replace("(Coordinated Universal Time)", "(UTC)");
    },
    tojson() {
      return isoText(this);
    },
  });
  hide(RegExp.prototype, {
    tojson() {
      return this.toString();
    },
    toJSON() {
      return { $regex: this.source, $options: this.flags };
    },
  });
}
