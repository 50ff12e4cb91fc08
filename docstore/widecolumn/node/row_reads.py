"""Reading rows: from this node's state, or from several members.

Reads of many keys run in slices (`docstore.node.slices`). A read of several members
asks this node and the nearest others for a range of records (`docstore.widecolumn.node.merged_reads`) and gives the
result to the same reader. If the reader needs more than the range, a longer one is requested.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from docstore.commands.context import Context
from docstore.node.node import node_of
from docstore.node.slices import Steps
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.slices import Cells, ReadCounts, RowReader
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.merged_reads import MergedRow, NotFetched, Quorum
from docstore.widecolumn.node.read_state import read_own
from docstore.widecolumn.node.replicas import check_read

T = TypeVar("T")


class RowQuery:
    """One request that reads rows of a column family, with the counters of its reads."""

    __slots__ = ("_settings", "context", "counts", "found", "level", "node", "now")

    def __init__(self, context: Context, found: FamilyStore, level: Level) -> None:
        wide = wide_of(node_of(context))
        self._settings = settings = wide.settings
        settings.metrics.reads += 1
        self.context = context
        self.node = node_of(context)
        self.found = found
        self.level = level
        self.now = wide.now()
        self.counts = ReadCounts(settings.fail_tombstones)

    def finish(self) -> list[str]:
        """Add the counters to the node's metrics; return the warnings."""
        settings, counts = self._settings, self.counts
        settings.metrics.keys_examined += counts.keys_examined
        settings.metrics.tombstones += counts.tombstones
        if counts.tombstones <= settings.warn_tombstones:
            return []
        name = f"{self.found.keyspace.name}/{self.found.definition.name}"
        return [f"Read of {name} met {counts.tombstones} tombstones (see wideColumn.warnTombstones)"]

    def explained(self, rows: int, scan: str) -> dict[str, object]:
        """Return the explain output of the read."""
        return {
            "shards": 1,
            "partitionsRead": rows,
            "scan": scan,
            "keysExamined": self.counts.keys_examined,
            "tombstones": self.counts.tombstones,
        }


def read_row(
    query: RowQuery,
    key: bytes,
    act: Callable[[RowReader], Steps[T]],
    points: Callable[[], tuple[bytes, ...]] = tuple,
) -> Steps[T]:
    """Run `act` on a row and return its result. `points`: the paths that it will read.

    Errors: Unavailable, TimedOut, StaleConfig.
    """
    family = query.found
    needed = check_read(query.node, family.keyspace, query.level)
    row_key = encode_row_key(family.keyspace.partitioner, key)
    if needed > 1:
        return _read_merged(query, row_key, needed, act, points())
    return read_own(query.context, family, query.level, lambda state: act(row_reader(query, state, row_key)), row_key)


def row_reader(query: RowQuery, cells: Cells, row_key: bytes) -> RowReader:
    """A reader of the row with that row key."""
    family = query.found
    return RowReader(cells, family.definition, family.collection.rows_prefix + row_key, query.now, query.counts)


def quorum_of(query: RowQuery, needed: int) -> Quorum:
    """Return the parameters for asking members on behalf of the query."""
    node, context = query.node, query.context
    deadline = node.clock() + wide_of(node).settings.read_timeout / 1000
    if context.deadline is not None:
        deadline = min(deadline, context.deadline)
    return Quorum(
        context=context, node=node, found=query.found, level=query.level, needed=needed, deadline=deadline
    )  # fmt: skip


def _read_merged(
    query: RowQuery, row_key: bytes, needed: int, act: Callable[[RowReader], Steps[T]], points: tuple[bytes, ...]
) -> Steps[T]:
    merged = MergedRow(quorum_of(query, needed), row_key, points)
    while True:
        before = query.counts.keys_examined, query.counts.tombstones
        try:
            return (yield from act(row_reader(query, merged, row_key)))
        except NotFetched as lack:
            query.counts.keys_examined, query.counts.tombstones = before
            yield merged.fetch(lack)
