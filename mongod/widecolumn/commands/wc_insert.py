"""wcInsert: one column into a row, which exists from then on."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import INSERT
from docstore.node.node import node_of
from docstore.node.slices import run_steps
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.hint_origin import parse_hint_origin
from docstore.widecolumn.model.requests import check_path, given, insert_entry
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.column_reads import family_of, super_column_of
from docstore.widecolumn.node.fast_path import insert_plain
from docstore.widecolumn.node.row_writes import RowChange
from docstore.widecolumn.node.write_replies import write_context_of, write_row


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    done = insert_plain(context, node, arguments)
    if done is not None:
        return done
    family = family_of(context, arguments)
    level = level_named(arguments["consistency"])
    key = partition_key_of(arguments["key"])
    super_name = super_column_of(family, arguments)
    fields = arguments.values
    check_path(family.definition, super_name, given(fields.get("column")), whole_super=False)
    entry = insert_entry(family.definition, super_name, fields, write_context_of(node), name_field="column")
    hint = parse_hint_origin(arguments["hint"])
    return run_steps(context, write_row(context, node, RowChange(family, key, (entry,)), level, hint))


COMMAND = INSERT.command(run)
