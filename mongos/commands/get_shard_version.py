"""`getShardVersion`: the routing of a collection as this router has it."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import GET_SHARD_VERSION
from mongos.router import router_of
from mongos.routing.chunk_choice import sharded


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    collection = sharded(await router_of(context).cache.get(args.value))
    version = collection.chunks.version
    return {"version": version.lastmod.to_timestamp(), "versionEpoch": version.epoch}


COMMAND = GET_SHARD_VERSION.command(run)
