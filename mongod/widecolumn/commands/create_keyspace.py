"""createKeyspace: a database in wide-column mode, with no column family in it yet."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import CREATE_KEYSPACE
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import keyspace_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    if arguments["ifNotExists"] and wide_of(node_of(context)).is_keyspace(arguments.value):
        return {}
    keyspace = keyspace_of(arguments.value, arguments.sent_values())
    return await change_schema(context, lambda schema: schema.create_keyspace(keyspace))


COMMAND = CREATE_KEYSPACE.command(run)
