"""`convertToCapped`: on the primary shard, for collections that are not sharded."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import CONVERT_TO_CAPPED
from mongos.routing.broadcast import to_primary


async def run(context: Context, args: Arguments) -> bytes:
    return await to_primary(context, "convertToCapped")


COMMAND = CONVERT_TO_CAPPED.command(run)
