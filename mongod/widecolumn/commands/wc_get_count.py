"""wcGetCount: how many live columns, or super columns, a row has."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import GET_COUNT
from docstore.node.slices import run_steps
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.column_reads import query_of, reply_count, super_column_of


def run(context: Context, arguments: Arguments) -> Response:
    query = query_of(context, arguments)
    super_name = super_column_of(query.found, arguments)
    return run_steps(
        context, reply_count(query, partition_key_of(arguments["key"]), super_name, explain=arguments["explain"])
    )


COMMAND = GET_COUNT.command(run)
