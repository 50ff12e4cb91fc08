"""Entries that are gathered and given out in order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.unit.kernel.kernels import Kernel


def taken(entries: Any, at_once: int = 1_000) -> list[tuple[bytes, bytes]]:
    while entries.sort_run(1):
        pass
    found: list[tuple[bytes, bytes]] = []
    some: dict[bytes, bytes] = {}
    while done := entries.put_next(some, at_once):
        assert done == len(some) <= at_once
        found += some.items()
        some.clear()
    return found


@pytest.mark.parametrize("order", ["random", "ascending", "descending"])
def test_entries_come_in_order_each_once_a_few_at_a_time(kernel: Kernel, order: str) -> None:
    keys = [b"same%06d" % number for number in range(40_000)]
    if order == "random":
        Random(3).shuffle(keys)
    elif order == "descending":
        keys.reverse()
    entries = kernel.keys.gathered.GatheredEntries(4)
    for key in keys:
        entries.add(key, key[-1:] if key[-1:] < b"3" else b"")
        entries.sort_run()
    assert entries.count == len(keys)
    assert entries.size == 10 * len(keys) + 3 * len(keys) // 10
    assert taken(entries) == [(key, key[-1:] if key[-1:] < b"3" else b"") for key in sorted(keys)]


def test_keys_of_all_lengths_are_compared_as_bytes(kernel: Kernel) -> None:
    rng = Random(5)
    keys = {b"p" + bytes(rng.choices((0, 1, 0x7F, 0x80, 0xFF), k=rng.randrange(14))) for _ in range(5_000)}
    keys |= {b"p" + b"\xff" * size for size in range(40)} | {b"p" + bytes(size) for size in range(40)}
    for skip in (0, 1):
        entries = kernel.keys.gathered.GatheredEntries(skip)
        mixed = list(keys)
        rng.shuffle(mixed)
        for key in mixed:
            entries.add(key, b"")
        assert [key for key, _ in taken(entries, 7)] == sorted(keys)


def test_what_was_added_twice_is_given_out_once(kernel: Kernel) -> None:
    entries = kernel.keys.gathered.GatheredEntries()
    run = kernel.keys.gathered.RUN_ENTRIES
    for number in range(run + 2):
        entries.add(b"%08d" % (number // 4), b"v")
    assert taken(entries) == [(b"%08d" % number, b"v") for number in range(run // 4 + 1)]


def test_a_run_is_sorted_when_it_is_full(kernel: Kernel) -> None:
    entries = kernel.keys.gathered.GatheredEntries()
    for number in range(kernel.keys.gathered.RUN_ENTRIES):
        assert not entries.sort_run()
        entries.add(b"%d" % number, b"")
    assert entries.sort_run()
    assert not entries.sort_run()
    assert not entries.sort_run(1)


def test_nothing_is_given_out_of_nothing(kernel: Kernel) -> None:
    entries = kernel.keys.gathered.GatheredEntries()
    assert (entries.count, entries.size) == (0, 0)
    assert taken(entries) == []
