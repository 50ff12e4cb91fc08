"""`collMod`: to every shard that holds a part of the collection."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import COLL_MOD
from mongos.routing.broadcast import on_all_or_none


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    return await on_all_or_none(context, repeatable=False)


COMMAND = COLL_MOD.command(run)
