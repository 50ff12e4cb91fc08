"""Slices of a row equal those of a plain model, and look at no more than they need."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedDict

from docstore.widecolumn.model import comparators as types
from docstore.widecolumn.model.cells import Cell, Deletion, tombstone, value_cell
from docstore.widecolumn.model.column_families import DEFAULT_PARTITIONER, ColumnFamily
from docstore.widecolumn.model.keys import row_prefix
from docstore.widecolumn.model.mutations import (
    Entry,
    cell_entry,
    column_path,
    folded,
    merged_record,
    pack_entries,
    row_deletion_entry,
    super_deletion_entry,
    unpack_entries,
)
from docstore.widecolumn.model.slices import ReadCounts, RowReader, SliceRange, finished

NOW = 1000
STANDARD = ColumnFamily(name="s", comparator=types.LONG)
SUPER = ColumnFamily(name="c", comparator=types.BYTES, subcomparator=types.UTF8)
PREFIX = row_prefix(7, DEFAULT_PARTITIONER, b"row\0key")
OTHERS = (row_prefix(7, DEFAULT_PARTITIONER, b"row"), row_prefix(8, DEFAULT_PARTITIONER, b"row\0key"))


class Rows:
    """The `wide` family in a sorted dict."""

    def __init__(self) -> None:
        self.kept: SortedDict = SortedDict()

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self.kept.get(key)
        return found

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return ((key, self.kept[key]) for key in self.kept.irange(start, end, (True, False), reverse))

    def merge(self, prefix: bytes, entries: tuple[Entry, ...]) -> None:
        for path, record, _ in entries:
            self.kept[prefix + path] = merged_record(self.kept.get(prefix + path), record)


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def row(rows: Rows, family: ColumnFamily) -> RowReader:
    return RowReader(rows, family, PREFIX, NOW, ReadCounts(1 << 30))


numbers = st.integers(-3, 6)
stamps = st.integers(1, 4)
ttls = st.sampled_from((0, 0, 1, 50))
written = st.builds(
    lambda name, stamp, ttl, at: (name, value_cell(b"%d" % stamp, stamp, ttl=ttl, now=NOW - at)),
    numbers,
    stamps,
    ttls,
    st.integers(0, 60),
)
removed = st.builds(lambda name, stamp: (name, tombstone(stamp, NOW)), numbers, stamps)
columns = st.lists(st.one_of(written, written, removed), max_size=25)
row_deletions = st.one_of(st.none(), st.builds(Deletion, stamps, st.just(NOW)))
ranges = st.builds(
    SliceRange,
    st.one_of(st.just(b""), numbers.map(long)),
    st.one_of(st.just(b""), numbers.map(long)),
    st.booleans(),
    st.integers(0, 5),
)


def standing(history: list[tuple[int, Cell]], deletion: Deletion | None) -> dict[int, Cell]:
    """What the model holds: for each name the winner by the rules, live ones only."""
    winners: dict[int, Cell] = {}
    for name, cell in history:
        other = winners.get(name)
        if other is None or rank(cell) > rank(other):
            winners[name] = cell
    hidden = deletion.timestamp if deletion else 0
    return {name: cell for name, cell in winners.items() if cell.timestamp > hidden and cell.is_live(NOW)}


def rank(cell: Cell) -> tuple[int, int, int, int, bytes, int]:
    return cell.timestamp, cell.flags & 1, cell.flags & 2, cell.local_deletion, cell.value, cell.ttl


@given(columns, row_deletions, ranges, st.randoms())
def test_a_slice_is_the_models(
    history: list[tuple[int, Cell]], deletion: Deletion | None, wanted: SliceRange, random: object
) -> None:
    rows = Rows()
    entries = [cell_entry(column_path(STANDARD, long(name)), cell) for name, cell in history]
    if deletion is not None:
        entries.append(row_deletion_entry(deletion))
    random.shuffle(entries)  # type: ignore[attr-defined]
    for entry in entries:
        rows.merge(PREFIX, (entry,))
    rows.merge(PREFIX, unpack_entries(pack_entries(folded(entries))))
    for other in OTHERS:
        rows.merge(other, (cell_entry(column_path(STANDARD, long(0)), value_cell(b"x", 9)),))
    model = standing(history, deletion)
    bounds = [int.from_bytes(bound, "big", signed=True) for bound in (wanted.start, wanted.finish)]
    if wanted.reversed:
        bounds.reverse()
    low, high = (wanted.finish, wanted.start) if wanted.reversed else (wanted.start, wanted.finish)
    inside = [name for name in model if (not low or name >= bounds[0]) and (not high or name <= bounds[1])]
    expected = sorted(inside, reverse=wanted.reversed)[: wanted.count]
    found = finished(row(rows, STANDARD).columns(wanted))
    assert [(column.name, column.cell.value) for column in found] == [
        (long(name), model[name].value) for name in expected
    ]
    assert finished(row(rows, STANDARD).count_columns()) == len(model)
    names = tuple(map(long, (5, -1, 5, 2)))
    assert [name for name, _ in finished(row(rows, STANDARD).columns(names))] == [
        long(name) for name in (-1, 2, 5) if name in model
    ]


def test_a_slice_looks_at_what_it_needs() -> None:
    rows = Rows()
    for name in range(1000):
        rows.merge(PREFIX, (cell_entry(column_path(STANDARD, long(name)), value_cell(b"", 1)),))
    counts = ReadCounts(10)
    reader = RowReader(rows, STANDARD, PREFIX, NOW, counts)
    assert [name for name, _ in finished(reader.columns(SliceRange(reversed=True, count=10)))] == [
        long(name) for name in range(999, 989, -1)
    ]
    assert counts.keys_examined == 10


def text_columns(**columns: bytes) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value) for name, value in columns.items()]


def test_a_super_column_is_there_while_one_of_its_columns_is_live() -> None:
    rows = Rows()
    for name in (b"b", b"a", b"\xff", b"a\0"):
        for part in (b"y", b"x"):
            rows.merge(PREFIX, (cell_entry(column_path(SUPER, part, name), value_cell(name + part, 10)),))
    rows.merge(PREFIX, (super_deletion_entry(SUPER, b"b", Deletion(10, NOW)),))
    rows.merge(PREFIX, (super_deletion_entry(SUPER, b"a", Deletion(10, NOW)),))
    rows.merge(PREFIX, (cell_entry(column_path(SUPER, b"z", b"a"), value_cell(b"again", 11)),))
    reader = row(rows, SUPER)
    whole = [(b"x", b"a\0x"), (b"y", b"a\0y")]
    found = [
        (name, [(part.name, part.cell.value) for part in parts])
        for name, parts in finished(reader.super_columns(SliceRange()))
    ]
    assert found == [(b"a", [(b"z", b"again")]), (b"a\0", whole), (b"\xff", [(b"x", b"\xffx"), (b"y", b"\xffy")])]
    backwards = finished(reader.super_columns(SliceRange(start=b"a\0", reversed=True, count=1)))
    assert [(name, [part for part, _ in parts]) for name, parts in backwards] == [(b"a\0", [b"x", b"y"])]
    assert [name for name, _ in finished(reader.super_columns((b"\xff", b"b", b"a")))] == [b"a", b"\xff"]
    assert finished(reader.super_column(b"b")) is None
    assert finished(reader.count_super_columns()) == 3
    assert [part for part, _ in finished(reader.columns(SliceRange(), b"\xff"))] == [b"x", b"y"]
