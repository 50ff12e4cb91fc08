"""`cloneCollectionAsCapped`: on the primary shard, for collections that are not sharded."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import CLONE_COLLECTION_AS_CAPPED
from mongos.routing.broadcast import to_primary


async def run(context: Context, args: Arguments) -> bytes:
    return await to_primary(context, "cloneCollectionAsCapped")


COMMAND = CLONE_COLLECTION_AS_CAPPED.command(run)
