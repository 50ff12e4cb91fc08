"""A router over data nodes in memory, without sockets: one collection spread over two shards by its key `k`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import bson
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.bson import append_fields
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Services
from docstore.commands.cursors import CursorRegistry
from docstore.commands.dispatch import Dispatcher, Pending
from docstore.commands.gossip import encode_times
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.sessions.registry import ClientSessions
from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from docstore.net.scheduling.scheduler import Scheduler
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.version import Lastmod
from docstore.wire.message import Message
from mongos.router import Balancing, Router, RouterProcess, ScriptProcesses
from mongos.routing.cache import RoutingCache
from mongos.routing.gossip import Gossip
from mongos.routing.shards import Shard
from mongos.table import TABLE
from tests.unit.node.local import LocalNode

SPREAD = "test.c"
"""Its documents with `k` below 10 are on shard a, the others on shard b; all other collections are on a."""
ABSENT = "absent"
"""A database that no shard has."""
KEY = ShardKey(("k",))
_OK = b"\x01ok\0\0\0\0\0\0\0\xf0\x3f"
_ANY = object()


class LocalShard(Shard):
    """One shard: a node, and what it was asked. What follows from failures is up to the router's own code."""

    def __init__(self, name: str, *, replicated: bool = False) -> None:
        self.name = name
        self.host = f"{name}/{name}:1"
        self.node = LocalNode(replicated=replicated)
        self.asked: list[dict[str, Any]] = []
        self.relayed = 0
        self.scattered = 0
        """Requests that were answered by a call: those of a first step, and those of a task."""
        self.idle = True
        """Whether a connection is."""
        self.gone = False
        """Whether it cannot be reached."""
        self.answers: list[dict[str, Any] | NetworkError] = []
        self.suspected = 0
        self.client = cast(Any, SimpleNamespace(suspect=self._suspect, select=self._select))
        self._clock = time.monotonic
        self.others: list[LocalShard] = []
        """Of the primary shard: whom it asks too when the indexes of a sharded collection change."""

    async def _select(self, *_: Any, **__: Any) -> str:
        if self.gone:
            raise CommandError(Code.HostUnreachable, "it is gone")
        return f"{self.name}:1"

    def send(
        self,
        body: bytes,
        answered: Callable[[Any], None],
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        before: object = _ANY,
    ) -> tuple[str, Any] | None:
        """A request whose answer comes by a call: the next of `answers`, or the node's."""
        if not self.idle or self.gone:
            return None
        request = bson.decode(body)

        async def answer() -> None:
            if self.answers:
                reply = self.answers.pop(0)
            else:
                self.asked.append(request)
                reply = await self.node.reply(request, request["$db"], sequences=sequences)
            if before is _ANY:
                self.scattered += 1
            else:
                self.relayed += 1
            answered(reply if isinstance(reply, NetworkError) else Message(1, 1, _as_of_a_set(reply)))

        self.task = asyncio.ensure_future(answer())
        return f"{self.name}:1", self

    def leads(self, _address: str) -> bool:
        return True

    def hear(self, reply: bytes) -> None:
        """It tells of no time."""

    def close(self) -> None:
        self.task.cancel()

    def _suspect(self, _address: str) -> None:
        self.suspected += 1

    async def _change(self, request: dict[str, Any]) -> dict[str, Any]:
        database = request["_shardsvrChangeCollection"].partition(".")[0]
        shards = (self, *self.others)
        return {"shards": {each.name: await each.node.reply(request["request"], database) for each in shards}, "ok": 1}

    async def at(
        self, address: str, db: str, body: bytes | Mapping[str, Any], *,
        sequences: Mapping[str, list[bytes]] | None = None, **_: Any,
    ) -> bytes:  # fmt: skip
        if self.gone:
            raise NetworkError(address, "it is gone", sent=False)
        request = bson.decode(body) if isinstance(body, bytes) else dict(body)
        self.asked.append(request)
        if "_shardsvrChangeCollection" in request:
            reply = await self._change(request)
        else:
            reply = await self.node.reply(request, db, sequences=sequences)
        if not reply["ok"]:
            extra = {name: value for name, value in reply.items() if name not in ("ok", "code", "codeName", "errmsg")}
            raise CommandError(reply.get("code", 0), reply["errmsg"], extra=extra)
        return bson.encode(reply)

    async def end_cursor(self, _address: str, db: str, collection: str, cursor_id: int) -> None:
        await self.node.reply({"killCursors": collection, "cursors": [Int64(cursor_id)]}, db)


def _as_of_a_set(reply: dict[str, Any]) -> bytes:
    """The reply as a member of a set gives it, to whom no time is known."""
    if not reply["ok"]:
        return bson.encode(reply)
    own = {name: value for name, value in reply.items() if name not in ("ok", "$clusterTime", "operationTime")}
    return append_fields(bson.encode(own), _OK + encode_times(0, 0).fields)


class LocalCluster:
    """Shards, routing and the registry of shards in one. Use inside a running loop."""

    def __init__(self, *, replicated: bool = False) -> None:
        self.a, self.b, self.config = (LocalShard(name, replicated=replicated) for name in ("a", "b", "config"))
        self.a.others = [self.b]
        unused = cast(Any, SimpleNamespace())
        self.router = Router(
            shards=cast(Any, self), cache=cast(Any, self), gossip=Gossip(), scheduler=Scheduler(),
            balancing=Balancing(unused, unused, cast(Any, self), unused),
            scripts=ScriptProcesses(unused, unused, unused), process=RouterProcess(unused, unused, unused),
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
        self._routing: dict[str, Routing] = {}
        self.relays = True
        """Whether requests are relayed where they can be."""
        self.settled: list[str] = []
        self.doubted: list[str] = []
        self._also_read: dict[frozenset[str], frozenset[str]] = {}
        self.written: list[tuple[str, int]] = []
        self.due = False
        self.looked_at: list[str] = []

    async def get(self, name: str) -> Any:
        """A shard by its name, or the routing of a namespace."""
        if "." not in name:
            return {"a": self.a, "b": self.b}[name]
        return self._routing_of(name)

    of_routing = get

    def _routing_of(self, namespace: str) -> Routing:
        if namespace not in self._routing:
            primary = None if namespace.startswith(f"{ABSENT}.") else "a"
            self._routing[namespace] = Routing(namespace, primary, self._spread if namespace == SPREAD else None)
        return self._routing[namespace]

    def one_that_answered(self, name: str) -> LocalShard:
        return {"a": self.a, "b": self.b}[name]

    def known(self, name: str) -> Any:
        """As `get`, of what need not be looked up."""
        if not name:
            return None
        if "." not in name:
            return {"a": self.a, "b": self.b}[name] if self.relays else None
        routing = self._routing_of(name)
        return None if routing.primary is None else routing

    refresh = get

    def read_with(self, _db: str, names: frozenset[str]) -> frozenset[str]:
        return self._also_read.get(names, names)

    def also_read(self, db: str, names: frozenset[str], more: list[str]) -> bool:
        known = self.read_with(db, names)
        self._also_read[names] = known.union(more)
        return not known.issuperset(more)

    async def all(self) -> list[LocalShard]:
        return [self.a, self.b]

    async def routed(self, namespace: str, operation: Any, first: Any = None) -> Any:
        return await RoutingCache.routed(cast(Any, self), namespace, operation, first)

    async def settle(self, namespace: str, _used: Routing, _attempt: int) -> None:
        self.settled.append(namespace)

    def doubt(self, namespace: str, _error: CommandError) -> None:
        self.doubted.append(namespace)

    def add(self, _routing: Routing, chunk: Chunk, size: int) -> bool:
        """Nothing is split unless `due` says so."""
        self.written.append((chunk.shard, size))
        return self.due

    async def look(self, _routing: Routing, chunk: Chunk) -> None:
        self.looked_at.append(chunk.shard)

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
