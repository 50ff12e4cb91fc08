// Dates as ISO text, both ways. Years beyond four digits are written in full and cannot be read back.

const ISO_DATE = new RegExp(
  "^(\\d{4})-?(\\d{2})-?(\\d{2})" +
    "(?:[T ](\\d{2})(?::?(\\d{2})(?::?(\\d{2})(?:\\.(\\d+))?)?)?(Z|[+-]\\d{2}(?::?\\d{2})?)?)?$",
);

function ISODate(text) {
  if (text === undefined) return new Date();
  if (text instanceof Date) return new Date(text.getTime());
  const parts = ISO_DATE.exec(String(text));
  if (parts === null) throw new Error("invalid ISO date: " + text);
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part || 0));
  const fraction = parts[7] ? Math.floor(Number("0." + parts[7]) * 1000 + 1e-6) : 0;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, fraction);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 24 || minute > 59 || second > 60) {
    throw new Error("invalid ISO date: " + text);
  }
  let milliseconds = date.getTime();
  if (parts[8] && parts[8] !== "Z") {
    const digits = parts[8].replace(/[+:-]/g, "").padEnd(4, "0");
    const offset = (Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2))) * 60000;
    milliseconds += parts[8][0] === "-" ? offset : -offset;
  }
  return new Date(milliseconds);
}

function isoText(date) {
  const pad = (value, width) => String(value).padStart(width, "0");
  const year = pad(date.getUTCFullYear(), 4),
    month = pad(date.getUTCMonth() + 1, 2),
    day = pad(date.getUTCDate(), 2);
  const hour = pad(date.getUTCHours(), 2),
    minute = pad(date.getUTCMinutes(), 2),
    second = pad(date.getUTCSeconds(), 2);
  const fraction = date.getUTCMilliseconds() ? "." + pad(date.getUTCMilliseconds(), 3) : "";
  return `ISODate("${year}-${month}-${day}T${hour}:${minute}:${second}${fraction}Z")`;
}
