"""`planCacheListFilters`: the index filters of all shards, without duplicates."""

from __future__ import annotations

from typing import Any

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.catalog import PLAN_CACHE_LIST_FILTERS
from mongos.routing.broadcast import to_owners


async def run(context: Context, _arguments: Arguments) -> Result:
    filters: dict[bytes, dict[str, Any]] = {}
    for answer in await to_owners(context):
        for filter_ in answer.decoded()["filters"]:
            filters.setdefault(bson.encode(filter_), filter_)
    return {"filters": list(filters.values())}


COMMAND = PLAN_CACHE_LIST_FILTERS.command(run)
