// Payload: collections with relations, drafts and versions, users who log in, a global, transactions; its local API.
import assert from 'node:assert/strict';
import { mongooseAdapter } from '@payloadcms/db-mongodb';
import { buildConfig, commitTransaction, getPayload, initTransaction, killTransaction } from 'payload';

// No URL to Node.js, where several hosts are named.
const address = process.argv[2].replace(/^(mongodb:\/\/[^/]+)\/?/, '$1/payload_cms');
const payload = await getPayload({
  disableOnInit: true,
  config: await buildConfig({
    secret: 'secret',
    db: mongooseAdapter({ url: address, connectOptions: { dbName: 'payload_cms' } }),
    typescript: { autoGenerate: false },
    telemetry: false,
    collections: [
      { slug: 'users', auth: true, fields: [{ name: 'name', type: 'text' }] },
      {
        slug: 'posts',
        versions: { drafts: true },
        fields: [
          { name: 'title', type: 'text', required: true, unique: true, localized: true },
          { name: 'author', type: 'relationship', relationTo: 'users' },
          { name: 'place', type: 'point' },
          { name: 'parts', type: 'array', fields: [{ name: 'text', type: 'text' }] },
        ],
      },
    ],
    globals: [{ slug: 'site', fields: [{ name: 'motto', type: 'text' }] }],
    localization: { locales: ['en', 'de'], defaultLocale: 'en' },
  }),
});
await payload.db.connection.dropDatabase();

const ann = await payload.create({ collection: 'users', data: { email: 'ann@example.com', password: 'secret', name: 'ann' } });
const login = await payload.login({ collection: 'users', data: { email: 'ann@example.com', password: 'secret' } });
assert.ok(login.token);
await assert.rejects(payload.login({ collection: 'users', data: { email: 'ann@example.com', password: 'wrong' } }));
const post = await payload.create({
  collection: 'posts',
  data: { title: 'first', author: ann.id, place: [13.4, 52.5], parts: [{ text: 'a' }, { text: 'b' }], _status: 'published' },
});
await payload.update({ collection: 'posts', id: post.id, locale: 'de', data: { title: 'erster' } });
await payload.update({ collection: 'posts', id: post.id, draft: true, data: { title: 'draft' } });
assert.equal((await payload.findByID({ collection: 'posts', id: post.id })).title, 'first');
assert.equal((await payload.findByID({ collection: 'posts', id: post.id, draft: true })).title, 'draft');
assert.equal((await payload.findByID({ collection: 'posts', id: post.id, locale: 'de' })).title, 'erster');
const versions = await payload.findVersions({ collection: 'posts', where: { parent: { equals: post.id } } });
assert.equal(versions.totalDocs, 3);
for (let number = 0; number < 12; number += 1) await payload.create({ collection: 'posts', data: { title: `post ${number}` } });
const page = await payload.find({
  collection: 'posts', page: 2, limit: 5, sort: '-title', where: { or: [{ title: { like: 'post' } }, { 'author.name': { equals: 'ann' } }] },
});
assert.deepEqual([page.totalDocs, page.totalPages, page.docs.length], [13, 3, 5]);
const near = await payload.find({ collection: 'posts', where: { place: { near: [13, 52, 100000, 0] } } });
assert.equal(near.docs[0].author.name, 'ann');
await assert.rejects(payload.create({ collection: 'posts', data: { title: 'first' } }));
await payload.updateGlobal({ slug: 'site', data: { motto: 'more' } });
assert.equal((await payload.findGlobal({ slug: 'site' })).motto, 'more');

const request = { payload, context: {} };
// Payload begins transactions where the connection string names a replica set, so not through a router.
if (await initTransaction(request)) {
  await payload.create({ collection: 'posts', data: { title: 'never' }, req: request });
  await killTransaction(request);
} else {
  assert.ok(!/[?&]replicaSet=/.test(address), 'no transaction');
}
const other = { payload, context: {} };
await initTransaction(other);
await payload.create({ collection: 'posts', data: { title: 'always' }, req: other });
await commitTransaction(other);
assert.equal((await payload.count({ collection: 'posts', where: { title: { in: ['never', 'always'] } } })).totalDocs, 1);
await payload.delete({ collection: 'posts', where: { title: { like: 'post' } } });
assert.equal((await payload.count({ collection: 'posts' })).totalDocs, 2);
await payload.db.connection.dropDatabase();
process.exit(0);
