// The frame: who has logged in, which view is shown, and when it is read anew.

import * as api from "./api.js";
import { el, replace, tell } from "./dom.js";
import { loginForm } from "./login.js";
import { browse } from "./browse.js";
import { chunks } from "./chunks.js";
import { command } from "./command.js";
import { operations } from "./operations.js";
import { endShell, shell } from "./shell.js";
import { topology } from "./topology.js";
import { work } from "./work.js";

const VIEWS = [
  { path: "topology", title: "Topology", open: topology },
  { path: "chunks", title: "Chunks", open: chunks, router: true },
  { path: "operations", title: "Operations", open: operations },
  { path: "data", title: "Data", open: browse },
  { path: "work", title: "Work", open: work },
  { path: "command", title: "Command", open: command },
  { path: "shell", title: "Shell", open: shell, shell: true },
];

const content = document.getElementById("content");
const live = document.getElementById("live");
const theme = document.getElementById("theme");
let session = {};
let shown = null;
let problem = null;
let reading = 0;

function showTheme() {
  const chosen = localStorage.getItem("theme") ?? "";
  theme.value = chosen;
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
}

function showFrame() {
  document.getElementById("process").textContent = `${session.process} at ${location.host}`;
  const path = location.hash.slice(2).split("/")[0] || "topology";
  const views = session.loginRequired && !session.user ? [] : VIEWS.filter((view) => (!view.router || session.process === "mongos") && (!view.shell || session.shell));
  replace(document.getElementById("views"), views.map((view) => el("li", {},
    el("a", { href: `#/${view.path}`, "aria-current": view.path === path ? "page" : null, key: view.path }, view.title))));
  replace(document.getElementById("user"), session.user && [
    el("span", { class: "name" }, `${session.user.user}@${session.user.db} `),
    el("button", { type: "button", onclick: leave }, "Log out")]);
}

async function leave() {
  shown = null;
  clearTimeout(reading);
  endShell();
  await api.logout();
  await begin();
}

/** Show the view of the address, to which the reader has `moved`; a view gives `read`, called now and then, and `seconds` between the calls. */
async function show(moved = false) {
  clearTimeout(reading);
  showFrame();
  if (session.loginRequired && !session.user) {
    shown = null;
    endShell();
    replace(content, loginForm(begin, session.certificate));
    document.title = "Log in: Docstore";
    content.querySelector("button, input")?.focus();
    return;
  }
  const [path, ...rest] = location.hash.slice(2).split("/").map(decodeURIComponent);
  const view = VIEWS.find((each) => each.path === path) ?? VIEWS[0];
  document.title = `${view.title}: Docstore`;
  const body = el("div", { class: "view" });
  problem = el("p", { class: "problem", role: "alert" });
  const heading = el("h1", { tabindex: -1 }, view.title);
  replace(content, heading, problem, body);
  if (moved) heading.focus();
  tell("");
  shown = view.open(body, { session, rest });
  await read();
}

async function read() {
  clearTimeout(reading);
  const current = shown;
  if (current === null) return;
  try {
    await current.read();
    if (current === shown) problem.textContent = "";
  } catch (error) {
    if (current === shown) stopped(error);
  }
  if (current === shown && current.seconds) reading = setTimeout(again, current.seconds * 1000);
}

function again() {
  if (live.checked && !document.hidden) read();
  else reading = setTimeout(again, 1000);
}

/** A view could not be read. */
function stopped(error) {
  if (error instanceof api.LoginNeeded || error.name === "AbortError") failed(error);
  else if (problem.textContent !== error.message) problem.textContent = error.message;
}

/** Something that the reader wanted done was not. */
function failed(error) {
  if (error instanceof api.LoginNeeded) { begin(); return; }
  if (error.name === "AbortError") return;
  tell(error.message, "bad");
}

async function begin() {
  try {
    session = await api.session();
  } catch {
    tell("The server does not answer", "bad");
    return;
  }
  await show();
}

addEventListener("hashchange", () => show(true));
addEventListener("unhandledrejection", (event) => { event.preventDefault(); failed(event.reason); });
theme.addEventListener("change", () => { localStorage.setItem("theme", theme.value); showTheme(); });
live.addEventListener("change", () => { if (live.checked) read(); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); content.focus(); });
showTheme();
begin();
