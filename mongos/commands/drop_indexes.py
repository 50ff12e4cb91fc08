"""`dropIndexes`: drop indexes, on every shard that holds the collection."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DROP_INDEXES
from mongos.routing.broadcast import on_all_or_none


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    return await on_all_or_none(context)


COMMAND = DROP_INDEXES.command(run)
