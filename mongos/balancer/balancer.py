"""The balancer: one router at a time, under a lease from the config servers, moves chunks from full shards to emptier
ones.

Every router runs this loop; the holder of the lease does the work. Before every move it reads the settings, of which
the active window is one, and renews the lease; it stops if it may not go on. The shards and the config servers check
every move, so a lost lease can cost a refused move, never a wrong one.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import Any

from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.balancing.policy import (
    FEW_CHUNKS,
    Route,
    ShardState,
    Transfer,
    at_once,
    best_of,
    candidates,
    choose_route,
)
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import CollectionRouting
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
        """Run rounds forever; an error ends a round, not the balancer."""
        moved = False
        while True:
            await asyncio.sleep(BUSY_ROUND_SECONDS if moved else ROUND_SECONDS)
            try:
                moved = await self.round()
            except CommandError as error:
                moved = False
                self._report("Balancer round ended", {"error": str(error)})

    async def round(self) -> bool:
        """Run one round, of at most one move per collection; return whether anything moved."""
        if not await self._may_move():
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

    async def _may_move(self) -> bool:
        """Return whether chunks may be balanced now, and by this router."""
        await self._settings.refresh()
        if self._settings.problem:
            self._report("No balancing by these settings", {"problem": self._settings.problem})
        return self._settings.balancing and await self._lease()

    async def release(self) -> None:
        """Release the lease, so that another router can balance; called when this one stops."""
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
        """Return whether the collection changed, so that there may be more to do."""
        collection = (await self._cache.refresh(namespace)).collection
        if collection is None:
            return False
        sizes = {name: (await self._commands.sizes(collection, name))[0] for name in sorted(collection.chunks.shards)}
        route = choose_route(collection.chunks, states, sizes, self._settings.chunk_bytes)
        tried: set[bytes] = set()
        while route is not None:
            transfer = await self._choose(collection, route, tried)
            if transfer is None or not await self._may_move():
                return False
            details = {"ns": namespace, "chunk": str(transfer.chunk.range), "from": route.donor, "to": route.to}
            try:
                await self._commands.transfer(collection, transfer, route.to)
            except CommandError as error:
                if error.code != Code.ChunkTooBig:
                    raise
                self._report("Too large to move", details)
                tried.add(transfer.chunk.min.key)
                continue
            self._report("Balanced", details | {"size": transfer.size, "wanted": transfer.part_bytes})
            return True
        return False

    async def _choose(self, collection: CollectionRouting, route: Route, tried: set[bytes]) -> Transfer | None:
        """Return the transfer for the route. `tried`: the low ends of chunks that turned out to be too large."""
        chunks, listed = collection.chunks, candidates(collection.chunks, route)
        looked_at: list[tuple[Chunk, int]] = []
        while batch := list(islice(listed, 1 if route.difference is None else SIZED_AT_ONCE)):
            batch = [chunk for chunk in batch if chunk.min.key not in tried]
            enough = route.target_bytes // 2 if len(chunks) >= FEW_CHUNKS else 0
            _, sizes = await self._commands.sizes(collection, route.donor, batch, enough=enough)
            sized = list(zip(batch, sizes, strict=False))
            transfer = at_once(chunks, route, sized)
            if transfer is not None:
                return transfer
            looked_at += sized
        return best_of(chunks, route, looked_at)

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
