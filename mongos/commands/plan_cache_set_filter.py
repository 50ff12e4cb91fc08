"""`planCacheSetFilter`: every shard that owns some of the collection has the filter; one that comes later has not."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_SET_FILTER
from mongos.routing.broadcast import to_owners


async def run(context: Context, _arguments: Arguments) -> Result:
    await to_owners(context)
    return {}


COMMAND = PLAN_CACHE_SET_FILTER.command(run)
