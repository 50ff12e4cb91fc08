"""Mutations of one row, as merges: what is logged, shipped and applied is the same, and applying it twice is harmless.

An entry is a path below the row's prefix (area and names, `docstore.wide.keys`) with a cell or a deletion. Merging an
entry with what stands there needs no comparator and no schema, so any member can do it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from docstore.wide.cells import (
    Cell,
    Deletion,
    merge_cells,
    merge_deletions,
    pack_cell,
    pack_deletion,
    unpack_cell,
    unpack_deletion,
)
from docstore.wide.keys import COLUMNS, ROW_DELETION, SUB_COLUMN, SUPER_DELETION
from docstore.wide.schema import ColumnFamily

CELL = 0
DELETION = 1

_HEAD = struct.Struct(">BII")


class Entry(NamedTuple):
    """One merge: `kind` says what the record is."""

    kind: int
    path: bytes
    record: bytes


class RowMutation(NamedTuple):
    """The merges of one row, which are applied together.

    `row` is the row's part of its keys (token and key), `names` by how many columns (super columns) the row may grow.
    """

    row: bytes
    entries: tuple[Entry, ...]
    names: int = 0


def column_path(family: ColumnFamily, name: bytes, super_name: bytes | None = None) -> bytes:
    """Where a column stands. `super_name` is given in Super families, and only there."""
    if super_name is None:
        return COLUMNS + family.comparator.encode(name)
    assert family.subcomparator is not None, "a Standard family has no super columns"
    return COLUMNS + family.comparator.encode(super_name) + SUB_COLUMN + family.subcomparator.encode(name)


def cell_entry(path: bytes, cell: Cell) -> Entry:
    return Entry(CELL, path, pack_cell(cell))


def row_deletion_entry(deletion: Deletion) -> Entry:
    return Entry(DELETION, ROW_DELETION, pack_deletion(deletion))


def super_deletion_entry(family: ColumnFamily, super_name: bytes, deletion: Deletion) -> Entry:
    path = COLUMNS + family.comparator.encode(super_name) + SUPER_DELETION
    return Entry(DELETION, path, pack_deletion(deletion))


def merged_record(kind: int, standing: bytes | None, record: bytes) -> bytes:
    """What stands after the merge."""
    if standing is None or standing == record:
        return record
    if kind == CELL:
        return pack_cell(merge_cells(unpack_cell(standing), unpack_cell(record)))
    return pack_deletion(merge_deletions(unpack_deletion(standing), unpack_deletion(record)))


def folded(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries with those on one path merged among themselves, in the order of first appearance."""
    found: dict[bytes, Entry] = {}
    for entry in entries:
        standing = found.get(entry.path)
        if standing is not None:
            entry = Entry(entry.kind, entry.path, merged_record(entry.kind, standing.record, entry.record))
        found[entry.path] = entry
    return tuple(found.values())


def pack_entries(entries: Sequence[Entry]) -> bytes:
    """The entries as one byte string, for the oplog and between processes."""
    parts: list[bytes] = []
    for kind, path, record in entries:
        parts += (_HEAD.pack(kind, len(path), len(record)), path, record)
    return b"".join(parts)


def unpack_entries(data: bytes) -> tuple[Entry, ...]:
    found: list[Entry] = []
    at = 0
    while at < len(data):
        kind, path_bytes, record_bytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        middle = at + path_bytes
        end = middle + record_bytes
        found.append(Entry(kind, data[at:middle], data[middle:end]))
        at = end
    return tuple(found)
