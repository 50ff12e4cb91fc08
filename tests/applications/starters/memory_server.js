// mongodb-memory-server starts the mongod that it is given: alone, with users, and as a set of three with transactions.

import assert from "node:assert";
import { MongoClient } from "mongodb";
import { MongoMemoryReplSet, MongoMemoryServer } from "mongodb-memory-server-core";

const binary = { systemBinary: process.argv[2], version: "8.0.0" };
const launchTimeout = 60_000;

async function withClient(uri, options, use) {
  const client = new MongoClient(uri, options);
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const alone = await MongoMemoryServer.create({ binary, instance: { launchTimeout } });
await withClient(alone.getUri(), {}, async (client) => {
  const players = client.db("game").collection("players");
  await players.insertOne({ name: "Mario" });
  assert.equal(await players.countDocuments(), 1);
});
await alone.stop();

const guarded = await MongoMemoryServer.create({
  binary,
  instance: { launchTimeout },
  auth: { enable: true, customRootName: "root", customRootPwd: "secret" },
});
await withClient(guarded.getUri(), { auth: { username: "root", password: "secret" } }, async (client) => {
  const { authInfo } = await client.db("admin").command({ connectionStatus: 1 });
  assert.deepEqual(authInfo.authenticatedUsers, [{ user: "root", db: "admin" }]);
});
await withClient(guarded.getUri(), {}, async (client) => {
  await assert.rejects(client.db("game").collection("players").insertOne({}), { codeName: "Unauthorized" });
});
await guarded.stop();

const set = await MongoMemoryReplSet.create({
  binary,
  instanceOpts: [{ launchTimeout }, { launchTimeout }, { launchTimeout }],
  replSet: { count: 3, storageEngine: "wiredTiger" },
});
await withClient(set.getUri(), {}, async (client) => {
  const accounts = client.db("bank").collection("accounts");
  await client.withSession((session) =>
    session.withTransaction(async () => {
      await accounts.insertOne({ _id: "a", balance: 1 }, { session });
      await accounts.insertOne({ _id: "b", balance: 2 }, { session });
    }),
  );
  assert.equal(await accounts.countDocuments(), 2);
});
await set.stop();
