"""wcRemove: a column, a super column or a row is marked as deleted, whether it is there or not."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import REMOVE
from docstore.node.node import node_of
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.requests import removal_entry, timestamp_of
from docstore.widecolumn.model.values import row_key_of
from docstore.widecolumn.node.column_reads import family_of, given, super_column_of
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.row_writes import RowChange, write_rows
from docstore.widecolumn.node.write_replies import reply_written


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    node = node_of(context)
    found = family_of(context, arguments)
    level = level_named(arguments["consistency"])
    key = row_key_of(arguments["key"])
    super_name = super_column_of(found, arguments)
    timestamp = timestamp_of(given(arguments["timestamp"]), wide_of(node).timestamp())
    entry = removal_entry(found.definition, super_name, given(arguments["column"]), timestamp, wide_of(node).now())
    written = write_rows(context, node, (RowChange(found, key, (entry,)),), level)
    if isawaitable(written):
        return _later(written, entry.record)
    return reply_written(entry.record, written)


async def _later(written: Awaitable[list[str]], record: bytes) -> Result:
    return reply_written(record, await written)


COMMAND = REMOVE.command(run)
