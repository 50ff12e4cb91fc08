"""Tailable cursors through a router: of capped collections, which are never sharded, so that one shard has all of it.

The router relays the shard's batches as they come, and waits where the shard does.
"""

from __future__ import annotations

import asyncio
from typing import Any

from bson.int64 import Int64

from docstore.bson import get_field
from docstore.commands.context import Context
from docstore.commands.cursors import ClientCursor
from docstore.errors import CommandError
from docstore.namespace import split_namespace
from docstore.net import NetworkError
from mongos.merge.batches import cursor_reply
from mongos.merge.remote import RemoteCursor
from mongos.router import router_of, session_fields
from mongos.routing.requests import ShardReply, cursor_of
from mongos.routing.shards import Shard, unreachable


class RelayedTail:
    """The tail on a shard's member, as the source of the client's cursor."""

    def __init__(self, shard: Shard, answer: ShardReply) -> None:
        opened = cursor_of(answer.body)
        self.id = opened.id
        self.documents = opened.documents
        self._shard = shard
        self._answer = answer
        self._namespace = opened.namespace
        self._closing: asyncio.Task[None] | None = None

    async def more(self, context: Context, batch_size: int | None) -> list[bytes]:
        """Return the next batch. Errors: those of the shard, HostUnreachable."""
        database, collection = split_namespace(self._namespace)
        command: dict[str, Any] = {"getMore": Int64(self.id), "collection": collection, **session_fields(context)}
        if batch_size:
            command["batchSize"] = batch_size
        if get_field(context.raw, "maxTimeMS") is not None:
            command["maxTimeMS"] = context.max_time_ms
        try:
            reply = cursor_of(await self._shard.at(self._answer.address, database, command))
        except NetworkError as error:
            self.id = 0
            raise unreachable(self._shard.name, self._answer.address, error) from error
        except CommandError:
            self.id = 0
            raise
        self.id = reply.id
        return reply.documents

    def close(self) -> None:
        """End the shard's cursor in the background."""
        if self.id:
            remote = RemoteCursor(self._shard, self._answer, batch_size=None)
            self._closing = asyncio.ensure_future(remote.kill())


async def open_tail(context: Context, answer: ShardReply) -> bytes:
    """The reply to the client's find, of which the one shard has answered."""
    tail = RelayedTail(await router_of(context).shards.get(answer.shard), answer)
    documents, tail.documents = tail.documents, []
    if not tail.id:
        return cursor_reply(documents, 0, context.namespace, "firstBatch")
    lsid = context.session.lsid if context.session else None
    cursor = context.services.cursors.register(
        tail, context.namespace, lsid=lsid, origin=context.redacted_request, owner=context.owner, needs=context.needs
    )
    cursor.returned, cursor.batches = len(documents), 1
    return cursor_reply(documents, cursor.id, context.namespace, "firstBatch")


async def next_tail_reply(context: Context, cursor: ClientCursor, batch_size: int | None) -> bytes:
    """The reply of a getMore on a checked-out cursor of a tail."""
    registry = context.services.cursors
    tail: RelayedTail = cursor.source
    try:
        documents = await tail.more(context, batch_size)
    except BaseException:
        registry.close(cursor)
        raise
    cursor.returned += len(documents)
    cursor.batches += 1
    if not tail.id:
        registry.close(cursor)
        return cursor_reply(documents, 0, cursor.namespace, "nextBatch")
    alive = registry.checkin(cursor)
    return cursor_reply(documents, cursor.id if alive else 0, cursor.namespace, "nextBatch")
