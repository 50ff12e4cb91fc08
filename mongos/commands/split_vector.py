"""`splitVector`: where an unsharded collection would be cut; its primary shard answers."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import SPLIT_VECTOR
from mongos.routing.broadcast import to_primary


async def run(context: Context, arguments: Arguments) -> bytes:
    return await to_primary(context.about(arguments.value), "splitVector", repeatable=True)


COMMAND = SPLIT_VECTOR.command(run)
