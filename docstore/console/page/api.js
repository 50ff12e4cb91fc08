// The one way to the server: commands, run as the user who has logged in.

import { plain } from "./values.js";

export class CommandFailed extends Error {
  constructor(reply) {
    super(String(reply.errmsg ?? "the command failed"));
    this.code = plain(reply.code ?? null);
    this.codeName = reply.codeName;
  }
}

export class LoginNeeded extends Error {}

/** The headers of requests, with the key of the login: others on this host get its cookie, but not that. */
export const headers = (type) => ({ "Content-Type": type, "X-Docstore-Console": localStorage.getItem("key") ?? "none" });

let asking = new AbortController();

async function post(path, body) {
  const answer = await fetch(path, { method: "POST", headers: headers("application/json"), body: JSON.stringify(body), signal: asking.signal });
  if (answer.status === 401 && path !== "api/login") throw new LoginNeeded("Log in first");
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error ?? answer.statusText);
  return told;
}

export async function session() {
  return (await fetch("api/session", { headers: headers("application/json") })).json();
}

/** `proof`: user, password and db, or a mechanism that needs none of them. */
export async function login(proof) {
  localStorage.setItem("key", (await post("api/login", proof)).key);
}

/** Give up what was asked, then end the login. */
export async function logout() {
  asking.abort();
  asking = new AbortController();
  await post("api/logout", {});
  localStorage.removeItem("key");
}

// The page is about the process that serves it, which may be a secondary.
const READS = new Set(["find", "aggregate", "explain", "listDatabases", "listCollections", "listIndexes", "collStats"]);
const ANY_MEMBER = { mode: "primaryPreferred" };

/** The reply in canonical extended JSON. Errors: CommandFailed, LoginNeeded. */
export function exact(db, command) {
  return send(db, READS.has(Object.keys(command)[0]) ? { ...command, $readPreference: ANY_MEMBER } : command);
}

/** The same of a command as it is. */
export async function send(db, command) {
  const reply = await post("api/command", { db, command });
  if (plain(reply.ok) !== 1) throw new CommandFailed(reply);
  return reply;
}

/** The reply as plain values. */
export const run = async (db, command) => plain(await exact(db, command));

/** The answer, or `otherwise` where the user may not ask. */
export async function allowed(answer, otherwise) {
  try {
    return await answer;
  } catch (error) {
    if (error.codeName === "Unauthorized") return otherwise;
    throw error;
  }
}

/** The first documents of a find or an aggregation, as plain values. */
export async function rows(db, command, most = 1000) {
  const whole = command.find ? { ...command, limit: command.limit ?? most, singleBatch: true, batchSize: most } : { ...command, cursor: { batchSize: most } };
  const { cursor } = await exact(db, whole);
  if (plain(cursor.id)) await exact(db, { killCursors: cursor.ns.slice(cursor.ns.indexOf(".") + 1), cursors: [cursor.id] });
  return plain(cursor.firstBatch);
}
