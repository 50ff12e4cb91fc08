"""`dropDatabase`: drop a database on all shards, and its record on the config servers."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import DROP_DATABASE
from docstore.errors import Code, CommandError
from mongos.routing.broadcast import drop_whole_database


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    if args.value is None or to_python(args.value) != 1:
        raise CommandError(5255100, "dropDatabase takes the value 1")
    if context.db in ("admin", "config"):
        raise CommandError(Code.IllegalOperation, f"Cannot drop the {context.db} database")
    return {"dropped": context.db} if await drop_whole_database(context, context.db) else {}


COMMAND = DROP_DATABASE.command(run)
