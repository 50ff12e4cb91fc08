"""Sums of many numbers as MongoDB makes them: exact over integers, doubled precision over doubles, 34 digits over
decimals.

Integers and doubles are kept apart from decimals until the end. The result has the widest type that was added; an int
sum that does not fit is a long, a long sum that does not fit is a double.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

from docstore.bson.walk import DECIMAL, DOUBLE, INT32, Value
from docstore.query.arithmetic import DECIMAL_CONTEXT, from_decimal, widest
from docstore.query.values import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    LONG_MIN,
    decimal_of,
    double_of,
    double_value,
    int32_value,
    int64_value,
    int_of,
)

_ZERO = from_decimal(Decimal(0))[1]


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

    def add(self, value: Value) -> None:
        """Add a number."""
        code = value[0]
        if code != self.kind:
            self.kind = widest(self.kind, code)
        if code == DOUBLE:
            self._add_double(double_of(value))
        elif code == DECIMAL:
            self._decimal = DECIMAL_CONTEXT.add(self._decimal, decimal_of(value).to_decimal())
        else:
            self._whole += int_of(value)

    def _add_double(self, number: float) -> None:
        if not math.isfinite(number):
            self._special += number
            return
        total = self._high + number
        if not math.isfinite(total):
            self._special += total
            return
        part = total - self._high
        self._low += (self._high - (total - part)) + (number - part)
        self._high = total

    def merge_partial(self, parts: Sequence[Value]) -> None:
        """Add everything that was added to the sum that these parts are of."""
        kind, whole, high, low, decimal = parts
        self.kind = widest(self.kind, int_of(kind))
        if whole[0] == DOUBLE:
            self._add_double(double_of(whole))
        else:
            self._whole += int_of(whole)
        self._add_double(double_of(high))
        self._add_double(double_of(low))
        if decimal[1] != _ZERO:
            self._decimal = DECIMAL_CONTEXT.add(self._decimal, decimal_of(decimal).to_decimal())

    def as_float(self) -> float:
        """The sum of what was added without decimals, rounded once."""
        if self._special != 0.0 or math.isnan(self._special):
            return self._special
        return math.fsum((self._high, self._low, *_exact_parts(self._whole)))

    def as_decimal(self) -> Decimal:
        """The sum of everything."""
        if self._special != 0.0 or math.isnan(self._special):
            return DECIMAL_CONTEXT.add(self._decimal, Decimal(self._special))
        high = DECIMAL_CONTEXT.create_decimal_from_float(self._high)
        low = DECIMAL_CONTEXT.create_decimal_from_float(self._low)
        binary = DECIMAL_CONTEXT.add(DECIMAL_CONTEXT.add(Decimal(self._whole), high), low)
        return DECIMAL_CONTEXT.add(self._decimal, binary)

    def result(self) -> Value:
        """The sum as a value of its kind."""
        if self.kind == DECIMAL:
            return from_decimal(self.as_decimal())
        if self.kind == DOUBLE:
            return double_value(self.as_float())
        if self.kind == INT32 and INT_MIN <= self._whole <= INT_MAX:
            return int32_value(self._whole)
        if LONG_MIN <= self._whole <= LONG_MAX:
            return int64_value(self._whole)
        return double_value(float(self._whole))

    def partial(self) -> list[Value]:
        """The sum in parts that another process can add without loss (but for integers beyond 64 bits)."""
        whole = self._whole
        exact = int64_value(whole) if LONG_MIN <= whole <= LONG_MAX else double_value(float(whole))
        high = self._special if self._special != 0.0 else self._high
        return [int32_value(self.kind), exact, double_value(high), double_value(self._low), from_decimal(self._decimal)]


def _exact_parts(whole: int) -> tuple[float, ...]:
    """Doubles whose exact sum is the integer (rounded beyond 106 bits)."""
    if not whole:
        return ()
    first = float(whole)
    rest = whole - int(first)
    return (first, float(rest)) if rest else (first,)
