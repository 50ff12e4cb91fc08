"""`createIndexes`: build indexes, on every shard that holds the collection."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import CREATE_INDEXES
from mongos.router import router_of
from mongos.routing.broadcast import on_all_or_none


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    await router_of(context).ensure_database(context.namespace)
    return await on_all_or_none(context)


COMMAND = CREATE_INDEXES.command(run)
