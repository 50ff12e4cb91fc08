"""createColumnFamily: a named map from row keys to sorted columns."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import CREATE_COLUMN_FAMILY, SPREAD
from docstore.node.node import node_of
from docstore.widecolumn.model.column_families import column_family
from docstore.widecolumn.model.definition_commands import family_options
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema
from mongod.widecolumn.shard_column_family import change_spread


async def run(context: Context, arguments: Arguments) -> Result:
    wide = wide_of(node_of(context))
    keyspace = wide.existing_keyspace(context.db, context.command.name)
    family = column_family(
        arguments.value, family_options(arguments.sent_values(), context.comment), wide.settings.registry
    )

    def act(schema: SchemaChange) -> None:
        schema.create_family(context.db, family)

    if arguments["spread"]:
        return await change_spread(context, [(keyspace, family)], act)
    return await change_schema(context, act)


COMMAND = CREATE_COLUMN_FAMILY.command(
    run,
    SPREAD,
)
