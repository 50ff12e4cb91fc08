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

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.kernel.columns.mutations import RowUpdate
from docstore.kernel.match.predicate import Predicate
from docstore.log import component
from docstore.node.entry import write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import Steps
from docstore.optime import OpTime
from docstore.widecolumn.model.cells import stamp_of
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.hint_origin import HintOrigin
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.mutations import Entry
from docstore.widecolumn.node.hinted_writes import check_hint, wait_durable
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.read_state import is_owned, not_here, shown_key
from docstore.widecolumn.node.replicas import check_write, wait_written
from docstore.widecolumn.node.rows import merge_row
from docstore.widecolumn.node.settings import Settings

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
        _check_entries(row)
    if len(rows) == 1:
        needed = check_write(node, rows[0].found.keyspace, level)
    else:
        needed = max((check_write(node, keyspace, level) for keyspace in _keyspaces(rows)), default=1)
    writing = RowsWriter(node, rows, guard)
    while not writing.is_done:
        yield from write_in_slices(node, writing.namespace, writing, context.shard_version)
    if needed > 1:
        # A write without effect may still be on its way to the other members.
        yield wait_written(context, node, writing.last or node.store.last_optime, level, needed)
    if hint is not None:
        yield wait_durable(context, node, writing.last or node.store.last_optime)
    return writing.warnings


def _may_carry_out(node: DataNode, families: Sequence[FamilyStore], hint: HintOrigin) -> bool:
    check_hint(node, families, hint)
    return True


def _keyspaces(rows: Sequence[RowChange]) -> list[Keyspace]:
    keyspace_by_name = {row.found.keyspace.name: row.found.keyspace for row in rows}
    return list(keyspace_by_name.values())


def _check_entries(row: RowChange) -> None:
    """InvalidRequest for a timestamp that cells cannot have, and for a mutation that is too large."""
    size = 0
    for path, record, _ in row.entries:
        if record.startswith(LOWEST_STAMP, 1):
            raise invalid_request(f"Out of bound timestamp, must be in [{1 - (1 << 63)}, {(1 << 63) - 1}]")
        size += len(path) + len(record) + _ENTRY_BYTES
    if size > MAX_ROW_BYTES + 65536 and len(row.entries) > 1:
        raise invalid_request(
            f"the mutation of row {shown_key(row.key)} has {size} bytes, more than the limit of {MAX_ROW_BYTES}"
        )


class RowsWriter:
    """The rows of one request while they are written, in slices. `last`: the optime of the last write; `is_done`: all
    rows are written, else `namespace` is that of the next one.
    """

    can_wait = False

    def __init__(self, node: DataNode, rows: Sequence[RowChange], guard: Callable[[], bool] | None = None) -> None:
        self.last: OpTime | None = None
        self.warnings: list[str] = []
        self.is_done = False
        self.namespace = ""
        self._node = node
        self._rows = rows
        self._guard = guard
        self._at = 0
        self._find_next()

    def advance(self, owned: Predicate | None, until: float) -> bool:
        """Write rows of one column family for one slice; True when it has no more rows."""
        namespace = self.namespace
        while True:
            self._unit(owned)
            self._find_next()
            if self.is_done or self.namespace != namespace:
                return True
            if self._node.clock() >= until:
                return False

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        raise error

    def close(self) -> None:
        """Do nothing: no resource is held between slices."""

    def _find_next(self) -> None:
        self.is_done = self._at == len(self._rows)
        if not self.is_done:
            self.namespace = self._rows[self._at].found.collection.ns

    def _unit(self, owned: Predicate | None) -> None:
        node, rows, namespace = self._node, self._rows, self.namespace
        if self._guard is not None and not self._guard():
            raise ConditionFailed
        collection = node.store.catalog.collections.get(namespace)
        unit = node.store.unit()
        grown: list[tuple[RowChange, RowUpdate]] = []
        entries = 0
        at = self._at
        try:
            while at < len(rows) and (at == self._at or entries + len(rows[at].entries) <= UNIT_ENTRIES):
                row = rows[at]
                if row.found.collection.ns != namespace:
                    break
                if row.found.collection is not collection:
                    raise CommandError(Code.NamespaceNotFound, f"{namespace} has been dropped")
                row_key = encode_row_key(row.found.keyspace.partitioner, row.key)
                if not is_owned(row.found, row_key, owned):
                    raise not_here(row.found, row_key)
                grown.append((row, merge_row(unit, collection, row_key, row.entries)))
                entries += len(row.entries)
                at += 1
            self.last = unit.commit() or self.last
        except BaseException:
            unit.abort()
            raise
        self._at = at
        settings = wide_of(node).settings
        settings.metrics.writes += len(grown)
        settings.metrics.columns_written += entries
        for row, update in grown:
            if update.rows > settings.warn_rows or update.row_bytes > settings.warn_bytes:
                self.warnings += _growth_warnings(settings, row, update)


def _growth_warnings(settings: Settings, row: RowChange, update: RowUpdate) -> list[str]:
    """Return the warnings for a row that has grown past a limit."""
    name = f"{row.found.keyspace.name}/{row.found.definition.name}:{shown_key(row.key)}"
    warnings: list[str] = []
    if update.rows_before <= settings.warn_rows < update.rows:
        warnings.append(f"Writing large partition {name} ({update.rows} rows)")
    if update.bytes_before <= settings.warn_bytes < update.row_bytes:
        warnings.append(f"Writing large partition {name} ({update.row_bytes} bytes)")
    for warning in warnings:
        settings.metrics.wide_partitions += 1
        LOG.warning(warning)
    return warnings
