"""The balancer: one router at a time, under a lease from the config servers, moves chunks to where there is less.

Every router runs this loop; whoever holds the lease does the work. The lease is renewed before every move; a holder
that cannot renew stops. A move is safe by itself whoever asks for it (the shards and the config servers check it), so a
lost lease can cost a refused move, never a wrong one.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from docstore.errors import CommandError
from docstore.sharding import requests
from docstore.sharding.balance import Route, ShardState, candidates, choose_chunk, choose_route
from docstore.sharding.chunks import Chunk
from docstore.sharding.routing import CollectionRouting
from docstore.sharding.split import MIB
from mongos.balancer.autosplit import Report
from mongos.balancer.chunk_commands import ChunkCommands
from mongos.balancer.settings import BalancerSettings
from mongos.routing.cache import RoutingCache
from mongos.routing.shards import CONFIG, Shard, Shards

ROUND_SECONDS = 10.0
BUSY_ROUND_SECONDS = 1.0
LEASE_MILLIS = 30_000
LEASE = "balancer"
SIZED_AT_ONCE = 64
FEW_CHUNKS = 20


class Balancer:
    """Runs rounds until it is cancelled. `holder` names this router in the lease."""

    def __init__(
        self, holder: str, config: Shard, shards: Shards, cache: RoutingCache, commands: ChunkCommands,
        settings: BalancerSettings, report: Report,
    ) -> None:  # fmt: skip
        self._holder = holder
        self._config = config
        self._shards = shards
        self._cache = cache
        self._commands = commands
        self._settings = settings
        self._report = report
        self.in_round = False
        self.rounds = 0
        self._fence = 0

    async def run(self) -> None:
        """Rounds without end; an error ends a round, not the balancer."""
        moved = False
        while True:
            await asyncio.sleep(BUSY_ROUND_SECONDS if moved else ROUND_SECONDS)
            try:
                moved = await self.round()
            except CommandError as error:
                moved = False
                self._report("Balancer round ended", {"error": str(error)})

    async def round(self) -> bool:
        """One round: at most one move a collection; whether anything moved."""
        await self._settings.refresh()
        if not self._settings.balancing or not await self._lease():
            return False
        self.in_round = True
        self.rounds += 1
        moved = False
        try:
            states = await self._shard_states()
            for namespace in await self._sharded_collections():
                try:
                    moved = await self._balance(namespace, states) or moved
                except CommandError as error:
                    self._report("Collection not balanced", {"ns": namespace, "error": str(error)})
        finally:
            self.in_round = False
        return moved

    async def release(self) -> None:
        """Let another router balance; called when this one stops."""
        if self._fence:
            await self._config.command("admin", requests.lease(LEASE, "release", self._holder, fence=self._fence))
            self._fence = 0

    async def _lease(self) -> bool:
        action = "renew" if self._fence else "acquire"
        command = requests.lease(
            LEASE, action, self._holder, fence=self._fence, ttl_ms=LEASE_MILLIS, why="balancer round"
        )
        reply = (await self._config.command("admin", command)).decoded()
        self._fence = int(reply["fence"]) if reply["granted"] else 0
        return bool(reply["granted"])

    async def _balance(self, namespace: str, states: list[ShardState]) -> bool:
        """Whether anything was done for the collection, so that there may be more to do."""
        collection = (await self._cache.refresh(namespace)).collection
        if collection is None:
            return False
        chunk_bytes = self._settings.chunk_bytes
        sizes = {name: await self._owned(collection, name) for name in sorted(collection.chunks.shards)}
        route = choose_route(collection.chunks, states, sizes, chunk_bytes)
        if route is None:
            return False
        chunk, size = await self._choose(collection, route)
        if chunk is None or not await self._lease():
            return False
        told = {"ns": namespace, "chunk": str(chunk.range), "from": route.donor, "to": route.to}
        if size > chunk_bytes or (route.difference is not None and size >= route.difference):
            if await self._cut(collection, chunk):
                self._report("Split for balancing", told)
                return True
            if size <= chunk_bytes:
                return False
        await self._commands.move(collection, chunk, route.to)
        self._report("Balanced", told)
        return True

    async def _owned(self, collection: CollectionRouting, shard: str) -> int:
        """The bytes of a collection on a shard. Chunks of a column family count alike."""
        if collection.partitioner is not None:
            return collection.chunks.counts.get(shard, 0) * self._settings.chunk_bytes
        return (await self._commands.sizes(collection, shard))[0]

    async def _choose(self, collection: CollectionRouting, route: Route) -> tuple[Chunk | None, int]:
        """The chunk to move with its size in bytes; where none can be moved, the largest, to be cut."""
        few = len(collection.chunks) < FEW_CHUNKS
        largest: tuple[Chunk | None, int] = None, self._settings.chunk_bytes if not few else MIB
        listed = candidates(collection.chunks, route)
        while batch := list(islice(listed, SIZED_AT_ONCE)):
            if collection.partitioner is not None:
                return batch[0], 0
            _, sizes = await self._commands.sizes(collection, route.donor, batch)
            sized = list(zip(batch, sizes, strict=True))
            chunk = choose_chunk(route, sized, few=few)
            if chunk is not None:
                return next(row for row in sized if row[0] is chunk)
            largest = max([largest, *sized], key=lambda row: row[1])
        return largest

    async def _cut(self, collection: CollectionRouting, chunk: Chunk) -> bool:
        """Split a chunk in the middle; false where it has a single key."""
        points = await self._commands.split_points(collection, chunk, None)
        if points:
            await self._commands.split(collection, chunk, points)
        return bool(points)

    async def _shard_states(self) -> list[ShardState]:
        await self._shards.refresh()
        answer = await self._config.command(CONFIG, {"find": "shards", "sort": {"_id": 1}}, repeatable=True)
        rows: list[dict[str, Any]] = answer.decoded()["cursor"]["firstBatch"]
        return [ShardState(row["_id"], bool(row.get("draining", False))) for row in rows]

    async def _sharded_collections(self) -> list[str]:
        answer = await self._config.command(
            CONFIG, {"find": "collections", "sort": {"_id": 1}, "batchSize": 100_000}, repeatable=True
        )
        return [row["_id"] for row in answer.decoded()["cursor"]["firstBatch"] if not row.get("noBalance", False)]
