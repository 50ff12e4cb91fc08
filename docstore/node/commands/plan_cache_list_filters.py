"""`planCacheListFilters`: list the index filters of a collection with their query shapes."""

from __future__ import annotations

from typing import Any

from bson.raw_bson import RawBSONDocument

from docstore.collection.read.index_filters import IndexFilter
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_LIST_FILTERS
from docstore.commands.values import value_of
from docstore.node.read.plan_shapes import planned_collection


async def run(context: Context, _arguments: Arguments) -> Result:
    collection = await planned_collection(context)
    return {"filters": [] if collection is None else [_describe(entry) for entry in collection.index_filters.all()]}


def _describe(index_filter: IndexFilter) -> dict[str, Any]:
    document: dict[str, Any] = {
        "query": RawBSONDocument(index_filter.query),
        "sort": RawBSONDocument(index_filter.sort),
        "projection": RawBSONDocument(index_filter.projection),
    }
    if index_filter.collation is not None:
        document["collation"] = RawBSONDocument(index_filter.collation)
    return document | {"indexes": [value_of(*index) for index in index_filter.indexes]}


COMMAND = PLAN_CACHE_LIST_FILTERS.command(run)
