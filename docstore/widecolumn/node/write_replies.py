"""Helpers of the commands that write columns."""

from __future__ import annotations

from docstore.bson import from_python
from docstore.bson.build import enclosed
from docstore.commands.context import Context
from docstore.log import component
from docstore.node.node import DataNode
from docstore.node.slices import Steps
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.hint_origin import HintOrigin
from docstore.widecolumn.model.requests import WriteContext
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.read_state import shown_key
from docstore.widecolumn.node.row_writes import RowChange, write_rows

LOG = component("WIDE")


def write_context_of(node: DataNode) -> WriteContext:
    """Return the common inputs of the writes of one request."""
    wide = wide_of(node)
    return WriteContext(wide.now(), wide.timestamp(), wide.settings.max_value)


def large_values(node: DataNode, *rows: RowChange) -> list[str]:
    """Return the warnings for values above the recommended size."""
    limit = wide_of(node).settings.warn_value
    warnings: list[str] = []
    for row in rows:
        for entry in row.entries:
            if len(entry.record) > limit:
                name = f"{row.found.keyspace.name}/{row.found.definition.name}:{shown_key(row.key)}"
                warnings.append(f"Writing large value in {name} ({len(entry.record)} bytes)")
    for warning in warnings:
        wide_of(node).settings.metrics.large_values += 1
        LOG.warning(warning)
    return warnings


def write_row(context: Context, node: DataNode, row: RowChange, level: Level, hint: HintOrigin | None) -> Steps[bytes]:
    """Write one entry into a row; the reply."""
    warnings = large_values(node, row)
    warnings += yield from write_rows(context, node, (row,), level, hint=hint)
    return reply_written(row.entries[0].record, warnings)


def reply_written(record: bytes, warnings: list[str]) -> bytes:
    """`{timestamp, warnings?}` for a record that has been written."""
    # Big-endian in records, little-endian in documents; a deletion has it at the same offset.
    body = b"\x12timestamp\0" + record[8:0:-1]
    if warnings:
        body += b"\x04warnings\0" + from_python(warnings)[1]
    return enclosed(body)
