// The driver: bulk writes, cursors, sessions, change streams with resume tokens, files, commands and their events.
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { GridFSBucket, Long, MongoClient } from 'mongodb';

const started = [];
const client = new MongoClient(process.argv[2], { monitorCommands: true, compressors: ['zlib'], retryWrites: true });
client.on('commandStarted', (event) => started.push(event.commandName));
const database = client.db('driver_features');
await database.dropDatabase();
const orders = await database.createCollection('orders', {
  validator: { $jsonSchema: { properties: { amount: { minimum: 0 } } } }, collation: { locale: 'en', strength: 2 },
});
await orders.insertMany(Array.from({ length: 500 }, (_, number) => ({ _id: number, amount: number, who: `User${number % 5}` })));
await assert.rejects(orders.insertOne({ amount: -1 }), { code: 121 });
assert.equal(await orders.countDocuments({ who: 'user3' }), 100);
const cursor = orders.find({}, { batchSize: 7 }).sort({ amount: -1 }).limit(50).map((order) => order.amount);
assert.equal((await cursor.toArray()).at(-1), 450);
assert.deepEqual((await orders.distinct('who')).length, 5);
const result = await orders.bulkWrite([
  { insertOne: { document: { _id: 1000, big: Long.fromString('9007199254740993') } } },
  { updateMany: { filter: { amount: { $lt: 10 } }, update: [{ $set: { twice: { $multiply: ['$amount', 2] } } }] } },
  { replaceOne: { filter: { _id: 'new' }, replacement: { amount: 1 }, upsert: true } },
  { deleteMany: { filter: { amount: { $gte: 490 } } } },
], { ordered: false });
assert.deepEqual([result.insertedCount, result.modifiedCount, result.upsertedCount, result.deletedCount], [1, 10, 1, 10]);
const found = await orders.findOneAndUpdate({ _id: 5 }, { $inc: { amount: 1 } }, { returnDocument: 'after', includeResultMetadata: true });
assert.deepEqual([found.value.amount, found.lastErrorObject.updatedExisting], [6, true]);
assert.equal((await orders.aggregate([{ $facet: { n: [{ $count: 'n' }] } }]).next()).n[0].n, 492);
const explained = await orders.find({ _id: 5 }).explain('executionStats');
assert.ok(explained.queryPlanner);

const stream = orders.watch([], { fullDocument: 'updateLookup' });
const next = stream.next();
await new Promise((resolve) => { const timer = setInterval(() => started.includes('getMore') && (clearInterval(timer), resolve()), 20); });
await orders.updateOne({ _id: 7 }, { $set: { seen: true } });
const change = await next;
assert.deepEqual([change.operationType, change.fullDocument.seen], ['update', true]);
await orders.deleteOne({ _id: 8 });
await stream.close();
const resumed = orders.watch([], { resumeAfter: change._id });
assert.deepEqual((await resumed.next()).documentKey, { _id: 8 });
await resumed.close();

await client.withSession(async (session) => {
  const total = await session.withTransaction(async () => {
    await orders.updateOne({ _id: 1 }, { $inc: { amount: -1 } }, { session });
    await orders.updateOne({ _id: 2 }, { $inc: { amount: 1 } }, { session });
    return (await orders.find({ _id: { $in: [1, 2] } }, { session }).toArray()).reduce((sum, order) => sum + order.amount, 0);
  });
  assert.equal(total, 3);
});
await client.withSession({ snapshot: true }, async (session) => {
  assert.equal(await orders.countDocuments({ _id: 1000 }, { session }).catch((error) => { throw error; }), 1);
});
const bucket = new GridFSBucket(database, { chunkSizeBytes: 1000 });
await pipeline(Readable.from([Buffer.alloc(5500, 'x')]), bucket.openUploadStream('file'));
let length = 0;
for await (const chunk of bucket.openDownloadStreamByName('file', { start: 500, end: 5500 })) length += chunk.length;
assert.equal(length, 5000);
assert.equal(await database.collection('fs.chunks').countDocuments(), 6);
await orders.createIndexes([{ key: { who: 1, amount: -1 }, name: 'by_who' }, { key: { '$**': 1 } }]);
assert.equal((await orders.listIndexes().toArray()).length, 3);
await orders.rename('old');
assert.deepEqual((await database.listCollections({}, { nameOnly: true }).toArray()).map(({ name }) => name).sort(), ['fs.chunks', 'fs.files', 'old']);
assert.ok((await client.db('admin').command({ serverStatus: 1 })).connections.current > 0);
await database.dropDatabase();
await client.close();
