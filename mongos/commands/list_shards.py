"""`listShards`: the shards of the cluster as config.shards has them."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from mongos.router import router_of
from mongos.routing.shards import CONFIG


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    answer = await router_of(context).config.command(
        CONFIG,
        {"find": "shards", "sort": {"_id": 1}, "batchSize": 1000, "readConcern": {"level": "majority"}},
        repeatable=True,
    )
    return {"shards": answer.decoded()["cursor"]["firstBatch"]}


COMMAND = Command(
    "listShards",
    run,
    aliases=("listshards",),
    privilege=Privilege("listShards", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    help="List the shards.",
)
