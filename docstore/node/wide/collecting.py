"""What is dead for good goes: expired values, tombstones older than the grace period, what deletions hide.

The primary looks through the column families now and then and removes what it finds by removals in the oplog, so that
members hold the same. Always true of what goes:

* a majority has it: nothing is judged before the log of the moment of the look is committed by one;
* it stands as it was judged: a removal takes only the record that it expects;
* its row is this shard's: of rows on their way to or from another shard only a part may be here, so they are let be,
  and a pass ends where ownership changes;
* a value or tombstone that a deletion of its row or super column hides goes at once; what died by itself (a tombstone,
  an expired value) after the grace period;
* a deletion of a row or super column goes after the grace period, in a pass that has found nothing under it to hide, if
  nothing has come to the row meanwhile.

Range deletions of CQL stay.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from inspect import isawaitable

from docstore.bson import Predicate
from docstore.bson.columns import ESTIMATE, EXPIRING, TOMBSTONE, WHOLE
from docstore.collection.rows import EMPTY, RowSize, remove_cells, row_size
from docstore.commands.concerns import MAJORITY
from docstore.errors import CommandError
from docstore.node.cursors import SLICE_SECONDS
from docstore.node.ownership import Owned
from docstore.node.periodic import PeriodicTask
from docstore.node.wide.columns import Found
from docstore.node.wide.rows import is_owned
from docstore.storage import Family
from docstore.storage.engine import Reader
from docstore.wide.cells import NOT_DELETED, Deletion, unpack_cell, unpack_deletion
from docstore.wide.execution import Stored
from docstore.wide.keys import RANGE_DELETION, ROW_DELETION, family_end, family_prefix, split_row

_COMMIT_SECONDS = 10.0
_UNIT_KEYS = 512


@dataclass(slots=True)
class _Row:
    """A row while it is looked through. `group`: how the paths of the super column begin whose deletion stands."""

    tail: bytes
    size: RowSize
    owned: bool = True
    deletion: Stored | None = None
    deleted: Deletion = NOT_DELETED
    clean: bool = True
    group: bytes = b"\xff"
    group_deletion: Stored | None = None
    group_deleted: Deletion = NOT_DELETED
    group_clean: bool = True
    doomed: list[Stored] = field(default_factory=list)
    values: int = 0
    ended: bool = False


class Collector(PeriodicTask):
    """Runs the passes of a node, every `wideColumn.collectionSecs`."""

    name = "tombstone collector"

    def interval(self) -> float | None:
        return self._node.wide.settings.collection_seconds or None

    async def run_pass(self) -> None:
        """Look through every column family; nothing on a node that is not primary."""
        for keyspace in self._node.wide.keyspaces():
            for found in self._node.wide.families(keyspace.name):
                with contextlib.suppress(CommandError):
                    await self._collect(found)

    async def _collect(self, found: Found) -> None:
        node = self._node
        base = family_prefix(found.collection.ident)
        position = base
        row: _Row | None = None
        ownership = node.ownership
        owned = None if ownership is None else await ownership.known(found.collection.ns)
        while True:
            node.replication.check_write()
            snapshot = node.engine.snapshot()
            try:
                optime = node.store.last_optime
                if node.store.oplog is not None and await node.replication.wait_write(
                    optime, MAJORITY, node.clock() + _COMMIT_SECONDS
                ):
                    return
                row, position = self._look(found, snapshot, row, position, None if owned is None else owned.owned)
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
        self, found: Found, snapshot: Reader, row: _Row | None, position: bytes, owned: Predicate | None
    ) -> tuple[_Row | None, bytes]:
        """Judge records of one row for one slice: (the row, where to go on; empty at the end of the family)."""
        node = self._node
        base, end = family_prefix(found.collection.ident), family_end(found.collection.ident)
        until = node.clock() + SLICE_SECONDS
        now = node.wide.now()
        due = now - found.definition.gc_grace_seconds
        for seen, (key, record) in enumerate(snapshot.items(Family.WIDE, position, end), 1):
            if row is None or not key.startswith(row.tail, len(base)):
                if row is not None:
                    self._close(row, due)
                    return row, key
                tail = key[len(base) : split_row(key, found.keyspace.partitioner)[1]]
                row = _Row(tail, row_size(snapshot, found.collection, tail), is_owned(found, tail, owned))
            if row.owned and not record[0] & ESTIMATE:
                _judge(row, key[len(base) + len(row.tail) :], record, now, due)
            if len(row.doomed) >= _UNIT_KEYS or (seen % 64 == 0 and node.clock() >= until):
                return row, key + b"\0"
        if row is not None:
            self._close(row, due)
        return row, b""

    @staticmethod
    def _close(row: _Row, due: int) -> None:
        """The row has been looked through."""
        _end_group(row, due)
        if row.deletion is not None and row.clean and row.deleted.local_deletion < due:
            row.doomed.append(row.deletion)
        row.ended = True

    async def _remove(self, found: Found, row: _Row, owned: Owned | None) -> bool:
        """Remove what has been doomed; False when the pass is to end."""
        node, collection = self._node, found.collection
        doomed, row.doomed = row.doomed, []
        if not doomed:
            return True
        await node.store.write_lock.wait()
        if node.ownership is not None:
            entered = node.ownership.enter(collection.ns, None, write=True)
            while isawaitable(entered):
                await entered
                entered = node.ownership.enter(collection.ns, None, write=True)
            if not node.ownership.is_known(collection.ns, owned):
                return False
        node.replication.check_write()
        if node.store.catalog.collections.get(collection.ns) is not collection:
            return False
        size = row_size(node.engine, collection, row.tail)
        if size != row.size:
            # Something has come meanwhile that a deletion may have to hide.
            doomed = [(path, record) for path, record in doomed if not record[0] & WHOLE]
        values = 0 if found.definition.column_type != "Standard" else row.values
        row.values = 0
        with node.store.unit() as unit:
            remove_cells(unit, collection, row.tail, doomed, rows=max(size.rows - values, 0))
            unit.commit()
        row.size = row_size(node.engine, collection, row.tail) if size == row.size else EMPTY
        node.wide.settings.figures.collected += len(doomed)
        return True


def _judge(row: _Row, path: bytes, record: bytes, now: int, due: int) -> None:
    """Doom the record if its time has come. `due`: what died before that second has outlived the grace period."""
    if not path.startswith(row.group):
        _end_group(row, due)
    if record[0] & WHOLE:
        if path == ROW_DELETION:
            row.deletion, row.deleted = (path, record), unpack_deletion(record)
        elif path[:1] != RANGE_DELETION:
            deletion = unpack_deletion(record)
            if deletion.timestamp <= row.deleted.timestamp:
                row.doomed.append((path, record))
            else:
                row.group, row.group_deletion, row.group_deleted = path[:-1], (path, record), deletion
        return
    cell = unpack_cell(record)
    if cell.timestamp <= max(row.deleted.timestamp, row.group_deleted.timestamp):
        row.clean = row.clean and cell.timestamp > row.deleted.timestamp
        row.group_clean = row.group_clean and cell.timestamp > row.group_deleted.timestamp
    elif not (cell.flags & (TOMBSTONE | EXPIRING) and cell.local_deletion < due and not cell.is_live(now)):
        return
    row.doomed.append((path, record))
    row.values += not cell.flags & TOMBSTONE


def _end_group(row: _Row, due: int) -> None:
    """All of a super column has been looked at."""
    if row.group_deletion is not None and row.group_clean and row.group_deleted.local_deletion < due:
        row.doomed.append(row.group_deletion)
    row.group, row.group_deletion = b"\xff", None
    row.group_deleted, row.group_clean = NOT_DELETED, True
