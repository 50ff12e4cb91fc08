"""wcRemove: mark a column, a super column or a row as deleted, even if it does not exist."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.wide_column import REMOVE
from docstore.node.node import node_of
from docstore.node.slices import run_steps
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.hint_origin import parse_hint_origin
from docstore.widecolumn.model.requests import given, removal_entry, timestamp_of
from docstore.widecolumn.model.values import partition_key_of
from docstore.widecolumn.node.column_reads import family_of, super_column_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.row_writes import RowChange
from docstore.widecolumn.node.write_replies import write_row


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    family = family_of(context, arguments)
    level = level_named(arguments["consistency"])
    key = partition_key_of(arguments["key"])
    super_name = super_column_of(family, arguments)
    timestamp = timestamp_of(given(arguments["timestamp"]), wide_of(node).timestamp())
    entry = removal_entry(family.definition, super_name, given(arguments["column"]), timestamp, wide_of(node).now())
    hint = parse_hint_origin(arguments["hint"])
    return run_steps(context, write_row(context, node, RowChange(family, key, (entry,)), level, hint))


COMMAND = REMOVE.command(run)
