"""Writing of mutations into rows: admitted and checked like every write, merged, acknowledged by consistency level.

Invariants:

- a request's part of one row is in one write unit;
- there is no await between the check of primary state and ownership and the commit;
- a request refused for a row (level, limits, ownership) has written nothing of that row.

A row that becomes too large is reported once, by the write that crosses a limit: in the log, in a counter and in the
reply.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.columns.mutations import RowUpdate
from docstore.kernel.match.predicate import Predicate
from docstore.log import component
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import DataNode
from docstore.node.shard_filter import enter_at_once
from docstore.node.slices import Steps
from docstore.optime import OpTime
from docstore.sharding.token_ring import ring_document
from docstore.widecolumn.model.cells import stamp_of
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.hint_origin import HintOrigin
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.mutations import Entry
from docstore.widecolumn.node.hinted_writes import check_hint, wait_durable
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.replicas import check_write, wait_written
from docstore.widecolumn.node.rows import merge_row

LOG = component("WIDE")

UNIT_ENTRIES = 256
"""The number of cells up to which rows are written in one unit."""
MAX_ROW_BYTES = 16 * 1024 * 1024
"""The limit of a merge into one row: it is one oplog entry, and thus limited like a document."""
_ENTRY_BYTES = 16


LOWEST_STAMP = stamp_of(-(1 << 63))
"""The timestamp of `NOT_DELETED`, which would hide a cell with the same timestamp."""


class RowChange(NamedTuple):
    """Entries to merge into one row; no two have one path."""

    found: FamilyStore
    key: bytes
    entries: Sequence[Entry]


class ConditionFailed(Exception):
    """The condition of a write does not hold any more; nothing has been written."""


def write_rows(
    context: Context,
    node: DataNode,
    rows: Sequence[RowChange],
    level: Level,
    guard: Callable[[], bool] | None = None,
    hint: HintOrigin | None = None,
) -> Steps[list[str]]:
    """Merge all rows, wait for the level, and return the warnings.

    `guard` is evaluated, and `hint` checked, in the step that merges the single row. Errors: Unavailable, TimedOut,
    StaleConfig, BadValue; ConditionFailed if the guard fails; those of `hint_outdated`.
    """
    if hint is not None:
        guard = partial(_may_carry_out, node, [row.found for row in rows], hint)
    for row in rows:
        if any(entry.record[1:9] == LOWEST_STAMP for entry in row.entries):
            raise invalid_request(f"Out of bound timestamp, must be in [{1 - (1 << 63)}, {(1 << 63) - 1}]")
        if len(row.entries) > 1:
            _check_size(row)
    if len(rows) == 1:
        needed = check_write(node, rows[0].found.keyspace, level)
    else:
        needed = max((check_write(node, keyspace, level) for keyspace in _keyspaces(rows)), default=1)
    if needed == 1 and len(rows) == 1 and guard is None and not node.store.write_lock.is_held:
        found, key, entries = rows[0]
        namespace = found.collection.ns
        at_once, owned = enter_at_once(node.shard_filter, namespace, context.shard_version, write=True)
        if at_once and owned is None:
            update = write_one(node, found, encode_row_key(found.keyspace.partitioner, key), entries)
            return growth_warnings(node, found, key, update)
    writing = _RowsWriter(node, rows, guard)
    while writing.namespace:
        yield from write_in_slices(node, writing.namespace, Repeated(writing.advance), context.shard_version)
    if needed > 1:
        # A write without effect may still be on its way to the other members.
        yield wait_written(context, node, writing.last or node.store.last_optime, level, needed)
    if hint is not None:
        yield wait_durable(context, node, writing.last or node.store.last_optime)
    return writing.warnings


def _may_carry_out(node: DataNode, families: Sequence[FamilyStore], hint: HintOrigin) -> bool:
    check_hint(node, families, hint)
    return True


def write_one(node: DataNode, found: FamilyStore, row_key: bytes, entries: Sequence[Entry]) -> RowUpdate:
    """Merge into one row, given by its row key, without waiting for other members; most writes are of this kind."""
    unit = node.store.unit()
    try:
        update = merge_row(unit, found.collection, row_key, entries)
        unit.commit()
    except BaseException:
        unit.abort()
        raise
    metrics = wide_of(node).settings.metrics
    metrics.writes += 1
    metrics.columns_written += len(entries)
    return update


def _keyspaces(rows: Sequence[RowChange]) -> list[Keyspace]:
    keyspace_by_name = {row.found.keyspace.name: row.found.keyspace for row in rows}
    return list(keyspace_by_name.values())


def _check_size(row: RowChange) -> None:
    size = sum(len(entry.path) + len(entry.record) + _ENTRY_BYTES for entry in row.entries)
    if size > MAX_ROW_BYTES + 65536:
        raise invalid_request(
            f"the mutation of row {shown_key(row.key)} has {size} bytes, more than the limit of {MAX_ROW_BYTES}"
        )


def shown_key(key: bytes) -> str:
    """A partition key in a message: as text where it is text, else in hexadecimal."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


class _RowsWriter:
    """The rows of one request while they are written. `last`: the optime of the last write."""

    def __init__(self, node: DataNode, rows: Sequence[RowChange], guard: Callable[[], bool] | None) -> None:
        self.last: OpTime | None = None
        self.warnings: list[str] = []
        self._node = node
        self._rows = rows
        self._guard = guard
        self._at = 0

    @property
    def namespace(self) -> str:
        """Return the namespace of the next row; empty when all are written."""
        return self._rows[self._at].found.collection.ns if self._at < len(self._rows) else ""

    def advance(self, owned: Predicate | None, until: float) -> bool:
        """Write rows of one column family for one slice; True when it has no more rows."""
        namespace = self.namespace
        while True:
            self._unit(owned, namespace)
            if self.namespace != namespace:
                return True
            if self._node.clock() >= until:
                return False

    def _unit(self, owned: Predicate | None, namespace: str) -> None:
        node, rows = self._node, self._rows
        if self._guard is not None and not self._guard():
            raise ConditionFailed
        unit = node.store.unit()
        grown: list[tuple[RowChange, RowUpdate]] = []
        entries = 0
        at = self._at
        try:
            while at < len(rows) and (at == self._at or entries + len(rows[at].entries) <= UNIT_ENTRIES):
                row = rows[at]
                collection = row.found.collection
                if collection.ns != namespace:
                    break
                if node.store.catalog.collections.get(namespace) is not collection:
                    raise CommandError(Code.NamespaceNotFound, f"{namespace} has been dropped")
                grown.append((row, self._merge(unit, row, owned)))
                entries += len(row.entries)
                at += 1
            self.last = unit.commit() or self.last
        except BaseException:
            unit.abort()
            raise
        self._at = at
        metrics = wide_of(node).settings.metrics
        metrics.writes += len(grown)
        metrics.columns_written += entries
        for row, update in grown:
            self.warnings += growth_warnings(node, row.found, row.key, update)

    def _merge(self, unit: WriteUnitOfWork, row: RowChange, owned: Predicate | None) -> RowUpdate:
        partitioner = row.found.keyspace.partitioner
        if owned is not None and not owned.matches(ring_document(partitioner, row.key)):
            raise CommandError(Code.StaleConfig, f"row {shown_key(row.key)} of {row.found.collection.ns} is not here")
        return merge_row(unit, row.found.collection, encode_row_key(partitioner, row.key), row.entries)


def growth_warnings(node: DataNode, found: FamilyStore, key: bytes, update: RowUpdate) -> list[str]:
    """Return the warnings for a row that has grown past a limit."""
    settings = wide_of(node).settings
    if update.rows <= settings.warn_rows and update.row_bytes <= settings.warn_bytes:
        return []
    name = f"{found.keyspace.name}/{found.definition.name}:{shown_key(key)}"
    warnings: list[str] = []
    if update.rows_before <= settings.warn_rows < update.rows:
        warnings.append(f"Writing large partition {name} ({update.rows} rows)")
    if update.bytes_before <= settings.warn_bytes < update.row_bytes:
        warnings.append(f"Writing large partition {name} ({update.row_bytes} bytes)")
    for warning in warnings:
        settings.metrics.wide_partitions += 1
        LOG.warning(warning)
    return warnings
