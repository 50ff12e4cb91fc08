"""A stable sort of (key, item) pairs by their keys, which are bytes.

Compiled, it is a merge sort over numbers. The common prefix of all keys is skipped, and the next sixteen bytes
distinguish most keys. Only if these are equal are the keys themselves compared. Runs already in order are merged
unchanged.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, TypeVar, cast

import cython

from docstore.kernel.limits import MIN_MERGED_PAIRS

if not cython.compiled:
    from docstore.bson.order import compare_bytes


_SHORTEST_RUN = 8

_key = itemgetter(0)

Pair = TypeVar("Pair", bound=tuple[Any, ...])


def sorted_pairs(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs in the order of their keys; it may be the same list."""
    count: cython.Py_ssize_t = len(pairs)
    if count < MIN_MERGED_PAIRS or not cython.compiled:
        return sorted(pairs, key=_key)
    return cast("list[Pair]", _Merging(pairs).sorted())


def pair_bytes(pairs: list[tuple[bytes, bytes]]) -> cython.Py_ssize_t:
    """Return the bytes of keys and items together."""
    total: cython.Py_ssize_t = 0
    for pair in pairs:
        total += len(cython.cast(bytes, pair[0])) + len(cython.cast(bytes, pair[1]))
    return total


def key_bytes(pairs: list[tuple[bytes, Any]]) -> cython.Py_ssize_t:
    """Return the bytes of the keys."""
    total: cython.Py_ssize_t = 0
    for pair in pairs:
        total += len(cython.cast(bytes, pair[0]))
    return total


def items_of(pairs: list[tuple[bytes, Any]]) -> list[Any]:
    """Return the items, in the given order."""
    return [pair[1] for pair in pairs]


class _Merging:
    """A merge sort in progress. `_places` has three numbers for each place: the sixteen bytes of the key, padded with
    zeros, as two numbers, and the index of its pair.
    """

    _pairs: list[tuple[Any, ...]]
    _count: cython.Py_ssize_t
    _same: cython.Py_ssize_t
    _longest: cython.Py_ssize_t
    _told: cython.bint
    _places: bytearray
    _others: bytearray
    _starts: list[int]
    _in_place: cython.bint

    def __init__(self, pairs: list[Any]) -> None:
        self._pairs = pairs
        self._count = len(pairs)
        self._same = 0
        self._longest = 0
        self._told = False
        self._places = bytearray(24 * self._count)
        self._others = bytearray()
        self._starts = [0]
        self._in_place = True

    def sorted(self) -> list[Any]:
        """Return the pairs in order."""
        self._look_over()
        self._gather()
        if len(self._starts) == 1 and self._in_place:
            return self._pairs
        self._others = bytearray(24 * self._count)
        while len(self._starts) > 1:
            self._merge_all()
        return self._in_order()

    def _look_over(self) -> cython.int:
        """Determine the length of the common prefix, and whether the places alone decide the order."""
        first: bytes = self._pairs[0][0]
        same: cython.Py_ssize_t = len(first)
        shortest: cython.Py_ssize_t = len(first)
        at: cython.Py_ssize_t
        key: bytes
        for pair in self._pairs:
            key = cython.cast(bytes, pair[0])
            if len(key) < shortest:
                shortest = len(key)
            if len(key) > self._longest:
                self._longest = len(key)
            if same > shortest:
                same = shortest
            at = 0
            while at < same and key[at] == first[at]:
                at += 1
            same = at
        self._same = same
        self._told = shortest == self._longest and shortest - same <= 16
        return 0

    def _gather(self) -> cython.int:
        """Fill the places, in runs that are in order."""
        places: cython.pointer[cython.ulonglong] = _numbers(self._places)
        start: cython.Py_ssize_t = 0
        place: cython.Py_ssize_t
        at: cython.Py_ssize_t
        one: cython.ulonglong
        two: cython.ulonglong
        key: bytes
        for place in range(self._count):
            key = cython.cast(bytes, self._pairs[place][0])
            one = _eight_bytes(key, self._same)
            two = _eight_bytes(key, self._same + 8)
            at = place
            if place > start and self._less(one, two, place, places, place - 1):
                if place - start < _SHORTEST_RUN:
                    self._in_place = False
                    while at > start and self._less(one, two, place, places, at - 1):
                        places[3 * at] = places[3 * at - 3]
                        places[3 * at + 1] = places[3 * at - 2]
                        places[3 * at + 2] = places[3 * at - 1]
                        at -= 1
                else:
                    start = place
                    self._starts.append(start)
            places[3 * at] = one
            places[3 * at + 1] = two
            places[3 * at + 2] = place
        return 0

    def _less(
        self,
        one: cython.ulonglong,
        two: cython.ulonglong,
        number: cython.ulonglong,
        places: cython.pointer[cython.ulonglong],
        place: cython.Py_ssize_t,
    ) -> cython.bint:
        """True if the pair of that number, with these bytes, sorts before the one at a place."""
        if one != places[3 * place]:
            return one < places[3 * place]
        if two != places[3 * place + 1]:
            return two < places[3 * place + 1]
        return self._less_beyond(number, places[3 * place + 2])

    def _less_beyond(self, number: cython.ulonglong, other: cython.ulonglong) -> cython.bint:
        """True if one pair sorts before another with the same sixteen bytes."""
        one: bytes
        two: bytes
        if self._told:
            return False
        one = cython.cast(bytes, self._pairs[number][0])
        two = cython.cast(bytes, self._pairs[other][0])
        if self._longest - self._same <= 16:
            return len(one) < len(two)
        return compare_bytes(one, self._same, len(one), two, self._same, len(two)) < 0

    def _merge_all(self) -> cython.int:
        """Merge all pairs of adjacent runs."""
        starts: list[int] = self._starts
        runs: cython.Py_ssize_t = len(starts)
        number: cython.Py_ssize_t = 0
        starts.append(self._count)
        while number + 1 < runs:
            self._merge(starts[number], starts[number + 1], starts[number + 2])
            number += 2
        if number < runs:
            _copy(_numbers(self._places), starts[number], self._count, _numbers(self._others), starts[number])
        self._places, self._others = self._others, self._places
        self._starts = starts[:runs:2]
        return 0

    def _merge(self, left: cython.Py_ssize_t, right: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        source: cython.pointer[cython.ulonglong] = _numbers(self._places)
        target: cython.pointer[cython.ulonglong] = _numbers(self._others)
        middle: cython.Py_ssize_t = right
        at: cython.Py_ssize_t = left
        taken: cython.Py_ssize_t
        while left < middle and right < end:
            if self._less(source[3 * right], source[3 * right + 1], source[3 * right + 2], source, left):
                taken = right
                right += 1
            else:
                taken = left
                left += 1
            target[3 * at] = source[3 * taken]
            target[3 * at + 1] = source[3 * taken + 1]
            target[3 * at + 2] = source[3 * taken + 2]
            at += 1
        _copy(source, left, middle, target, at)
        _copy(source, right, end, target, at + middle - left)
        return 0

    def _in_order(self) -> list[Any]:
        places: cython.pointer[cython.ulonglong] = _numbers(self._places)
        place: cython.Py_ssize_t
        found: list[Any] = [None] * self._count
        for place in range(self._count):
            found[place] = self._pairs[places[3 * place + 2]]
        return found


def _numbers(room: bytearray) -> cython.pointer[cython.ulonglong]:
    return cython.cast(cython.pointer[cython.ulonglong], cython.cast(cython.p_char, room))


def _copy(
    source: cython.pointer[cython.ulonglong],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    target: cython.pointer[cython.ulonglong],
    to: cython.Py_ssize_t,
) -> cython.int:
    """Copy the places [at, end)."""
    number: cython.Py_ssize_t
    for number in range(3 * (end - at)):
        target[3 * to + number] = source[3 * at + number]
    return 0


def _eight_bytes(key: bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the bytes from `at` on as a big-endian number, padded with zeros."""
    left: cython.Py_ssize_t = len(key) - at
    found: cython.ulonglong = 0
    place: cython.Py_ssize_t
    if left >= 8:
        for place in range(8):
            found = found << 8 | key[at + place]
        return found
    for place in range(8):
        found <<= 8
        if place < left:
            found |= key[at + place]
    return found
