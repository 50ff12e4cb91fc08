// Plans as trees.

import { badge, el } from "./dom.js";
import { counted, number, plain, text } from "./values.js";

const SHOWN = ["indexName", "keyPattern", "indexBounds", "direction", "filter", "sortPattern", "limitAmount", "skipAmount", "transformBy", "parsedTextQuery"];
const FIGURES = [["nReturned", "returned"], ["keysExamined", "keys examined"], ["docsExamined", "documents examined"], ["executionTimeMillisEstimate", "ms"]];
const CHILDREN = ["inputStage", "inputStages", "innerStage", "outerStage", "thenStage", "elseStage"];
const KINDS = { COLLSCAN: "warn", SORT: "warn", IXSCAN: "good", COUNT_SCAN: "good", DISTINCT_SCAN: "good", IDHACK: "good", EOF: "calm" };

/** The tree of an explain's reply, in canonical extended JSON. */
export function planTree(reply) {
  const stages = reply.stages ?? [];
  if (stages.length) return el("ol", { class: "pipeline" }, stages.map((stage) => el("li", {}, pipelineStage(stage))));
  if (reply.shards) {
    return el("ul", { class: "plan" }, el("li", {}, el("div", { class: "stage" }, badge("shards", "calm")),
      el("ul", {}, Object.entries(reply.shards).map(([name, each]) => el("li", {}, el("div", { class: "stage" }, badge(name, "calm")), planTree(each))))));
  }
  const planner = reply.queryPlanner;
  if (!planner) return el("pre", {}, text(reply, ""));
  const ran = reply.executionStats?.executionStages;
  const rejected = planner.rejectedPlans ?? [];
  return [
    reply.executionStats && summary(reply.executionStats),
    el("ul", { class: "plan" }, node(ran ?? planner.winningPlan)),
    rejected.length > 0 && el("details", { key: "rejected" }, el("summary", {}, `${counted(rejected.length, "plan")} not taken`),
      rejected.map((plan) => el("ul", { class: "plan" }, node(plan)))),
  ];
}

function summary(stats) {
  const told = plain(stats);
  return el("p", {}, `${number(told.nReturned)} documents returned, ${number(told.totalKeysExamined)} keys and ${number(told.totalDocsExamined)} documents examined, in ${number(told.executionTimeMillis)} ms.`);
}

function node(stage) {
  const below = CHILDREN.flatMap((name) => stage[name] ?? []);
  const shards = (stage.shards ?? []).map((each) => el("li", {}, el("div", { class: "stage" }, badge(each.shardName, "calm")),
    el("ul", {}, node(each.executionStages ?? each.winningPlan))));
  return el("li", {}, described(stage), (below.length > 0 || shards.length > 0) && el("ul", {}, below.map(node), shards));
}

function described(stage) {
  const figures = FIGURES.filter(([name]) => stage[name] !== undefined).map(([name, called]) => `${number(plain(stage[name]))} ${called}`);
  const fields = SHOWN.filter((name) => stage[name] !== undefined);
  return el("div", { class: "stage" }, badge(stage.stage ?? "?", KINDS[stage.stage]), figures.length > 0 && el("span", { class: "figures-line" }, figures.join(", ")),
    fields.length > 0 && el("dl", {}, fields.map((name) => el("div", {}, el("dt", {}, name), el("dd", {}, text(stage[name]))))));
}

function pipelineStage(stage) {
  const name = Object.keys(stage)[0];
  const figures = FIGURES.filter(([figure]) => stage[figure] !== undefined).map(([figure, called]) => `${number(plain(stage[figure]))} ${called}`);
  const head = el("div", { class: "stage" }, badge(name, "calm"), el("span", { class: "figures-line" }, figures.join(", ")),
    name !== "$cursor" && el("code", {}, text(stage[name])));
  return [head, name === "$cursor" && planTree(stage[name])];
}
