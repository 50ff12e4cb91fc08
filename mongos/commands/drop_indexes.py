"""`dropIndexes`: drop indexes, on every shard that holds the collection."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DROP_INDEXES
from mongos.routing.broadcast import to_holders, with_raw


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    return with_raw(await to_holders(context))


COMMAND = DROP_INDEXES.command(run)
