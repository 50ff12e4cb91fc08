from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any

import pytest

from tests.unit.kernel.kernels import Kernel


class Cursor:
    """An iterator of an engine over sorted keys, whose values are the same in capitals. `moved`: how often it was."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self._at = 0
        self.moved = 0

    def seek(self, key: bytes) -> None:
        self._at = bisect_left(self._keys, key)
        self.moved += 1

    def seek_for_prev(self, key: bytes) -> None:
        # The engine's keeps below its bound.
        self._at = bisect_left(self._keys, key) - 1
        self.moved += 1

    def prev(self) -> None:
        self._at -= 1
        self.moved += 1

    def next(self) -> None:
        self._at += 1
        self.moved += 1

    def key(self) -> bytes | None:
        return self._keys[self._at] if 0 <= self._at < len(self._keys) else None

    def value(self) -> bytes:
        return self._keys[self._at].upper()


class Walked:
    """A walk over keys; `taken`: from where an iterator took over, `ends`: what was judged at ends."""

    def __init__(self, kernel: Kernel, keys: list[bytes], yields: str, *, reverse: bool, newest: bool = True) -> None:
        self.keys = keys
        self.taken: list[bytes] = []
        self.ends: list[Any] = []
        # An iterator ends at its bound.
        self.cursor = Cursor([key for key in keys if key < b"y"])
        self._items = yields == "items" or (yields == "values" and reverse)
        self._reverse, self._newest, self._yields = reverse, newest, yields
        self.walk = kernel.Walk(
            self.cursor,
            None,
            b"b",
            b"y",
            reverse,
            yields,
            self._take_over,
            kernel.WalkChecks(lambda _: None, lambda _, *judged: self.ends.append(judged)),
        )

    def _take_over(self, key: bytes) -> Any:
        self.taken.append(key)
        if not self._newest:
            return None
        rest = [one for one in self.keys if (one <= key if self._reverse else key <= one < b"y")]
        if self._reverse:
            rest.reverse()
        if self._items:
            return iter([(one, one.upper()) for one in rest])
        return iter([one.upper() for one in rest] if self._yields == "values" else rest)


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("yields", ["keys", "values", "items"])
@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 400])
def test_a_walk_yields_what_lies_in_its_range(
    kernel: Kernel, count: int, yields: str, reverse: bool, newest: bool
) -> None:
    within = [b"c%04d" % number for number in range(count)]
    walked = Walked(kernel, [b"a", *within, b"y", b"z"], yields, reverse=reverse, newest=newest)
    if reverse:
        within.reverse()
    forms = {"keys": list, "values": lambda keys: [key.upper() for key in keys]}
    items = [(key, key.upper()) for key in within]
    wanted = forms[yields](within) if yields in forms else items
    assert list(walked.walk) == wanted
    assert list(walked.walk) == []
    assert walked.taken == ([within[127]] if count >= 128 else [])
    last = items if reverse and yields == "values" else wanted
    judged = (yields, b"b", b"y", reverse, last[-1] if last else None)
    assert walked.ends == ([judged] if count >= 128 and newest else [])


def test_an_iterator_that_took_over_and_ended_early_is_noticed(kernel: Kernel) -> None:
    def refuse(*judged: object) -> None:
        raise ValueError(f"{judged[-1]!r} is not the last")

    keys = [b"%03d" % number for number in range(200)]
    cursor = Cursor(keys)
    checks = kernel.WalkChecks(lambda _: None, refuse)
    walk = kernel.Walk(cursor, None, b"", b"9", False, "keys", lambda _: iter([b"127", b"128"]), checks)
    assert [next(walk) for _ in range(129)] == keys[:129]
    with pytest.raises(ValueError, match="b'128' is not the last"):
        next(walk)


def test_a_walk_says_why_it_has_ended(kernel: Kernel) -> None:
    def damaged(_walk: object) -> None:
        raise ValueError("damaged")

    checks = kernel.WalkChecks(damaged, lambda *_: None)
    for reverse in (False, True):
        walk = kernel.Walk(Cursor([b"a"]), None, b"", b"b", reverse, "keys", lambda _: None, checks)
        assert next(walk) == b"a"
        with pytest.raises(ValueError, match="damaged"):
            next(walk)


def moved(kernel: Kernel, keys: list[bytes], ranges: list[tuple[bytes, bytes]], *, values: bool = False) -> Any:
    walk = Cursor(keys)
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
    sought = kernel.Sought(Cursor([b"a", b"b", b"c", b"d"]), None, False, lambda _: None)
    sought.seek(b"b")
    assert [next(sought), next(sought)] == [b"b", b"c"]
    sought.seek(b"bb")
    assert list(sought) == [b"c", b"d"]
    sought.seek(b"a")
    assert next(sought) == b"a"

    pairs = kernel.Sought(Cursor([b"a", b"b"]), None, True, lambda _: None)
    pairs.seek(b"")
    assert list(pairs) == [(b"a", b"A"), (b"b", b"B")]


def test_an_iterator_that_is_moved_says_why_it_has_ended(kernel: Kernel) -> None:
    def damaged(_walk: object) -> None:
        raise ValueError("damaged")

    sought = kernel.Sought(Cursor([b"a"]), None, False, damaged)
    sought.seek(b"a")
    assert next(sought) == b"a"
    with pytest.raises(ValueError, match="damaged"):
        next(sought)
