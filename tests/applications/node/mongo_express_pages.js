// mongo-express: its pages over databases, collections, documents, indexes and statistics, asked as a browser does.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { MongoClient } from 'mongodb';

const name = 'mongo_express_pages';
const client = await new MongoClient(process.argv[2]).connect();
const database = client.db(name);
await database.dropDatabase();
await database.collection('orders').insertMany(Array.from({ length: 30 }, (_, number) => ({ _id: number, who: `user${number % 3}` })));
await database.createCollection('view', { viewOn: 'orders', pipeline: [{ $match: { who: 'user1' } }] });

const free = createServer().listen(0, '127.0.0.1');
await new Promise((resolve) => free.once('listening', resolve));
const { port } = free.address();
await new Promise((resolve) => free.close(resolve));
// It reads the address as a URL, which has one host.
const address = process.argv[2].replace(/,[^/]+/, '');
const root = join(dirname(fileURLToPath(import.meta.url)), 'node_modules', 'mongo-express');
// The package comes without the scripts of its pages, which only a browser would load.
writeFileSync(join(root, 'build-assets.json'), '{}');
const pages = spawn(process.execPath, [join(root, 'app.js')], {
  cwd: root,
  env: {
    ...process.env, NODE_ENV: 'test', PORT: String(port), VCAP_APP_HOST: '127.0.0.1', ME_CONFIG_MONGODB_URL: address,
    // What it is told of encryption beside the address must say the same.
    ...(/[?&]tls=true/.test(address) ? { ME_CONFIG_MONGODB_TLS: 'true' } : {}),
    ME_CONFIG_MONGODB_ENABLE_ADMIN: 'true', ME_CONFIG_SITE_COOKIESECRET: 'a', ME_CONFIG_SITE_SESSIONSECRET: 'b',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
process.on('exit', () => pages.kill());
await new Promise((resolve, reject) => {
  pages.once('exit', () => reject(new Error('mongo-express has ended')));
  pages.stdout.on('data', (text) => (process.stdout.write(text), /open locally|listening|server open/i.test(text) && resolve()));
});
const ask = async (path, options) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { redirect: 'manual', ...options });
  const text = await answer.text();
  assert.ok(answer.status < 400, `${path}: ${answer.status} ${text.slice(0, 500)}`);
  return text;
};
const form = (fields, method = 'POST') => ({ method, body: new URLSearchParams(fields) });

const home = await ask('/');
assert.match(home, /mongo_express_pages/);
assert.match(home, /6\.0\.5|Server Status/i);
assert.match(await ask(`/db/${name}`), /orders/);
assert.match(await ask(`/db/${name}/orders?skip=10&key=who&value=user1&type=S`), /user1/);
assert.match(await ask(`/db/${name}/orders?query=${encodeURIComponent('{"who": "user2"}')}&projection={"who":1}`), /user2/);
assert.match(await ask(`/db/${name}/orders/5`), /user2/);
await ask(`/db/${name}`, form({ collection: 'made' }));
await ask(`/db/${name}/made`, form({ document: '{"_id": 7, "text": "by hand"}' }));
assert.equal((await database.collection('made').findOne()).text, 'by hand');
await ask(`/db/${name}/addIndex/made`, form({ index: '{"text": 1}' }));
assert.equal((await database.collection('made').indexes()).length, 2);
await ask(`/db/${name}/dropIndex/made?name=text_1`);
assert.equal((await database.collection('made').indexes()).length, 1);
assert.match(await ask(`/db/${name}/export/orders`), /user0/);
assert.match(await ask(`/db/${name}/expCsv/orders`), /user0/);
await ask(`/db/${name}/made`, form({ collection: 'renamed', _method: 'put' }));
assert.deepEqual((await database.listCollections({ name: 'renamed' }).toArray()).length, 1);
await ask(`/db/${name}/renamed`, form({ _method: 'delete' }));
assert.deepEqual((await database.listCollections({ name: 'renamed' }).toArray()).length, 0);
await database.dropDatabase();
await client.close();
process.exit(0);
