// `rs`: helpers for replica sets, and what they print.

function currentDatabase() {
  if (globalThis.db === undefined)
    throw new Error("no connection: start the shell with an address, or use connect()");
  return globalThis.db;
}

const adminCommand = (command) => currentDatabase().adminCommand(command);

function storedConfiguration() {
  const reply = adminCommand({ replSetGetConfig: 1 });
  if (reply.ok) return reply.config;
  if (reply.code === 94) throw new Error("cannot read the configuration of the set: " + tojson(reply));
  const [stored] = currentDatabase().getSiblingDB("local").getCollection("system.replset").find().limit(1).toArray();
  if (stored === undefined) throw new Error("cannot read the configuration of the set: " + tojson(reply));
  return stored;
}

// Replace one field of the configuration and send it; the version must rise with every change.
function reconfigured(change) {
  const configuration = storedConfiguration();
  configuration.version += 1;
  change(configuration);
  return adminCommand({ replSetReconfig: configuration });
}

const rs = {
  initiate(configuration) {
    return adminCommand({ replSetInitiate: configuration === undefined ? {} : configuration });
  },
  status() {
    return adminCommand({ replSetGetStatus: 1 });
  },
  conf() {
    return storedConfiguration();
  },
  config() {
    return storedConfiguration();
  },
  add(member, arbiterOnly) {
    return reconfigured((configuration) => {
      const id = Math.max(-1, ...configuration.members.map((known) => known._id)) + 1;
      const added = typeof member === "string" ? { _id: NumberInt(id), host: member } : { ...member };
      if (added._id === undefined) added._id = NumberInt(id);
      if (arbiterOnly === true) added.arbiterOnly = true;
      configuration.members.push(added);
    });
  },
  addArb(host) {
    return rs.add(host, true);
  },
  remove(host) {
    return reconfigured((configuration) => {
      const left = configuration.members.filter((member) => member.host !== host);
      if (left.length === configuration.members.length) {
        throw new Error(`no member ${host} among ${tojson(configuration.members.map((member) => member.host))}`);
      }
      configuration.members = left;
    });
  },
  reconfig(configuration, options) {
    const version = Number(storedConfiguration().version) + 1;
    return adminCommand({ replSetReconfig: { ...configuration, version }, ...options });
  },
  stepDown(seconds, catchUpSeconds) {
    const command = { replSetStepDown: seconds === undefined ? 60 : seconds };
    if (catchUpSeconds !== undefined) command.secondaryCatchUpPeriodSecs = catchUpSeconds;
    return adminCommand(command);
  },
  // A set of primary, secondary and arbiter takes a second voting data node in two steps: the vote first, then the
  // priority, so that no majority is counted that cannot be had.
  reconfigForPSASet(memberIndex, configuration, options) {
    const member = configuration.members[memberIndex];
    if (member === undefined) throw new Error(`the configuration has no member ${memberIndex}`);
    if (member.votes === 0) throw new Error("the member must have a vote");
    const { priority } = member;
    member.priority = 0;
    const first = rs.reconfig(configuration, options);
    if (!first.ok) return first;
    member.priority = priority;
    return rs.reconfig(configuration, options);
  },
  freeze(seconds) {
    return adminCommand({ replSetFreeze: seconds });
  },
  syncFrom(host) {
    return adminCommand({ replSetSyncFrom: host });
  },
  isMaster() {
    return adminCommand({ isMaster: 1 });
  },
  hello() {
    return adminCommand({ hello: 1 });
  },
  secondaryOk(wanted) {
    currentDatabase().getMongo().setSecondaryOk(wanted);
  },
  slaveOk(wanted) {
    rs.secondaryOk(wanted);
  },
  printReplicationInfo() {
    printReplicationInfo(currentDatabase());
  },
  printSecondaryReplicationInfo() {
    printSecondaryReplicationInfo(currentDatabase());
  },
  printSlaveReplicationInfo() {
    rs.printSecondaryReplicationInfo();
  },
  help() {
    printHelp("rs");
  },
};

const hours = (seconds) => `${Math.round(seconds / 36) / 100}hrs`;

// V8 writes the time zone out where others shorten it.
const dateText = (date) => String(date).replace("(Coordinated Universal Time)", "(UTC)");

function replicationInfo(database) {
  const oplog = database.getSiblingDB("local").getCollection("oplog.rs");
  const [first] = oplog.find().sort({ $natural: 1 }).limit(1).toArray();
  const [last] = oplog.find().sort({ $natural: -1 }).limit(1).toArray();
  if (first === undefined) return { errmsg: "there is no oplog here: not a member of a replica set" };
  const stats = oplog.stats();
  const seconds = last.ts.t - first.ts.t;
  const megabytes = (size) => Math.round((Number(size) / 2 ** 20) * 100) / 100;
  return {
    logSizeMB: megabytes(stats.maxSize === undefined ? stats.storageSize : stats.maxSize),
    usedMB: megabytes(stats.size),
    timeDiff: seconds,
    timeDiffHours: Math.round(seconds / 36) / 100,
    tFirst: dateText(new Date(first.ts.t * 1000)),
    tLast: dateText(new Date(last.ts.t * 1000)),
    now: dateText(new Date()),
  };
}

function printReplicationInfo(database) {
  const info = replicationInfo(database);
  if (info.errmsg !== undefined) {
    print(info.errmsg);
    return;
  }
  print(`configured oplog size:   ${info.logSizeMB}MB`);
  print(`log length start to end: ${info.timeDiff}secs (${info.timeDiffHours}hrs)`);
  print(`oplog first event time:  ${info.tFirst}`);
  print(`oplog last event time:   ${info.tLast}`);
  print(`now:                     ${info.now}`);
}

function printSecondaryReplicationInfo(database) {
  const status = checkReply(database.adminCommand({ replSetGetStatus: 1 }), "replSetGetStatus failed");
  const newest = Math.max(...status.members.map((member) => (member.optimeDate ? member.optimeDate.getTime() : 0)));
  for (const member of status.members) {
    if (member.state === 1 || member.state === 7) continue;
    print(`source: ${member.name}`);
    if (member.health === 0) {
      print(`\tdoes not answer: ${member.lastHeartbeatMessage || member.stateStr}`);
      continue;
    }
    if (!member.optimeDate) {
      print("\tno replication info, yet.  State: " + member.stateStr);
      continue;
    }
    const behind = Math.round((newest - member.optimeDate.getTime()) / 1000);
    print(`\tsyncedTo: ${dateText(member.optimeDate)}`);
    print(`\t${behind} secs (${hours(behind)}) behind the primary`);
  }
}
