"""wcBatchMutate: many insertions and deletions; those of one row are applied together."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from docstore.bson import from_python
from docstore.bson.build import enclosed
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Result, Type
from docstore.commands.specs.wide_column import BATCH_MUTATE
from docstore.node.node import node_of
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.model.requests import timestamp_of
from docstore.widecolumn.node.batches import batch_rows
from docstore.widecolumn.node.column_reads import given
from docstore.widecolumn.node.row_writes import RowChange, write_rows
from docstore.widecolumn.node.write_replies import large_values, writing_of


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    node = node_of(context)
    level = level_named(arguments["consistency"])
    writing = writing_of(node)
    writing = writing.stamped(timestamp_of(given(arguments["timestamp"]), writing.default_timestamp))
    mutations = arguments["mutations"]
    parsed = batch_rows(context, node, mutations, writing)
    if isawaitable(parsed):
        return _later(context, parsed, level, arguments)
    if arguments["check"]:
        return _reply(len(mutations), [])
    warnings = large_values(node, *parsed)
    written = write_rows(context, node, parsed, level)
    if isawaitable(written):
        return _acknowledged(written, warnings, len(mutations))
    return _reply(len(mutations), warnings + written)


async def _later(context: Context, parsing: Awaitable[list[RowChange]], level: Level, arguments: Arguments) -> Result:
    node = node_of(context)
    count = len(arguments["mutations"])
    rows = await parsing
    if arguments["check"]:
        return _reply(count, [])
    warnings = large_values(node, *rows)
    written = write_rows(context, node, rows, level)
    return _reply(count, warnings + (await written if isawaitable(written) else written))


async def _acknowledged(written: Awaitable[list[str]], warnings: list[str], count: int) -> Result:
    return _reply(count, warnings + await written)


def _reply(count: int, warnings: list[str]) -> bytes:
    told = b"\x04warnings\0" + from_python(warnings)[1] if warnings else b""
    return enclosed(b"\x10n\0" + count.to_bytes(4, "little") + told)


COMMAND = BATCH_MUTATE.command(
    run,
    Exceptional(
        "of a router: whether the mutations of this part could be made",
        Parameter("check", Type.BOOL, default=False, internal=True),
    ),
)
