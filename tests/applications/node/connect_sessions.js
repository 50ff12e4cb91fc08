// connect-mongo: sessions of an Express application, kept, touched, listed and destroyed.
import assert from 'node:assert/strict';
import MongoStore from 'connect-mongo';
import express from 'express';
import session from 'express-session';
import { MongoClient } from 'mongodb';

const client = await new MongoClient(process.argv[2]).connect();
await client.db('connect_sessions').dropDatabase();
const store = MongoStore.create({ client, dbName: 'connect_sessions', touchAfter: 0 });
const app = express();
app.use(session({ secret: 'secret', resave: false, saveUninitialized: false, store, cookie: { maxAge: 60000 } }));
app.get('/', (request, response) => {
  request.session.visits = (request.session.visits ?? 0) + 1;
  response.json(request.session.visits);
});
app.get('/out', (request, response) => request.session.destroy(() => response.json('out')));
const server = app.listen(0, '127.0.0.1');
await new Promise((resolve) => server.once('listening', resolve));
const place = `http://127.0.0.1:${server.address().port}`;
const first = await fetch(place);
const headers = { cookie: first.headers.get('set-cookie').split(';')[0] };
assert.equal(await first.json(), 1);
assert.equal(await (await fetch(place, { headers })).json(), 2);
assert.equal(await (await fetch(place)).json(), 1);
const sessions = client.db('connect_sessions').collection('sessions');
assert.equal(await sessions.countDocuments(), 2);
const expiring = (await sessions.indexes()).filter((index) => index.expireAfterSeconds === 0);
assert.equal(expiring.length, 1);
await fetch(`${place}/out`, { headers });
assert.equal(await sessions.countDocuments(), 1);
await client.db('connect_sessions').dropDatabase();
server.close();
await client.close();
process.exit(0);
