"""Arithmetic on BSON numbers with MongoDB's promotion: int < long < double < decimal.

The result has the widest type among the operands, except that an int result that does not fit becomes a long. In
decimal arithmetic a double has 15 significant digits. Decimal arithmetic has 34 digits and never traps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal

from bson.decimal128 import Decimal128, create_decimal128_context

from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import DECIMAL, DOUBLE, INT32, INT64, Value
from docstore.query.value.values import (
    decimal_of,
    decimal_value,
    double_of,
    double_value,
    int64_value,
    int_of,
    integer_value,
)

DECIMAL_CONTEXT: Context = create_decimal128_context()

ZERO: Value = integer_value(0)


def widest(a: int, b: int) -> int:
    """Return the type of a result of operands of these two types."""
    for code in (DECIMAL, DOUBLE, INT64):
        if code in (a, b):
            return code
    return INT32


def to_decimal(value: Value) -> Decimal:
    """Return a number as a decimal operand: integers exactly, a double with 15 digits."""
    code = value[0]
    if code == DECIMAL:
        return decimal_of(value).to_decimal()
    if code == DOUBLE:
        number = double_of(value)
        return Decimal(f"{number:.14e}") if math.isfinite(number) and number else Decimal(number)
    return Decimal(int_of(value))


def to_float(value: Value) -> float:
    """Return a number as a double, rounded to the nearest."""
    code = value[0]
    if code == DOUBLE:
        return double_of(value)
    if code == DECIMAL:
        number = decimal_of(value).to_decimal()
        # A signalling NaN is treated like others.
        return math.nan if number.is_nan() else float(number)
    return float(int_of(value))


def from_decimal(number: Decimal) -> Value:
    return decimal_value(Decimal128(number))


def add(a: Value, b: Value) -> Value | None:
    """Return a + b, or None if a long overflows."""
    return _combine(a, b, int.__add__, float.__add__, DECIMAL_CONTEXT.add)


def subtract(a: Value, b: Value) -> Value | None:
    """Return a - b, or None if a long overflows."""
    return _combine(a, b, int.__sub__, float.__sub__, DECIMAL_CONTEXT.subtract)


def multiply(a: Value, b: Value) -> Value | None:
    """Return a * b, or None if a long overflows."""
    return _combine(a, b, int.__mul__, float.__mul__, DECIMAL_CONTEXT.multiply)


def _combine(
    a: Value,
    b: Value,
    integer: Callable[[int, int], int],
    binary: Callable[[float, float], float],
    decimal: Callable[[Decimal, Decimal], Decimal],
) -> Value | None:
    kind = widest(a[0], b[0])
    if kind == DECIMAL:
        return from_decimal(decimal(to_decimal(a), to_decimal(b)))
    if kind == DOUBLE:
        return double_value(binary(to_float(a), to_float(b)))
    result = integer(int_of(a), int_of(b))
    if kind == INT32:
        return integer_value(result)
    return int64_value(result) if LONG_MIN <= result <= LONG_MAX else None
