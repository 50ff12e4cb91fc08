"""`collStats`: sizes of a collection. A sharded one's are added up over its shards, each shard's under `shards`."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import COLL_STATS
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import require_database
from mongos.routing.requests import ShardReply, forwarded
from mongos.routing.targeting import primary_of

_SUMMED = ("count", "size", "storageSize", "totalIndexSize", "totalSize", "freeStorageSize")


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)

    async def attempt(routing: Routing) -> dict[str, Any]:
        require_database(routing)
        collection = routing.collection
        names = [primary_of(routing)] if collection is None else sorted(collection.chunks.shards)
        answers = await router.ask(context, routing, names, forwarded(context.raw))
        if collection is None:
            return {"sharded": False, "primary": routing.primary, **answers[0].decoded()}
        return _added_up(context.namespace, answers, len(collection.chunks))

    return await router.routed(context, attempt)


def _added_up(namespace: str, answers: list[ShardReply], chunks: int) -> dict[str, Any]:
    parts = {answer.shard: answer.decoded() for answer in answers}
    stats: dict[str, Any] = {"sharded": True, "ns": namespace}
    for name in _SUMMED:
        if any(name in part for part in parts.values()):
            stats[name] = sum(part.get(name, 0) for part in parts.values())
    sizes: dict[str, int] = {}
    for part in parts.values():
        for index, size in part.get("indexSizes", {}).items():
            sizes[index] = sizes.get(index, 0) + size
    stats["indexSizes"] = sizes
    stats["avgObjSize"] = stats["size"] / stats["count"] if stats["count"] else 0.0
    stats["nindexes"] = max((part.get("nindexes", 0) for part in parts.values()), default=0)
    stats["nchunks"] = chunks
    stats["shards"] = parts
    return stats


COMMAND = COLL_STATS.command(run)
