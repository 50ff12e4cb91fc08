// Where the chunks of collections are, drawn over the shards, and which of them are being moved.

import * as api from "./api.js";
import { badge, el, replace, svg, table } from "./dom.js";
import { counted, plain, seconds, short, text, time } from "./values.js";

const MOST_CHUNKS = 2000;
const AGE_MILLIS = 30000;
const COLOURS = 8;

export function chunks(body) {
  const balancer = el("p", {});
  const drawn = el("div", {});
  const history = el("section", { "aria-label": "History" });
  body.append(balancer, drawn, history);
  let known = null;
  return {
    seconds: 2,
    async read() {
      const [state, moving, newest] = await Promise.all([
        api.allowed(api.run("admin", { balancerStatus: 1 }), null), api.allowed(moves(), []),
        api.rows("config", { find: "changelog", sort: { time: -1 }, limit: 1, projection: { _id: 1 } }, 1),
      ]);
      replace(balancer, state && balancerText(state), moving.length ? `${counted(moving.length, "move")} in progress.` : "No chunk is being moved.");
      // Whatever happens to chunks is written down: while nothing is, they need not be read again.
      const event = newest[0]?._id;
      if (known === null || known.event !== event || performance.now() - known.at > AGE_MILLIS) {
        known = { ...(await layout()), event, at: performance.now() };
        replace(history, await past());
      }
      replace(drawn, known.collections.length
        ? known.collections.map((each) => ofCollection(each, known.shards, moving.filter((move) => move.ns === each._id)))
        : el("p", {}, "No collection is sharded."));
    },
  };
}

const balancerText = (state) => ["Balancer: ", badge(state.mode === "off" ? "off" : "on", state.mode === "off" ? "warn" : "good"),
  state.inBalancerRound ? " in a round" : "", `; ${counted(state.numBalancerRounds, "round")} of this router. `];

/** The sharded collections with their chunks, and the names of the shards. */
async function layout() {
  const [found, shards] = await Promise.all([
    api.rows("config", { find: "collections", sort: { _id: 1 } }), api.rows("config", { find: "shards", sort: { _id: 1 } }),
  ]);
  const collections = await Promise.all(found.filter((each) => !each.dropped).map(async (each) => {
    const { cursor } = await api.exact("config", { find: "chunks", filter: { ns: each._id }, sort: { min: 1 }, limit: MOST_CHUNKS, singleBatch: true, batchSize: MOST_CHUNKS });
    const chunks = cursor.firstBatch.map((chunk) => ({ min: text(chunk.min), max: text(chunk.max), shard: chunk.shard, jumbo: chunk.jumbo === true }));
    return { ...each, chunks };
  }));
  return { collections, shards: shards.map((each) => each._id) };
}

async function moves() {
  const { cursor } = await api.exact("admin", { aggregate: 1, cursor: {}, pipeline: [
    { $currentOp: { allUsers: true } }, { $match: { "command._shardsvrMoveRange": { $exists: true } } },
    { $project: { shard: 1, command: 1, microsecs_running: 1 } },
  ] });
  return cursor.firstBatch.map((each) => ({
    ns: each.command._shardsvrMoveRange, min: text(each.command.min), range: `${text(each.command.min)} to ${text(each.command.max)}`,
    from: each.shard, to: each.command.toShard, seconds: plain(each.microsecs_running) / 1e6,
  }));
}

function ofCollection(collection, shards, moving) {
  const found = collection.chunks;
  const moved = new Map(moving.map((move) => [move.min, move]));
  const counts = new Map(shards.map((name) => [name, 0]));
  for (const each of found) counts.set(each.shard, (counts.get(each.shard) ?? 0) + 1);
  const names = [...counts.keys()];
  const spread = names.map((name) => `${name} ${counts.get(name)}`).join(", ");
  return el("section", { class: "collection" },
    el("h2", {}, collection._id),
    el("p", {}, `Key ${text(collection.key)}${collection.unique ? ", unique" : ""}${collection.noBalance ? ", not balanced" : ""}; ${found.length}${found.length === MOST_CHUNKS ? " or more" : ""} chunks: ${spread}.`),
    picture(collection._id, found, names, counts, moved),
    moving.map((move) => el("p", { class: "move" }, badge("moving", "warn"), ` ${move.range} from ${move.from} to ${move.to}, for ${seconds(move.seconds)}`)),
    el("details", { key: `ranges-${collection._id}` }, el("summary", {}, "Ranges of the chunks"),
      table(`Chunks of ${collection._id}`, ["From", "To", "Shard"],
        found.slice(0, 500).map((each) => [short(each.min), short(each.max), [each.shard, each.jumbo && [" ", badge("jumbo", "warn")], moved.has(each.min) && [" ", badge("moving", "warn")]]]), `table-${collection._id}`)));
}

function picture(ns, found, shards, counts, moved) {
  const [width, row] = [Math.max(Math.min(document.getElementById("content").clientWidth - 32, 1216), 320), 26];
  const left = Math.min(150, width / 3);
  const each = (width - left) / Math.max(found.length, 1);
  const gap = each > 6 ? 2 : each > 3 ? 1 : 0;
  const rows = shards.map((name, index) => svg("g", {},
    svg("text", { x: 0, y: index * row + 17, class: "label" }, `${short(name, 14)} (${counts.get(name)})`),
    svg("line", { x1: left, x2: width, y1: index * row + 13, y2: index * row + 13, class: "rail" })));
  const blocks = found.map((chunk, at) => {
    const index = shards.indexOf(chunk.shard);
    const move = moved.get(chunk.min);
    const place = { x: left + at * each, width: Math.max(each - gap, 0.5), height: row - 8, rx: gap ? 2 : 0 };
    const title = `${chunk.min} to ${chunk.max} on ${chunk.shard}${move ? `, moving to ${move.to}` : ""}`;
    return [
      svg("rect", { ...place, y: index * row + 4, class: `shard${index % COLOURS}${move ? " moving" : ""}` }, svg("title", {}, short(title, 400))),
      move && svg("rect", { ...place, y: shards.indexOf(move.to) * row + 4, class: "coming" }),
    ];
  });
  const label = `Chunks of ${ns} in the order of their key, a row for each shard: ${shards.map((name) => `${name} has ${counts.get(name)}`).join(", ")}`;
  return el("div", { class: "wide picture", tabindex: 0, role: "region", "aria-label": `Picture of ${ns}`, key: `picture-${ns}` },
    svg("svg", { width, height: shards.length * row + 2, viewBox: `0 0 ${width} ${shards.length * row + 2}`, role: "img", "aria-label": label }, rows, blocks.flat()));
}

async function past() {
  const kinds = ["moveChunk.start", "moveChunk.commit", "moveChunk.error", "split", "multi-split", "merge"];
  const { cursor } = await api.exact("config", { find: "changelog", filter: { what: { $in: kinds } }, sort: { time: -1 }, limit: 15, singleBatch: true });
  return table("What has happened to chunks", ["Time", "Collection", "What", "Details"], cursor.firstBatch.map((each) => [
    time(plain(each.time)), each.ns, each.what, el("code", {}, short(details(each.details), 140)),
  ]), "history");
}

/** What an event was about: a range, and the shards of a move. */
function details({ min, max, before, splitPoints, from, to }) {
  const [low, high] = [min ?? before?.min, max ?? before?.max];
  const range = low === undefined ? "" : `${text(low)} to ${text(high)}`;
  if (from) return `${range} from ${from} to ${to}`;
  return splitPoints ? `${range} at ${splitPoints.map((each) => text(each)).join(", ")}` : range;
}
