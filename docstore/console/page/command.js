// Any command, by hand.

import * as api from "./api.js";
import { el, replace } from "./dom.js";
import { parse, SyntaxProblem } from "./syntax.js";
import { text } from "./values.js";

const MOST_REMEMBERED = 50;
const remembered = [];

export function command(body) {
  const db = el("input", { id: "command-db", value: "test", required: true, size: 20 });
  const input = el("textarea", { id: "command-text", rows: 6, spellcheck: "false", autocomplete: "off", "aria-describedby": "command-help", value: "{ ping: 1 }" });
  const output = el("div", { class: "log", role: "log", "aria-label": "Replies" });
  let place = remembered.length;
  async function submit(event) {
    event?.preventDefault();
    const source = input.value;
    const entry = el("article", {}, el("h2", {}, `${db.value}: `, el("code", {}, source)));
    output.prepend(entry);
    try {
      const parsed = parse(source);
      if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) throw new SyntaxProblem("a command is a document");
      remembered.push(source);
      if (remembered.length > MOST_REMEMBERED) remembered.shift();
      place = remembered.length;
      const began = performance.now();
      const reply = await api.send(db.value, parsed);
      entry.append(el("p", {}, `${Math.round(performance.now() - began)} ms`), el("pre", { tabindex: 0 }, text(reply, "")));
    } catch (error) {
      if (error instanceof api.LoginNeeded) throw error;
      entry.append(el("p", { class: "problem" }, `${error.codeName ? `${error.codeName} (${error.code}): ` : ""}${error.message}`));
    }
    while (output.children.length > MOST_REMEMBERED) output.lastChild.remove();
  }
  function key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && event.altKey && remembered.length) {
      event.preventDefault();
      place = Math.min(Math.max(place + step, 0), remembered.length - 1);
      input.value = remembered[place];
    }
  }
  input.addEventListener("keydown", key);
  body.append(
    el("form", { onsubmit: submit },
      el("label", { for: "command-db" }, "Database"), db,
      el("label", { for: "command-text" }, "Command"), input,
      el("p", { id: "command-help", class: "hint" }, "A command as the shell's db.runCommand() takes it, such as { count: \"posts\", query: { _id: ObjectId(\"…\") } }. Ctrl+Enter runs it, Alt+Up and Alt+Down bring back earlier ones. What it may do is what your user may do."),
      el("button", { type: "submit" }, "Run")),
    output);
  return { async read() { replace(document.getElementById("status")); } };
}
