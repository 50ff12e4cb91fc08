"""alterColumnFamily: the comment, the grace period or the cache sizes are changed."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.shared.wide_column import ALTER_COLUMN_FAMILY
from docstore.node.node import node_of
from docstore.widecolumn.model.column_families import altered
from docstore.widecolumn.model.definition_commands import family_options
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    found = wide_of(node_of(context)).existing(context.db, arguments.value, context.command.name)
    family = altered(found.definition, family_options(arguments.given(), context.comment))
    return await change_schema(context, lambda schema: schema.alter_family(context.db, family))


COMMAND = Command(
    "alterColumnFamily", run, privilege=Privilege("collMod", Resource.COLLECTION), role=Role.PRIMARY,
    value=Type.COLLECTION, parameters=ALTER_COLUMN_FAMILY, help="change what can be changed of a column family",
)  # fmt: skip
