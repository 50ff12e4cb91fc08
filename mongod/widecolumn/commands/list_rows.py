"""_wcRows: the next rows of the ring that this member holds, for another member that reads them."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.node.node import node_of
from docstore.widecolumn.model.internal_requests import bytes_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.replica_reads import list_rows, listing_document


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    family = wide_of(node).existing(context.db, arguments.value, context.command.name)
    bounds = bytes_of(arguments["start"], "start"), bytes_of(arguments["end"], "end")
    return listing_document(await list_rows(context, node, family, *bounds, arguments["limit"]))


COMMAND = Command(
    "_wcRows", run, privilege=INTERNAL, role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=(
        Parameter("start", Type.ANY, required=True),
        Parameter("end", Type.ANY, required=True),
        Parameter("limit", Type.INT, required=True),
    ),
    help="internal: the next rows of the ring",
)  # fmt: skip
