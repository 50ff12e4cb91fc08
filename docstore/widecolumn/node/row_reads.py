"""Reading rows: from this node's newest snapshot, or from several members.

Reads of many keys run in slices (`docstore.node.slices`). A read of one member uses a snapshot. A read of several
asks this node and the nearest others for a range of records (`docstore.widecolumn.node.merged_reads`) and gives the
result to the same reader. If the reader needs more than the range, a longer one is requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import family_prefix
from docstore.node.node import DataNode, node_of
from docstore.node.slices import Steps
from docstore.sharding.token_ring import ring_document
from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.slices import Cells, ReadCounts, RowReader
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.merged_reads import MergedRow, NotFetched, Quorum
from docstore.widecolumn.node.replicas import check_read, viewed
from docstore.widecolumn.node.row_writes import shown_key

T = TypeVar("T")
_WIDE = Family.WIDE


class WideCells:
    """The `wide` family of a snapshot."""

    __slots__ = ("_reader",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get(self, key: bytes) -> bytes | None:
        return self._reader.get(_WIDE, key)

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._reader.items(_WIDE, start, end, reverse)


@dataclass(slots=True)
class RowQuery:
    """One request that reads rows of a column family, with the counters of its reads."""

    context: Context
    node: DataNode
    found: FamilyStore
    level: Level
    now: int
    counts: ReadCounts

    @classmethod
    def of(cls, context: Context, found: FamilyStore, level: Level) -> RowQuery:
        node = node_of(context)
        wide_of(node).settings.metrics.reads += 1
        return cls(context, node, found, level, wide_of(node).now(), ReadCounts(wide_of(node).settings.fail_tombstones))

    def finish(self) -> list[str]:
        """Add the counters to the node's metrics; return the warnings."""
        settings, counts = wide_of(self.node).settings, self.counts
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
    query: RowQuery, key: bytes, act: Callable[[RowReader], Steps[T]], *, points: tuple[bytes, ...] = ()
) -> Steps[T]:
    """Run `act` on a row and return its result. `points`: paths that it will read.

    Errors: Unavailable, TimedOut, StaleConfig.
    """
    family, node = query.found, query.node
    needed = check_read(node, family.keyspace, query.level)
    row_key = encode_row_key(family.keyspace.partitioner, key)
    if needed > 1:
        return (yield from _read_merged(query, row_key, needed, act, points))
    view = yield from viewed(query.context, family, query.level)
    try:
        check_owned(family, view.owned, key)
        return (yield from act(row_reader(query, WideCells(view.reader), row_key)))
    finally:
        view.release()


def row_reader(query: RowQuery, cells: Cells, row_key: bytes) -> RowReader:
    """A reader of the row with that row key."""
    prefix = family_prefix(query.found.collection.ident) + row_key
    return RowReader(cells, query.found.definition, prefix, query.now, query.counts)


def check_owned(found: FamilyStore, owned: Predicate | None, key: bytes) -> None:
    """Raise StaleConfig for a row of a range that this shard does not own."""
    if owned is not None and not owned.matches(ring_document(found.keyspace.partitioner, key)):
        raise CommandError(Code.StaleConfig, f"row {shown_key(key)} of {found.collection.ns} is not here")


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
