"""`planCacheClear`: every shard that holds some of the collection forgets its plans."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_CLEAR
from mongos.routing.broadcast import to_holders


async def run(context: Context, _arguments: Arguments) -> Result:
    await to_holders(context)
    return {}


COMMAND = PLAN_CACHE_CLEAR.command(run)
