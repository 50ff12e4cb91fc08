"""Sorting in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.aggregation.sorted_runs import PER_PAIR
from docstore.collection.read import sorter
from docstore.collection.read.sorter import Sorter, SortMemory
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from tests.unit.collection.building import doc

PATTERN = KeyPattern([("a", 1), ("b", -1)])
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=200)


def add(made: Sorter[int], place: int, **fields: int) -> None:
    raw = doc(place, **fields)
    made.add([(PATTERN.sort_key(raw), place)], len(raw))


def ordered(rows: list[tuple[int, int]], limit: int) -> list[int]:
    made: Sorter[int] = Sorter(PATTERN, limit)
    for place, (a, b) in enumerate(rows):
        add(made, place, a=a, b=b)
    return list(made.result())


@given(ROWS)
def test_equal_documents_keep_their_order(rows: list[tuple[int, int]]) -> None:
    assert ordered(rows, 0) == sorted(range(len(rows)), key=lambda place: (rows[place][0], -rows[place][1], place))


@given(ROWS, st.integers(1, 20))
def test_a_limit_keeps_the_first(rows: list[tuple[int, int]], limit: int) -> None:
    assert ordered(rows, limit)[:limit] == ordered(rows, 0)[:limit]


def test_a_limit_bounds_what_is_kept() -> None:
    made: Sorter[int] = Sorter(PATTERN, 10)
    for place in range(10_000):
        add(made, place, a=-place)
        assert len(made._open) <= 36
    assert list(made.result())[:10] == list(range(9_999, 9_989, -1))


def test_many_runs_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorter, "_RUN", 7)
    rows = [((place * 37) % 101, 0) for place in range(100)]
    assert ordered(rows, 0) == sorted(range(100), key=lambda place: rows[place])


def test_what_does_not_fit_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorter, "MAX_BYTES", 1000)
    made: Sorter[int] = Sorter(PATTERN, 0)
    raw = doc(0, a=1)
    kept = 1000 // (len(PATTERN.sort_key(raw)) + len(raw) + PER_PAIR)
    for place in range(kept):
        add(made, place, a=1)
    with pytest.raises(CommandError) as refused:
        add(made, kept, a=1)
    assert refused.value.code == Code.QueryExceededMemoryLimitNoDiskUseAllowed


class Outside:
    """Room outside memory, in memory."""

    def __init__(self) -> None:
        self.runs: list[list[tuple[bytes, bytes]]] = []

    def write(self, records: Iterable[tuple[bytes, bytes]]) -> Outside.Kept:
        self.runs.append(list(records))
        return Outside.Kept(self.runs[-1])

    class Kept:
        def __init__(self, run: list[tuple[bytes, bytes]]) -> None:
            self._run = run

        def records(self) -> Iterator[tuple[bytes, bytes]]:
            return iter(self._run)

        def unread(self, ahead: int) -> Iterator[tuple[bytes, bytes]]:
            return iter(self._run)


def test_what_does_not_fit_in_memory_goes_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorter, "MAX_BYTES", 2000)
    monkeypatch.setattr(sorter, "_RUN", 7)
    outside = Outside()
    made: Sorter[bytes] = Sorter(PATTERN, 0, SortMemory(outside))
    documents = [doc(place, a=(place * 37) % 11, b=0) for place in range(300)]
    for raw in documents:
        made.add([(PATTERN.sort_key(raw), raw)], len(raw))
        assert made._bytes <= 2000
    assert len(outside.runs) > 10
    assert list(made.result()) == sorted(documents, key=PATTERN.sort_key)
