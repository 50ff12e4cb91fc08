"""The balancer: one router at a time, under a lease from the config servers, moves chunks to where there are fewer.

Every router runs this loop; whoever holds the lease does the work. The lease is renewed before every move; a holder
that cannot renew stops. A move is safe by itself whoever asks for it (the shards and the config servers check it), so a
lost lease can cost a refused move, never a wrong one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from docstore.errors import CommandError
from docstore.sharding import requests
from docstore.sharding.balance import ShardState, choose_move
from mongos.balancer.autosplit import Report
from mongos.balancer.chunk_commands import ChunkCommands
from mongos.balancer.settings import BalancerSettings
from mongos.routing.cache import RoutingCache
from mongos.routing.shards import CONFIG, Shard, Shards

ROUND_SECONDS = 10.0
BUSY_ROUND_SECONDS = 1.0
LEASE_MILLIS = 30_000
LEASE = "balancer"


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
                moved = await self.round(moved)
            except CommandError as error:
                moved = False
                self._report("Balancer round ended", {"error": str(error)})

    async def round(self, moved_last_round: bool) -> bool:
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
                moved = await self._balance(namespace, states, moved_last_round) or moved
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

    async def _balance(self, namespace: str, states: list[ShardState], moved_last_round: bool) -> bool:
        collection = (await self._cache.refresh(namespace)).collection
        move = None if collection is None else choose_move(collection.chunks, states, moved_last_round=moved_last_round)
        if collection is None or move is None or not await self._lease():
            return False
        await self._commands.move(collection, move.chunk, move.to)
        self._report("Balanced", {"ns": namespace, "chunk": str(move.chunk.range), "from": move.donor, "to": move.to})
        return True

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
