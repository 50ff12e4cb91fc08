"""dropKeyspace: a keyspace goes with everything in it."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import DROP_KEYSPACE
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    return await change_schema(context, lambda schema: schema.drop_keyspace(context.db))


COMMAND = DROP_KEYSPACE.command(run)
