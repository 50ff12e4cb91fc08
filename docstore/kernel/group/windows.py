"""Window functions over the documents of a partition, by position: sort keys, and accumulators over moving windows.

The positions of a partition are evaluated in order. An evaluation that takes too many steps returns `NOT_YET`, so that
other tasks can run; the caller then evaluates the same position again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.double_sum import DoubleSum
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.number import double_bytes, integer_bytes
    from docstore.bson.walk import ARRAY, DECIMAL, DOUBLE, INT32, INT64, NULL, double_at, int32_at, int64_at, same_bytes
    from docstore.kernel.keys.encoding import append_key

NOT_YET = (-1, b"")
"""Returned instead of a value to let other tasks run."""

_STEPS: cython.Py_ssize_t = 1024
"""Documents that are read before other tasks may run."""

_PER_VALUE: cython.Py_ssize_t = 100
"""Bytes of memory charged for a value in a moving window besides its own."""

Pair = tuple[bytes, bytes]


class WindowKeys:
    """The sort keys of documents: the partition's key, the key in the order, the length of the first.

    `check` is called with the value of a partition that is an array. `key_of` makes the keys of partitions if these are
    not those of `docstore.kernel.keys.encoding`.
    """

    _partition: Source | None
    _pattern: KeyPattern | None
    _key_of: Callable[[Value], bytes] | None
    _check: Callable[[Value], object]
    _value: ValueRef
    _out: KeyWriter

    def __init__(
        self,
        partition: Source | None,
        pattern: KeyPattern | None,
        key_of: Callable[[Value], bytes] | None,
        check: Callable[[Value], object],
    ) -> None:
        self._partition = partition
        self._pattern = pattern
        self._key_of = key_of
        self._check = check
        self._value = ValueRef()
        self._out = KeyWriter()

    def pairs(self, documents: Iterable[bytes]) -> list[Pair]:
        """Return (key, document) of each document. Errors: those of `check`, of the source and of the pattern."""
        document: bytes
        size: cython.Py_ssize_t
        value: ValueRef = self._value
        out: KeyWriter = self._out
        pairs: list[Pair] = []
        for document in documents:
            out.clear()
            if self._partition is not None:
                self._partition.locate(document, None, value)
                self._append_partition(value)
            size = out.size
            if self._pattern is not None:
                out.put_bytes(self._pattern.sort_key(document))
            out.put_little(size, 4)
            pairs.append((out.contents(), document))
        return pairs

    def _append_partition(self, value: ValueRef) -> cython.int:
        if value.code == ARRAY:
            self._check(value.value())
        if value.code == 0:
            value.put(NULL, b"")
        if self._key_of is not None:
            return self._out.put_bytes(self._key_of(value.value()))
        return append_key(self._out, value.code, value.raw, value.at, value.end)


def partition_of(key: bytes) -> bytes:
    """Return the partition's key in a key made here."""
    return key[: int.from_bytes(key[-4:], "little")]


@cython.ccall
def partition_end(pairs: list[Pair], at: cython.Py_ssize_t, partition: bytes) -> cython.Py_ssize_t:
    """Return the position after the pairs of the partition from `at` on."""
    count: cython.Py_ssize_t = len(pairs)
    size: cython.Py_ssize_t = len(partition)
    key: bytes
    while at < count:
        key = cython.cast(bytes, pairs[at][0])
        if len(key) < size + 4 or int32_at(key, len(key) - 4) != size or not same_bytes(key, 0, partition, 0, size):
            return at
        at += 1
    return at


class Placed:
    """The pairs of a partition by position. `piece_of` returns (the position of its first pair, the piece) for the
    piece that contains a position. The last piece is cached.
    """

    _piece_of: Callable[[int], tuple[int, list[Pair]]]
    _start: cython.Py_ssize_t
    _piece: list[Pair]

    def __init__(self, piece_of: Callable[[int], tuple[int, list[Pair]]]) -> None:
        self._piece_of = piece_of
        self._start = 0
        self._piece = []

    def _pair(self, position: cython.Py_ssize_t) -> Pair:
        if not 0 <= position - self._start < len(self._piece):
            self._start, self._piece = self._piece_of(position)
        return self._piece[position - self._start]

    @cython.ccall
    def document(self, position: cython.Py_ssize_t) -> bytes:
        """Return the document at a position."""
        return cython.cast(bytes, self._pair(position)[1])

    @cython.ccall
    def key(self, position: cython.Py_ssize_t) -> bytes:
        """Return the key at a position."""
        return cython.cast(bytes, self._pair(position)[0])

    @cython.ccall
    def documents(self, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> list[bytes]:
        """Return the documents at the positions [start, end)."""
        return [self.document(position) for position in range(start, end)]


class Growing:
    """An accumulator over a window from the beginning of the partition to `upper` places after the document. (None: to
    the end of the partition, which has `length` documents.) `state` accumulates the values until it needs `extras`; the
    accumulator that `resume` makes of it continues.
    """

    _documents: Placed
    _source: Source
    _state: State
    _resume: Callable[[State], Any]
    _resumed: Any
    _length: cython.Py_ssize_t
    _is_unbounded: cython.bint
    _upper: cython.Py_ssize_t
    _reached: cython.Py_ssize_t
    _last_value: Value | None
    _value: ValueRef

    def __init__(
        self,
        documents: Placed,
        source: Source,
        state: State,
        resume: Callable[[State], Any],
        length: int,
        upper: int | None,
    ) -> None:
        self._documents = documents
        self._source = source
        self._state = state
        self._resume = resume
        self._resumed = None
        self._length = length
        self._is_unbounded = upper is None
        self._upper = upper or 0
        self._reached = 0
        self._last_value = None
        self._value = ValueRef()

    @cython.ccall
    def value(self, position: cython.Py_ssize_t) -> Value:
        """Return the value for the document at a position, or `NOT_YET`."""
        end: cython.Py_ssize_t = self._length
        steps: cython.Py_ssize_t = 0
        if not self._is_unbounded and position + self._upper + 1 < end:
            end = position + self._upper + 1
        if self._last_value is not None and self._reached >= end:
            return self._last_value
        while self._reached < end:
            if steps == _STEPS:
                return NOT_YET
            self._add(self._documents.document(self._reached))
            self._reached += 1
            steps += 1
        self._last_value = self._state.result() if self._resumed is None else self._resumed.result()
        return self._last_value

    def _add(self, document: bytes) -> cython.int:
        value: ValueRef = self._value
        self._source.locate(document, None, value)
        if self._resumed is not None:
            self._resumed.add(None if value.code == 0 else value.value())
            return 0
        self._state.add(value)
        if self._state.extras is not None:
            self._resumed = self._resume(self._state)
        return 0


class MovingSum:
    """The sum, or the mean, of the numbers in a window from `lower` to `upper` places after the document. (An upper
    None: to the end of the partition, which has `length` documents.) The steps are those of
    `docstore.query.value.summation`; a number that leaves is added with the opposite sign.

    Decimals, infinities and integers beyond 62 bits are left to the accumulator that `resume` makes of (counts of ints,
    longs, doubles; the sum of the integers, the two doubles). Errors: `too_much` of the bytes that the window's values
    take, above `most_bytes`; each takes 100 bytes besides its own.
    """

    _documents: Placed
    _source: Source
    _mean: cython.bint
    _resume: Callable[..., Any]
    _resumed: Any
    _too_much: Callable[[int], Exception]
    _most_bytes: cython.Py_ssize_t
    _memory: cython.Py_ssize_t
    _length: cython.Py_ssize_t
    _lower: cython.Py_ssize_t
    _upper: cython.Py_ssize_t
    _open: cython.bint
    _first: cython.Py_ssize_t
    _reached: cython.Py_ssize_t
    _ints: cython.Py_ssize_t
    _longs: cython.Py_ssize_t
    _doubles: cython.Py_ssize_t
    _integer_sum: cython.longlong
    _sum: DoubleSum
    _value: ValueRef

    def __init__(
        self,
        documents: Placed,
        source: Source,
        mean: bool,
        resume: Callable[..., Any],
        length: int,
        bounds: tuple[int, int | None],
        most_bytes: int,
        too_much: Callable[[int], Exception],
    ) -> None:
        lower, upper = bounds
        self._documents = documents
        self._source = source
        self._mean = mean
        self._resume = resume
        self._resumed = None
        self._too_much = too_much
        self._most_bytes = most_bytes
        self._memory = 0
        self._length = length
        self._lower = lower
        self._upper = upper or 0
        self._open = upper is None
        self._first = 0
        self._reached = 0
        self._ints = 0
        self._longs = 0
        self._doubles = 0
        self._integer_sum = 0
        self._sum = DoubleSum()
        self._value = ValueRef()

    @cython.ccall
    def value(self, position: cython.Py_ssize_t) -> Value:
        """Return the value for the document at a position, or `NOT_YET`."""
        start: cython.Py_ssize_t = max(0, min(self._length, position + self._lower))
        end: cython.Py_ssize_t = self._length
        steps: cython.Py_ssize_t = 0
        if not self._open:
            end = max(start, min(self._length, position + self._upper + 1))
        while steps < _STEPS:
            steps += 1
            if self._reached < end:
                self._come(self._documents.document(self._reached))
                self._reached += 1
            elif self._first >= start:
                return self._result()
            elif self._first < self._reached:
                self._leave(self._documents.document(self._first))
                self._first += 1
            else:
                self._first = self._reached = start
        return NOT_YET

    def _come(self, document: bytes) -> cython.int:
        value: ValueRef = self._value
        self._source.locate(document, None, value)
        self._memory += _PER_VALUE + self._bytes()
        if self._memory > self._most_bytes:
            raise self._too_much(self._memory)
        if self._resumed is None and not self._add(1):
            self._go_on_elsewhere()
        if self._resumed is not None:
            self._resumed.add(None if value.code == 0 else value.value())
        return 0

    def _leave(self, document: bytes) -> cython.int:
        value: ValueRef = self._value
        self._source.locate(document, None, value)
        self._memory -= _PER_VALUE + self._bytes()
        if self._resumed is None and not self._add(-1):
            self._go_on_elsewhere()
        if self._resumed is not None:
            self._resumed.remove(None if value.code == 0 else value.value())
        return 0

    def _go_on_elsewhere(self) -> cython.int:
        double_sum = self._sum
        self._resumed = self._resume(
            self._ints, self._longs, self._doubles, self._integer_sum, double_sum.high, double_sum.low
        )
        return 0

    def _bytes(self) -> cython.Py_ssize_t:
        return 0 if self._value.code == 0 else self._value.end - self._value.at

    def _add(self, sign: cython.int) -> cython.bint:
        """Add the located value, or with -1 remove it; False, with nothing changed, if the kernel's arithmetic is not
        enough.
        """
        value: ValueRef = self._value
        number: cython.longlong
        binary: cython.double
        if value.code == DECIMAL:
            return False
        if value.code == DOUBLE:
            binary = sign * double_at(value.raw, value.at)
            if binary - binary != 0.0 or self._sum.overflows(binary):
                return False
            self._doubles += sign
            if sign < 0 and self._is_empty():
                self._begin_again()
            else:
                self._sum.plus(binary)
            return True
        if value.code not in (INT32, INT64):
            return True
        number = int32_at(value.raw, value.at) if value.code == INT32 else int64_at(value.raw, value.at)
        if not (-1 <= number >> 61 <= 0 and -1 <= self._integer_sum >> 61 <= 0):
            return False
        number = sign * number
        if value.code == INT32:
            self._ints += sign
        else:
            self._longs += sign
        if sign < 0 and self._is_empty():
            self._begin_again()
            return True
        self._integer_sum += number
        if value.code == INT32:
            self._sum.plus(cython.cast(cython.double, number))
        else:
            self._sum.plus_long(number)
        return True

    @cython.exceptval(check=False)
    def _is_empty(self) -> cython.bint:
        return self._ints + self._longs + self._doubles == 0

    def _begin_again(self) -> cython.int:
        self._integer_sum = 0
        self._sum = DoubleSum()
        return 0

    @cython.cfunc
    def _result(self) -> Value:
        result: Value
        if self._resumed is not None:
            result = self._resumed.result()
            return result
        if self._mean:
            if self._is_empty():
                return NULL, b""
            return DOUBLE, double_bytes(self._sum.high / (self._ints + self._longs + self._doubles))
        if self._doubles > 0:
            return DOUBLE, double_bytes(self._sum.high)
        if -0x80000000 <= self._integer_sum <= 0x7FFFFFFF:
            return INT32, integer_bytes(self._integer_sum, 4)
        return INT64, integer_bytes(self._integer_sum, 8)
