"""wcTruncate: every row of a column family goes, its definition stays."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import TRUNCATE
from docstore.node.node import node_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    wide_of(node_of(context)).existing(context.db, arguments.value, context.command.name)

    def act(schema: SchemaChange) -> None:
        schema.truncate(context.db, arguments.value, arguments["truncatedAt"])

    return await change_schema(context, act)


COMMAND = TRUNCATE.command(run)
