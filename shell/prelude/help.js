// Help, by topic: rows of a call and what it does. A part of the shell adds its own with `addHelp`.

const HELP = new Map();

// `rows` are [call, text] pairs; a row without text stands alone. What is added to a topic stands below.
function addHelp(topic, title, rows) {
  const known = HELP.get(topic);
  if (known === undefined) HELP.set(topic, { title, blocks: [rows] });
  else known.blocks.push(rows);
}

const LONGEST_CALL = 50;

// All texts of a topic stand in one column; that of a longer call stands below it.
function printHelp(topic) {
  const { title, blocks } = HELP.get(topic);
  if (title) print(title);
  const widths = blocks.flat().map(([call, text]) => (text === undefined ? 0 : call.length));
  const width = Math.max(0, ...widths.filter((each) => each <= LONGEST_CALL));
  for (const [call, text] of blocks.flat()) {
    if (text === undefined) print(`\t${call}`);
    else if (call.length > width) print(`\t${call}\n\t${"".padEnd(width)}  ${text}`);
    else print(`\t${call.padEnd(width)}  ${text}`);
  }
}

function help(topic) {
  if (topic !== undefined && !HELP.has(topic)) print(`no help on ${topic}; there is: ${[...HELP.keys()].join(", ")}`);
  else printHelp(topic === undefined ? "shell" : topic);
}
hide(help, { shellPrint: () => help() });

addHelp("shell", "", [
  ["db.help()", "help on database methods"],
  ["db.mycoll.help()", "help on collection methods"],
  ["db.mycoll.find().help()", "help on cursor methods"],
  ["sh.help()", "sharding helpers"],
  ["rs.help()", "replica set helpers"],
  ["help admin", "users, roles and administration"],
  ["help connect", "connecting to a server"],
  ["help keys", "keys at the prompt"],
  ["help misc", "files, types, assertions and more"],
  ["help mr", "map-reduce"],
  ["show dbs", "show database names"],
  ["show collections", "show collections in current database"],
  ["show users", "show users in current database"],
  ["show roles", "show roles in current database"],
  ["show profile", "show most recent profile entries that took time"],
  ["show logs", "show the accessible logger names"],
  ["show log [name]", "prints out the last segment of log in memory"],
  ["use <db_name>", "set current database"],
  ["db.foo.find()", "list objects in collection foo"],
  ["db.foo.find( { a : 1 } )", "list objects in foo where a == 1"],
  ["it", "result of the last line evaluated; use to further iterate"],
  ["DBQuery.shellBatchSize = x", "set default number of items to display on shell"],
  ['load("file.js")', "run a script"],
  ["exit", "quit the shell"],
]);

addHelp("database", "DB methods:", [
  ["db.adminCommand(nameOrDocument)", "run a command on the admin database"],
  ["db.aggregate([pipeline], {options})", "an aggregation without a collection"],
  ["db.auth(username, password)"],
  ["db.commandHelp(name)", "what the server says of a command"],
  ["db.createCollection(name, {size: ..., capped: ..., max: ...})"],
  ["db.createUser(userDocument)"],
  ["db.createView(name, viewOn, [{$operator: {...}}, ...], {viewOptions})"],
  ["db.currentOp()", "operations in progress"],
  ['db.currentOp({type: "idleSession"})', "sessions with an open transaction that do nothing"],
  ["db.dropDatabase(writeConcern)"],
  ["db.dropUser(username)"],
  ["db.fsyncLock()", "flush data to disk and lock the server for backups"],
  ["db.fsyncUnlock()", "unlock it"],
  ["db.getCollection(cname)", "same as db['cname'] or db.cname"],
  ["db.getCollectionInfos([filter])", "names, options and other information"],
  ["db.getCollectionNames()"],
  ["db.getLastError()", "the error of the last write of the first protocol, or null"],
  ["db.getLogComponents()"],
  ["db.getMongo()", "the server connection"],
  ["db.getMongo().setSecondaryOk()", "allow queries on a secondary"],
  ["db.getName()"],
  ["db.getProfilingLevel()"],
  ["db.getProfilingStatus()", "the level and the slow threshold"],
  ["db.getReplicationInfo()"],
  ["db.getSiblingDB(name)", "another database on the same connection"],
  ["db.getUsers() db.getUser(username)"],
  ["db.getRoles() db.getRole(rolename)"],
  ["db.getWriteConcern()", "the write concern of this database, or of the connection"],
  ["db.hello() db.isMaster()", "the server's role"],
  ["db.hostInfo()", "the server's machine"],
  ["db.killOp(opid)", "end an operation"],
  ["db.listCommands()", "all commands of the server"],
  ["db.loadServerScripts()", "load what is stored in system.js into this shell"],
  ["db.logout()"],
  ["db.printCollectionStats()"],
  ["db.printReplicationInfo()"],
  ["db.printSecondaryReplicationInfo()"],
  ["db.printShardingStatus()"],
  ["db.runCommand(cmdObj)", "run a command; a string becomes {cmdObj: 1}"],
  ["db.serverStatus() db.serverBuildInfo() db.serverCmdLineOpts()"],
  ["db.setLogLevel(level, <component>)"],
  ["db.setProfilingLevel(level, slowms)", "0=off 1=slow 2=all"],
  ["db.setWriteConcern(<write concern document>)"],
  ["db.unsetWriteConcern()"],
  ["db.shutdownServer()"],
  ["db.stats([scale])"],
  ["db.version()", "the server's version"],
  ["db.watch([pipeline], {options})", "a change stream over the database"],
]);

addHelp("collection", "DBCollection methods:", [
  ["find([filter], [projection])", "a cursor, see db.mycoll.find().help()"],
  ["findOne([filter], [projection])", "the first document, or null"],
  ["aggregate([pipeline], {options})"],
  ["mapReduce(map, reduce, {out, query, sort, limit, finalize, scope})", undefined],
  ["count([filter]) countDocuments(filter) estimatedDocumentCount()"],
  ["distinct(key, [filter], {options})"],
  ["insert(document or array) save(document)"],
  ["insertOne(document, {options}) insertMany([documents], {options})"],
  ["update(filter, change, {upsert, multi}) updateOne() updateMany() replaceOne()"],
  ["remove(filter, [justOne]) deleteOne(filter) deleteMany(filter)"],
  ["findAndModify({query, update, remove, new, fields, sort, upsert})"],
  ["findOneAndUpdate() findOneAndReplace() findOneAndDelete()"],
  ["bulkWrite([operations], {options})"],
  ["initializeOrderedBulkOp() initializeUnorderedBulkOp()"],
  ["createIndex(keys, [options]) createIndexes([keys], [options]) ensureIndex(keys)"],
  ["getIndexes() dropIndex(index) dropIndexes() hideIndex(index) unhideIndex(index) reIndex()"],
  ["drop() renameCollection(newName, [dropTarget]) convertToCapped(bytes) isCapped()"],
  ["stats([scale]) dataSize() storageSize() totalIndexSize() totalSize() latencyStats()"],
  ["validate({full}) exists()"],
  ["explain([verbosity])", "then find(), aggregate(), count() and the like; see explain().help()"],
  ["getPlanCache()", "see getPlanCache().help()"],
  ["getShardDistribution() getShardVersion()"],
  ["setWriteConcern(document) unsetWriteConcern() getWriteConcern()"],
  ["watch([pipeline], {options})", "a change stream"],
  ["getDB() getName() getFullName() getMongo() runCommand(name, {fields})"],
]);

addHelp("cursor", "Cursor methods:", [
  ["sort(keys) limit(n) skip(n) batchSize(n) hint(index) min(keys) max(keys) projection(fields)"],
  ["collation(specification) comment(text) maxTimeMS(n) maxAwaitTimeMS(n) let(variables)"],
  ["readPref(mode, [tags]) readConcern(level) allowDiskUse() showRecordId() returnKey()"],
  ["tailable() noCursorTimeout() allowPartialResults() addOption(bits)"],
  ["count([applySkipLimit]) size() itcount() explain([verbosity])"],
  ["hasNext() next() tryNext() forEach(function) map(function) toArray() cursor[index]"],
  ["objsLeftInBatch() isClosed() isExhausted() close() pretty()"],
]);

addHelp("bulk", "Bulk methods:", [
  ["insert(document)"],
  ["find(filter).update(change) updateOne(change) replaceOne(document)"],
  ["find(filter).upsert() collation(specification) arrayFilters([filters]) hint(index)", "before one of those"],
  ["find(filter).remove() removeOne()"],
  ["execute([writeConcern]) getOperations() tojson()"],
]);

addHelp("explain", "Explainable methods:", [
  ["find([filter], [projection])", "with the cursor's methods; finish() gives the explanation"],
  ["aggregate([pipeline]) count([filter]) distinct(key, [filter]) findAndModify({options})"],
  ["mapReduce(map, reduce, {options}) remove(filter) update(filter, change)"],
  ["getCollection() getVerbosity() setVerbosity(verbosity)"],
]);

addHelp("plan cache", "PlanCache methods:", [
  ["list([pipeline])", "the entries of the cache"],
  ["clear()", "drop all of them"],
  ["clearPlansByQuery(query, [projection], [sort])", "drop those of one query shape"],
]);

addHelp("session", "Session methods:", [
  ["getDatabase(name)", "a database whose operations belong to the session"],
  ["startTransaction({options}) commitTransaction() abortTransaction()"],
  ["withTransaction(function, {options})", "in a transaction, begun again when the server asks for it"],
  ["getSessionId() getOptions() getClient() getOperationTime() getClusterTime()"],
  ["endSession() hasEnded()"],
]);

addHelp("admin", "", [
  ["db.createUser({user, pwd, roles})", "and dropUser, updateUser, changeUserPassword, getUsers"],
  ["db.createRole({role, privileges, roles})", "and dropRole, updateRole, getRoles"],
  ["db.currentOp() db.killOp(opid)"],
  ["db.setProfilingLevel(level, slowms)"],
  ["db.fsyncLock() db.fsyncUnlock()"],
  ["ls([path]) pwd() cd(path) cat(path) hostname()", "files and the machine of the shell"],
]);

addHelp("connect", "", [
  ['new Mongo("host:port")', "a connection; without an address: the shell's own"],
  ['new Mongo("mongodb://host,host/?replicaSet=name")'],
  ['connect("host:port/database", [user, password])', "a database on a new connection"],
  ["getDB(name) getDBs() getDBNames() startSession({options}) watch([pipeline])"],
  ["setReadPref(mode, [tags]) setSecondaryOk() setReadConcern(level) setWriteConcern(document)"],
]);

addHelp("keys", "", [
  ["up, down, ctrl-r", "earlier lines, and search among them"],
  ["tab", "complete a name: databases, collections, methods, fields"],
  ["ctrl-a, ctrl-e, ctrl-k, ctrl-w", "edit the line as in other shells"],
  ["ctrl-c", "leave the line, or stop what runs"],
  ["ctrl-d", "quit the shell"],
]);

addHelp("misc", "", [
  ['ObjectId("hex") ISODate("2012-02-20T10:31:48Z") NumberInt(5) NumberLong("5") NumberDecimal("1.5")'],
  ['Timestamp(seconds, ordinal) BinData(type, base64) UUID("hex") HexData(type, hex) DBRef(collection, id)'],
  ["tojson(value) tojsononeline(value) print(...) printjson(value)"],
  ["Array.sum(a) Array.avg(a) Array.unique(a) Array.contains(a, x) Object.bsonsize(document)"],
  ["assert(condition) assert.eq(a, b) assert.throws(function) assert.soon(function) ..."],
  ["sleep(milliseconds) hostname() version() quit(code) setVerboseShell(on)"],
  ["ls([path]) cat(path) writeFile(path, text) mkdir(path) removeFile(path) md5sumFile(path)"],
]);

addHelp("mr", "", [
  ['db.c.mapReduce(map, reduce, { out : "name" })', "the result becomes collection name"],
  ["out : { replace | merge | reduce : name }", "what happens to a collection that is there"],
  ["out : { inline : 1 }", "the result comes back"],
  ["map = function() { emit(this.key, 1); }"],
  ["reduce = function(key, values) { return Array.sum(values); }", "may be called more than once for a key"],
]);

addHelp("rs", "", [
  ["rs.status()", "replSetGetStatus: state of the set and its members"],
  ["rs.initiate()", "start a new set of this one member"],
  ["rs.initiate(configuration)", "start a new set"],
  ["rs.conf()", "the configuration"],
  ["rs.reconfig(configuration, [{force: true}])"],
  ["rs.reconfigForPSASet(index, configuration)", "give a set with an arbiter its second voting data node"],
  ['rs.add("host:port")', "add a member"],
  ["rs.add({_id, host, ...})", "add a member with settings of its own"],
  ['rs.addArb("host:port")', "add an arbiter"],
  ['rs.remove("host:port")'],
  ["rs.stepDown([seconds, catchUpSeconds])", "step down as primary"],
  ["rs.freeze(seconds)", "stay away from elections"],
  ['rs.syncFrom("host:port")'],
  ["rs.secondaryOk()", "allow reads on secondaries"],
  ["rs.printReplicationInfo()", "the oplog's size and span"],
  ["rs.printSecondaryReplicationInfo()", "how far behind each member is"],
  ["rs.isMaster() rs.hello()"],
]);

addHelp("sh", "", [
  ["sh.status([verbose])", "shards, the balancer, chunks"],
  ['sh.addShard("set/host:port,...")'],
  ["sh.removeShard(name)"],
  ["sh.enableSharding(database)"],
  ["sh.shardCollection(namespace, key, [unique], [options])"],
  ["sh.splitAt(namespace, middle)", "split the chunk that holds the key, at the key"],
  ["sh.splitFind(namespace, find)", "split the chunk that holds the key, in its middle"],
  ["sh.moveChunk(namespace, find, shard)"],
  ["sh.movePrimary(database, shard)"],
  ["sh.startBalancer() sh.stopBalancer()"],
  ["sh.setBalancerState(on) sh.getBalancerState() sh.isBalancerRunning()"],
  ["sh.getBalancerWindow() sh.waitForBalancer([running]) sh.waitForBalancerOff()"],
  ["sh.enableBalancing(namespace) sh.disableBalancing(namespace)"],
  ["sh.enableAutoSplit() sh.disableAutoSplit() sh.getShouldAutoSplit()"],
  ["sh.getRecentMigrations()", "migrations of the last day, by outcome"],
]);
