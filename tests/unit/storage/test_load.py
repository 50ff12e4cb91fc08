"""Entries that wait in sorted runs."""

from __future__ import annotations

from random import Random

import pytest

from docstore.storage.load import SortedRuns


@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_keys_come_in_order_each_once_a_few_at_a_time(order: str) -> None:
    keys = [b"%06d" % number for number in range(40_000)]
    if order == "random":
        Random(3).shuffle(keys)
    elif order == "descending":
        keys.reverse()
    runs = SortedRuns()
    rng = Random(4)
    start = 0
    while start < len(keys):
        end = start + rng.choice((1, 100, 3_000))
        runs.add(keys[start:end], {keys[start]: b"value"})
        start = end
    taken: list[bytes] = []
    while some := runs.take():
        assert len(some) <= 8_192 + len(keys) // 1_000
        taken += some
    assert taken == sorted(keys)
    assert set(runs.values.values()) == {b"value"}
    assert runs.size == 6 * len(keys) + 5 * len(runs.values)


def test_nothing_is_taken_of_nothing() -> None:
    runs = SortedRuns()
    runs.add([], {})
    assert runs.take() == []
    assert runs.size == 0
