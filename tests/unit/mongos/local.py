"""A router over data nodes in memory, without sockets: one collection spread over two shards by its key `k`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Services
from docstore.commands.cursors import CursorRegistry
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.sessions.registry import ClientSessions
from docstore.errors import CommandError
from docstore.sharding.chunks import Chunk, ChunkMap
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.version import Lastmod
from docstore.wire.message import Message
from mongos.router import Router
from mongos.routing.gossip import Gossip
from mongos.routing.requests import ShardReply
from mongos.table import TABLE
from tests.unit.node.local import LocalNode

SPREAD = "test.c"
"""Its documents with `k` below 10 are on shard a, the others on shard b; all other collections are on a."""
ABSENT = "absent"
"""A database that no shard has."""
KEY = ShardKey(("k",))


class LocalShard:
    """One shard: a node, and what it was asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.host = f"{name}/{name}:1"
        self.node = LocalNode()
        self.asked: list[dict[str, Any]] = []
        self.others: list[LocalShard] = []
        """Of the primary shard: whom it asks too when the indexes of a sharded collection change."""

    async def command(
        self, db: str, body: bytes | Mapping[str, Any], *, sequences: Mapping[str, list[bytes]] | None = None, **_: Any
    ) -> ShardReply:
        request = bson.decode(body) if isinstance(body, bytes) else dict(body)
        self.asked.append(request)
        if "_shardsvrChangeCollection" in request:
            reply = await self._change(request)
        else:
            reply = await self.node.reply(request, db, sequences=sequences)
        if not reply["ok"]:
            extra = {name: value for name, value in reply.items() if name not in ("ok", "code", "codeName", "errmsg")}
            raise CommandError(reply.get("code", 0), reply["errmsg"], extra=extra)
        return ShardReply(self.name, f"{self.name}:1", bson.encode(reply))

    async def _change(self, request: dict[str, Any]) -> dict[str, Any]:
        database = request["_shardsvrChangeCollection"].partition(".")[0]
        shards = (self, *self.others)
        return {"shards": {each.name: await each.node.reply(request["request"], database) for each in shards}, "ok": 1}

    async def at(self, _address: str, db: str, body: bytes | Mapping[str, Any], **_: Any) -> bytes:
        return (await self.command(db, body)).body

    async def end_cursor(self, _address: str, db: str, collection: str, cursor_id: int) -> None:
        await self.node.reply({"killCursors": collection, "cursors": [Int64(cursor_id)]}, db)


class LocalCluster:
    """Shards, routing and the registry of shards in one. Use inside a running loop."""

    def __init__(self) -> None:
        self.a, self.b, self.config = LocalShard("a"), LocalShard("b"), LocalShard("config")
        self.a.others = [self.b]
        self.router = Router(
            shards=cast(Any, self), cache=cast(Any, self), autosplit=cast(Any, self), gossip=Gossip(),
            clock=time.monotonic,
            **dict.fromkeys(
                ("chunk_commands", "settings", "balancer", "workers", "evaluators", "spill", "facts", "statistics",
                 "shutdown"),
                cast(Any, SimpleNamespace()),
            ),
        )  # fmt: skip
        ids = iter(range(1, 1000))
        self.services = Services(
            table=TABLE,
            host=self.router,
            sessions=ClientSessions(time.monotonic, lambda: bytes(16)),
            cursors=CursorRegistry(time.monotonic, lambda: next(ids)),
            operations=OperationRegistry(time.monotonic),
            clock=time.monotonic,
            wall_clock=time.time,
        )
        self.services.parts[Router] = self.router
        self.dispatcher = Dispatcher(self.services)
        self.peer = ClientConnection(1, "127.0.0.1:9")
        middle = KEY.bound(bson.encode({"k": 10}))
        chunks = [
            Chunk(KeyRange(KEY.min, middle), "a", Lastmod(1, 0)),
            Chunk(KeyRange(middle, KEY.max), "b", Lastmod(1, 1)),
        ]
        uuid = bson.Binary(bytes(16), 4)
        self._spread = CollectionRouting(SPREAD, uuid, False, ChunkMap(KEY, ObjectId(), chunks))

    async def get(self, name: str) -> Any:
        """A shard by its name, or the routing of a namespace."""
        if "." not in name:
            return {"a": self.a, "b": self.b}[name]
        primary = None if name.startswith(f"{ABSENT}.") else "a"
        return Routing(name, primary, self._spread if name == SPREAD else None)

    refresh = get

    async def all(self) -> list[LocalShard]:
        return [self.a, self.b]

    async def routed(self, namespace: str, operation: Any) -> Any:
        return await operation(await self.get(namespace))

    def add(self, *_: Any) -> bool:
        """Nothing is split."""
        return False

    async def reply(
        self, command: Mapping[str, Any], db: str = "test", *, sequences: Mapping[str, list[bytes]] | None = None
    ) -> dict[str, Any]:
        """The router's whole reply, decoded, errors included."""
        body = bson.encode({**command, "$db": db})
        answered = self.dispatcher.handle(Message(1, 0, body, dict(sequences or {})), self.peer)
        if isinstance(answered, Pending):
            answered = await answered.finish()
        assert isinstance(answered, bytes)
        return bson.decode(answered)
