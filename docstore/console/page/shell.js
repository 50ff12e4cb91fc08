// The shell's view: lines go to the worker, what it prints comes back.

import { headers } from "./api.js";
import { el, replace } from "./dom.js";

const MOST_NODES = 2000;
const MOST_REMEMBERED = 200;
// The one script that may be made of a text is this one, whatever the text.
const policy = globalThis.trustedTypes?.createPolicy("docstore-shell", {
  createScriptURL: () => new URL("shell_worker.js", import.meta.url).href,
});
const remembered = [];
let worker = null;
let log = null;
let listener = null;

function start() {
  worker?.terminate();
  worker = new Worker(policy ? policy.createScriptURL("") : new URL("shell_worker.js", import.meta.url));
  worker.postMessage({ headers: headers("application/bson") });
  worker.onmessage = ({ data }) => listener?.(data);
  worker.onerror = (event) => listener?.({ write: `${event.message}\n`, kind: "problem" });
}

/** End the shell, and what it waits for. */
export function endShell() {
  worker?.terminate();
  worker = null;
  log = null;
}

export function shell(body) {
  log ??= el("pre", { class: "terminal", role: "log", tabindex: 0, "aria-label": "Output of the shell" });
  const prompt = el("label", { for: "shell-line", class: "prompt" }, "> ");
  const line = el("textarea", { id: "shell-line", rows: 1, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-describedby": "shell-help" });
  const stop = el("button", { type: "button", onclick: stopped }, "Stop");
  const names = el("p", { class: "hint", role: "status" });
  let place = remembered.length;
  let text = "";
  let echo = null;

  function print(written, kind) {
    const below = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    const node = el("span", { class: kind }, written);
    log.append(node);
    while (log.childNodes.length > MOST_NODES) log.firstChild.remove();
    if (below) log.scrollTop = log.scrollHeight;
    return node;
  }
  function ready(said) {
    prompt.textContent = said;
    stop.disabled = true;
  }
  listener = (data) => {
    if (data.write !== undefined) print(data.write, data.kind);
    if (data.progress !== undefined) names.textContent = data.progress;
    if (data.completions) complete(data.completions);
    if (data.unfinished) {
      echo.remove();
      line.value = `${text}\n`;
      line.rows = line.value.split("\n").length;
      ready("... ");
    }
    if (data.prompt !== undefined) { names.textContent = ""; ready(data.prompt); }
    if (data.ended) { print("bye\n"); endShell(); replace(body); shell(body); }
  };
  function stopped() {
    print("^C\n", "problem");
    start();
  }
  function complete(found) {
    const word = /[\w$]*$/.exec(line.value)[0];
    if (found.length === 1) line.value = line.value.slice(0, line.value.length - word.length) + found[0];
    names.textContent = found.length > 1 ? found.slice(0, 60).join("  ") : found.length ? "" : "Nothing begins like that.";
  }
  function key(event) {
    if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); send(); }
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); worker.postMessage({ complete: line.value }); }
    if (event.key === "c" && event.ctrlKey && line.selectionStart === line.selectionEnd && !stop.disabled) stopped();
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && (event.altKey || !line.value.includes("\n"))) {
      event.preventDefault();
      place = Math.min(Math.max(place + step, 0), remembered.length);
      line.value = remembered[place] ?? "";
    }
  }
  function send() {
    if (!stop.disabled || !worker) return;
    text = line.value;
    if (text.trim() && remembered.at(-1) !== text) remembered.push(text);
    if (remembered.length > MOST_REMEMBERED) remembered.shift();
    place = remembered.length;
    echo = print(`${prompt.textContent}${text}\n`, "typed");
    line.value = "";
    line.rows = 1;
    stop.disabled = false;
    worker.postMessage({ text });
  }
  line.addEventListener("keydown", key);
  body.append(log, el("div", { class: "shell-line" }, prompt, line, stop), names,
    el("p", { id: "shell-help", class: "hint" }, "The shell, run in this page: Enter runs, Shift+Enter begins a line, Up and Down bring back earlier ones, Ctrl+Space completes names, Stop ends what runs. It reaches this server alone, and no files; what it may do is what your user may do."));
  stop.disabled = worker !== null;
  if (worker === null) start();
  else worker.postMessage({ text: "" });
  line.focus();
  return { async read() { replace(document.getElementById("status")); } };
}
