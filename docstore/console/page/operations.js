// What is being done now, what was slow, and by which plans.

import * as api from "./api.js";
import { badge, el, replace, table, tell } from "./dom.js";
import { planTree } from "./explain.js";
import { number, plain, seconds, short, text, time, withoutEnvelope } from "./values.js";

const EXPLAINED = ["find", "aggregate", "count", "distinct", "update", "delete", "findAndModify"];

export function operations(body, { session }) {
  const waiting = el("input", { type: "checkbox", id: "waiting" });
  const now = el("section", { "aria-label": "In progress" });
  const slow = el("section", { "aria-label": "Slow operations" });
  const plan = el("section", { "aria-label": "Plan", "aria-live": "polite" });
  const profiled = el("div", {});
  body.append(
    el("h2", {}, "In progress"), el("p", {}, el("label", {}, waiting, " Also those that wait for news")), now,
    el("h2", {}, "Slow"), session.process === "mongos" ? "" : profilerForm(), plan, slow, profiled);
  let round = 0;
  return {
    seconds: 2,
    async read() {
      const [running, lines] = await Promise.all([inProgress(waiting.checked), api.allowed(slowLines(), null)]);
      replace(now, running);
      replace(slow, lines?.length
        ? slowTable("Newest of the log", lines, plan)
        : el("p", {}, lines ? "The log has no slow operation." : "Your user may not read the log (getLog)."));
      // There may be many databases.
      if (session.process !== "mongos" && round % 5 === 0) replace(profiled, await profiles(plan));
      round += 1;
    },
  };
}

async function inProgress(all) {
  const { cursor } = await current();
  const found = cursor.firstBatch.filter((each) => all || !waits(each.command ?? {}));
  const heads = ["Operation", "Collection", "Command", { text: "Running", number: true }, "Client", "Actions"];
  return table("Operations in progress", heads, found.map((each) => {
    const id = plain(each.opid);
    return [
      String(id), each.ns ?? "", [progressOf(each), el("code", {}, short(withoutEnvelope(each.command ?? {})))], seconds(plain(each.microsecs_running ?? 0) / 1e6),
      [each.client ?? each.client_s ?? "", each.appName ? ` (${each.appName})` : ""],
      el("button", { type: "button", key: `kill-${id}`, "aria-label": `Kill operation ${id}`, onclick: () => kill(id) }, "Kill"),
    ];
  }), "now", true);
}

/** The operations of everybody, or of this user where no others may be seen. */
export async function current() {
  const ask = (allUsers) => api.exact("admin", { aggregate: 1, pipeline: [{ $currentOp: { allUsers } }], cursor: { batchSize: 1000 } });
  return (await api.allowed(ask(true), null)) ?? ask(false);
}

const waits = (command) => "hello" in command || "isMaster" in command || "ismaster" in command ||
  ("getMore" in command && command.collection === "oplog.rs") || "$currentOp" in (command.pipeline?.[0] ?? {});

function progressOf(operation) {
  if (!operation.msg) return "";
  const told = plain(operation.progress ?? {});
  return [badge(told.total ? `${operation.msg} ${Math.floor((100 * told.done) / told.total)} %` : operation.msg, "calm"), " "];
}

async function kill(id) {
  if (!confirm(`Kill operation ${id}?`)) return;
  await api.run("admin", { killOp: 1, op: id });
  tell(`Operation ${id} has been told to end.`);
}

async function slowLines() {
  const { log } = await api.run("admin", { getLog: "global" });
  const found = [];
  for (const line of log.toReversed()) {
    if (found.length >= 20) break;
    if (!line.includes('"Slow query"')) continue;
    const { attr, t } = JSON.parse(line);
    found.push({ at: time(plain(t)), ns: attr.ns, command: attr.command, millis: attr.durationMillis, client: attr.remote });
  }
  return found;
}

function slowTable(caption, entries, plan) {
  const heads = ["Time", "Collection", "Command", { text: "Took", number: true }, "Client", "Plan"];
  return table(caption, heads, entries.map((each, index) => [
    each.at, each.ns, el("code", {}, short(withoutEnvelope(each.command))), `${number(each.millis)} ms`, each.client,
    EXPLAINED.some((name) => name in each.command) &&
      el("button", { type: "button", key: `${caption}-${index}`, "aria-label": `Explain the ${Object.keys(each.command)[0]} on ${each.ns}`, onclick: () => explain(each, plan) }, "Explain"),
  ]), caption);
}

async function explain(entry, plan) {
  const command = withoutEnvelope(entry.command);
  if ("aggregate" in command) command.cursor ??= {};
  const reply = await api.exact(entry.ns.split(".")[0], { explain: command, verbosity: "queryPlanner" });
  replace(plan, el("h3", {}, `Plan of the ${Object.keys(command)[0]} on ${entry.ns}`), el("pre", {}, text(command, "")), planTree(reply),
    el("button", { type: "button", onclick: () => replace(plan) }, "Close the plan"));
}

function profilerForm() {
  const db = el("input", { id: "profile-db", required: true, size: 14, value: "test" });
  const level = el("select", { id: "profile-level" }, ["0: off", "1: slow ones", "2: all"].map((name, value) => el("option", { value }, name)));
  const slow = el("input", { id: "profile-ms", type: "number", min: 0, value: 100, size: 6 });
  async function submit(event) {
    event.preventDefault();
    const was = await api.run(db.value, { profile: Number(level.value), slowms: Number(slow.value) });
    tell(`The profiler of ${db.value} was at level ${was.was} and is at ${level.value}.`);
  }
  return el("details", { key: "profiler" }, el("summary", {}, "Profiler"), el("form", { class: "line", onsubmit: submit },
    el("label", { for: "profile-db" }, "Database"), db, el("label", { for: "profile-level" }, "Level"), level,
    el("label", { for: "profile-ms" }, "Slow from, in ms"), slow, el("button", { type: "submit" }, "Set")));
}

async function profiles(plan) {
  const { databases } = await api.run("admin", { listDatabases: 1, nameOnly: true });
  const found = [];
  for (const { name } of databases.slice(0, 100)) {
    const profile = await api.allowed(api.exact(name, { find: "system.profile", sort: { ts: -1 }, limit: 20, singleBatch: true }), null);
    const cursor = profile?.cursor;
    if (cursor?.firstBatch.length) {
      found.push(slowTable(`Profile of ${name}`, cursor.firstBatch.map((each) => ({
        at: time(plain(each.ts)), ns: each.ns, command: each.command, millis: plain(each.millis), client: each.client,
      })), plan));
    }
  }
  return found;
}
