"""Autosplit: where the lone top chunk of a growing collection goes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from docstore.sharding.balancing.settings import BalancingSettings
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import Bound
from docstore.sharding.routing import CollectionRouting, Routing
from mongos.balancer.autosplit import Autosplit
from mongos.balancer.settings import BalancerSettings
from mongos.routing.gossip import Gossip
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Shard, Shards
from tests.unit.sharding.maps import at, chunk_map

NAMESPACE = "test.growing"
BEFORE, AFTER = (10,), (10, 20)


class Config:
    """The config servers: shards a and b."""

    def __init__(self, *, draining: bool) -> None:
        self._rows = [{"_id": "a", "host": "a/a:1"}, {"_id": "b", "host": "b/b:1", "draining": draining}]

    async def command(self, _db: str, body: Any, **_: Any) -> ShardReply:
        if "_configsvrGetBalancingSettings" in body:
            return ShardReply("config", "config:1", bson.encode(BalancingSettings().document()))
        return ShardReply("config", "config:1", bson.encode({"cursor": {"firstBatch": self._rows}}))


class Commands:
    """Every chunk is to be cut at its highest key; what is moved, and where to."""

    def __init__(self) -> None:
        self.moved: list[tuple[str, str]] = []

    async def split_points(self, *_: Any) -> list[Bound]:
        return [at(20)]

    async def split(self, *_: Any) -> Routing:
        return routing_of(*AFTER)

    async def move(self, _collection: CollectionRouting, chunk: Chunk, to: str) -> None:
        self.moved.append((str(chunk.range), to))


def routing_of(*cuts: int) -> Routing:
    chunks = chunk_map(cuts, ["a"] * (len(cuts) + 1))
    return Routing(NAMESPACE, "a", CollectionRouting(NAMESPACE, bson.Binary(bytes(16), 4), False, chunks))


@pytest.mark.parametrize("draining", [False, True])
def test_the_top_chunk_does_not_go_to_a_draining_shard(draining: bool) -> None:
    async def story() -> list[tuple[str, str]]:
        config = cast(Shard, Config(draining=draining))
        shards = Shards(config, lambda name, host: cast(Shard, SimpleNamespace(name=name, host=host)), Gossip())
        commands, reports = Commands(), list[str]()
        autosplit = Autosplit(
            shards, cast(Any, commands), BalancerSettings(config), lambda message, _: reports.append(message)
        )
        routing = routing_of(*BEFORE)
        assert routing.collection is not None
        top = routing.collection.chunks.chunk_at(at(10).key)
        assert autosplit.add(routing, top, 1 << 20)
        await autosplit.look(routing, top)
        assert reports == ["Autosplit", *([] if draining else ["Moved the top chunk"])]
        return commands.moved

    collection = routing_of(*AFTER).collection
    assert collection is not None
    top = collection.chunks.chunk_at(at(20).key)
    assert asyncio.run(story()) == ([] if draining else [(str(top.range), "b")])
