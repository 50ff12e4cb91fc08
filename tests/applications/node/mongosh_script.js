// mongosh: a script given to the shell, with its helpers for collections, indexes, cursors, explain and bulk operations.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const script = `
db = db.getSiblingDB('mongosh_script');
db.dropDatabase();
for (let number = 0; number < 100; number += 1) db.orders.insertOne({ _id: number, who: 'user' + number % 4, amount: number });
db.orders.createIndex({ who: 1, amount: -1 });
assert(db.orders.find({ who: 'user1' }).sort({ amount: -1 }).limit(3).toArray().map((o) => o.amount).join() === '97,93,89');
assert(db.orders.find({ who: 'user1' }).explain('executionStats').executionStats.totalDocsExamined === 25);
assert(db.orders.aggregate([{ $group: { _id: '$who', n: { $sum: 1 } } }]).toArray().length === 4);
assert(db.orders.updateMany({ amount: { $gte: 90 } }, { $set: { big: true } }).modifiedCount === 10);
assert(db.getCollectionNames().join() === 'orders');
assert(db.orders.stats().count === 100);
assert(db.orders.getIndexes().length === 2);
const bulk = db.orders.initializeUnorderedBulkOp();
bulk.find({ big: true }).delete();
bulk.insert({ _id: 'last' });
assert(bulk.execute().deletedCount === 10);
assert(db.orders.countDocuments() === 91);
assert(db.orders.findAndModify({ query: { _id: 1 }, update: { $inc: { amount: 5 } }, new: true }).amount === 6);
assert(db.orders.validate().valid);
assert(db.hello().isWritablePrimary);
assert(db.serverStatus().ok === 1 && db.stats().ok === 1 && db.currentOp().ok === 1);
assert(db.adminCommand({ listDatabases: 1 }).databases.some((each) => each.name === 'mongosh_script'));
const session = db.getMongo().startSession();
session.startTransaction();
session.getDatabase('mongosh_script').orders.deleteMany({});
session.abortTransaction();
assert(db.orders.estimatedDocumentCount() === 91);
db.dropDatabase();
print('all is well');
`;
const root = dirname(createRequire(import.meta.url).resolve('mongosh/package.json'));
const printed = execFileSync(
  process.execPath, [join(root, 'bin', 'mongosh.js'), process.argv[2], '--quiet', '--norc', '--eval', `const assert = (holds) => { if (!holds) throw new Error('untrue'); };${script}`],
  { encoding: 'utf8', timeout: 100000, env: { ...process.env, HOME: process.env.TMPDIR ?? '/tmp' } },
);
assert.match(printed, /all is well/);
