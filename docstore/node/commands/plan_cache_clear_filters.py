"""`planCacheClearFilters`: remove the index filters of a collection, or that of one query shape."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_CLEAR_FILTERS
from docstore.node.read.plan_shapes import named_query, planned_collection


async def run(context: Context, arguments: Arguments) -> Result:
    collection = await planned_collection(context)
    if collection is None:
        return {}
    query = named_query(context, arguments)
    if query is None:
        collection.index_filters.clear()
    else:
        collection.index_filters.drop(query)
    collection.plans.clear()
    return {}


COMMAND = PLAN_CACHE_CLEAR_FILTERS.command(run)
