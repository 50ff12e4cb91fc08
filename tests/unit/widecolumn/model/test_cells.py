"""Two versions of a cell merge to the same one, whatever the order in which they came."""

from __future__ import annotations

from functools import reduce
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.widecolumn.model.cells import (
    Cell,
    Deletion,
    merge_cells,
    merge_deletions,
    pack_cell,
    pack_deletion,
    tombstone,
    unpack_cell,
    unpack_deletion,
    value_cell,
)

cells = st.one_of(
    st.builds(value_cell, st.sampled_from((b"", b"a", b"ab", b"b")), st.integers(0, 3)),
    st.builds(
        value_cell, st.sampled_from((b"a", b"b")), st.integers(0, 3), ttl=st.integers(1, 3), now=st.integers(0, 2)
    ),
    st.builds(tombstone, st.integers(0, 3), st.integers(0, 3)),
)
deletions = st.builds(Deletion, st.integers(0, 3), st.integers(0, 3))


@given(cells, cells, cells)
def test_merging_is_commutative_associative_and_idempotent(a: Cell, b: Cell, c: Cell) -> None:
    assert merge_cells(a, b) == merge_cells(b, a)
    assert merge_cells(merge_cells(a, b), c) == merge_cells(a, merge_cells(b, c))
    assert merge_cells(a, a) == a


@given(deletions, deletions)
def test_merging_deletions_is_commutative_and_idempotent(a: Deletion, b: Deletion) -> None:
    assert merge_deletions(a, b) == merge_deletions(b, a)
    assert merge_deletions(merge_deletions(a, b), b) == merge_deletions(a, b)
    assert unpack_deletion(pack_deletion(a)) == a


@given(cells)
def test_a_cell_is_read_as_it_was_written(cell: Cell) -> None:
    assert unpack_cell(pack_cell(cell)) == cell


def test_the_layout_of_a_record_is_as_documented() -> None:
    assert pack_cell(value_cell(b"v", 1)) == bytes.fromhex("00 0000000000000001") + b"v"
    assert pack_cell(tombstone(1, 2)) == bytes.fromhex("01 0000000000000001 00000002")
    assert (
        pack_cell(value_cell(b"v", -1, ttl=3, now=4)) == bytes.fromhex("02 ffffffffffffffff 00000007 00000003") + b"v"
    )


NOW = 100
HISTORIES = [
    ([value_cell(b"a", 10), value_cell(b"b", 9)], b"a"),
    ([value_cell(b"a", 10), value_cell(b"b", 10)], b"b"),
    ([value_cell(b"ab", 10), value_cell(b"b", 10)], b"b"),
    ([value_cell(b"zzz", 10), tombstone(10, NOW)], None),
    ([tombstone(11, NOW), value_cell(b"a", 10)], None),
    ([value_cell(b"a", 10, ttl=60, now=NOW), value_cell(b"z", 10)], b"a"),
    ([value_cell(b"\xff\xff\xff\xff", 1), value_cell(b"\0\0\0\1", 1)], b"\xff\xff\xff\xff"),
    ([value_cell(b"a", 1, ttl=10, now=NOW), value_cell(b"a", 1, ttl=20, now=NOW)], b"a"),
]


@pytest.mark.parametrize(("history", "expected"), HISTORIES)
def test_histories_read_the_same_in_any_order(history: list[Cell], expected: bytes | None) -> None:
    for order in permutations(history):
        standing = reduce(merge_cells, order)
        assert (standing.value if standing.is_live(NOW) else None) == expected


def test_an_expired_value_leaves_nothing_behind_it() -> None:
    """The value that lost against an expiring one does not come back when that expires."""
    standing = merge_cells(value_cell(b"a", 10, ttl=60, now=NOW), value_cell(b"z", 10))
    assert standing.is_live(NOW + 59)
    assert not standing.is_live(NOW + 60)


def test_ties_are_settled_cell_by_cell_so_that_rows_can_mix() -> None:
    """Two writers of one row at one timestamp leave a row that neither wrote."""
    first = {"x": value_cell(b"1", 5), "y": value_cell(b"9", 5)}
    second = {"x": value_cell(b"5", 5), "y": value_cell(b"2", 5)}
    assert {name: merge_cells(first[name], second[name]).value for name in first} == {"x": b"5", "y": b"9"}
