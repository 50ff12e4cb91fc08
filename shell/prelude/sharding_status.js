// What `printShardingStatus` and `getShardDistribution` print.

// A document on one line with two blanks between the parts, as this report has always had them.
const spaced = (document) => tojson(document, " ", true);

// A chunk's bound, without the extra blanks and with bare boundary names.
const bound = (key) => tojson(key, "", true).replace(/"\$(minKey|maxKey)"/g, "$$$1");

// A version as its two counters. The first is shown in thousands, as when timestamps held milliseconds.
const shownVersion = (lastmod) => `{ "t" : ${lastmod.t * 1000}, "i" : ${lastmod.i} }`;

function printShardingStatus(config, verbose) {
  const version = config.getCollection("version").findOne();
  if (version === null) {
    print(`no sharding metadata in database ${config}: connect the shell to a router (mongos)`);
    return;
  }
  const lines = [
    "--- Sharding Status ---",
    `  sharding version: ${tojson(shownSharding(version), "", true)}`,
    "  shards:",
  ];
  for (const shard of config.getCollection("shards").find().sort({ _id: 1 }).toArray()) {
    const draining = shard.draining ? { draining: true } : {};
    lines.push("\t" + spaced({ _id: shard._id, host: shard.host, ...draining }));
  }
  lines.push(...balancerLines(config));
  lines.push("  databases:");
  lines.push("\t" + spaced({ _id: "admin", partitioned: false, primary: "config" }));
  for (const database of config.getCollection("databases").find().sort({ _id: 1 }).toArray()) {
    if (database._id === "admin" || database._id === "config") continue;
    const { _id, partitioned, primary } = database;
    lines.push("\t" + spaced({ _id, partitioned: partitioned !== false, primary }));
    const pattern = new RegExp("^" + database._id.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&") + "\\.");
    const collections = config.getCollection("collections").find({ _id: pattern }).sort({ _id: 1 }).toArray();
    for (const collection of collections)
      if (!collection.dropped) lines.push(...chunkLines(config, collection, verbose));
  }
  print(lines.join("\n"));
}

// The balancer's state, and what became of the last day's migrations; nothing where the server has no balancer.
function balancerLines(config) {
  const status = config.adminCommand({ balancerStatus: 1 });
  if (!status.ok) return [];
  const answer = (yes) => (yes ? "yes" : "no");
  const lines = [
    "  balancer:",
    `\tCurrently enabled:  ${answer(status.mode !== "off")}`,
    `\tCurrently running:  ${answer(status.inBalancerRound)}`,
    "\tMigration results for the last 24 hours:",
  ];
  const migrations = recentMigrations(config);
  for (const { _id, count, from, to } of migrations) lines.push(`\t\t${count} : ${_id}, from ${from} to ${to}`);
  if (migrations.length === 0) lines.push("\t\tNo recent migrations");
  return lines;
}

// Migrations of the last day, by outcome and pair of shards.
function recentMigrations(config) {
  const filter = { time: { $gt: new Date(Date.now() - 86400000) } };
  const ended = (what, status, details) => [
    { $match: { ...filter, what, ...details } },
    { $group: { _id: { from: "$details.from", to: "$details.to", error: "$details.errmsg" }, count: { $sum: 1 } } },
    { $project: { _id: { $ifNull: ["$_id.error", status] }, count: 1, from: "$_id.from", to: "$_id.to" } },
    { $sort: { _id: 1, from: 1, to: 1 } },
  ];
  const changes = config.getCollection("changelog");
  const done = changes.aggregate(ended("moveChunk.commit", "Success", {})).toArray();
  return done.concat(changes.aggregate(ended("moveChunk.error", "aborted", {})).toArray());
}

function shownSharding(version) {
  const { _id, version: legacy, minCompatibleVersion, currentVersion, clusterId } = version;
  const shown = { _id, version: legacy, minCompatibleVersion, currentVersion, clusterId };
  for (const name of Object.keys(shown)) if (shown[name] === undefined) delete shown[name];
  return shown;
}

function chunksOf(config, collection) {
  const filter =
    collection.uuid === undefined
      ? { ns: collection._id }
      : { $or: [{ ns: collection._id }, { uuid: collection.uuid }] };
  return config.getCollection("chunks").find(filter).sort({ min: 1 }).toArray();
}

function chunkLines(config, collection, verbose) {
  const chunks = chunksOf(config, collection);
  const counts = new Map();
  for (const chunk of chunks) counts.set(chunk.shard, (counts.get(chunk.shard) || 0) + 1);
  const lines = [`\t\t${collection._id} chunks:`];
  for (const [shard, count] of [...counts].sort((a, b) => compareText(a[0], b[0])))
    lines.push(`\t\t\t\t${shard}\t${count}`);
  if (chunks.length > 20 && !verbose) {
    lines.push(`\t\t\t${chunks.length} chunks are not listed; printShardingStatus(undefined, true) lists them`);
    return lines;
  }
  for (const chunk of chunks) {
    const range = `${bound(chunk.min)} -->> ${bound(chunk.max)}`;
    const jumbo = chunk.jumbo ? " jumbo" : "";
    lines.push(`\t\t\t${range} on : ${chunk.shard} ${shownVersion(chunk.lastmod)}${jumbo}`);
  }
  return lines;
}

function printShardDistribution(collection) {
  const stats = collectionStats(collection);
  if (!stats.sharded) {
    print(`Collection ${collection} is not sharded.`);
    return;
  }
  const config = collection.getDB().getSiblingDB("config");
  const chunks = chunksOf(config, config.getCollection("collections").findOne({ _id: collection.getFullName() }));
  const parts = Object.entries(stats.shards).map(([name, part]) => ({
    name,
    size: Number(part.size),
    count: Number(part.count),
    average: Number(part.avgObjSize) || 0,
    chunks: chunks.filter((chunk) => chunk.shard === name).length,
  }));
  for (const { name, size, count, chunks: here } of parts) {
    const { host } = config.getCollection("shards").findOne({ _id: name });
    print(`\nShard ${name} at ${host}`);
    print(` data : ${sizeText(size)} docs : ${count} chunks : ${here}`);
    print(` estimated data per chunk : ${sizeText(Math.floor(size / here) || 0)}`);
    print(` estimated docs per chunk : ${Math.floor(count / here) || 0}`);
  }
  const [size, count] = [Number(stats.size), Number(stats.count)];
  print(`\nTotals\n data : ${sizeText(size)} docs : ${count} chunks : ${chunks.length}`);
  for (const part of parts) {
    const [data, documents] = [share(part.size, size), share(part.count, count)];
    const average = sizeText(part.average);
    print(
      ` Shard ${part.name} contains ${data}% data, ${documents}% docs in cluster, avg obj size on shard : ${average}`,
    );
  }
}

const share = (part, whole) => (whole === 0 ? 0 : Math.floor((10000 * part) / whole) / 100);

function sizeText(amount) {
  if (amount >= 2 ** 20) return `${(amount / 2 ** 20).toFixed(2)}MiB`;
  return amount >= 1024 ? `${(amount / 1024).toFixed(2)}KiB` : `${amount}B`;
}
