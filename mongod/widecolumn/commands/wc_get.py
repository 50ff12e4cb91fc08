"""wcGet: one column, or one super column. The only read that fails if it finds nothing."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import GET
from docstore.node.node import node_of
from docstore.node.slices import run_steps
from docstore.widecolumn.model.requests import check_path, column_comparator
from docstore.widecolumn.model.values import name_bytes, partition_key_of
from docstore.widecolumn.node.column_reads import SliceQuery, given, query_of, reply_get, super_column_of, text_wanted
from docstore.widecolumn.node.fast_path import get_plain


def run(context: Context, arguments: Arguments) -> Response:
    done = get_plain(context, node_of(context), arguments)
    if done is not None:
        return done
    query = query_of(context, arguments)
    family = query.found.definition
    key = partition_key_of(arguments["key"])
    super_name = super_column_of(query.found, arguments)
    column = given(arguments["column"])
    check_path(family, super_name, column, whole_super=True)
    as_text, explain = text_wanted(arguments), arguments["explain"]
    if column is None:
        assert super_name is not None, "the path names something"
        return run_steps(context, reply_get(query, key, SliceQuery((super_name,), None, as_text, explain)))
    name = name_bytes(column_comparator(family, super_name), column)
    return run_steps(context, reply_get(query, key, SliceQuery((name,), super_name, as_text, explain)))


COMMAND = GET.command(run)
