"""Entries within bounds on every field: the same as by looking at all of them, with few looked at."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from random import Random
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.code import Code
from bson.dbref import DBRef
from bson.max_key import MaxKey
from bson.min_key import MinKey

from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.test_watched import Cursor

PREFIX = b"\0\0\0\7"
END = b"\0\0\0\x08"
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2.5, -7.25, Int64(2**60 + 1), Decimal128("0.1"), "", "a", "a\0b", "a\1", "ab", {},
    {"x": 1}, {"x": {"y": [1]}}, [], [1, "a"], b"", b"\0\1", ObjectId("5f0000000000000000000000"), Timestamp(1, 2),
    Regex("^a", "i"), Code("f"), Code("f", {"a": 1}), MinKey(), MaxKey(), float("nan"), float("-inf"), DBRef("c", 1),
    Decimal128("-1E+30"),
]  # fmt: skip


def value(thing: Any) -> tuple[int, bytes]:
    raw = bson.encode({"v": thing})
    return raw[4], raw[7:-1]


@pytest.mark.parametrize("mask", [0, 0xFF])
def test_the_end_of_each_value_is_found(kernel: Kernel, mask: int) -> None:
    for thing in VALUES:
        key = kernel.encode_key(value(thing), mask == 0xFF)
        assert kernel.scan.index_bounds.field_end(b"xyz" + key + b"behind", 3, mask) == 3 + len(key), thing
        for cut in range(len(key)):
            assert kernel.scan.index_bounds.field_end(key[:cut], 0, mask) == -1, thing


class Entries:
    """A sorted list as the engine would give it, and how often a place in it was looked for."""

    def __init__(self, keys: list[bytes], *, reverse: bool, pairs: bool) -> None:
        self._keys = keys
        self._reverse = reverse
        self._pairs = pairs
        self.opened = 0

    def open(self, start: bytes, end: bytes) -> Iterator[Any]:
        self.opened += 1
        found = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]
        ordered = reversed(found) if self._reverse else iter(found)
        return ((key, b"v") for key in ordered) if self._pairs else ordered


@pytest.mark.parametrize("seed", range(40))
def test_bounds_hold_what_looking_at_all_finds(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    fields = rng.randint(1, 3)
    descending = [rng.random() < 0.4 for _ in range(fields)]
    reverse, pairs, once = rng.random() < 0.5, rng.random() < 0.5, rng.choice([0, 0, 1, fields])
    keys = [[kernel.encode_key(value(rng.choice(VALUES[:12])), each) for each in descending] for _ in range(400)]
    entries = sorted({PREFIX + b"".join(key) + number.to_bytes(8, "big") for number, key in enumerate(keys)})
    ranges = [_ranges(kernel, rng, each) for each in descending]
    examined = kernel.scan.fetch.Examined()
    source = Entries(entries, reverse=reverse, pairs=pairs)

    sought = None if reverse or rng.random() < 0.5 else kernel.Sought(Cursor(entries), None, pairs, lambda _: None)
    bounds = kernel.scan.index_bounds.FieldBounds(PREFIX, END, ranges, descending)
    bounded = kernel.scan.index_bounds.Bounded(source.open, bounds, reverse, pairs, examined, min(once, fields), sought)
    found = [item[0] if pairs else item for item in bounded]

    expected = [key for key in entries if _is_within(kernel, key, ranges, descending)]
    if reverse:
        expected.reverse()
    if once:
        expected = _first_of_each(kernel, expected, descending[:once])
    assert found == expected
    assert source.opened <= examined.seeks + len(found) + 1


def _ranges(kernel: Kernel, rng: Random, descending: bool) -> list[tuple[bytes, bytes]]:
    points = sorted({kernel.encode_key(value(thing), descending) for thing in rng.sample(VALUES[:12], 4)})
    kind = rng.randrange(3)
    if kind == 0:
        return [(point, point[:-1] + bytes((point[-1] + 1,))) for point in points if point[-1] < 0xFF]
    if kind == 1:
        return [(points[0], points[1]), (points[2], points[3])]
    return [(b"\1", b"\xfe")]


def _pieces(kernel: Kernel, key: bytes, descending: list[bool]) -> list[bytes]:
    at = len(PREFIX)
    found = []
    for each in descending:
        end = kernel.scan.index_bounds.field_end(key, at, 0xFF if each else 0)
        found.append(key[at:end])
        at = end
    return found


def _is_within(kernel: Kernel, key: bytes, ranges: list[list[tuple[bytes, bytes]]], descending: list[bool]) -> bool:
    pieces = _pieces(kernel, key, descending)
    return all(any(lo <= piece < hi for lo, hi in own) for piece, own in zip(pieces, ranges, strict=True))


def _first_of_each(kernel: Kernel, keys: list[bytes], descending: list[bool]) -> list[bytes]:
    found: list[bytes] = []
    before = None
    for key in keys:
        pieces = _pieces(kernel, key, descending)
        # What has the key of null can be null or missing.
        null = pieces[-1] in (b"\x20", b"\xdf")
        if pieces != before or null:
            found.append(key)
        before = pieces
    return found


def test_few_entries_are_looked_at(kernel: Kernel) -> None:
    keys = [
        kernel.encode_key(value(first)) + kernel.encode_key(value(second))
        for first in range(5)
        for second in range(200)
    ]
    entries = sorted(PREFIX + key + number.to_bytes(8, "big") for number, key in enumerate(keys))
    second = kernel.encode_key(value(100))
    examined = kernel.scan.fetch.Examined()
    source = Entries(entries, reverse=False, pairs=False)

    everything, point = [(b"\1", b"\xfe")], [(second, second[:-1] + b"\1")]
    bounds = kernel.scan.index_bounds.FieldBounds(PREFIX, END, [everything, point], [False] * 2)
    found = list(kernel.scan.index_bounds.Bounded(source.open, bounds, False, False, examined))

    assert len(found) == 5
    assert (examined.keys, examined.seeks, source.opened) == (10, 10, 11)


@pytest.mark.parametrize(("each", "most_moved"), [(1, 420), (3, 1300), (40, 560)])
def test_an_iterator_is_moved_about_once_for_each_of_many_entries(kernel: Kernel, each: int, most_moved: int) -> None:
    keys = [kernel.encode_key(value(first)) for first in range(400) for _ in range(each)]
    entries = sorted(PREFIX + key + number.to_bytes(8, "big") for number, key in enumerate(keys))
    walk = Cursor(entries)
    sought = kernel.Sought(walk, None, False, lambda _: None)
    source, examined = Entries(entries, reverse=False, pairs=False), kernel.scan.fetch.Examined()
    bounds = kernel.scan.index_bounds.FieldBounds(PREFIX, END, [], [False])
    bounded = kernel.scan.index_bounds.Bounded(source.open, bounds, False, False, examined, 1, sought)
    assert list(bounded) == entries[::each]
    assert (source.opened, examined.keys) == (0, 0)
    assert walk.moved <= most_moved
