from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any

import pytest

from tests.unit.kernel.kernels import Kernel


def watched(kernel: Kernel, items: list[Any], *arguments: Any, **traits: Any) -> tuple[list[Any], list[Any]]:
    ends: list[Any] = []
    walk = kernel.Watched(iter(items), ends.append, *arguments, **traits)
    found = list(walk)
    assert list(walk) == []
    return found, ends


def test_the_end_is_looked_at_once_with_the_newest_item(kernel: Kernel) -> None:
    assert watched(kernel, [b"a", b"b"]) == ([b"a", b"b"], [b"b"])
    assert watched(kernel, []) == ([], [None])


def test_the_floor_ends_a_walk_downwards(kernel: Kernel) -> None:
    assert watched(kernel, [b"c", b"b", b"a"], b"b") == ([b"c", b"b"], [b"b"])
    pairs = [(b"c", b"1"), (b"b", b"2"), (b"a", b"3")]
    assert watched(kernel, pairs, b"b", pairs=True) == (pairs[:2], [pairs[1]])
    assert watched(kernel, pairs, b"b", second=True) == ([b"1", b"2"], [pairs[1]])


def test_what_the_look_at_the_end_raises_is_raised(kernel: Kernel) -> None:
    def refuse(_newest: object) -> None:
        raise ValueError("damaged")

    walk = kernel.Watched(iter([b"a"]), refuse)
    assert next(walk) == b"a"
    with pytest.raises(ValueError, match="damaged"):
        next(walk)


class Walk:
    """An iterator of an engine over sorted keys, whose values are the same in capitals. `moved`: how often it was."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._at = 0
        self.moved = 0

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._keys, key)
        self.moved += 1

    def next(self) -> None:
        self._at += 1
        self.moved += 1

    def key(self) -> bytes | None:
        return self._keys[self._at] if self._at < len(self._keys) else None

    def value(self) -> bytes:
        return self._keys[self._at].upper()


def moved(kernel: Kernel, keys: list[bytes], ranges: list[tuple[bytes, bytes]], *, values: bool = False) -> Any:
    walk = Walk(keys)
    return list(kernel.Moved(walk, None, ranges, values, lambda _: None)), walk.moved


@pytest.mark.parametrize("seed", range(40))
def test_ranges_are_read_one_after_the_other_whatever_their_order(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    keys = sorted({bytes(rng.choices(b"abc", k=rng.randrange(1, 5))) for _ in range(rng.choice([0, 3, 30]))})
    bounds = [sorted(bytes(rng.choices(b"abcd", k=rng.randrange(4))) for _ in "ab") for _ in range(rng.randrange(12))]
    ranges = [(low, high) for low, high in (bounds if seed % 2 else sorted(bounds))]
    wanted = [key for low, high in ranges for key in keys if low <= key < high]
    assert moved(kernel, keys, ranges)[0] == wanted
    assert moved(kernel, keys, ranges, values=True)[0] == [key.upper() for key in wanted]


def test_what_lies_before_the_place_is_not_sought(kernel: Kernel) -> None:
    nothing = [(b"b%d" % number, b"b%d~" % number) for number in range(9)]
    assert moved(kernel, [b"a", b"c"], nothing) == ([], 1)
    assert moved(kernel, [b"a"], nothing) == ([], 1)
    assert moved(kernel, [b"a", b"b", b"c"], [(b"a", b"b"), (b"b", b"c"), (b"c", b"d")]) == ([b"a", b"b", b"c"], 4)


def test_an_iterator_goes_on_from_the_place_that_was_sought_last(kernel: Kernel) -> None:
    sought = kernel.Sought(Walk([b"a", b"b", b"c", b"d"]), None, False, lambda _: None)
    sought.seek(b"b")
    assert [next(sought), next(sought)] == [b"b", b"c"]
    sought.seek(b"bb")
    assert list(sought) == [b"c", b"d"]
    sought.seek(b"a")
    assert next(sought) == b"a"

    pairs = kernel.Sought(Walk([b"a", b"b"]), None, True, lambda _: None)
    pairs.seek(b"")
    assert list(pairs) == [(b"a", b"A"), (b"b", b"B")]


def test_an_iterator_that_is_moved_says_why_it_has_ended(kernel: Kernel) -> None:
    def damaged(_walk: object) -> None:
        raise ValueError("damaged")

    sought = kernel.Sought(Walk([b"a"]), None, False, damaged)
    sought.seek(b"a")
    assert next(sought) == b"a"
    with pytest.raises(ValueError, match="damaged"):
        next(sought)
