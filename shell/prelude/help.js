// Help texts, by topic.

const HELP = {
  shell: `
	db.help()                    help on database methods
	db.mycoll.help()             help on collection methods
	sh.help()                    sharding helpers
	rs.help()                    replica set helpers

	show dbs                     show database names
	show collections             show collections in current database
	show users                   show users in current database
	show profile                 show most recent profile entries that took time
	show logs                    show the accessible logger names
	show log [name]              prints out the last segment of log in memory
	use <db_name>                set current database
	db.foo.find()                list objects in collection foo
	db.foo.find( { a : 1 } )     list objects in foo where a == 1
	it                           result of the last line evaluated; use to further iterate
	load("file.js")              run a script
	exit                         quit the shell`,
  database: `DB methods:
	db.adminCommand(nameOrDocument)  run a command on the admin database
	db.aggregate([pipeline])         an aggregation without a collection
	db.createCollection(name, options)
	db.createView(name, viewOn, [pipeline])
	db.createUser(user)
	db.currentOp()                   operations in progress
	db.dropDatabase()
	db.fsyncLock() / db.fsyncUnlock()
	db.getCollection(name)           same as db['name'] or db.name
	db.getCollectionInfos([filter])
	db.getCollectionNames()
	db.getMongo()                    the server connection
	db.getName()
	db.getSiblingDB(name)            another database on the same connection
	db.getUsers()
	db.hello() / db.isMaster()       the server's role
	db.killOp(opid)
	db.listCommands()
	db.printCollectionStats()
	db.printReplicationInfo()
	db.printShardingStatus()
	db.runCommand(document)          run a command document
	db.serverStatus()
	db.setProfilingLevel(level)
	db.stats([scale])
	db.version()                     the server's version`,
  collection: `DBCollection methods:
	find([filter], [projection])     a cursor; findOne() for one document
	aggregate([pipeline], [options])
	mapReduce(map, reduce, output or options)
	count(), countDocuments(filter), estimatedDocumentCount(), distinct(key, [filter])
	insert(document or array), insertOne(document), insertMany([documents]), save(document)
	update(filter, change, [options]), updateOne(), updateMany(), replaceOne()
	remove(filter, [justOne]), deleteOne(filter), deleteMany(filter)
	findAndModify(options), findOneAndUpdate(), findOneAndReplace(), findOneAndDelete()
	bulkWrite([operations]), initializeOrderedBulkOp(), initializeUnorderedBulkOp()
	createIndex(keys, [options]), createIndexes([keys]), getIndexes(), dropIndex(index), dropIndexes()
	drop(), renameCollection(newName, [dropTarget]), stats([scale]), validate(), dataSize(), storageSize()
	explain([verbosity])             then find(), aggregate(), count() and the like
	getShardDistribution()`,
  cursor: `Cursor methods:
	sort(keys) limit(n) skip(n) batchSize(n) hint(index) min(keys) max(keys) collation(specification)
	comment(text) maxTimeMS(n) readPref(mode, [tags]) readConcern(level) allowDiskUse() showRecordId() returnKey()
	tailable() noCursorTimeout() allowPartialResults()
	count([applySkipLimit]) size() itcount() explain([verbosity])
	hasNext() next() forEach(function) map(function) toArray() objsLeftInBatch() close() pretty()`,
  rs: `	rs.status()                                replSetGetStatus: state of the set and its members
	rs.initiate()                              start a new set of this one member
	rs.initiate(configuration)                 start a new set
	rs.conf()                                  the configuration
	rs.reconfig(configuration, [{force: true}])
	rs.add("host:port")                        add a member
	rs.add({_id, host, ...})                   add a member with settings of its own
	rs.addArb("host:port")                     add an arbiter
	rs.remove("host:port")
	rs.stepDown([seconds, catchUpSeconds])     step down as primary
	rs.freeze(seconds)                         stay away from elections
	rs.syncFrom("host:port")
	rs.secondaryOk()                           allow reads on secondaries
	rs.printReplicationInfo()                  the oplog's size and span
	rs.printSecondaryReplicationInfo()         how far behind each member is
	rs.isMaster() / rs.hello()`,
  sh: `	sh.status([verbose])                       chunks and shards
	sh.addShard("set/host:port,...")
	sh.removeShard(name)
	sh.enableSharding(database)
	sh.shardCollection(namespace, key, [unique])
	sh.splitAt(namespace, middle)              split the chunk that holds the key, at the key
	sh.splitFind(namespace, find)              split the chunk that holds the key, in its middle
	sh.moveChunk(namespace, find, shard)
	sh.startBalancer() / sh.stopBalancer()
	sh.setBalancerState(on) / sh.getBalancerState() / sh.isBalancerRunning()
	sh.enableBalancing(namespace) / sh.disableBalancing(namespace)`,
};

function printHelp(topic) {
  print(HELP[topic]);
}

function help() {
  printHelp("shell");
}
hide(help, { shellPrint: help });
