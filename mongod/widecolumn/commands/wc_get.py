"""wcGet: one column, or one super column. The only read that fails if it finds nothing."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import GET
from docstore.node.node import node_of
from docstore.node.slices import run_steps
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.column_reads import path_query_of, query_of, reply_get
from docstore.widecolumn.node.fast_path import get_plain


def run(context: Context, arguments: Arguments) -> Response:
    done = get_plain(context, node_of(context), arguments)
    if done is not None:
        return done
    query = query_of(context, arguments)
    key = partition_key_of(arguments["key"])
    return run_steps(context, reply_get(query, key, path_query_of(query.found, arguments)))


COMMAND = GET.command(run)
