"""wcGetSlice: columns of a row, or its super columns, by name or by range."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import GET_SLICE
from docstore.node.slices import run_steps
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.column_reads import query_of, reply_slice, slice_query_of


def run(context: Context, arguments: Arguments) -> Response:
    query = query_of(context, arguments)
    return run_steps(
        context, reply_slice(query, partition_key_of(arguments["key"]), slice_query_of(query.found, arguments))
    )


COMMAND = GET_SLICE.command(run)
