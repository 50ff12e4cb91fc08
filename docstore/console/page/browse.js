// Databases, collections, documents, indexes and plans.

import * as api from "./api.js";
import { badge, el, replace, table } from "./dom.js";
import { planTree } from "./explain.js";
import { parse, parseDocument, SyntaxProblem } from "./syntax.js";
import { bytes, counted, number, plain, text, time } from "./values.js";

const PAGE = 20;
const address = (...parts) => `#/data/${parts.map(encodeURIComponent).join("/")}`;

export function browse(body, { rest: [db, ...collection] }) {
  const name = collection.join("/");
  const crumbs = el("nav", { "aria-label": "Place", class: "crumbs" },
    el("a", { href: "#/data" }, "Databases"), db && [" / ", el("a", { href: address(db) }, db)], name && [" / ", el("a", { href: address(db, name), "aria-current": "page" }, name)]);
  body.append(crumbs);
  if (!db) return databases(body);
  return name ? ofCollection(body, db, name) : collections(body, db);
}

function databases(body) {
  const list = el("div", {});
  body.append(list);
  return { seconds: 10, async read() {
    const { databases: found } = await api.run("admin", { listDatabases: 1 });
    replace(list, table("Databases", ["Database", { text: "On disk", number: true }],
      found.map((each) => [el("a", { href: address(each.name), key: each.name }, each.name), bytes(each.sizeOnDisk)]), "databases"));
  } };
}

function collections(body, db) {
  const list = el("div", {});
  body.append(list);
  return { async read() {
    const { cursor } = await api.run(db, { listCollections: 1, cursor: { batchSize: 1000 } });
    const found = cursor.firstBatch.sort((one, other) => (one.name < other.name ? -1 : 1));
    const sizes = await Promise.all(found.slice(0, 200).map((each) => (each.type === "view" ? null : api.run(db, { collStats: each.name }).catch(() => null))));
    replace(list, table(`Collections of ${db}`, ["Collection", "Kind", { text: "Documents", number: true }, { text: "Size", number: true }, { text: "Indexes", number: true }],
      found.map((each, index) => [el("a", { href: address(db, each.name), key: each.name }, each.name), each.type,
        sizes[index] ? number(sizes[index].count) : "", sizes[index] ? bytes(sizes[index].size) : "", sizes[index] ? number(sizes[index].nindexes) : ""]), "collections"));
  } };
}

function field(name, label, hint, value = "") {
  return [el("label", { for: `query-${name}` }, label), el("input", { id: `query-${name}`, name, value, placeholder: hint, spellcheck: "false", autocomplete: "off", class: "code" })];
}

function ofCollection(body, db, name) {
  // Read out when it changes, which whole documents should not be.
  const summary = el("p", { role: "status" });
  const results = el("section", { "aria-label": "Result" });
  const indexes = el("section", { "aria-label": "Indexes" });
  const form = el("form", { class: "query", onsubmit: (event) => { event.preventDefault(); skip = 0; shown(find); } },
    field("filter", "Filter", "{ name: \"Ann\" }, or a pipeline: [ { $group: … } ]"), field("sort", "Sort", "{ name: 1 }"), field("project", "Fields", "{ name: 1 }"),
    el("p", { class: "buttons" }, el("button", { type: "submit" }, "Find"), el("button", { type: "button", onclick: () => shown(explain) }, "Explain"),
      el("button", { type: "button", onclick: () => shown(count) }, "Count")));
  body.append(form, summary, results, el("h2", {}, "Indexes"), indexes);
  let skip = 0;

  /** The command of what stands in the form. */
  function asked() {
    const value = (which) => form.elements[which].value;
    if (value("filter").trim().startsWith("[")) return { aggregate: name, pipeline: parse(value("filter")), cursor: {} };
    const command = { find: name, filter: parseDocument(value("filter"), "the filter") };
    if (value("sort").trim()) command.sort = parseDocument(value("sort"), "the sort");
    if (value("project").trim()) command.projection = parseDocument(value("project"), "the fields");
    return command;
  }

  async function shown(make) {
    try {
      const [told, ...found] = await make(asked());
      summary.className = "";
      summary.textContent = told;
      replace(results, found);
    } catch (error) {
      if (!(error instanceof SyntaxProblem || error instanceof api.CommandFailed)) throw error;
      summary.className = "problem";
      summary.textContent = error.message;
      replace(results);
    }
  }

  async function find(command) {
    const limited = command.find
      ? { ...command, skip, limit: PAGE + 1, singleBatch: true }
      : { ...command, pipeline: [...command.pipeline, ...(writes(command) ? [] : [{ $skip: skip || undefined }, { $limit: PAGE + 1 }].filter((each) => Object.values(each)[0]))] };
    const { cursor } = await api.exact(db, limited);
    if (plain(cursor.id)) await api.exact(db, { killCursors: name, cursors: [cursor.id] });
    const documents = cursor.firstBatch;
    const turn = (by) => () => { skip = Math.max(skip + by, 0); shown(find); };
    return [
      documents.length ? `Documents ${skip + 1} to ${skip + Math.min(documents.length, PAGE)}` : "No document",
      el("ol", { class: "documents", start: skip + 1 }, documents.slice(0, PAGE).map((each) => el("li", {}, el("pre", { tabindex: 0 }, text(each, ""))))),
      el("p", { class: "buttons" }, skip > 0 && el("button", { type: "button", key: "previous", onclick: turn(-PAGE) }, "Previous"),
        documents.length > PAGE && el("button", { type: "button", key: "next", onclick: turn(PAGE) }, "Next")),
    ];
  }

  async function explain(command) {
    if (writes(command)) throw new SyntaxProblem("what writes is not explained here");
    const reply = await api.exact(db, { explain: command, verbosity: "executionStats" });
    return ["Plan", planTree(reply)];
  }

  async function count(command) {
    const pipeline = command.find ? [{ $match: command.filter }] : command.pipeline;
    const { cursor } = await api.run(db, { aggregate: name, pipeline: [...pipeline, { $count: "n" }], cursor: {} });
    return [counted(cursor.firstBatch[0]?.n ?? 0, "document")];
  }

  return { async read() {
    await shown(find);
    replace(indexes, await indexTable(db, name));
  } };
}

const writes = (command) => (command.pipeline ?? []).some((stage) => "$out" in stage || "$merge" in stage);

async function indexTable(db, name) {
  let described;
  try {
    described = (await api.exact(db, { listIndexes: name, cursor: { batchSize: 1000 } })).cursor.firstBatch;
  } catch (error) {
    if (error instanceof api.CommandFailed) return el("p", {}, error.message);
    throw error;
  }
  const used = new Map();
  let since = null;
  for (const each of await api.rows(db, { aggregate: name, pipeline: [{ $indexStats: {} }] }).catch(() => [])) {
    used.set(each.name, (used.get(each.name) ?? 0) + each.accesses.ops);
    if (since === null || each.accesses.since < since) since = each.accesses.since;
  }
  const rows = described.map((each) => [
    each.name, el("code", {}, text(each.key)),
    ["unique", "sparse", "hidden", "expireAfterSeconds", "partialFilterExpression"].filter((option) => each[option] !== undefined && each[option] !== false).map((option) => [badge(option), " "]),
    used.has(each.name) ? number(used.get(each.name)) : "",
  ]);
  return [table(`Indexes of ${name}`, ["Index", "Key", "Options", { text: "Used", number: true }], rows, "indexes", true), since && el("p", { class: "hint" }, `Uses are counted since ${time(since)}.`)];
}
