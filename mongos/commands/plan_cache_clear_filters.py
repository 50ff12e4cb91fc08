"""`planCacheClearFilters`: no shard has the filter any more, nor one that has none of the collection now."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_CLEAR_FILTERS
from mongos.routing.broadcast import to_every_shard


async def run(context: Context, _arguments: Arguments) -> Result:
    await to_every_shard(context)
    return {}


COMMAND = PLAN_CACHE_CLEAR_FILTERS.command(run)
