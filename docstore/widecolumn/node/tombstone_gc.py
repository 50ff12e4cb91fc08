"""Tombstone collection: removes expired values, tombstones older than the grace period, and records that deletions
hide.

The primary scans the column families periodically and logs removals in the oplog, so that members hold the same.
Invariants of a removal:

- a majority has the record: nothing is judged before a majority has the log up to the time of the scan;
- the record is unchanged: a removal takes only the record that it expects;
- this shard owns the row. Of rows in migration only a part may be here, so they are skipped, and a pass ends when
  ownership changes;
- `docstore.widecolumn.node.garbage` decides. A deletion of a row, super column or range goes only if nothing was
  written to the row meanwhile.

A pass that has read all of a row also corrects its count of columns, super columns or rows of a table.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

from docstore.commands.concerns import MAJORITY
from docstore.errors import CommandError
from docstore.kernel.columns.encoding import ESTIMATE, WHOLE
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import family_end, family_prefix
from docstore.node.entry import enter_write
from docstore.node.shard_filter import Owned
from docstore.node.slices import finish_work, step_end
from docstore.node.upkeep.periodic import PeriodicTask
from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.widecolumn.model.keys import split_row
from docstore.widecolumn.node.garbage import NameEnd, RowPurge, name_end_of
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of
from docstore.widecolumn.node.read_state import is_owned
from docstore.widecolumn.node.rows import EMPTY, RowSize, remove_cells, row_size

_COMMIT_SECONDS = 10.0
_UNIT_KEYS = 512


@dataclass(slots=True)
class _Row:
    """A row while it is scanned."""

    row_key: bytes
    size: RowSize
    purge: RowPurge
    owned: bool = True
    ended: bool = False


class _FamilyPass(NamedTuple):
    """The column family of a pass, and the rows of it that this shard owns."""

    found: FamilyStore
    name_end: NameEnd
    owned: Predicate | None


class TombstoneCollector(PeriodicTask):
    """Runs the passes of a node, every `wideColumn.collectionSecs`."""

    name = "tombstone collector"

    def interval(self) -> float | None:
        return wide_of(self._node).settings.collection_seconds or None

    async def run_pass(self) -> None:
        """Scan every column family; do nothing on a node that is not primary."""
        for keyspace in wide_of(self._node).keyspaces():
            for family in wide_of(self._node).families(keyspace.name):
                with contextlib.suppress(CommandError):
                    await self._collect(family)

    async def _collect(self, found: FamilyStore) -> None:
        node = self._node
        ident = found.collection.ident
        position = family_prefix(ident)
        row: _Row | None = None
        name_end = name_end_of(found)
        shard_filter = node.shard_filter
        owned = None if shard_filter is None else await shard_filter.ownership_of(found.collection.ns)
        while True:
            node.replication.check_write()
            snapshot = node.engine.snapshot()
            try:
                optime = node.store.last_optime
                if node.store.oplog is not None and await node.replication.wait_write(
                    optime, MAJORITY, node.clock() + _COMMIT_SECONDS
                ):
                    return
                if found.collection.ident != ident:
                    return  # truncated: the position is in the old tree
                filter = None if owned is None else owned.owned
                row, position = self._look(_FamilyPass(found, name_end, filter), snapshot, row, position)
            finally:
                snapshot.close()
            if row is None:
                return
            if not await self._remove(found, row, owned) or position == b"":
                return
            if row.ended:
                row = None
            await node.pause()

    def _look(
        self, scanned: _FamilyPass, snapshot: Reader, row: _Row | None, position: bytes
    ) -> tuple[_Row | None, bytes]:
        """Scan records of one row for one slice. Return (the row, where to continue; empty at the family's end)."""
        node, family = self._node, scanned.found
        base, end = family_prefix(family.collection.ident), family_end(family.collection.ident)
        until = step_end(node)
        now = wide_of(node).now()
        gc_before = now - family.definition.gc_grace_seconds
        for record_count, (key, record) in enumerate(snapshot.items(Family.WIDE, position, end), 1):
            if row is None or not key.startswith(row.row_key, len(base)):
                if row is not None:
                    _close(row)
                    return row, key
                row_key = key[len(base) : split_row(key, family.keyspace.partitioner)[1]]
                purge = RowPurge(scanned.name_end, now, gc_before)
                size = row_size(snapshot, family.collection, row_key)
                row = _Row(row_key, size, purge, is_owned(family, row_key, scanned.owned))
            if row.owned and not record[0] & ESTIMATE:
                row.purge.take(key[len(base) + len(row.row_key) :], record)
            if len(row.purge.purgeable) >= _UNIT_KEYS or (record_count % 64 == 0 and node.clock() >= until):
                return row, key + b"\0"
        if row is not None:
            _close(row)
        return row, b""

    async def _remove(self, found: FamilyStore, row: _Row, owned: Owned | None) -> bool:
        """Remove the purgeable records; False when the pass must end."""
        node, collection = self._node, found.collection
        ident = collection.ident
        purgeable, row.purge.purgeable = row.purge.purgeable, []
        counts = row.owned and row.ended and row.purge.names != row.size.rows
        if not purgeable and not counts:
            return True
        await finish_work(node, enter_write(node, collection.ns))
        if node.shard_filter is not None and not node.shard_filter.is_known(collection.ns, owned):
            return False
        if node.store.catalog.collections.get(collection.ns) is not collection or collection.ident != ident:
            return False
        size = row_size(node.engine, collection, row.row_key)
        if size != row.size:
            # A write has come meanwhile that a deletion may have to hide.
            purgeable = [(path, record) for path, record in purgeable if not record[0] & WHOLE]
        rows = row.purge.names if counts and size == row.size else size.rows
        with node.store.unit() as unit:
            remove_cells(unit, collection, row.row_key, purgeable, rows=rows)
            unit.commit()
        row.size = row_size(node.engine, collection, row.row_key) if size == row.size else EMPTY
        wide_of(node).settings.metrics.collected += len(purgeable)
        return True


def _close(row: _Row) -> None:
    """Finish the row."""
    row.purge.close()
    row.ended = True
