"""dropKeyspace: a keyspace goes with everything in it."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.widecolumn.node.schema_changes import change_schema


async def run(context: Context, arguments: Arguments) -> Result:
    del arguments
    return await change_schema(context, lambda schema: schema.drop_keyspace(context.db))


COMMAND = Command(
    "dropKeyspace", run, privilege=Privilege("dropDatabase", Resource.DATABASE), role=Role.PRIMARY,
    help="drop a keyspace",
)  # fmt: skip
