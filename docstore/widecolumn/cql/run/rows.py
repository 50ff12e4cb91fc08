"""Assembly of rows from the records of a partition, as of one second.

A row exists while its marker or one of its regular cells is live. A cell or marker is hidden by a deletion of its
row, of a range that contains its clustering key, or of the partition, with the same or a later timestamp. Merges are
by cell, never by row: two writes with one timestamp may leave a row that neither wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from docstore.widecolumn.cql.plan.partition_keys import split
from docstore.widecolumn.cql.schema.collection_cells import assembled
from docstore.widecolumn.cql.schema.layout import (
    CELL,
    COLLECTION_DELETION,
    ID_BYTES,
    column_id,
    range_of_deletion,
    values_at,
)
from docstore.widecolumn.cql.schema.tables import Table
from docstore.widecolumn.cql.types.collections import collection_of_cells
from docstore.widecolumn.model.cells import Cell, unpack_cell, unpack_deletion
from docstore.widecolumn.model.keys import COLUMNS, RANGE_DELETION, ROW_DELETION, STATIC
from docstore.widecolumn.model.slices import ReadCounts

Stored = tuple[bytes, bytes]
_OLDEST = -(1 << 63) - 1
_AREA = len(COLUMNS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row. `parts`: the values of the partition key. `clustering` and `clustering_key` are empty for a partition
    without rows, which has static columns alone. `cells` and `statics`: one for each column with a value, also if that
    is a collection. `elements`: the paths of the elements of collections, below those of their columns, in order.
    """

    key: bytes
    parts: tuple[bytes, ...]
    clustering_key: bytes
    clustering: tuple[bytes, ...]
    cells: dict[int, Cell]
    statics: dict[int, Cell]
    elements: Mapping[int, Sequence[bytes]]


@dataclass(slots=True)
class PartitionHead:
    """The part of a partition before its rows: deletions and static cells. `elements`: as of a row."""

    deleted: int = _OLDEST
    ranges: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    statics: dict[int, Cell] = field(default_factory=dict)
    elements: dict[int, Sequence[bytes]] = field(default_factory=dict)

    def deletion_at(self, clustering_key: bytes) -> int:
        """Return the timestamp up to which deletions hide the cells of that row."""
        hidden = self.deleted
        for start, end, timestamp in self.ranges:
            if timestamp > hidden and start <= clustering_key and (not end or clustering_key < end):
                hidden = timestamp
        return hidden


class _Cells:
    """The cells of one row, or the static ones of a partition, in any order: those of columns, and of collections the
    elements by their paths below the columns' and the timestamps of deletions. `at`: where paths name the column.
    """

    def __init__(self, at: int) -> None:
        self.cells: list[tuple[int, Cell]] = []
        self.elements: dict[int, list[tuple[bytes, Cell]]] = {}
        self.deleted: dict[int, int] = {}
        self._at = at

    def add(self, path: bytes, record: bytes) -> None:
        at = self._at
        end = at + ID_BYTES
        identity = column_id(path, at)
        if len(path) == end:
            self.cells.append((identity, unpack_cell(record)))
        elif path.startswith(COLLECTION_DELETION, end):
            self.deleted[identity] = unpack_deletion(record).timestamp
        else:
            self.elements.setdefault(identity, []).append((path[end:], unpack_cell(record)))


class RowAssembler:
    """Reads rows out of records at one second (`now`), counting the dead ones it meets."""

    def __init__(self, table: Table, now: int, counts: ReadCounts) -> None:
        self._table = table
        self._now = now
        self._counts = counts

    def head(self, records: Iterable[Stored]) -> PartitionHead:
        """Read the deletions and static cells before the rows of a partition."""
        head = PartitionHead()
        cells = _Cells(len(STATIC))
        for path, record in records:
            area = path[:1]
            if area == ROW_DELETION:
                head.deleted = unpack_deletion(record).timestamp
            elif area == STATIC:
                cells.add(path, record)
            elif area == RANGE_DELETION:
                self._counts.tombstone()
                head.ranges.append((*range_of_deletion(path), unpack_deletion(record).timestamp))
        self._take(cells, head.deleted, head.statics, head.elements)
        return head

    def place_at(self, path: bytes) -> bytes:
        """Return the clustering key of the row to which a path below `COLUMNS` belongs."""
        return path[_AREA : values_at(self._table, path, _AREA)[1]]

    def row(self, key: bytes, head: PartitionHead, clustering_key: bytes, records: Iterable[Stored]) -> Row | None:
        """Return the row that consists of these records; None if it is not live."""
        at = _AREA + len(clustering_key)
        hidden = head.deletion_at(clustering_key)
        stored_cells = _Cells(at + len(CELL))
        for path, record in records:
            if path[at : at + 1] == CELL:
                stored_cells.add(path, record)
            else:
                self._counts.tombstone()
                hidden = max(hidden, unpack_deletion(record).timestamp)
        cells: dict[int, Cell] = {}
        elements: dict[int, Sequence[bytes]] = dict(head.elements)
        exists = self._take(stored_cells, hidden, cells, elements)
        if not (exists or cells):
            return None
        return Row(
            key,
            split(self._table, key),
            clustering_key,
            values_at(self._table, clustering_key, 0)[0],
            cells,
            head.statics,
            elements,
        )

    def static_row(self, key: bytes, head: PartitionHead) -> Row:
        """Return the row that represents a partition without rows."""
        return Row(key, split(self._table, key), b"", (), {}, head.statics, head.elements)

    def _take(self, stored: _Cells, hidden: int, cells: dict[int, Cell], elements: dict[int, Sequence[bytes]]) -> bool:
        """Put the live cells of columns into `cells`, and the paths of collections' elements into `elements`. Return
        whether a row marker is live.
        """
        exists = False
        by_id = self._table.by_id
        for identity, cell in stored.cells:
            if not self._is_live(cell, hidden):
                continue
            if identity == 0:
                exists = True
            elif identity in by_id:
                cells[identity] = cell
        for identity, parts in stored.elements.items():
            deleted = max(hidden, stored.deleted.get(identity, hidden))
            live = sorted((path, cell) for path, cell in parts if self._is_live(cell, deleted))
            column = by_id.get(identity)
            kind = None if column is None else collection_of_cells(column.type)
            value = None if kind is None else assembled(kind, live)
            if value is not None:
                cells[identity] = value
                elements[identity] = [path for path, _ in live]
        return exists

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
