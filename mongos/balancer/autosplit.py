"""Splitting chunks while they are written: the 2012 ladder (`docstore.sharding.split`), driven by this router's writes.

A check that fails (the shard is away, another router was faster) costs nothing: the chunk stays whole and the next
fifth of its size checks again. Writes wait for the check, so that the chunks of a load do not depend on its batching.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.errors import CommandError
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing
from docstore.sharding.split import WriteCounts, top_chunk_receiver
from mongos.balancer.chunk_commands import ChunkCommands
from mongos.balancer.settings import BalancerSettings
from mongos.routing.shards import Shards

Report = Callable[[str, dict[str, Any]], None]


class Autosplit:
    """Counts bytes per chunk and looks at those that are due. `report(message, attributes)` goes to the log."""

    def __init__(self, shards: Shards, commands: ChunkCommands, settings: BalancerSettings, report: Report) -> None:
        self._shards = shards
        self._commands = commands
        self._settings = settings
        self._report = report
        self._counts: dict[str, tuple[object, WriteCounts]] = {}
        self._due: dict[tuple[str, bytes], int] = {}

    def add(self, routing: Routing, chunk: Chunk, size: int) -> bool:
        """Count bytes written to a chunk; True when it is time to look at it."""
        collection = routing.collection
        if collection is None or not self._settings.autosplit:
            return False
        entry = self._counts.get(routing.namespace)
        if entry is None or entry[0] != collection.epoch:
            entry = self._counts[routing.namespace] = collection.epoch, WriteCounts()
        target = entry[1].add(collection.chunks, chunk, size, self._settings.chunk_bytes)
        if target is None:
            return False
        self._due[routing.namespace, chunk.min.key] = target
        return True

    async def look(self, routing: Routing, chunk: Chunk) -> None:
        """Split the chunk when the shard says that it has reached its target; move a lone top chunk away."""
        target = self._due.pop((routing.namespace, chunk.min.key), None)
        collection = routing.collection
        if collection is None or target is None:
            return
        try:
            points = await self._commands.split_points(collection, chunk, target)
            if not points:
                return
            after = await self._commands.split(collection, chunk, points)
            self._report("Autosplit", {"ns": routing.namespace, "chunk": str(chunk.range), "points": len(points)})
            self._counts[routing.namespace][1].forget_stale((after.collection or collection).chunks)
            at_the_top = chunk.max.key == collection.key.max.key and chunk.min.key != collection.key.min.key
            if at_the_top and collection.partitioner is None:
                await self._move_top(after)
        except CommandError as error:
            self._report("Autosplit put off", {"ns": routing.namespace, "chunk": str(chunk.range), "error": str(error)})

    async def _move_top(self, routing: Routing) -> None:
        collection = routing.collection
        await self._settings.refresh()
        if collection is None or not self._settings.balancing:
            return
        top = collection.chunks.chunk_at(collection.key.max.key)
        candidates = await self._shards.receivers()
        receiver = top_chunk_receiver(collection.chunks, top.shard, candidates)
        if receiver is not None:
            await self._commands.move(collection, top, receiver)
            self._report("Moved the top chunk", {"ns": routing.namespace, "chunk": str(top.range), "to": receiver})
