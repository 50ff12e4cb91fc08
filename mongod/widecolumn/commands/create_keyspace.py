"""createKeyspace: a database in wide-column mode, with no column family in it yet."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.shared.wide_column import CREATE_KEYSPACE
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import keyspace_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    if arguments["ifNotExists"] and wide_of(node_of(context)).is_keyspace(arguments.value):
        return {}
    keyspace = keyspace_of(arguments.value, arguments.given())
    return await change_schema(context, lambda schema: schema.create_keyspace(keyspace))


COMMAND = Command(
    "createKeyspace", run, privilege=Privilege("createCollection", Resource.CLUSTER), role=Role.PRIMARY,
    value=Type.STRING, parameters=CREATE_KEYSPACE, admin_only=True, help="make a keyspace",
)  # fmt: skip
