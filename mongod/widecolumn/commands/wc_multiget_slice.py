"""wcMultigetSlice: the same slice of many rows; the reply has every requested row."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import MULTIGET_SLICE
from docstore.node.slices import run_steps
from docstore.widecolumn.model.requests import partition_keys_of
from docstore.widecolumn.node.column_reads import query_of, reply_multiget, slice_query_of


def run(context: Context, arguments: Arguments) -> Response:
    query = query_of(context, arguments)
    return run_steps(
        context, reply_multiget(query, partition_keys_of(arguments["keys"]), slice_query_of(query.found, arguments))
    )


COMMAND = MULTIGET_SLICE.command(run)
