"""`dbStats`: sizes of a database, added up over all shards."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DB_STATS
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import CONFIG, each

_SUMMED = (
    "collections", "views", "objects", "dataSize", "storageSize", "freeStorageSize", "indexes", "indexSize",
    "indexFreeStorageSize", "totalSize", "totalFreeStorageSize",
)  # fmt: skip


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    shards = [router.config] if context.db in ("admin", CONFIG) else await router.shards.all()
    body = forwarded(context.raw)
    answers = await each(shards, lambda shard: shard.command(context.db, body, repeatable=True))
    parts = [answer.decoded() for answer in answers]
    stats: dict[str, Any] = {"raw": {answer.address: part for answer, part in zip(answers, parts, strict=True)}}
    stats["db"] = context.db
    for name in _SUMMED:
        if any(name in part for part in parts):
            stats[name] = sum(part.get(name, 0) for part in parts)
    # The average is in bytes at any scale.
    data = sum(part["avgObjSize"] * part["objects"] for part in parts)
    stats["avgObjSize"] = data / stats["objects"] if data else 0.0
    stats["scaleFactor"] = max((part["scaleFactor"] for part in parts), default=1.0)
    return stats


COMMAND = DB_STATS.command(run)
