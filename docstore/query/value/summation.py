"""Sums of many numbers with MongoDB's results, to the last digit: exact over integers, doubled precision over doubles,
34 digits over decimals.

Decimals are summed separately until the end. The rest is a double and a second one for its rounding error, which take
numbers in their order. A sum of doubles is the first of the two; both are added to a decimal. The result has the widest
type that was added. An int sum that does not fit is a long, a long sum that does not fit is a double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import DECIMAL, DOUBLE, INT32, INT64, Value
from docstore.query.value.arithmetic import DECIMAL_CONTEXT, from_decimal, widest
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    decimal_of,
    double_of,
    double_value,
    int32_value,
    int64_value,
    int_of,
)

_ZERO = from_decimal(Decimal(0))[1]
_NO_INTEGERS = int64_value(0)


class Summation:
    """A running sum. `kind` is the widest type added so far (int for nothing)."""

    __slots__ = ("_decimal", "_high", "_low", "_special", "_whole", "kind")

    def __init__(self) -> None:
        self.kind = INT32
        self._whole = 0
        self._high = 0.0
        self._low = 0.0
        self._special = 0.0
        self._decimal = Decimal(0)

    @classmethod
    def of_parts(cls, integers: int, high: float, low: float) -> Summation:
        """Return a sum from the integers in it, and the two doubles of the whole sum."""
        summation = cls()
        summation._whole, summation._high, summation._low = integers, high, low
        return summation

    def add(self, value: Value) -> None:
        """Add a number."""
        if value[0] != self.kind:
            self.kind = widest(self.kind, value[0])
        self._include(value, 1)

    def remove(self, value: Value) -> None:
        """Remove a number by adding its negative; the kind stays."""
        self._include(value, -1)

    def _include(self, value: Value, sign: int) -> None:
        code = value[0]
        if code == DOUBLE:
            self._add_double(sign * double_of(value))
        elif code == DECIMAL:
            number = decimal_of(value).to_decimal()
            self._decimal = DECIMAL_CONTEXT.add(self._decimal, number if sign > 0 else number.copy_negate())
        elif code == INT32:
            integer = sign * int_of(value)
            self._whole += integer
            self._plus(float(integer))
        else:
            self._add_long(sign * int_of(value))

    def _add_long(self, number: int) -> None:
        """Add a long in two parts, each exactly a double."""
        self._whole += number
        upper = _upper(number)
        self._plus(float(number - upper))
        self._plus(float(upper))

    def _add_double(self, number: float) -> None:
        if not math.isfinite(self._high + number):
            self._special += number if not math.isfinite(number) else self._high + number
            return
        self._plus(number)

    def _plus(self, number: float) -> None:
        """Add to both doubles. The first rounding error is exact only if `_low` is the smaller, as in MongoDB."""
        term = number + self._low
        rounding_error = self._low - (term - number)
        total = self._high + term
        part = total - self._high
        self._low = rounding_error + ((self._high - (total - part)) + (term - part))
        self._high = total

    def merge_partial(self, parts: Sequence[Value]) -> None:
        """Add the numbers of the sum that these parts come from."""
        kind, integers, high, low, decimal = parts
        self.kind = widest(self.kind, int_of(kind))
        if integers[0] == DOUBLE:
            self._add_double(double_of(integers))
        elif integers != _NO_INTEGERS:
            self._add_long(int_of(integers))
        self._add_double(double_of(high))
        self._add_double(double_of(low))
        if decimal[1] != _ZERO:
            self._decimal = DECIMAL_CONTEXT.add(self._decimal, decimal_of(decimal).to_decimal())

    def as_float(self) -> float:
        """Return the sum of the numbers without decimals."""
        if self._special != 0.0 or math.isnan(self._special):
            return self._special
        return self._high

    def as_decimal(self) -> Decimal:
        """Return the sum of everything."""
        if self._special != 0.0 or math.isnan(self._special):
            return DECIMAL_CONTEXT.add(self._decimal, Decimal(self._special))
        high = DECIMAL_CONTEXT.create_decimal_from_float(self._high)
        low = DECIMAL_CONTEXT.create_decimal_from_float(self._low)
        return DECIMAL_CONTEXT.add(self._decimal, DECIMAL_CONTEXT.add(high, low))

    def result(self) -> Value:
        """Return the sum as a value of its kind."""
        return self.result_as(self.kind)

    def result_as(self, kind: int) -> Value:
        """Return the sum as if this were the widest type among its numbers."""
        if kind == DECIMAL:
            return from_decimal(self.as_decimal())
        if kind == DOUBLE:
            return double_value(self.as_float())
        if kind == INT32 and INT_MIN <= self._whole <= INT_MAX:
            return int32_value(self._whole)
        if LONG_MIN <= self._whole <= LONG_MAX:
            return int64_value(self._whole)
        return double_value(self._high)

    def resume(self, parts: Sequence[Value]) -> None:
        """Restore an empty sum from its parts, without decimals. Both doubles are as before; merging would normalize
        them.
        """
        if int_of(parts[0]) != DOUBLE:
            self.merge_partial(parts)
            return
        self.kind = DOUBLE
        self._high, self._low = double_of(parts[2]), double_of(parts[3])

    def partial(self) -> list[Value]:
        """Return the sum in parts that another process can add: [type byte, integers, two doubles, decimals].

        While there are only integers, they are all in the second part (a double if they exceed 64 bits), else in the
        doubles.
        """
        integers: Value = _NO_INTEGERS
        high, low = self._high, self._low
        if self.kind in (INT32, INT64):
            fits = LONG_MIN <= self._whole <= LONG_MAX
            integers = int64_value(self._whole) if fits else double_value(high)
            high = low = 0.0
        elif self._special != 0.0:
            high = self._special
        return [int32_value(self.kind), integers, double_value(high), double_value(low), from_decimal(self._decimal)]


def _upper(number: int) -> int:
    """Return the part of an integer above its lowest 32 bits, truncated towards zero."""
    upper = abs(number) >> 32 << 32
    return upper if number >= 0 else -upper
