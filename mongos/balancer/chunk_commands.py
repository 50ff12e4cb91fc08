"""The commands that change chunks, as this router sends them to shards: find split points, split, move.

A shard checks every one of them against its own routing, and only the config servers' compare-and-set makes it true, so
two routers that ask for the same thing do it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from bson.raw_bson import RawBSONDocument

from docstore.sharding import requests
from docstore.sharding.chunks import Chunk
from docstore.sharding.key import Bound
from docstore.sharding.routing import CollectionRouting, Routing
from mongos.routing.cache import RoutingCache
from mongos.routing.shards import Shards


class ChunkCommands:
    """Split and move chunks of sharded collections; each change leaves the routing of the collection fresh."""

    def __init__(self, shards: Shards, cache: RoutingCache) -> None:
        self._shards = shards
        self._cache = cache

    async def split_points(self, collection: CollectionRouting, chunk: Chunk, target: int | None) -> list[Bound]:
        """Where the chunk should be cut: when it has reached `target` bytes; None: in the middle, whatever its size."""
        shard = await self._shards.get(chunk.shard)
        command = requests.split_vector(
            collection.namespace, collection.key.document(), chunk.range, target_bytes=target or 0, force=target is None
        )
        answer = await shard.command("admin", command, repeatable=True)
        return [collection.key.bound(key.raw) for key in RawBSONDocument(answer.body)["splitKeys"]]

    async def split(self, collection: CollectionRouting, chunk: Chunk, points: Sequence[Bound]) -> Routing:
        """Cut a chunk; the routing after it."""
        shard = await self._shards.get(chunk.shard)
        command = requests.split_chunk(
            collection.namespace, collection.key.document(), chunk.range, points,
            epoch=collection.epoch, shard=chunk.shard,
        )  # fmt: skip
        try:
            await shard.command("admin", command, repeatable=True)
        finally:
            routing = await self._cache.refresh(collection.namespace)
        return routing

    async def move(self, collection: CollectionRouting, chunk: Chunk, to: str) -> Routing:
        """Move a chunk to another shard; the routing after it."""
        await self._shards.get(to)
        donor = await self._shards.get(chunk.shard)
        command = requests.move_range(collection.namespace, chunk.range, collection.chunks.version, to)
        try:
            await donor.command("admin", command, repeatable=True)
        finally:
            routing = await self._cache.refresh(collection.namespace)
        return routing
