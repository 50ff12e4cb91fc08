"""Mutations of one row, as merges. The logged, shipped and applied forms are the same, and merges are idempotent.

An entry is a path below the row's prefix (area and names, `docstore.widecolumn.model.keys`) with a cell or a
deletion. It also gives the length of the part of the path that identifies one row of the partition. Merging an entry
with the stored record needs no comparator and no schema, so any member can do it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from docstore.kernel.columns.encoding import WHOLE
from docstore.kernel.columns.mutations import merged
from docstore.widecolumn.model.cells import (
    Cell,
    Deletion,
    merge_cells,
    merge_deletions,
    pack_cell,
    pack_deletion,
    unpack_cell,
    unpack_deletion,
)
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.keys import COLUMNS, ROW_DELETION, SUB_COLUMN, SUPER_DELETION

_HEAD = struct.Struct(">III")


class Entry(NamedTuple):
    """One merge. The first `named` bytes of the path name the column of a Standard row, the super column, or the row
    of a CQL table; 0 for other paths.
    """

    path: bytes
    record: bytes
    named: int = 0


def column_path(family: ColumnFamily, name: bytes, super_name: bytes | None = None) -> bytes:
    """Return the path of a column. `super_name`: in Super families, and only there."""
    if super_name is None:
        return COLUMNS + family.comparator.encode(name)
    assert family.subcomparator is not None, "a Standard family has no super columns"
    return COLUMNS + family.comparator.encode(super_name) + SUB_COLUMN + family.subcomparator.encode(name)


def cell_entry(path: bytes, cell: Cell, named: int = 0) -> Entry:
    return Entry(path, pack_cell(cell), named)


def column_entry(family: ColumnFamily, name: bytes, super_name: bytes | None, cell: Cell) -> Entry:
    """A column of a Standard row, or of a super column."""
    comparator = family.comparator if super_name is None else family.subcomparator
    assert comparator is not None, "a Standard family has no super columns"
    return named_entry(family, comparator.encode(name), super_name, pack_cell(cell))


def named_entry(family: ColumnFamily, encoded: bytes, super_name: bytes | None, record: bytes) -> Entry:
    """A column whose name is in the form of keys."""
    path = COLUMNS + encoded
    if super_name is None:
        return Entry(path, record, len(path))
    path = COLUMNS + family.comparator.encode(super_name)
    return Entry(path + SUB_COLUMN + encoded, record, len(path))


def row_deletion_entry(deletion: Deletion) -> Entry:
    return Entry(ROW_DELETION, pack_deletion(deletion))


def super_deletion_entry(family: ColumnFamily, super_name: bytes, deletion: Deletion) -> Entry:
    path = COLUMNS + family.comparator.encode(super_name) + SUPER_DELETION
    return Entry(path, pack_deletion(deletion))


def merged_record(standing: bytes | None, record: bytes) -> bytes:
    """Return the merge of a record with the stored one, if any."""
    return record if standing is None else merged(standing, record, merge_alike)


def merge_alike(standing: bytes, record: bytes) -> bytes:
    """Return the merge of two cells with the same timestamp, or of two deletions."""
    if record[0] & WHOLE:
        return pack_deletion(merge_deletions(unpack_deletion(standing), unpack_deletion(record)))
    return pack_cell(merge_cells(unpack_cell(standing), unpack_cell(record)))


def folded(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries with those on one path merged among themselves, in the order of first appearance."""
    entry_by_path: dict[bytes, Entry] = {}
    for entry in entries:
        standing = entry_by_path.get(entry.path)
        if standing is not None:
            merged = merged_record(standing.record, entry.record)
            entry = Entry(entry.path, merged, entry.named)
        entry_by_path[entry.path] = entry
    return tuple(entry_by_path.values())


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """The entries as one byte string, for the oplog and between processes."""
    parts: list[bytes] = []
    for path, record, named in entries:
        parts += (_HEAD.pack(named, len(path), len(record)), path, record)
    return b"".join(parts)


def unpack_entries(data: bytes) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    at = 0
    while at < len(data):
        named, path_bytes, record_bytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        middle = at + path_bytes
        end = middle + record_bytes
        entries.append(Entry(data[at:middle], data[middle:end], named))
        at = end
    return tuple(entries)
