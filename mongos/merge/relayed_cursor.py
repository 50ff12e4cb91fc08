"""The next batch of a cursor that continues on a single shard, passed on unchanged.

While the batches of such a cursor are small, nothing is read ahead. Its getMore goes to the shard with only the
cursor id replaced, and the reply comes back in the same way, without a task. Large batches are read ahead and merged
(`mongos.merge.remote`), so that shard, router and client work at the same time.

Invariant: the cursor is checked out from the request to the shard until the answer, or until nobody waits for it any
more. Then it is closed, on the shard too. Requests that cannot be sent at once, and cursors of other kinds, go
through `mongos.commands.get_more`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from docstore.bson import array_documents, get_field, without_fields
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.commands.declaration import Result
from docstore.commands.gossip import heard_cluster_time
from docstore.commands.operations.relay import Answered, Relay
from docstore.errors import CommandError
from docstore.net import NetworkError
from docstore.net.link import Link
from docstore.net.pool import raise_for_error
from docstore.wire.message import Message
from mongos.limits import MAX_RELAYED_BATCH_BYTES
from mongos.merge.batches import cursor_reply
from mongos.merge.merged import MergedCursor
from mongos.merge.remote import RemoteCursor
from mongos.relay.replies import CURSOR, end_of_own_fields
from mongos.relay.waiting import AwaitedRelay
from mongos.router import router_of
from mongos.routing.requests import BETWEEN_CLIENT_AND_ROUTER, cursor_of
from mongos.routing.scatter import LATE_SECONDS
from mongos.routing.shards import unreachable

_LEFT_OUT = BETWEEN_CLIENT_AND_ROUTER - {b"$db"}
_ASKED = b"\x12getMore\0"
_ASKED_AT = 4 + len(_ASKED)
_ID = b"\x12id\0"
_ADDED = b"\x10batchBytes\0" + MAX_RELAYED_BATCH_BYTES.to_bytes(4, "little")
_LARGE_BYTES = MAX_RELAYED_BATCH_BYTES // 2
"""After a batch above this size the next ones are expected to be large, too."""


def relayed_batch(context: Context, collection: str, run: Callable[[], Awaitable[Result]]) -> Relay | None:
    """Return a relay of the getMore if its cursor reads one shard alone, else None. `run` decodes and merges."""
    raw, session = context.raw, context.session
    in_transaction = session is not None and session.transaction is not None
    if context.raw_field("maxTimeMS") is not None or in_transaction or not raw.startswith(_ASKED, 4):
        return None
    cursor = context.services.cursors.get(int.from_bytes(raw[_ASKED_AT : _ASKED_AT + 8], "little", signed=True))
    if cursor is None or cursor.apart or cursor.at_cluster_time is not None or cursor.time_left is not None:
        return None
    if cursor.transaction is not None:
        return None
    remote = cursor.source.alone if isinstance(cursor.source, MergedCursor) else None
    namespace = f"{context.db}.{collection}"
    if remote is None or remote.namespace != namespace:
        return None
    return CursorRelay(run, context, namespace, cursor, remote)


class CursorRelay(AwaitedRelay):
    """The relay of one batch of a single shard."""

    _answered: Answered | None = None
    _abandoned: asyncio.TimerHandle | None = None
    _failure: NetworkError | CommandError | None = None
    _link: Link | None = None
    _address = ""

    def __init__(
        self, run: Callable[[], Awaitable[Result]], context: Context, namespace: str, cursor: ClientCursor,
        remote: RemoteCursor,
    ) -> None:  # fmt: skip
        self._run = run
        self._context = context
        self._namespace = namespace
        self._cursor = cursor
        self._remote = remote
        name = namespace.encode() + b"\0"
        self._name = b"\x02ns\0" + len(name).to_bytes(4, "little") + name + b"\0"

    def start(self, answered: Answered) -> bool:
        context, cursor, shard = self._context, self._cursor, self._remote.shard
        identity, self._address = self._remote.place
        if not identity or not shard.leads(self._address):
            return False
        registry, session = context.services.cursors, context.session
        lsid = None if session is None else session.lsid
        try:
            registry.checkout(cursor.id, self._namespace, lsid, None, context.owner)
        except CommandError:
            # `run` reports the error.
            return False
        raw, upstream = context.raw, context.connection.upstream
        request = b"".join((raw[:_ASKED_AT], _encoded(identity), raw[_ASKED_AT + 8 :]))
        sent = shard.send(without_fields(request, _LEFT_OUT, _ADDED), self._take, before=upstream.get(shard.name))
        if sent is None:
            registry.checkin(cursor)
            return False
        self._started = True
        self._answered = answered
        self._link = upstream[shard.name] = sent[1]
        return True

    def cancel(self) -> None:
        self._answered = None
        self._context.services.cursors.close(self._cursor)
        if self._link is not None:
            self._abandoned = asyncio.get_running_loop().call_later(LATE_SECONDS, self._link.close)

    def _take(self, reply: Message | NetworkError) -> None:
        answered, self._answered, self._link = self._answered, None, None
        if answered is None:
            if self._abandoned is not None:
                self._abandoned.cancel()
            return
        result = None
        if isinstance(reply, NetworkError):
            self._fail(reply)
        else:
            try:
                result = self._passed_on(reply.body)
            except CommandError as error:
                self._fail(error)
        answered(result)

    def _fail(self, error: NetworkError | CommandError) -> None:
        self._failure = error
        if isinstance(error, CommandError):
            self._remote.passed(0, large=False)
        self._context.services.cursors.close(self._cursor)

    def _passed_on(self, reply: bytes) -> bytes:
        """The client's reply. Errors: the shard's."""
        end = end_of_own_fields(reply, CURSOR)
        at = end - len(self._name) - 8 if end else 0
        cursor = get_field(reply, "cursor") if at and reply.startswith(self._name, at + 8) else None
        batch = None if cursor is None else get_field(cursor[1], "nextBatch")
        if not at or batch is None or not reply.startswith(_ID, at - len(_ID)):
            return self._put_together(reply)
        router_of(self._context).observe_cluster_time(heard_cluster_time(reply))
        identity = self._counted(
            int.from_bytes(reply[at : at + 8], "little", signed=True), array_documents(batch[1]), len(reply)
        )
        view, size = memoryview(reply), (end + 1).to_bytes(4, "little")
        return b"".join((size, view[4:at], _encoded(identity), view[at + 8 : end], b"\0"))

    def _put_together(self, reply: bytes) -> bytes:
        """Return the reply in the client's form, from one that current data nodes do not send. Errors: the shard's."""
        raise_for_error(reply)
        router_of(self._context).observe_cluster_time(heard_cluster_time(reply))
        shard_cursor = cursor_of(reply)
        identity = self._counted(shard_cursor.id, shard_cursor.documents, len(reply))
        return cursor_reply(shard_cursor.documents, identity, self._cursor.namespace, "nextBatch")

    def _counted(self, shard_id: int, documents: list[bytes], size: int) -> int:
        """Note a batch of a reply of that size; the number of the cursor, 0 at its end. `shard_id`: the same there."""
        cursor, registry = self._cursor, self._context.services.cursors
        cursor.returned += len(documents)
        cursor.batches += 1
        self._remote.passed(shard_id, large=size > _LARGE_BYTES)
        if not shard_id:
            registry.close(cursor)
            return 0
        return cursor.id if registry.checkin(cursor) else 0

    # In a task

    async def _rest(self) -> Result:
        if not self._started:
            return await self._run()
        failure = self._failure
        if isinstance(failure, NetworkError):
            raise unreachable(self._remote.shard.name, self._address, failure) from failure
        assert failure is not None, "a batch has been passed on"
        raise failure


def _encoded(identity: int) -> bytes:
    return identity.to_bytes(8, "little", signed=True)
