// Who is there: the members of the set or of all shards, their states, and how far they are behind.

import * as api from "./api.js";
import { badge, el, replace, table } from "./dom.js";
import { bytes, number, seconds, time } from "./values.js";

const WITH_DATA = [1, 2, 3, 5, 9];
const KINDS = { PRIMARY: "good", SECONDARY: "calm", ARBITER: "calm", primary: "good", secondary: "calm" };

export function topology(body, { session }) {
  const process = el("section", { "aria-label": "This process" });
  const members = el("section", { "aria-label": "Members" });
  body.append(process, members);
  let before = null;
  return {
    seconds: 2,
    async read() {
      const status = await api.allowed(api.run("admin", { serverStatus: 1 }), null);
      replace(process, status ? figures(status, before) : el("p", {}, "Your user may not see what the process does (serverStatus)."));
      before = status && { status, at: performance.now() };
      replace(members, await (session.process === "mongos" ? ofCluster() : ofSet()));
    },
  };
}

function rate(status, before, count, shown = number) {
  if (before === null) return "…";
  const elapsed = (performance.now() - before.at) / 1000;
  return `${shown(Math.max(Math.round((count(status) - count(before.status)) / elapsed), 0))}/s`;
}

function figures(status, before) {
  const told = [
    ["Process", `${status.process} ${status.host}`],
    ["Up", seconds(status.uptime)],
    ["Connections", number(status.connections?.current ?? 0)],
    ["Requests", rate(status, before, (each) => each.network?.numRequests ?? 0)],
    ["In", rate(status, before, (each) => each.network?.bytesIn ?? 0, bytes)],
    ["Out", rate(status, before, (each) => each.network?.bytesOut ?? 0, bytes)],
    ["Open cursors", number(status.metrics.cursor.open.total)],
    ["Errors", number(status.asserts.user)],
  ];
  if (status.mem) told.push(["Memory", `${number(status.mem.resident)} MiB`]);
  if (status.transactions) told.push(["Open transactions", number(status.transactions.currentOpen)]);
  if (status.storageEngine) told.push(["Storage", `${status.storageEngine.name}${status.storageEngine.fileBytes ? `, ${bytes(status.storageEngine.fileBytes)}` : ""}`]);
  return el("dl", { class: "figures" }, told.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

async function ofSet() {
  let status;
  try {
    status = await api.run("admin", { replSetGetStatus: 1 });
  } catch (error) {
    if (error.codeName === "NoReplicationEnabled") return el("p", {}, "This node is in no replica set.");
    if (error.codeName === "NotYetInitialized") return el("p", {}, "This node's replica set has not been initiated.");
    throw error;
  }
  const dates = status.members.filter((each) => WITH_DATA.includes(each.state)).map((each) => each.optimeDate.getTime());
  const primary = status.members.find((each) => each.state === 1);
  const newest = primary ? primary.optimeDate.getTime() : Math.max(...dates);
  const rows = status.members.map((each) => {
    const lag = WITH_DATA.includes(each.state) ? (newest - each.optimeDate.getTime()) / 1000 : NaN;
    return [
      each.self ? [each.name, el("span", { class: "self" }, " this one")] : each.name,
      badge(each.stateStr, each.health ? KINDS[each.stateStr] ?? "warn" : "bad"),
      lagText(lag, each.state === 1), each.pingMs === undefined ? "" : `${each.pingMs} ms`,
      each.syncSourceHost ?? "", seconds(each.uptime), time(each.optimeDate),
    ];
  });
  const heads = ["Member", "State", { text: "Behind", number: true }, { text: "Ping", number: true }, "Syncs from", { text: "Up", number: true }, "Newest write"];
  return [
    el("h2", {}, `Replica set ${status.set}`),
    el("p", {}, `Term ${status.term}; a majority is ${status.majorityVoteCount} of ${status.votingMembersCount} votes.`),
    table(`Members of ${status.set}`, heads, rows, "members", true),
  ];
}

function lagText(lag, isPrimary) {
  if (isPrimary || !Number.isFinite(lag)) return "";
  return lag >= 10 ? badge(seconds(lag), "warn") : seconds(Math.max(lag, 0));
}

async function ofCluster() {
  const [{ map }, known, shards, routers] = await Promise.all([
    api.run("admin", { getShardMap: 1 }), api.run("admin", { connPoolStats: 1 }),
    api.run("admin", { listShards: 1 }), api.rows("config", { find: "mongos", sort: { _id: 1 } }),
  ]);
  const draining = new Set(shards.shards.filter((each) => each.draining).map((each) => each._id));
  const sets = Object.entries(map).sort(([one], [other]) => (one === "config" ? -1 : other === "config" ? 1 : one.localeCompare(other, "en")));
  const heads = ["Member", "State", { text: "Behind", number: true }, { text: "Ping", number: true }];
  const cards = sets.map(([name, host]) => {
    const hosts = known.replicaSets[host.split("/")[0]]?.hosts ?? [];
    const rows = hosts.map((each) => [
      each.addr, badge(...stateOf(each)), lagText(each.lagSeconds ?? NaN, each.ismaster), each.ok ? `${each.pingTimeMillis} ms` : "",
    ]);
    return el("section", { class: "card" },
      el("h3", {}, name === "config" ? "Config servers" : `Shard ${name}`, draining.has(name) && [" ", badge("draining", "warn")]),
      table(`Members of ${host.split("/")[0]}`, heads, rows, `members-${name}`, true));
  });
  const now = Date.now();
  const alive = routers.map((each) => [each._id, badge(...(now - each.ping < 60000 ? ["alive", "good"] : ["not heard of", "warn"])), seconds(each.up), time(each.ping)]);
  return [
    el("h2", {}, "Shards and config servers"), el("div", { class: "cards" }, cards),
    el("h2", {}, "Routers"), table("Routers", ["Router", "State", { text: "Up", number: true }, "Last ping"], alive, "routers", true),
  ];
}

function stateOf(member) {
  if (!member.ok) return ["no answer", "bad"];
  const state = member.ismaster ? "primary" : member.secondary ? "secondary" : "other";
  return [state, KINDS[state] ?? "warn"];
}
