"""Garbage in a row: finds the records that can be purged, one by one in the order of keys.

- Records that a deletion hides (of the row, of a super column or a row of a table, of a range of rows, of a collection
  of a table) go at once.
- A tombstone or an expired value goes when it is older than the grace period.
- A deletion goes after the grace period if it hides nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docstore.kernel.columns.encoding import EXPIRING, TOMBSTONE, WHOLE
from docstore.widecolumn.cql.schema.layout import CELL, range_of_deletion, values_at
from docstore.widecolumn.cql.schema.tables import table_of
from docstore.widecolumn.model.cells import NOT_DELETED, Deletion, unpack_cell, unpack_deletion
from docstore.widecolumn.model.executor import Stored
from docstore.widecolumn.model.keys import COLUMNS, RANGE_DELETION, ROW_DELETION
from docstore.widecolumn.node.keyspaces import FamilyStore

_AREA = len(COLUMNS)

NameEnd = Callable[[bytes], int]
"""Returns the end, in a path below `COLUMNS`, of the name that counts as a row of the partition."""


def name_end_of(found: FamilyStore) -> NameEnd:
    """Return the function that finds the end of a name in paths of the column family."""
    family = found.definition
    if family.table is not None:
        table = table_of(found.keyspace, family, found.collection.uuid)
        return lambda path: values_at(table, path, _AREA)[1]
    if family.is_super:
        decode = family.comparator.decode
        return lambda path: decode(path, _AREA)[1]
    return len


@dataclass(slots=True)
class _OpenDeletion:
    """An open deletion, and whether it hides nothing of what has been read. `end`: of a range; empty if it is open."""

    stored: Stored
    deletion: Deletion
    start: bytes = b""
    end: bytes = b""
    hides_nothing: bool = True


class RowPurge:
    """Finds the records of one row that can go, for the caller to remove (`purgeable`). `names`: how many names keep
    a value.
    """

    def __init__(self, name_end: NameEnd, now: int, gc_before: int) -> None:
        """`gc_before`: records that died before that second have outlived the grace period."""
        self.purgeable: list[Stored] = []
        self.names = 0
        self._name_end = name_end
        self._now = now
        self._gc_before = gc_before
        self._row: _OpenDeletion | None = None
        self._ranges: list[_OpenDeletion] = []
        self._ahead = 0
        self._name = b""
        self._covering: list[_OpenDeletion] = []
        self._of_name: _OpenDeletion | None = None
        self._of_column: _OpenDeletion | None = None
        self._keeps = False

    def take(self, path: bytes, record: bytes) -> None:
        """Judge the next record."""
        if self._of_column is not None and not path.startswith(self._of_column.stored[0][:-1]):
            self._end_column()
        if path < COLUMNS:
            self._take_head(path, record)
            return
        if not self._name or not path.startswith(self._name):
            self._end_name()
            self._begin_name(path[: self._name_end(path)])
        if record[0] & WHOLE:
            opened = self._opened(path, record)
            if path.startswith(CELL, len(self._name)):
                self._of_column = opened
            else:
                self._of_name = opened
            return
        self._keeps |= self._is_kept(path, record)

    def close(self) -> None:
        """Finish the row: there are no more records."""
        self._end_column()
        self._end_name()
        for opened in (self._row, *self._ranges):
            self._end(opened)

    def _take_head(self, path: bytes, record: bytes) -> None:
        if path == ROW_DELETION:
            self._row = _OpenDeletion((path, record), unpack_deletion(record))
            self._covering = [self._row]
        elif path[:_AREA] == RANGE_DELETION:
            deletion = unpack_deletion(record)
            if deletion.timestamp <= self._deleted.timestamp:
                self.purgeable.append((path, record))
            else:
                self._ranges.append(_OpenDeletion((path, record), deletion, *range_of_deletion(path)))
        elif record[0] & WHOLE:
            self._of_column = self._opened(path, record)
        else:
            self._is_kept(path, record)

    def _opened(self, path: bytes, record: bytes) -> _OpenDeletion | None:
        """Open a deletion that covers the records after it; None if another one hides it."""
        deletion = unpack_deletion(record)
        if any(covering.deletion.timestamp >= deletion.timestamp for covering in self._covering):
            self.purgeable.append((path, record))
            return None
        opened = _OpenDeletion((path, record), deletion)
        self._covering.append(opened)
        return opened

    def _end_column(self) -> None:
        if self._of_column is not None:
            self._covering.remove(self._of_column)
            self._end(self._of_column)
            self._of_column = None

    @property
    def _deleted(self) -> Deletion:
        return NOT_DELETED if self._row is None else self._row.deletion

    def _begin_name(self, name: bytes) -> None:
        """Ranges stand in the order of their starts."""
        self._name = name
        clustering_key = name[_AREA:]
        covering = [opened for opened in self._covering if not opened.end or clustering_key < opened.end]
        while self._ahead < len(self._ranges) and self._ranges[self._ahead].start <= clustering_key:
            opened = self._ranges[self._ahead]
            self._ahead += 1
            if not opened.end or clustering_key < opened.end:
                covering.append(opened)
        self._covering = covering

    def _end_name(self) -> None:
        self.names += self._keeps
        self._keeps = False
        if self._of_name is not None:
            self._covering.remove(self._of_name)
            self._end(self._of_name)
            self._of_name = None

    def _end(self, opened: _OpenDeletion | None) -> None:
        """Close the deletion: every record that it may hide has been read."""
        if opened is not None and opened.hides_nothing and opened.deletion.local_deletion < self._gc_before:
            self.purgeable.append(opened.stored)

    def _is_kept(self, path: bytes, record: bytes) -> bool:
        """True if the cell stays as a value."""
        cell = unpack_cell(record)
        hiding = [opened for opened in self._covering if opened.deletion.timestamp >= cell.timestamp]
        for opened in hiding:
            opened.hides_nothing = False
        dead = (
            cell.flags & (TOMBSTONE | EXPIRING)
            and cell.local_deletion < self._gc_before
            and not cell.is_live(self._now)
        )
        if hiding or dead:
            self.purgeable.append((path, record))
            return False
        return not cell.flags & TOMBSTONE
