"""dbStats: counts and sizes of one database."""

from __future__ import annotations

from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.statistics import database_stats


def run(context: Context, arguments: Arguments) -> Result:
    if arguments.value is not None and arguments.value[0] == STRING:
        raise CommandError(Code.InvalidNamespace, "dbStats is about the database that it is sent to: it takes no name")
    return database_stats(node_of(context), context.db, arguments["scale"])


COMMAND = Command(
    "dbStats", run, aliases=("dbstats",), privilege=Privilege("dbStats", Resource.DATABASE), role=Role.SECONDARY_OK,
    parameters=(
        Parameter("scale", Type.INT, default=1, minimum=1),
        Parameter("freeStorage", Type.SAFE_BOOL, default=False),
    ),
    help="figures about a database",
)  # fmt: skip
