"""Assembly of rows from the records of a partition, as of one second.

A row exists while its marker or one of its regular cells is live. A cell or marker is hidden by a deletion of its
row, of a range that contains its clustering key, or of the partition, with the same or a later timestamp. Merges are
by cell, never by row: two writes with one timestamp may leave a row that neither wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from docstore.widecolumn.cql.plan.partition_keys import split
from docstore.widecolumn.cql.schema.layout import CELL, column_id, range_of_deletion, values_at
from docstore.widecolumn.cql.schema.tables import Table
from docstore.widecolumn.model.cells import Cell, unpack_cell, unpack_deletion
from docstore.widecolumn.model.keys import COLUMNS, RANGE_DELETION, ROW_DELETION, STATIC
from docstore.widecolumn.model.slices import ReadCounts

Stored = tuple[bytes, bytes]
_OLDEST = -(1 << 63) - 1
_AREA = len(COLUMNS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `parts`: the values of the partition key. `clustering` and `clustering_key` are empty for a partition
    without rows, which has static columns alone.
    """

    key: bytes
    parts: tuple[bytes, ...]
    clustering_key: bytes
    clustering: tuple[bytes, ...]
    cells: dict[int, Cell]
    statics: dict[int, Cell]


@dataclass(slots=True)
class PartitionHead:
    """The part of a partition before its rows: deletions and static cells."""

    deleted: int = _OLDEST
    ranges: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    statics: dict[int, Cell] = field(default_factory=dict)

    def deletion_at(self, clustering_key: bytes) -> int:
        """Return the timestamp up to which deletions hide the cells of that row."""
        hidden = self.deleted
        for start, end, timestamp in self.ranges:
            if timestamp > hidden and start <= clustering_key and (not end or clustering_key < end):
                hidden = timestamp
        return hidden


class RowAssembler:
    """Reads rows out of records at one second (`now`), counting the dead ones it meets."""

    def __init__(self, table: Table, now: int, counts: ReadCounts) -> None:
        self._table = table
        self._now = now
        self._counts = counts

    def head(self, records: Iterable[Stored]) -> PartitionHead:
        """Read the deletions and static cells before the rows of a partition."""
        head = PartitionHead()
        cells: list[tuple[int, Cell]] = []
        for path, record in records:
            area = path[:1]
            if area == ROW_DELETION:
                head.deleted = unpack_deletion(record).timestamp
            elif area == STATIC:
                cells.append((column_id(path, len(STATIC)), unpack_cell(record)))
            elif area == RANGE_DELETION:
                self._counts.tombstone()
                head.ranges.append((*range_of_deletion(path), unpack_deletion(record).timestamp))
        for identity, cell in cells:
            if self._is_live(cell, head.deleted) and identity in self._table.by_id:
                head.statics[identity] = cell
        return head

    def place_at(self, path: bytes) -> bytes:
        """Return the clustering key of the row to which a path below `COLUMNS` belongs."""
        return path[_AREA : values_at(self._table, path, _AREA)[1]]

    def row(self, key: bytes, head: PartitionHead, clustering_key: bytes, records: Iterable[Stored]) -> Row | None:
        """Return the row that consists of these records; None if it is not live."""
        at = _AREA + len(clustering_key)
        hidden = head.deletion_at(clustering_key)
        stored_cells: list[tuple[int, Cell]] = []
        for path, record in records:
            if path[at : at + 1] == CELL:
                stored_cells.append((column_id(path, at + 1), unpack_cell(record)))
            else:
                self._counts.tombstone()
                hidden = max(hidden, unpack_deletion(record).timestamp)
        cells: dict[int, Cell] = {}
        exists = False
        for identity, cell in stored_cells:
            if not self._is_live(cell, hidden):
                continue
            if identity == 0:
                exists = True
            elif identity in self._table.by_id:
                cells[identity] = cell
        if not (exists or cells):
            return None
        return Row(
            key,
            split(self._table, key),
            clustering_key,
            values_at(self._table, clustering_key, 0)[0],
            cells,
            head.statics,
        )

    def static_row(self, key: bytes, head: PartitionHead) -> Row:
        """Return the row that represents a partition without rows."""
        return Row(key, split(self._table, key), b"", (), {}, head.statics)

    def _is_live(self, cell: Cell, hidden: int) -> bool:
        self._counts.keys_examined += 1
        if cell.timestamp <= hidden or not cell.is_live(self._now):
            self._counts.tombstone()
            return False
        return True


class Partition:
    """The rows of one partition, from its records in pages: first the head, then rows in either direction.
    `any_rows`: whether it has yielded one.
    """

    def __init__(self, assembly: RowAssembler, key: bytes) -> None:
        self.any_rows = False
        self._assembly = assembly
        self._key = key
        self._before: list[Stored] = []
        self._head: PartitionHead | None = None
        self._standing: bytes | None = None
        self._group: list[Stored] = []

    def feed(self, records: Iterable[Stored]) -> Iterator[Row]:
        """Yield the rows whose last record has been read."""
        for stored in records:
            path = stored[0]
            if path < COLUMNS:
                self._before.append(stored)
                continue
            if self._standing is None or not path.startswith(self._standing, _AREA):
                yield from self._finished()
                self._standing = self._assembly.place_at(path)
            self._group.append(stored)

    def rest(self) -> Iterator[Row]:
        """Yield the last row, when there are no more records."""
        yield from self._finished()

    def alone(self) -> Row | None:
        """Return the row for a partition that has static values but no rows; None for any other."""
        head = self._known_head()
        return None if self.any_rows or not head.statics else self._assembly.static_row(self._key, head)

    def _known_head(self) -> PartitionHead:
        if self._head is None:
            self._head = self._assembly.head(self._before)
        return self._head

    def _finished(self) -> Iterator[Row]:
        if self._standing is None:
            return
        row = self._assembly.row(self._key, self._known_head(), self._standing, self._group)
        self._standing, self._group = None, []
        if row is not None:
            self.any_rows = True
            yield row
