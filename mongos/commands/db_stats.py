"""`dbStats`: sizes of a database, added up over all shards."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import CONFIG, each

_SUMMED = (
    "collections", "views", "objects", "dataSize", "storageSize", "indexes", "indexSize", "totalSize",
)  # fmt: skip


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    shards = [router.config] if context.db in ("admin", CONFIG) else await router.shards.all()
    body = forwarded(context.raw)
    answers = await each(shards, lambda shard: shard.command(context.db, body, repeatable=True))
    parts = [answer.decoded() for answer in answers]
    whole: dict[str, Any] = {"raw": {answer.address: part for answer, part in zip(answers, parts, strict=True)}}
    whole["db"] = context.db
    for name in _SUMMED:
        if any(name in part for part in parts):
            whole[name] = sum(part.get(name, 0) for part in parts)
    whole["avgObjSize"] = whole["dataSize"] / whole["objects"] if whole.get("objects") else 0.0
    whole["scaleFactor"] = args["scale"]
    return whole


COMMAND = Command(
    "dbStats",
    run,
    aliases=("dbstats",),
    privilege=Privilege("dbStats", Resource.DATABASE),
    role=Role.SECONDARY_OK,
    parameters=(
        Parameter("scale", Type.INT, default=1, minimum=1),
        Parameter("freeStorage", Type.INT, default=0),
    ),
    help="Sizes of a database.",
)
