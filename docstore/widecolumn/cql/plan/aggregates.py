"""Aggregates: one value of the values of all rows. Null values are left out, and empty ones of sums; of no values at
all `count`, `sum` and `avg` are 0, `min` and `max` are null.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DecimalException
from typing import Any

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import Value
from docstore.widecolumn.cql.types.native import (
    BIGINT,
    DECIMAL,
    EXACT,
    MAX_SUM_DIGITS,
    NATIVE_TYPES,
    CqlType,
    NativeType,
)

_NUMBERS = frozenset(("tinyint", "smallint", "int", "bigint", "varint", "float", "double", "decimal"))
_QUOTIENT_DIGITS = 28


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`add(state, value)` gives the next state; it begins as None."""

    name: str
    result: CqlType
    add: Callable[[Any, bytes], Any]
    finish: Callable[[Any], Value]


def _count() -> Aggregate:
    return Aggregate("count", BIGINT, lambda state, value: (state or 0) + 1, lambda state: BIGINT.serialise(state or 0))


def _extreme(name: str, kind: CqlType, sign: int) -> Aggregate:
    def add(state: bytes | None, value: bytes) -> bytes:
        if state is None:
            return value
        return state if kind.order(state, value) * sign >= 0 else value

    return Aggregate(name, kind, add, lambda state: state)


def _total(name: str, kind: NativeType, *, average: bool) -> Aggregate:
    def add(state: tuple[Any, int] | None, value: bytes) -> tuple[Any, int] | None:
        number = kind.parse(value)
        if number is None:
            return state
        return (number, 1) if state is None else (_sum(state[0], number), state[1] + 1)

    def finish(state: tuple[Any, int] | None) -> Value:
        total, count = state or (0, 0)
        if average and count:
            total = _quotient(total, count)
        return _serialised(kind, total)

    return Aggregate(name, kind, add, finish)


def _sum(total: Any, number: Any) -> Any:
    if not isinstance(number, Decimal):
        return total + number
    try:
        return EXACT.add(total, number)
    except DecimalException:
        raise invalid(f"the sum of decimals has more than {MAX_SUM_DIGITS} digits") from None


def _quotient(total: Any, count: int) -> Any:
    """Integers are cut off towards zero; a decimal keeps the digits of the total, and has 28 at least."""
    if isinstance(total, int):
        return abs(total) // count * (1 if total >= 0 else -1)
    if isinstance(total, Decimal):
        digits = len(total.as_tuple().digits)
        return Context(prec=max(digits, _QUOTIENT_DIGITS), Emin=MIN_EMIN, Emax=MAX_EMAX).divide(total, Decimal(count))
    return total / count


def _serialised(kind: NativeType, total: Any) -> bytes:
    if kind is DECIMAL:
        return kind.serialise(Decimal(total))
    if kind.name in ("float", "double"):
        return kind.serialise(float(total) if not math.isnan(total) else math.nan)
    try:
        return kind.serialise(total)
    except OverflowError:
        raise invalid(f"the result {total} does not fit the type {kind.name}") from None


def find_aggregate(name: str, kind: CqlType) -> Aggregate | None:
    """The aggregate of that name over values of a type; None where there is none of the name. CqlError for a type that
    it does not take.
    """
    if name == "count":
        return _count()
    if name in ("min", "max"):
        return _extreme(name, kind, -1 if name == "min" else 1)
    if name not in ("sum", "avg"):
        return None
    native = NATIVE_TYPES.get(kind.name)
    if native is None or kind.name not in _NUMBERS:
        raise invalid(f"Invalid call to function {name}, none of its type signatures match")
    return _total(name, native, average=name == "avg")
