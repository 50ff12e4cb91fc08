"""Reads of another member's oplog and collections by ordinary commands: find, getMore, listCollections.

All use `secondaryPreferred`, because a source may be a secondary. Errors: NetworkError, CommandError.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import bson
from bson.codec_options import CodecOptions
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.bson import array_documents, document_to_python, get_field
from docstore.errors import Code, CommandError
from docstore.net.errors import NetworkError
from docstore.optime import OpTime, unpack_timestamp
from docstore.replicaset.sync.sync_counts import SyncCounts
from docstore.replication.config import different_sets, is_foreign

if TYPE_CHECKING:
    from docstore.net.pool import Pool

SECONDARY_OK = {"mode": "secondaryPreferred"}
SLACK_SECONDS = 5.0
"""Seconds that a getMore may take beyond its own waiting time."""
POSITIONS_AT_ONCE = 500
TAIL_BYTES = 2 << 20
"""Bytes of oplog per request: both sides copy a reply several times, each time without a pause."""
KILL_SECONDS = 1.0
_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


class RemoteMember:
    """One member as a source of data."""

    def __init__(
        self,
        pool: Pool,
        address: str,
        *,
        timeout: float,
        replica_set_id: ObjectId | None = None,
        counts: SyncCounts | None = None,
    ) -> None:
        """`timeout`: seconds per command, besides waits for new data. `replica_set_id`: that of this set."""
        self.counts = counts or SyncCounts()
        self._pool = pool
        self._replica_set_id = replica_set_id
        self.address = address
        self._timeout = timeout
        self._unfinished: dict[int, tuple[str, str]] = {}
        """Unfinished cursors of `cursor`: database and collection by id."""
        self._openings: dict[asyncio.Future[bytes], str] = {}
        """Commands whose cursor is not known yet, with their databases: they go on when their reader is cancelled."""

    async def command(self, database: str, command: Mapping[str, Any], *, timeout: float | None = None) -> bytes:
        """Run a command; return the raw reply."""
        body = bson.encode({**command, "$readPreference": SECONDARY_OK})
        return await self._pool.command(self.address, database, body, timeout=timeout or self._timeout)

    async def rollback_id(self) -> int:
        """Return the rollback id; call it before anything is fetched.

        Errors: InvalidReplicaSetConfig from a member of another set, whose positions refer to other entries.
        """
        reply = document_to_python(await self.command("admin", {"replSetGetRBID": 1}))
        if is_foreign(self._replica_set_id, reply.get("replicaSetId")):
            raise CommandError(
                Code.InvalidReplicaSetConfig, different_sets(self._replica_set_id, reply["replicaSetId"])
            )
        return int(reply["rbid"])

    async def last_optime(self) -> OpTime | None:
        """Return the optime of the newest entry of its oplog."""
        return await self._end_of_log(-1)

    async def first_optime(self) -> OpTime | None:
        """Return the optime of the oldest entry of its oplog."""
        return await self._end_of_log(1)

    async def _end_of_log(self, direction: int) -> OpTime | None:
        command = {
            "find": "oplog.rs",
            "sort": {"$natural": direction},
            "limit": 1,
            "singleBatch": True,
            "projection": {"ts": 1, "t": 1},
        }
        _, documents = batch_of(await self.command("local", command))
        return optime_of(documents[0]) if documents else None

    async def tail(self, after: OpTime, await_seconds: float) -> AsyncGenerator[list[bytes], None]:
        """Yield batches of entries from the timestamp of `after` on, and empty ones while there are no new entries.

        The first batch comes at once and contains the entry at `after` if the source has it. The source pushes further
        batches on its own, so a distant source costs no round trips. After a close or failure only the first batch's
        cursor stays on the source, which reaps it.
        """
        find_command = {
            "find": "oplog.rs",
            "filter": {"ts": {"$gte": unpack_timestamp(after.timestamp)}},
            "tailable": True,
            "awaitData": True,
        }
        self.counts.readers += 1
        began = monotonic()
        cursor, documents = batch_of(await self.command("local", find_command))
        self.counts.fetched(documents, monotonic() - began)
        yield documents
        while cursor:
            get_more = {
                "getMore": Int64(cursor),
                "collection": "oplog.rs",
                "batchBytes": TAIL_BYTES,
                "maxTimeMS": Int64(int(await_seconds * 1000)),
                "$readPreference": SECONDARY_OK,
            }
            timeout = await_seconds + SLACK_SECONDS
            async with aclosing(self._pool.stream(self.address, "local", get_more, timeout=timeout)) as replies:
                began = monotonic()
                async for reply in replies:
                    cursor, documents = batch_of(reply)
                    self.counts.fetched(documents, monotonic() - began)
                    yield documents
                    began = monotonic()

    async def log_backwards(self, before: OpTime) -> AsyncIterator[list[OpTime]]:
        """Yield positions of its oplog up to the timestamp of `before`, newest first, in batches.

        Each batch is a command of its own: an abandoned search leaves no cursor on the source, which would hold a
        snapshot.
        """
        bound = {"$lte": unpack_timestamp(before.timestamp)}
        while True:
            command = {
                "find": "oplog.rs",
                "filter": {"ts": bound},
                "sort": {"$natural": -1},
                "projection": {"ts": 1, "t": 1},
                "limit": POSITIONS_AT_ONCE,
                "singleBatch": True,
            }
            _, documents = batch_of(await self.command("local", command))
            if not documents:
                return
            positions = [optime_of(document) for document in documents]
            yield positions
            bound = {"$lt": unpack_timestamp(positions[-1].timestamp)}

    async def cursor(self, database: str, command: Mapping[str, Any]) -> AsyncIterator[list[bytes]]:
        """Yield the batches of a command that opens a cursor."""
        opening = asyncio.ensure_future(self.command(database, command))
        self._openings[opening] = database
        await asyncio.wait((opening,))
        opened, collection, documents = self._note_opened(opening)
        cursor = opened
        yield documents
        while cursor:
            reply = await self.command(database, {"getMore": Int64(cursor), "collection": collection})
            cursor, documents = batch_of(reply)
            yield documents
        del self._unfinished[opened]

    def _note_opened(self, opening: asyncio.Future[bytes]) -> tuple[int, str, list[bytes]]:
        """Note the cursor that a finished command has opened; return its id, its collection and its first documents.

        Errors: those of the command.
        """
        database = self._openings.pop(opening)
        reply = opening.result()
        collection = str(bson.decode(reply, _RAW)["cursor"]["ns"]).partition(".")[2]
        opened, documents = batch_of(reply)
        self._unfinished[opened] = (database, collection)
        return opened, collection, documents

    async def kill_unfinished(self) -> None:
        """Kill unfinished cursors; those of an unreachable member time out there."""
        while self._openings:
            opening = next(iter(self._openings))
            await asyncio.wait((opening,), timeout=KILL_SECONDS)
            if not opening.done():
                opening.cancel()
                await asyncio.wait((opening,))
            with suppress(NetworkError, CommandError, asyncio.CancelledError):
                self._note_opened(opening)
        while self._unfinished:
            cursor, (database, collection) = self._unfinished.popitem()
            with suppress(NetworkError, CommandError):
                await self.command(
                    database, {"killCursors": collection, "cursors": [Int64(cursor)]}, timeout=KILL_SECONDS
                )


def batch_of(reply: bytes) -> tuple[int, list[bytes]]:
    """Return (cursor id, documents) of a cursor reply."""
    cursor = get_field(reply, "cursor")
    if cursor is None:
        raise CommandError(Code.FailedToParse, "the reply has no cursor")
    batch = get_field(cursor[1], "nextBatch") or get_field(cursor[1], "firstBatch")
    cursor_id = get_field(cursor[1], "id")
    if batch is None or cursor_id is None:
        raise CommandError(Code.FailedToParse, "the reply's cursor has no batch or no id")
    return int.from_bytes(cursor_id[1], "little", signed=True), array_documents(batch[1])


def optime_of(document: bytes) -> OpTime:
    """Return the optime, fields `t` and `ts`, of an entry or of a projection."""
    decoded = document_to_python(document)
    return OpTime(int(decoded.get("t", -1)), (decoded["ts"].time << 32) | decoded["ts"].inc)
