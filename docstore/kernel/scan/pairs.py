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


_SHORTEST_RUN: cython.Py_ssize_t = 8

_key = itemgetter(0)

Pair = TypeVar("Pair", bound=tuple[Any, ...])


def sorted_pairs(pairs: list[Pair]) -> list[Pair]:
    """Return the pairs in the order of their keys; it may be the same list."""
    count: cython.Py_ssize_t = len(pairs)
    if count < MIN_MERGED_PAIRS or not cython.compiled:
        return sorted(pairs, key=_key)
    return cast("list[Pair]", _Merging(pairs).sorted())


@cython.ccall
def pair_bytes(pairs: list[tuple[bytes, bytes]]) -> cython.Py_ssize_t:
    """Return the bytes of keys and items together."""
    total: cython.Py_ssize_t = 0
    for pair in pairs:
        total += len(cython.cast(bytes, pair[0])) + len(cython.cast(bytes, pair[1]))
    return total


@cython.ccall
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
    """A merge sort in progress. `_triples` has three numbers for each pair: the sixteen bytes of the key, padded with
    zeros, as two numbers, and the index of its pair.
    """

    _pairs: list[tuple[Any, ...]]
    _count: cython.Py_ssize_t
    _same: cython.Py_ssize_t
    _longest: cython.Py_ssize_t
    _is_decided: cython.bint
    _triples: bytearray
    _spare: bytearray
    _starts: list[int]
    _in_place: cython.bint

    def __init__(self, pairs: list[Any]) -> None:
        self._pairs = pairs
        self._count = len(pairs)
        self._same = 0
        self._longest = 0
        self._is_decided = False
        self._triples = bytearray(24 * self._count)
        self._spare = bytearray()
        self._starts = [0]
        self._in_place = True

    @cython.cfunc
    def sorted(self) -> list[Any]:
        """Return the pairs in order."""
        self._look_over()
        self._gather()
        if len(self._starts) == 1 and self._in_place:
            return self._pairs
        self._spare = bytearray(24 * self._count)
        while len(self._starts) > 1:
            self._merge_all()
        return self._in_order()

    def _look_over(self) -> cython.int:
        """Determine the length of the common prefix, and whether the triples alone decide the order."""
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
        self._is_decided = shortest == self._longest and shortest - same <= 16
        return 0

    def _gather(self) -> cython.int:
        """Fill the triples, in runs that are in order."""
        triples: cython.pointer[cython.ulonglong] = _numbers(self._triples)
        start: cython.Py_ssize_t = 0
        position: cython.Py_ssize_t
        at: cython.Py_ssize_t
        first_word: cython.ulonglong
        second_word: cython.ulonglong
        key: bytes
        for position in range(self._count):
            key = cython.cast(bytes, self._pairs[position][0])
            first_word = _eight_bytes(key, self._same)
            second_word = _eight_bytes(key, self._same + 8)
            at = position
            if position > start and self._less(first_word, second_word, position, triples, position - 1):
                if position - start < _SHORTEST_RUN:
                    self._in_place = False
                    while at > start and self._less(first_word, second_word, position, triples, at - 1):
                        triples[3 * at] = triples[3 * at - 3]
                        triples[3 * at + 1] = triples[3 * at - 2]
                        triples[3 * at + 2] = triples[3 * at - 1]
                        at -= 1
                else:
                    start = position
                    self._starts.append(start)
            triples[3 * at] = first_word
            triples[3 * at + 1] = second_word
            triples[3 * at + 2] = position
        return 0

    @cython.inline
    @cython.exceptval(check=False)
    def _less(
        self,
        first_word: cython.ulonglong,
        second_word: cython.ulonglong,
        number: cython.ulonglong,
        triples: cython.pointer[cython.ulonglong],
        position: cython.Py_ssize_t,
    ) -> cython.bint:
        """True if the pair of that number, with these bytes, sorts before the one at a position."""
        if first_word != triples[3 * position]:
            return first_word < triples[3 * position]
        if second_word != triples[3 * position + 1]:
            return second_word < triples[3 * position + 1]
        return self._less_beyond(number, triples[3 * position + 2])

    @cython.exceptval(check=False)
    def _less_beyond(self, number: cython.ulonglong, other: cython.ulonglong) -> cython.bint:
        """True if one pair sorts before another with the same sixteen bytes."""
        key: bytes
        other_key: bytes
        if self._is_decided:
            return False
        key = cython.cast(bytes, self._pairs[number][0])
        other_key = cython.cast(bytes, self._pairs[other][0])
        if self._longest - self._same <= 16:
            return len(key) < len(other_key)
        return compare_bytes(key, self._same, len(key), other_key, self._same, len(other_key)) < 0

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
            _copy(_numbers(self._triples), starts[number], self._count, _numbers(self._spare), starts[number])
        self._triples, self._spare = self._spare, self._triples
        self._starts = starts[:runs:2]
        return 0

    def _merge(
        self, left_index: cython.Py_ssize_t, right_index: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        source: cython.pointer[cython.ulonglong] = _numbers(self._triples)
        target: cython.pointer[cython.ulonglong] = _numbers(self._spare)
        middle: cython.Py_ssize_t = right_index
        at: cython.Py_ssize_t = left_index
        smaller: cython.Py_ssize_t
        while left_index < middle and right_index < end:
            if self._less(
                source[3 * right_index], source[3 * right_index + 1], source[3 * right_index + 2], source, left_index
            ):
                smaller = right_index
                right_index += 1
            else:
                smaller = left_index
                left_index += 1
            target[3 * at] = source[3 * smaller]
            target[3 * at + 1] = source[3 * smaller + 1]
            target[3 * at + 2] = source[3 * smaller + 2]
            at += 1
        _copy(source, left_index, middle, target, at)
        _copy(source, right_index, end, target, at + middle - left_index)
        return 0

    @cython.cfunc
    def _in_order(self) -> list[Any]:
        triples: cython.pointer[cython.ulonglong] = _numbers(self._triples)
        position: cython.Py_ssize_t
        pairs: list[Any] = [None] * self._count
        for position in range(self._count):
            pairs[position] = self._pairs[triples[3 * position + 2]]
        return pairs


def _numbers(room: bytearray) -> cython.pointer[cython.ulonglong]:
    return cython.cast(cython.pointer[cython.ulonglong], cython.cast(cython.p_char, room))


@cython.exceptval(check=False)
def _copy(
    source: cython.pointer[cython.ulonglong],
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    target: cython.pointer[cython.ulonglong],
    to: cython.Py_ssize_t,
) -> cython.int:
    """Copy the triples [at, end)."""
    number: cython.Py_ssize_t
    for number in range(3 * (end - at)):
        target[3 * to + number] = source[3 * at + number]
    return 0


@cython.inline
@cython.exceptval(check=False)
def _eight_bytes(key: bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the bytes from `at` on as a big-endian number, padded with zeros."""
    remaining: cython.Py_ssize_t = len(key) - at
    number: cython.ulonglong = 0
    index: cython.Py_ssize_t
    if remaining >= 8:
        for index in range(8):
            number = number << 8 | key[at + index]
        return number
    for index in range(8):
        number <<= 8
        if index < remaining:
            number |= key[at + index]
    return number
