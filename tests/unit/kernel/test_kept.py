"""What is kept of what was read by key: never another value than the one that stands there, and no more than fits."""

from __future__ import annotations

from random import Random

import pytest

from docstore.kernel.scan.kept import KeptValues


class Stored:
    """Values by keys, and how often they were read."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.reads = 0

    def read(self, key: bytes) -> bytes | None:
        self.reads += 1
        return self.values.get(key)


@pytest.mark.parametrize("seed", range(4))
def test_random_reads_and_changes_show_what_stands_there(seed: int) -> None:
    rng, stored = Random(seed), Stored()
    kept = KeptValues(stored.read, 20_000)
    for _ in range(20_000):
        key = b"%d" % min(rng.randrange(200), rng.randrange(200))
        if rng.random() < 0.1:
            changes: dict[bytes, bytes | None] = {}
            for _ in range(rng.randrange(1, 4)):
                value = None if rng.random() < 0.3 else b"%d" % rng.randrange(10**6) * rng.choice([1, 1, 1, 20, 400])
                changes[b"%d" % rng.randrange(200)] = value
            for each, value in changes.items():
                stored.values.pop(each, None)
                if value is not None:
                    stored.values[each] = value
            kept.change(changes)
        elif rng.random() < 0.001:
            stored.values.clear()
            kept.forget()
        else:
            assert kept.get(key) == stored.values.get(key)
    assert stored.reads < 15_000


def test_what_is_asked_for_again_stays_and_the_others_make_way() -> None:
    stored = Stored()
    stored.values = {b"%d" % number: b"." * 50 for number in range(1000)}
    kept = KeptValues(stored.read, 20_000)
    for number in range(1000):
        kept.get(b"%d" % (number % 10))
        kept.get(b"%d" % number)
    stored.reads = 0
    for number in range(10):
        kept.get(b"%d" % number)
    assert stored.reads == 0
    for number in range(10, 1000):
        kept.get(b"%d" % number)
    assert stored.reads > 800


def test_what_was_asked_for_long_ago_makes_way_for_what_is_asked_for_now() -> None:
    stored = Stored()
    stored.values = {b"%d" % number: b"." * (50 if number < 100 else 20) for number in range(150)}
    kept = KeptValues(stored.read, 20_000)
    for number in (*range(100), *range(100)):
        kept.get(b"%d" % number)
    now = [b"%d" % number for number in range(100, 150)]
    for key in now:
        kept.get(key)
    stored.reads = 0
    for key in (*now, *now):
        kept.get(key)
    assert stored.reads == 0


def test_large_values_and_missing_ones_are_not_kept() -> None:
    stored = Stored()
    stored.values = {b"large": b"." * 1000, b"small": b"."}
    kept = KeptValues(stored.read, 20_000)
    for _ in range(3):
        assert kept.get(b"large") == b"." * 1000
        assert kept.get(b"small") == b"."
        assert kept.get(b"missing") is None
    assert stored.reads == 3 + 1 + 3


def test_an_error_of_reading_is_told_and_nothing_kept() -> None:
    def read(key: bytes) -> bytes | None:
        raise ValueError(key)

    kept = KeptValues(read, 20_000)
    for _ in range(2):
        with pytest.raises(ValueError, match="key"):
            kept.get(b"key")
