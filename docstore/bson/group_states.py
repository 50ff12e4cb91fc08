"""The states of accumulators over raw values, one for each field of each group.

States hand out what they have gathered in parts, so that the caller's own accumulators can go on from there and decide
about the result: see `State.partial`. What machine arithmetic cannot add exactly (decimals, infinities, sums beyond 62
bits) is kept aside as `State.extras`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

import cython

from docstore.bson.build import array_from, document_from
from docstore.bson.group_values import Place
from docstore.bson.walk import EMPTY_DOCUMENT, Value

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        NULL,
        OBJECT,
        UNDEFINED,
        double_at,
        int32_at,
        int64_at,
        part,
    )

_ZERO_DECIMAL: Value = (0x13, (0x3040 << 112).to_bytes(16, "little"))


class State:
    """What one accumulator has gathered for one group."""

    extras: list[Value]

    def __init__(self) -> None:
        self.extras = []

    def add(self, found: Place) -> cython.int:
        """Take in a value; how many bytes of memory it costs."""
        raise NotImplementedError

    def partial(self) -> Value:
        """What has been gathered, without `extras`."""
        raise NotImplementedError


class SumState(State):
    """Sums; as parts [type byte of the widest number, integers, doubles, their rounding errors, decimals].

    With `counted`, the number of numbers comes first. Integers are added exactly, doubles with compensation.
    """

    _counted: cython.bint
    _count: cython.longlong
    _kind: cython.int
    _whole: cython.longlong
    _high: cython.double
    _low: cython.double

    def __init__(self, counted: bool) -> None:
        super().__init__()
        self._counted = counted
        self._count = 0
        self._kind = INT32
        self._whole = 0
        self._high = 0.0
        self._low = 0.0

    def add(self, found: Place) -> cython.int:
        if found.code == INT32:
            return self._add_integer(int32_at(found.raw, found.at), found)
        if found.code == INT64:
            return self._add_integer(int64_at(found.raw, found.at), found)
        if found.code == DOUBLE:
            return self._add_double(double_at(found.raw, found.at), found)
        if found.code == DECIMAL:
            return self._keep(found)
        return 0

    def _add_integer(self, number: cython.longlong, found: Place) -> cython.int:
        top: cython.longlong = number >> 61
        held: cython.longlong = self._whole >> 61
        if not (-1 <= top <= 0 and -1 <= held <= 0):
            return self._keep(found)
        self._whole += number
        self._count += 1
        if found.code == INT64 and self._kind == INT32:
            self._kind = INT64
        return 0

    def _add_double(self, number: cython.double, found: Place) -> cython.int:
        total: cython.double = self._high + number
        part: cython.double = total - self._high
        if total - total != 0.0:
            return self._keep(found)
        self._low += (self._high - (total - part)) + (number - part)
        self._high = total
        self._count += 1
        self._kind = DOUBLE
        return 0

    def _keep(self, found: Place) -> cython.int:
        self.extras.append(found.value())
        return 100

    def partial(self) -> Value:
        parts = [
            (INT32, self._kind.to_bytes(4, "little")),
            (INT64, self._whole.to_bytes(8, "little", signed=True)),
            (DOUBLE, pack("<d", self._high)),
            (DOUBLE, pack("<d", self._low)),
            _ZERO_DECIMAL,
        ]
        if self._counted:
            parts.insert(0, (INT64, self._count.to_bytes(8, "little")))
        return ARRAY, array_from(parts)


class ExtremeState(State):
    """The least (`sign` -1) or greatest (1) value, null when there was none; null and missing values do not count.

    Of equal values the first one stays, or with `last` the last.
    """

    _sign: cython.int
    _last: cython.bint
    _code: cython.int
    _raw: bytes

    def __init__(self, sign: int, last: bool) -> None:
        super().__init__()
        self._sign = sign
        self._last = last
        self._code = NULL
        self._raw = b""

    def add(self, found: Place) -> cython.int:
        if found.code in (0, NULL, UNDEFINED):
            return 0
        order: cython.int = self._sign
        if self._code != NULL:
            order = compare_at(found.code, found.raw, found.at, found.end, self._code, self._raw, 0, len(self._raw), 0)
        if order != self._sign and not (self._last and order == 0):
            return 0
        grown: cython.int = found.end - found.at - len(self._raw)
        self._code = found.code
        self._raw = part(found.raw, found.at, found.end)
        # Less than zero would be taken for an exception where this is compiled.
        return grown if grown > 0 else 0

    def partial(self) -> Value:
        return self._code, self._raw


class EndState(State):
    """The first or the last value, a missing one as null; as {v: value}, or {} when there was no document."""

    _last: cython.bint
    _value: Value | None

    def __init__(self, last: bool) -> None:
        super().__init__()
        self._last = last
        self._value = None

    def add(self, found: Place) -> cython.int:
        if self._value is None or self._last:
            self._value = (NULL, b"") if found.code == 0 else found.value()
        return 0

    def partial(self) -> Value:
        if self._value is None:
            return OBJECT, EMPTY_DOCUMENT
        return OBJECT, document_from([("v", *self._value)])


LAST_MIN = "last $min"
LAST_MAX = "last $max"
"""`$min` and `$max` that give the last of equal values."""

STATES: dict[str, Callable[[], State]] = {
    "$sum": lambda: SumState(False),
    "$avg": lambda: SumState(True),
    "$min": lambda: ExtremeState(-1, False),
    "$max": lambda: ExtremeState(1, False),
    LAST_MIN: lambda: ExtremeState(-1, True),
    LAST_MAX: lambda: ExtremeState(1, True),
    "$first": lambda: EndState(False),
    "$last": lambda: EndState(True),
}
"""The accumulators that a `Grouping` knows."""
