"""The storage layout of tables: paths of rows and cells below the prefix of their partition
(`docstore.widecolumn.model.keys`).

| path | record |
|---|---|
| 00 | deletion of the partition |
| 08, column id | cell of a static column; of a collection as below the column id of other cells |
| 10, escaped start, escaped end | deletion of rows from one clustering key to before another; an empty end is open |
| 20, clustering key, 00 | deletion of a row |
| 20, clustering key, 01, column id 0 | marker of a row: a cell without a value |
| 20, clustering key, 01, column id | cell |
| 20, clustering key, 01, column id, 00 | deletion of a collection (`docstore.widecolumn.cql.schema.collection_cells`) |
| 20, clustering key, 01, column id, 01, key | element of a collection |

A row's clustering key is the concatenation of its encoded clustering values; rows are stored in this order. A table
without clustering columns has one row in a partition, whose clustering key is empty.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from docstore.kernel.columns.encoding import escape
from docstore.widecolumn.cql.schema.tables import Column, ColumnKind, Table
from docstore.widecolumn.model.cells import Cell, Deletion, pack_deletion
from docstore.widecolumn.model.comparators import unescape
from docstore.widecolumn.model.keys import COLUMNS, RANGE_DELETION, STATIC
from docstore.widecolumn.model.mutations import Entry, cell_entry

_ID = struct.Struct(">I")
ROW_DELETION = b"\x00"
CELL = b"\x01"
MARKER = CELL + _ID.pack(0)
COLLECTION_DELETION = b"\x00"
ID_BYTES = _ID.size


def encode_clustering_key(table: Table, values: Sequence[bytes]) -> bytes:
    """Return the clustering key of a row, or the common prefix of those of all rows with these first values."""
    return b"".join(
        comparator.encode(value) for comparator, value in zip(table.clustering_comparators, values, strict=False)
    )


def values_at(table: Table, path: bytes, start: int) -> tuple[tuple[bytes, ...], int]:
    """(the clustering values of the row whose clustering key begins there, where that ends)."""
    values: list[bytes] = []
    for comparator in table.clustering_comparators:
        value, start = comparator.decode(path, start)
        values.append(value)
    return tuple(values), start


def beyond(prefix: bytes) -> bytes:
    """Return the end of the range of all keys with the prefix; empty if the range is open."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else b""


def column_id(path: bytes, at: int) -> int:
    """Return the column id of a cell, which begins at `at` of its path; 0 for a row marker."""
    identifier: int = _ID.unpack_from(path, at)[0]
    return identifier


class ColumnPath(NamedTuple):
    """The path of a column's cell; its first `named` bytes name the row, 0 for a static column."""

    path: bytes
    named: int

    def entry(self, cell: Cell, element: bytes = b"") -> Entry:
        """Return the merge of a cell. `element`: the path of an element below the column's."""
        return cell_entry(self.path + element, cell, self.named)

    def deletion(self, deletion: Deletion) -> Entry:
        """Return the merge of a collection's deletion."""
        return Entry(self.path + COLLECTION_DELETION, pack_deletion(deletion))


def column_path(column: Column, clustering_key: bytes) -> ColumnPath:
    """Return the path of a column in a row; the clustering key is ignored for a static column."""
    if column.kind is ColumnKind.STATIC:
        return ColumnPath(STATIC + _ID.pack(column.id), 0)
    row = COLUMNS + clustering_key
    return ColumnPath(row + CELL + _ID.pack(column.id), len(row))


def marker_entry(clustering_key: bytes, cell: Cell) -> Entry:
    row = COLUMNS + clustering_key
    return cell_entry(row + MARKER, cell, len(row))


def row_deletion(clustering_key: bytes, deletion: Deletion) -> Entry:
    return Entry(COLUMNS + clustering_key + ROW_DELETION, pack_deletion(deletion))


def range_deletion(start: bytes, end: bytes, deletion: Deletion) -> Entry:
    """The deletion of the rows with clustering keys from start to before end."""
    return Entry(RANGE_DELETION + escape(start) + escape(end), pack_deletion(deletion))


def range_of_deletion(path: bytes) -> tuple[bytes, bytes]:
    """(start, end) of a range deletion's path."""
    start, at = unescape(path, len(RANGE_DELETION))
    end, _ = unescape(path, at)
    return start, end
