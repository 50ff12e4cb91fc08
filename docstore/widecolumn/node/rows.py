"""Rows of column families inside a write unit: merging mutations, removing garbage.

A column family is stored in the `wide` family under its ident (`docstore.widecolumn.model.keys`). Invariants:

- a merge reads the stored records, merges and writes in one unit, so that merges of one cell never miss each other;
- `count` and `size` of a column family are the number of its stored cells and deletions, and the bytes of their
  records and of their keys after the ident;
- `bytes` of a row's statistics is the same for its own part; `rows` is an estimate (see
  `docstore.widecolumn.model.mutations`);
- a removal names each record with its expected value; it does nothing if another one is stored.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from docstore.bson import get_field
from docstore.bson.build import enclosed
from docstore.kernel.columns.encoding import ESTIMATE
from docstore.kernel.columns.mutations import RowUpdate
from docstore.key_layout import family_end, family_prefix
from docstore.storage import Family
from docstore.widecolumn.model.keys import STATISTICS, after_name
from docstore.widecolumn.model.mutations import Entry, merge_alike, pack_entries, unpack_entries

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from docstore.storage import Reader

_WIDE = Family.WIDE
_STATISTICS = struct.Struct(">Bqq")
_LENGTH = struct.Struct("<i")
_LONG = struct.Struct("<q")


class RowSize(NamedTuple):
    """The size of a row. `rows`: columns, super columns or rows of CQL, an estimate; `size`: bytes."""

    rows: int
    size: int


EMPTY = RowSize(0, 0)


def row_size_of(record: bytes) -> RowSize:
    """Decode a row's statistics."""
    return RowSize._make(_STATISTICS.unpack(record)[1:])


def row_size(reader: Reader, coll: Collection, row_key: bytes) -> RowSize:
    """Return the statistics of a row; those of an empty row if it has none."""
    record = reader.get(_WIDE, family_prefix(coll.ident) + row_key + STATISTICS)
    return EMPTY if record is None else row_size_of(record)


def merge_row(unit: WriteUnitOfWork, coll: Collection, row_key: bytes, entries: Sequence[Entry]) -> RowUpdate:
    """Merge a mutation into a row of a column family; return the applied update."""
    update = _update(unit, coll, row_key)
    update.merge(entries, merge_alike, partial(_is_named, unit))
    unit.put_row(coll, update, lambda: merge_document(row_key, entries))
    return update


def remove_cells(
    unit: WriteUnitOfWork,
    coll: Collection,
    row_key: bytes,
    cells: Sequence[tuple[bytes, bytes]],
    *,
    rows: int | None = None,
) -> None:
    """Remove (path, record) pairs from a row if they still stand. `rows`: the new row count of its statistics."""
    update = _update(unit, coll, row_key)
    update.remove(cells, rows)
    unit.put_row(coll, update, lambda: removal_document(row_key, cells, rows))


def _update(unit: WriteUnitOfWork, coll: Collection, row_key: bytes) -> RowUpdate:
    return RowUpdate(coll.rows_prefix, row_key, unit.batch.changes[_WIDE], unit.engine.get, _WIDE)


def _is_named(unit: WriteUnitOfWork, named: bytes) -> bool:
    """True if a record of the name exists already."""
    return next(iter(unit.keys(_WIDE, named, after_name(named))), None) is not None


def stored_cells(reader: Reader, coll: Collection) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key after the ident, record) of everything that is counted, in order."""
    base = family_prefix(coll.ident)
    at = len(base)
    for key, record in reader.items(_WIDE, base, family_end(coll.ident)):
        if not record[0] & ESTIMATE:
            yield key[at:], record


def store_rows(
    unit: WriteUnitOfWork, coll: Collection, rows: Iterable[tuple[bytes, list[tuple[bytes, bytes]]]]
) -> None:
    """Store records of a copy in progress, unmerged: nothing may stand at their paths."""
    for row_key, entries in rows:
        update = _update(unit, coll, row_key)
        update.store(entries)
        unit.put_row(coll, update, bytes)


# Oplog entries


def merge_document(row_key: bytes, entries: Sequence[Entry]) -> bytes:
    """The `o` of an entry that merges: `{r: <row key>, m: <the entries>}`."""
    return enclosed(_binary(b"r", row_key) + _binary(b"m", pack_entries(entries)))


def removal_document(row_key: bytes, cells: Sequence[tuple[bytes, bytes]], rows: int | None) -> bytes:
    """The `o` of an entry that removes: `{r, p: <paths and records>, n: <rows left, where counted>}`."""
    packed = pack_entries([Entry(path, record) for path, record in cells])
    counted = b"" if rows is None else b"\x12n\0" + _LONG.pack(rows)
    return enclosed(_binary(b"r", row_key) + _binary(b"p", packed) + counted)


def apply_document(unit: WriteUnitOfWork, coll: Collection, o: bytes) -> None:
    """Apply an oplog entry."""
    row = get_field(o, "r")
    merged = get_field(o, "m")
    assert row is not None, "an entry names its row"
    if merged is not None:
        merge_row(unit, coll, row[1][5:], unpack_entries(merged[1][5:]))
        return
    removed, counted = get_field(o, "p"), get_field(o, "n")
    assert removed is not None, "an entry merges or removes"
    cells = [(entry.path, entry.record) for entry in unpack_entries(removed[1][5:])]
    rows = None if counted is None else int.from_bytes(counted[1], "little", signed=True)
    remove_cells(unit, coll, row[1][5:], cells, rows=rows)


def _binary(name: bytes, data: bytes) -> bytes:
    return b"\x05" + name + b"\0" + _LENGTH.pack(len(data)) + b"\0" + data
