"""_wcDefine: a router creates a column family, or replaces a definition.

{_wcDefine: name, family: {...}, create: true}    create the column family, sharded {_wcDefine: name, family: {...}}
replace its definition {_wcDefine: "", keyspace: {...}}                  replace that of the keyspace
"""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.node.node import node_of
from docstore.widecolumn.model.column_families import column_family, keyspace_from_options
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema
from mongod.widecolumn.shard_column_family import change_spread


async def run(context: Context, arguments: Arguments) -> Result:
    wide = wide_of(node_of(context))
    if arguments["keyspace"] is not None:
        changed = keyspace_from_options(context.db, document_to_python(arguments["keyspace"]))
        if arguments["create"]:
            return await change_schema(context, lambda schema: schema.create_keyspace(changed))
        return await change_schema(context, lambda schema: schema.alter_keyspace(changed))
    keyspace = wide.existing_keyspace(context.db, context.command.name)
    family = column_family(arguments.value, document_to_python(arguments["family"]), wide.settings.registry)

    def create(schema: SchemaChange) -> None:
        schema.create_family(context.db, family)

    if arguments["create"]:
        return await change_spread(context, [(keyspace, family)], create)
    return await change_schema(context, lambda schema: schema.alter_family(context.db, family))


COMMAND = Command(
    "_wcDefine", run, privilege=INTERNAL, role=Role.PRIMARY, value=Type.STRING,
    parameters=(
        Parameter("family", Type.OBJECT),
        Parameter("keyspace", Type.OBJECT),
        Parameter("create", Type.BOOL, default=False),
    ),
    help="internal: make a column family or replace a definition",
)  # fmt: skip
