"""alterColumnFamily: the comment, the grace period or the cache sizes are changed."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import ALTER_COLUMN_FAMILY
from docstore.node.node import node_of
from docstore.widecolumn.model.column_families import altered
from docstore.widecolumn.model.definition_commands import family_options
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    family_store = wide_of(node_of(context)).existing(context.db, arguments.value, context.command.name)
    family = altered(family_store.definition, family_options(arguments.sent_values(), context.comment))
    return await change_schema(context, lambda schema: schema.alter_family(context.db, family))


COMMAND = ALTER_COLUMN_FAMILY.command(run)
