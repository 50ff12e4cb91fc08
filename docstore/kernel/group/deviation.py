"""Standard deviations, by Welford's method."""

from __future__ import annotations

from math import nan

import cython
from bson.decimal128 import Decimal128

from docstore.bson.build import array_from
from docstore.bson.walk import Value
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import ValueRef

if not cython.compiled:
    from math import sqrt

    from docstore.bson.number import double_bytes, integer_bytes
    from docstore.bson.walk import (
        ARRAY,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        NULL,
        document_stop,
        double_at,
        int32_at,
        int64_at,
        name_end,
    )


def _double_of(decimal: bytes) -> cython.double:
    number = Decimal128.from_bid(decimal).to_decimal()
    return nan if number.is_nan() else float(number)


@cython.no_gc
@cython.cclass
class DeviationState(State):
    """`$stdDevPop`, or `$stdDevSamp` of a `sample`. Its parts are [count of numbers, their mean, the sum of the squared
    deviations].
    """

    _sample: cython.bint
    _count: cython.longlong
    _mean: cython.double
    _squares: cython.double

    def __init__(self, sample: bool) -> None:
        super().__init__()
        self._sample = sample
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: ValueRef) -> cython.int:
        number: cython.double
        delta: cython.double
        if value.code == DOUBLE:
            number = double_at(value.raw, value.at)
        elif value.code == INT32:
            number = cython.cast(cython.double, int32_at(value.raw, value.at))
        elif value.code == INT64:
            number = cython.cast(cython.double, int64_at(value.raw, value.at))
        elif value.code == DECIMAL:
            number = _double_of(value.value()[1])
        else:
            return 0
        self._count += 1
        delta = number - self._mean
        self._mean += delta / cython.cast(cython.double, self._count)
        self._squares += delta * (number - self._mean)
        return 0

    def merge(self, partial: ValueRef) -> cython.bint:
        raw: bytes = partial.raw
        stop: cython.Py_ssize_t = document_stop(raw, partial.at, partial.end)
        at: cython.Py_ssize_t = name_end(raw, partial.at + 5, stop) + 1
        count: cython.double = cython.cast(cython.double, int64_at(raw, at))
        mean: cython.double
        delta: cython.double
        own_count: cython.double = cython.cast(cython.double, self._count)
        if count == 0.0:
            return True
        at = name_end(raw, at + 9, stop) + 1
        mean = double_at(raw, at)
        at = name_end(raw, at + 9, stop) + 1
        delta = mean - self._mean
        self._squares += double_at(raw, at) + delta * delta * own_count * count / (own_count + count)
        self._mean += delta * count / (own_count + count)
        self._count += cython.cast(cython.longlong, count)
        return True

    def partial(self) -> Value:
        parts = [
            (INT64, integer_bytes(self._count, 8)),
            (DOUBLE, double_bytes(self._mean)),
            (DOUBLE, double_bytes(self._squares)),
        ]
        return ARRAY, array_from(parts)

    def result(self) -> Value:
        divisor: cython.longlong = self._count - 1 if self._sample else self._count
        if divisor <= 0:
            return NULL, b""
        if self._squares != self._squares:
            # The hardware decides which of several NaNs results.
            return DOUBLE, double_bytes(nan)
        return DOUBLE, double_bytes(sqrt(self._squares / cython.cast(cython.double, divisor)))
