"""_wcRead: records of a row as this member holds them, for another member that reads them."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.node.node import node_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.replica_reads import document_of, read_record_range, record_range_of


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    family = wide_of(node).existing(context.db, arguments.value, context.command.name)
    return document_of(await read_record_range(context, node, family.collection, record_range_of(arguments)))


COMMAND = Command(
    "_wcRead", run, privilege=INTERNAL, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(
        Parameter("row", Type.ANY, required=True),
        Parameter("points", Type.ARRAY, required=True),
        Parameter("start", Type.ANY, required=True),
        Parameter("end", Type.ANY, required=True),
        Parameter("reverse", Type.BOOL, default=False),
        Parameter("limit", Type.INT, default=0),
        Parameter("head", Type.BOOL, default=False),
    ),
    help="internal: records of a row",
)  # fmt: skip
