// `sh`: helpers for sharded clusters.

const sh = {
  status(verbose) {
    printShardingStatus(currentDatabase().getSiblingDB("config"), verbose);
  },
  addShard(address) {
    return adminCommand({ addShard: address });
  },
  removeShard(name) {
    return adminCommand({ removeShard: name });
  },
  enableSharding(database, primary) {
    return adminCommand({ enableSharding: database, ...(primary === undefined ? {} : { primaryShard: primary }) });
  },
  shardCollection(namespace, key, unique, options) {
    return adminCommand({ shardCollection: namespace, key, ...(unique ? { unique } : {}), ...options });
  },
  movePrimary(database, to) {
    return adminCommand({ movePrimary: database, to });
  },
  splitFind(namespace, find) {
    return adminCommand({ split: namespace, find });
  },
  splitAt(namespace, middle) {
    return adminCommand({ split: namespace, middle });
  },
  moveChunk(namespace, find, to) {
    return adminCommand({ moveChunk: namespace, find, to });
  },
  mergeChunks(namespace, bounds) {
    return adminCommand({ mergeChunks: namespace, bounds });
  },
  setBalancerState(on) {
    return adminCommand(on ? { balancerStart: 1 } : { balancerStop: 1 });
  },
  startBalancer(timeout) {
    return adminCommand({ balancerStart: 1, ...(timeout === undefined ? {} : { maxTimeMS: timeout }) });
  },
  stopBalancer(timeout) {
    return adminCommand({ balancerStop: 1, ...(timeout === undefined ? {} : { maxTimeMS: timeout }) });
  },
  getBalancerState() {
    return checkReply(adminCommand({ balancerStatus: 1 }), "balancerStatus failed").mode !== "off";
  },
  isBalancerRunning() {
    return checkReply(adminCommand({ balancerStatus: 1 }), "balancerStatus failed").inBalancerRound;
  },
  disableBalancing(namespace) {
    return setBalancing(namespace, false);
  },
  enableBalancing(namespace) {
    return setBalancing(namespace, true);
  },
  isConfigured() {
    return configCollection("shards").findOne() !== null;
  },
  enableAutoSplit() {
    return setAutoSplit(true);
  },
  disableAutoSplit() {
    return setAutoSplit(false);
  },
  getShouldAutoSplit() {
    const setting = configCollection("settings").findOne({ _id: "autosplit" });
    return setting === null || setting.enabled !== false;
  },
  getBalancerWindow() {
    const setting = configCollection("settings").findOne({ _id: "balancer" });
    return setting === null || setting.activeWindow === undefined ? null : setting.activeWindow;
  },
  balancerCollectionStatus(namespace) {
    return adminCommand({ balancerCollectionStatus: namespace });
  },
  waitForBalancer(running, timeout, interval) {
    const wanted = running !== false;
    const reached = () => sh.isBalancerRunning() === wanted;
    assert.soon(
      reached,
      `the balancer is ${wanted ? "not running" : "still running"}`,
      timeout || 60000,
      interval || 200,
    );
  },
  waitForBalancerOff(timeout, interval) {
    const reached = () => !sh.getBalancerState() && !sh.isBalancerRunning();
    assert.soon(reached, "the balancer is not off", timeout || 60000, interval || 200);
  },
  getRecentMigrations() {
    return recentMigrations(currentDatabase().getSiblingDB("config"));
  },
  addShardToZone(shard, zone) {
    return checkReply(adminCommand({ addShardToZone: shard, zone }), "addShardToZone failed");
  },
  removeShardFromZone(shard, zone) {
    return checkReply(adminCommand({ removeShardFromZone: shard, zone }), "removeShardFromZone failed");
  },
  updateZoneKeyRange(namespace, min, max, zone) {
    return checkReply(adminCommand({ updateZoneKeyRange: namespace, min, max, zone }), "updateZoneKeyRange failed");
  },
  removeRangeFromZone(namespace, min, max) {
    return sh.updateZoneKeyRange(namespace, min, max, null);
  },
  addShardTag(shard, tag) {
    return sh.addShardToZone(shard, tag);
  },
  removeShardTag(shard, tag) {
    return sh.removeShardFromZone(shard, tag);
  },
  addTagRange(namespace, min, max, tag) {
    return sh.updateZoneKeyRange(namespace, min, max, tag);
  },
  removeTagRange(namespace, min, max) {
    return sh.removeRangeFromZone(namespace, min, max);
  },
  help() {
    printHelp("sh");
  },
};

const configCollection = (name) => currentDatabase().getSiblingDB("config").getCollection(name);

function setBalancing(namespace, enabled) {
  return configCollection("collections").update({ _id: String(namespace) }, { $set: { noBalance: !enabled } });
}

function setAutoSplit(enabled) {
  return configCollection("settings").update({ _id: "autosplit" }, { $set: { enabled } }, { upsert: true });
}
