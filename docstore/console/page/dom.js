// Elements made of values. Text is always text: nothing here takes markup.

const SVG = "http://www.w3.org/2000/svg";

function make(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "key") element.dataset.key = value;
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const el = (tag, properties, ...children) => make(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => make(document.createElementNS(SVG, tag), properties, children);

/** Put other children into a region that is read or used meanwhile: what has a `key` keeps its focus and stays open. */
export function replace(region, ...children) {
  const focused = region.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const kept = new Map([...region.querySelectorAll("details[data-key]")].map((each) => [each.dataset.key, each.open]));
  const scrolled = new Map([...region.querySelectorAll(".wide[data-key]")].map((each) => [each.dataset.key, each.scrollLeft]));
  region.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  for (const each of region.querySelectorAll("details[data-key]")) {
    if (kept.has(each.dataset.key)) each.open = kept.get(each.dataset.key);
  }
  for (const each of region.querySelectorAll(".wide[data-key]")) each.scrollLeft = scrolled.get(each.dataset.key) ?? 0;
  if (focused !== undefined) region.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

/** A table. `columns`: texts, or {text, number: true} for figures; `rows`: lists of texts or elements. `headed`: a
 * heading says already what the caption says. */
export function table(caption, columns, rows, key, headed = false) {
  const heads = columns.map((column) => (typeof column === "string" ? { text: column } : column));
  const cell = (content, index) => el(index ? "td" : "th", { scope: index ? null : "row", class: heads[index].number ? "number" : null }, content ?? "");
  return el("div", { class: "wide", key, tabindex: 0, role: "region", "aria-label": caption },
    el("table", {},
      el("caption", { class: headed ? "unseen" : null }, caption),
      el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head.number ? "number" : null }, head.text)))),
      el("tbody", {}, rows.length ? rows.map((row) => el("tr", {}, row.map(cell))) : el("tr", {}, el("td", { colspan: heads.length, class: "none" }, "None")))));
}

export const badge = (text, kind) => el("span", { class: `badge ${kind ?? ""}` }, text);

let announcement = 0;

/** Tell the reader, by sight and by screen reader, what has happened. */
export function tell(text, kind = "") {
  const status = document.getElementById("status");
  status.className = kind;
  status.textContent = text;
  clearTimeout(announcement);
  if (kind !== "bad") announcement = setTimeout(() => { status.textContent = ""; }, 6000);
}
