"""The commands that change chunks, as this router sends them to shards: find split points, split, move.

A shard checks every one of them against its own routing, and only the config servers' compare-and-set makes it true, so
two routers that ask for the same thing do it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from bson.raw_bson import RawBSONDocument

from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.balancing.policy import Transfer, most_bytes
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import Bound
from docstore.sharding.move_request import Extent
from docstore.sharding.routing import CollectionRouting, Routing
from mongos.balancer.settings import BalancerSettings
from mongos.routing.cache import RoutingCache
from mongos.routing.shards import Shards


class ChunkCommands:
    """Split and move chunks of sharded collections; each change leaves the routing of the collection fresh."""

    def __init__(self, shards: Shards, cache: RoutingCache, settings: BalancerSettings) -> None:
        self._shards = shards
        self._cache = cache
        self._settings = settings

    async def split_points(self, collection: CollectionRouting, chunk: Chunk, target: int | None) -> list[Bound]:
        """Return the bounds at which to split the chunk once it has reached `target` bytes; None: in the middle, at
        any size.
        """
        shard = await self._shards.get(chunk.shard)
        command = requests.split_vector(
            collection.namespace, collection.key.document(), chunk.range, target_bytes=target or 0, force=target is None
        )
        answer = await shard.command("admin", command, repeatable=True)
        return [collection.key.bound(key.raw) for key in RawBSONDocument(answer.body)["splitKeys"]]

    async def split(self, collection: CollectionRouting, chunk: Chunk, points: Sequence[Bound]) -> Routing:
        """Split a chunk; return the new routing."""
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

    async def set_jumbo(self, collection: CollectionRouting, chunk: Chunk, *, jumbo: bool) -> None:
        """Flag a chunk as too large to move, or take the flag away."""
        command = requests.set_jumbo(collection.namespace, collection.epoch, chunk.range, jumbo=jumbo)
        try:
            await self._shards.config.command("admin", command, repeatable=True)
        finally:
            await self._cache.refresh(collection.namespace)

    async def sizes(
        self, collection: CollectionRouting, shard: str, chunks: Sequence[Chunk] = (), *, enough: int = 0
    ) -> tuple[int, list[int]]:
        """Return (the bytes of the collection that a shard owns, the bytes of some of its chunks). With `enough` the
        chunks end with the first of at least that many bytes.
        """
        target_shard = await self._shards.get(shard)
        ranges = [chunk.range for chunk in chunks]
        command = requests.chunk_sizes(collection.namespace, collection.key.document(), ranges, enough=enough)
        reply = (await target_shard.command("admin", command, repeatable=True)).decoded()
        return int(reply["size"]), [int(size) for size in reply["sizes"]]

    async def move(
        self, collection: CollectionRouting, chunk: Chunk, to: str, *, force_jumbo: bool = False,
        wait_for_delete: bool = False,
    ) -> Routing:  # fmt: skip
        """Move a chunk to another shard; return the new routing. A chunk that is too large is flagged jumbo, unless
        the move is forced. `wait_for_delete`: wait until the donor has deleted its documents. Errors: ChunkTooBig;
        those of `requests.move_range`.
        """
        await self._settings.refresh()
        most = 0 if force_jumbo or collection.partitioner is not None else self._settings.chunk_bytes
        extent = Extent(most_bytes=most)
        return await self._move(collection, chunk, to, extent, jumbo=True, wait_for_delete=wait_for_delete)

    async def transfer(self, collection: CollectionRouting, transfer: Transfer, to: str) -> Routing:
        """Move a chunk or a part of it. Errors: those of `move`.

        A chunk above the maximal size from which no part can be split off is flagged jumbo.
        """
        extent = Extent(part_bytes=transfer.part_bytes, upper=transfer.upper)
        jumbo = transfer.size > most_bytes(self._settings.chunk_bytes)
        return await self._move(collection, transfer.chunk, to, extent, jumbo=jumbo)

    async def _move(
        self, collection: CollectionRouting, chunk: Chunk, to: str, extent: Extent, *, jumbo: bool,
        wait_for_delete: bool = False,
    ) -> Routing:  # fmt: skip
        await self._shards.get(to)
        donor = await self._shards.get(chunk.shard)
        command = requests.move_range(
            collection.namespace, chunk.range, collection.chunks.version, to, extent, wait_for_delete=wait_for_delete
        )
        try:
            await donor.command("admin", command, repeatable=True)
        except CommandError as error:
            if error.code == Code.ChunkTooBig and jumbo:
                await self.set_jumbo(collection, chunk, jumbo=True)
            raise
        finally:
            routing = await self._cache.refresh(collection.namespace)
        return routing
