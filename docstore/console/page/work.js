// What takes long: index builds, map-reduce and their like, with how far they are.

import { badge, el, replace } from "./dom.js";
import { current } from "./operations.js";
import { number, plain, seconds, short, withoutEnvelope } from "./values.js";

const LONG = ["createIndexes", "mapReduce", "mapreduce", "reIndex", "compact", "validate", "_shardsvrMoveRange", "aggregate", "copydb"];

export function work(body) {
  const list = el("div", {});
  body.append(list);
  return {
    seconds: 1,
    async read() {
      const { cursor } = await current();
      const found = cursor.firstBatch.filter((each) => each.msg || (LONG.some((name) => name in (each.command ?? {})) && plain(each.secs_running ?? 0) >= 1));
      replace(list, found.length ? el("ul", { class: "work" }, found.map(job)) : el("p", {}, "No index is being built, no map-reduce runs, no chunk is being moved."));
    },
  };
}

function job(operation) {
  const told = plain(operation.progress ?? {});
  const name = `${operation.msg ?? Object.keys(operation.command)[0]} on ${nsOf(operation)}`;
  const bar = told.total
    ? el("progress", { max: told.total, value: told.done, "aria-label": name })
    : el("progress", { "aria-label": name });
  const done = told.total ? `${number(told.done)} of ${number(told.total)} (${Math.floor((100 * told.done) / told.total)} %)` : told.done !== undefined ? `${number(told.done)} so far` : "";
  return el("li", {}, el("p", {}, badge(operation.msg ?? "running", "calm"), ` ${nsOf(operation)}${operation.shard ? ` on ${operation.shard}` : ""}, for ${seconds(plain(operation.microsecs_running ?? 0) / 1e6)}`),
    bar, el("p", {}, done), el("code", {}, short(withoutEnvelope(operation.command ?? {}), 200)));
}

const nsOf = (operation) => (typeof operation.command?._shardsvrMoveRange === "string" ? operation.command._shardsvrMoveRange : operation.ns ?? "");
