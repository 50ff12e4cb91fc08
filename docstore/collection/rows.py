"""Rows of column families inside a write unit: merging mutations, taking away what nothing needs any more.

What a column family holds stands in the `wide` family under its ident (`docstore.wide.keys`). Invariants:

* a merge reads what stands, merges and writes in one unit, so that merges of one cell never miss each other;
* `count` and `size` of a column family are the number of its stored cells and deletions, and the bytes of their records
  and of their keys behind the ident;
* `bytes` of a row's statistics is the same for its own part; `rows` is an estimate (see `docstore.wide.mutations`);
* a removal names what it takes with the record that it expects: where another stands it does nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from docstore.bson import get_field
from docstore.bson.build import enclosed
from docstore.storage import Family
from docstore.wide.cells import ESTIMATE, TOMBSTONE
from docstore.wide.keys import STATISTICS, after_name, family_end, family_prefix
from docstore.wide.mutations import Entry, merged_record, pack_entries, unpack_entries

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.unit import WriteUnit
    from docstore.storage import Reader

_WIDE = Family.WIDE
_STATISTICS = struct.Struct(">Bqq")
_LENGTH = struct.Struct("<i")
_LONG = struct.Struct("<q")


class RowSize(NamedTuple):
    """How large a row is: `rows` columns (super columns, rows of CQL), an estimate; `size` in bytes."""

    rows: int
    size: int


EMPTY = RowSize(0, 0)


def _unpacked(record: bytes) -> RowSize:
    return RowSize._make(_STATISTICS.unpack(record)[1:])


class Growth(NamedTuple):
    """A row before and after a merge."""

    before: RowSize
    after: RowSize


def row_size(reader: Reader, coll: Collection, row: bytes) -> RowSize:
    """The statistics of a row, of nothing where it is empty. `row`: token and key."""
    record = reader.get(_WIDE, family_prefix(coll.ident) + row + STATISTICS)
    return EMPTY if record is None else _unpacked(record)


class Changed(NamedTuple):
    """What a merge or a removal has to write: `previous` holds what stands under each key, `keys` what will;
    `added` is how many more there are then."""

    keys: dict[bytes, bytes | None]
    previous: list[tuple[bytes, bytes | None]]
    added: int
    size: int
    growth: Growth


def merge_row(unit: WriteUnit, coll: Collection, row: bytes, entries: Sequence[Entry]) -> Growth:
    """Merge a mutation into a row (token and key) of a column family."""
    changed = _merge_changes(unit, coll, row, entries)
    unit.put_row(coll, changed, lambda: merge_document(row, entries))
    return changed.growth


def remove_cells(
    unit: WriteUnit, coll: Collection, row: bytes, doomed: Sequence[tuple[bytes, bytes]], *, rows: int | None = None
) -> None:
    """Remove (path, record) pairs from a row where they stand. `rows`: how many its statistics shall hold then."""
    changed = _removal_changes(unit, coll, row, doomed, rows)
    unit.put_row(coll, changed, lambda: removal_document(row, doomed, rows))


def _merge_changes(unit: WriteUnit, coll: Collection, row: bytes, entries: Sequence[Entry]) -> Changed:
    """What merging the entries into the row would change."""
    prefix = family_prefix(coll.ident) + row
    get = unit.engine.get
    pending = unit.batch.changes[_WIDE]
    changed: dict[bytes, bytes | None] = {}
    previous: list[tuple[bytes, bytes | None]] = []
    seen: set[bytes] = set()
    count = size = rows = 0
    for path, record, named in entries:
        key = prefix + path
        standing = changed.get(key) or (pending[key] if key in pending else get(_WIDE, key))
        if standing is None:
            changed[key] = record
            previous.append((key, None))
            count += 1
            size += len(path) + len(record)
            if named == len(path):
                rows += not record[0] & TOMBSTONE
            elif named and path[:named] not in seen:
                seen.add(path[:named])
                rows += not record[0] & TOMBSTONE and not _is_named(unit, prefix + path[:named])
            continue
        merged = merged_record(standing, record)
        if merged == standing:
            continue
        changed[key] = merged
        previous.append((key, standing))
        size += len(merged) - len(standing)
        if named == len(path):
            rows += (standing[0] & TOMBSTONE) - (merged[0] & TOMBSTONE)
    return _counted(unit, coll, row, changed, previous, (count, size, rows))


def _is_named(unit: WriteUnit, named: bytes) -> bool:
    """Whether something stands already under a name."""
    return next(iter(unit.keys(_WIDE, named, after_name(named))), None) is not None


def _removal_changes(
    unit: WriteUnit, coll: Collection, row: bytes, doomed: Iterable[tuple[bytes, bytes]], rows: int | None
) -> Changed:
    """What removing those (path, record) from the row would change, where these records stand. `rows`: how many there
    are then, where that has been counted.
    """
    prefix = family_prefix(coll.ident) + row
    changed: dict[bytes, bytes | None] = {}
    previous: list[tuple[bytes, bytes | None]] = []
    count = size = 0
    for path, record in doomed:
        key = prefix + path
        if key not in changed and unit.get(_WIDE, key) == record:
            changed[key] = None
            previous.append((key, record))
            count -= 1
            size -= len(path) + len(record)
    before = row_size(unit, coll, row)
    return _counted(unit, coll, row, changed, previous, (count, size, 0 if rows is None else rows - before.rows))


def _counted(
    unit: WriteUnit,
    coll: Collection,
    row: bytes,
    changed: dict[bytes, bytes | None],
    previous: list[tuple[bytes, bytes | None]],
    deltas: tuple[int, int, int],
) -> Changed:
    """The changes with those of the row's statistics."""
    count, size, rows = deltas
    if not size and not rows:
        return Changed(changed, previous, count, count * len(row), Growth(EMPTY, EMPTY))
    key = family_prefix(coll.ident) + row + STATISTICS
    record = unit.get(_WIDE, key)
    before = EMPTY if record is None else _unpacked(record)
    after = RowSize(max(before.rows + rows, 0), before.size + size)
    changed[key] = _STATISTICS.pack(ESTIMATE, *after) if after.size else None
    previous.append((key, record))
    return Changed(changed, previous, count, size + count * len(row), Growth(before, after))


def stored_cells(reader: Reader, coll: Collection) -> Iterator[tuple[bytes, bytes]]:
    """(key behind the ident, record) of everything that is counted, in order."""
    base = family_prefix(coll.ident)
    at = len(base)
    for key, record in reader.items(_WIDE, base, family_end(coll.ident)):
        if not record[0] & ESTIMATE:
            yield key[at:], record


def store_rows(unit: WriteUnit, coll: Collection, rows: Iterable[tuple[bytes, list[tuple[bytes, bytes]]]]) -> None:
    """Put records as they are where nothing stands yet: those of a copy that is being made."""
    base = family_prefix(coll.ident)
    for row, entries in rows:
        keys: dict[bytes, bytes | None] = {base + row + path: record for path, record in entries}
        kept = [(path, record) for path, record in entries if not record[0] & ESTIMATE]
        size = sum(len(row) + len(path) + len(record) for path, record in kept)
        unit.put_row(coll, Changed(keys, [], len(kept), size, Growth(EMPTY, EMPTY)), bytes)


# What the oplog holds of it


def merge_document(row: bytes, entries: Sequence[Entry]) -> bytes:
    """The `o` of an entry that merges: `{r: <token and key>, m: <the entries>}`."""
    return enclosed(_binary(b"r", row) + _binary(b"m", pack_entries(entries)))


def removal_document(row: bytes, doomed: Sequence[tuple[bytes, bytes]], rows: int | None) -> bytes:
    """The `o` of an entry that removes: `{r, p: <paths and records>, n: <rows left, where counted>}`."""
    packed = pack_entries([Entry(path, record) for path, record in doomed])
    counted = b"" if rows is None else b"\x12n\0" + _LONG.pack(rows)
    return enclosed(_binary(b"r", row) + _binary(b"p", packed) + counted)


def apply_document(unit: WriteUnit, coll: Collection, o: bytes) -> None:
    """Do what an entry says."""
    row = get_field(o, "r")
    merged = get_field(o, "m")
    assert row is not None, "an entry names its row"
    if merged is not None:
        merge_row(unit, coll, row[1][5:], unpack_entries(merged[1][5:]))
        return
    removed, counted = get_field(o, "p"), get_field(o, "n")
    assert removed is not None, "an entry merges or removes"
    doomed = [(entry.path, entry.record) for entry in unpack_entries(removed[1][5:])]
    rows = None if counted is None else int.from_bytes(counted[1], "little", signed=True)
    remove_cells(unit, coll, row[1][5:], doomed, rows=rows)


def _binary(name: bytes, data: bytes) -> bytes:
    return b"\x05" + name + b"\0" + _LENGTH.pack(len(data)) + b"\0" + data
