"""`planCacheClear`: drop the cached plans of a collection, or of one query shape."""

from __future__ import annotations

from docstore.collection.read.counting import count_shape
from docstore.collection.read.planning import usable_indexes
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_CLEAR
from docstore.node.read.plan_shapes import named_query, planned_collection
from docstore.query.plan.shapes import shape_of


async def run(context: Context, arguments: Arguments) -> Result:
    collection = await planned_collection(context)
    if collection is None:
        return {}
    query = named_query(context, arguments)
    if query is None:
        collection.plans.clear()
    else:
        collection.plans.forget(shape_of(query.filter, query.sort, usable_indexes(collection)))
        collection.plans.forget(count_shape(collection, query.filter))
    return {}


COMMAND = PLAN_CACHE_CLEAR.command(run)
