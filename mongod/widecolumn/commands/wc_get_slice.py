"""wcGetSlice: columns of a row, or its super columns, by name or by range."""

from __future__ import annotations

from collections.abc import Awaitable

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.shared.wide_column import GET_SLICE
from docstore.widecolumn.model.values import row_key_of
from docstore.widecolumn.node.column_reads import query_of, reply_slice, wanted_of


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    query = query_of(context, arguments)
    return reply_slice(query, row_key_of(arguments["key"]), wanted_of(query.found, arguments))


COMMAND = Command(
    "wcGetSlice", run, privilege=Privilege("find", Resource.COLLECTION), role=Role.SECONDARY_OK, value=Type.COLLECTION,
    parameters=GET_SLICE, help="columns of a row, by name or by range",
)  # fmt: skip
