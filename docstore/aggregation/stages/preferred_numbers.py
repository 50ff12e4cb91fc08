"""Rounding to preferred numbers: the Renard and E series, 1-2-5, and the powers of two.

A series is given by its members from 1 to 10; the others are those times powers of ten.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from typing import Protocol

from docstore.bson.walk import DECIMAL, DOUBLE, INT32, INT64, Value
from docstore.errors import CommandError
from docstore.query.arithmetic import from_decimal
from docstore.query.values import decimal_of, double_of, double_value, int32_value, int64_value, int_of

_R80 = (
    "1 1.03 1.06 1.09 1.12 1.15 1.18 1.22 1.25 1.28 1.32 1.36 1.4 1.45 1.5 1.55 1.6 1.65 1.7 1.75 1.8 1.85 1.9 1.95 2 "
    "2.06 2.12 2.18 2.24 2.3 2.36 2.43 2.5 2.58 2.65 2.72 2.8 2.9 3 3.07 3.15 3.25 3.35 3.45 3.55 3.65 3.75 3.87 4 "
    "4.12 4.25 4.37 4.5 4.62 4.75 4.87 5 5.15 5.3 5.45 5.6 5.8 6 6.15 6.3 6.5 6.7 6.9 7.1 7.3 7.5 7.75 8 8.25 8.5 8.75 "
    "9 9.25 9.5 9.75"
)
_E24 = "1 1.1 1.2 1.3 1.5 1.6 1.8 2 2.2 2.4 2.7 3 3.3 3.6 3.9 4.3 4.7 5.1 5.6 6.2 6.8 7.5 8.2 9.1"


def _of(text: str) -> list[float]:
    return [float(number) for number in text.split()]


def _e_series(size: int) -> list[float]:
    """The E series of three digits: steps of equal ratio, rounded; 9.2 is as the standard has it."""
    made = [round(100 * 10 ** (step / size)) for step in range(size)]
    return [(920 if number == 919 else number) / 100 for number in made]


SERIES: dict[str, Sequence[float]] = {
    "1-2-5": (1.0, 2.0, 5.0),
    "R5": _of("1 1.6 2.5 4 6.3"),
    "R10": _of("1 1.25 1.6 2 2.5 3.15 4 5 6.3 8"),
    "R20": _of("1 1.12 1.25 1.4 1.6 1.8 2 2.24 2.5 2.8 3.15 3.55 4 4.5 5 5.6 6.3 7.1 8 9"),
    "R40": _of(
        "1 1.06 1.12 1.18 1.25 1.32 1.4 1.5 1.6 1.7 1.8 1.9 2 2.12 2.24 2.36 2.5 2.65 2.8 3 3.15 3.35 3.55 3.75 4 4.25 "
        "4.5 4.75 5 5.3 5.6 6 6.3 6.7 7.1 7.5 8 8.5 9 9.5"
    ),
    "R80": _of(_R80),
    "E6": _of("1 1.5 2.2 3.3 4.7 6.8"),
    "E12": _of("1 1.2 1.5 1.8 2.2 2.7 3.3 3.9 4.7 5.6 6.8 8.2"),
    "E24": _of(_E24),
    "E48": _e_series(48),
    "E96": _e_series(96),
    "E192": _e_series(192),
}


class Rounding(Protocol):
    """Rounding to the next number of a series above a number, and to the one below it."""

    def up(self, value: Value) -> Value: ...

    def down(self, value: Value) -> Value: ...


class PreferredNumbers:
    """Rounding in a series of powers of ten. Zero stays zero; decimals stay decimals."""

    def __init__(self, series: Sequence[float]) -> None:
        self._series = series

    def up(self, value: Value) -> Value:
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            return value if exact.is_zero() or exact.is_infinite() else from_decimal(self._decimal_up(exact))
        number = _double(value)
        if number == 0.0 or math.isinf(number):
            return double_value(0.0) if number == 0.0 else value
        scale = 1.0
        while number >= self._series[-1] * scale:
            scale *= 10
        while number < self._series[0] * scale:
            scale /= 10
        members = [member * scale for member in self._series]
        at = bisect_right(members, number)
        return double_value(members[at] if at < len(members) else self._series[0] * scale * 10)

    def down(self, value: Value) -> Value:
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            return value if exact.is_zero() or exact.is_infinite() else from_decimal(self._decimal_down(exact))
        number = _double(value)
        if number == 0.0 or math.isinf(number):
            return double_value(0.0) if number == 0.0 else value
        scale = 1.0
        while number > self._series[-1] * scale:
            scale *= 10
        while number <= self._series[0] * scale:
            scale /= 10
        members = [member * scale for member in self._series]
        return double_value(members[bisect_left(members, number) - 1])

    def _decimals(self, exact: Decimal) -> list[Decimal]:
        """The members of the decades around a number."""
        exponent = exact.adjusted()
        return [
            Decimal(repr(member)).scaleb(exponent + decade).normalize()
            for decade in (-1, 0, 1)
            for member in self._series
        ]

    def _decimal_up(self, exact: Decimal) -> Decimal:
        members = self._decimals(exact)
        return members[bisect_right(members, exact)]

    def _decimal_down(self, exact: Decimal) -> Decimal:
        members = self._decimals(exact)
        return members[bisect_left(members, exact) - 1]


class PowersOfTwo:
    """Rounding to powers of two; numbers of a type stay numbers of it where they can."""

    def up(self, value: Value) -> Value:
        if value[0] in (INT32, INT64):
            power = 1 << int_of(value).bit_length() if int_of(value) else 0
            return int32_value(power) if value[0] == INT32 and power < 1 << 31 else int64_value(power)
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            return value if exact.is_zero() or exact.is_infinite() else from_decimal(_power_above(exact))
        number = _double(value)
        if number == 0.0 or math.isinf(number):
            return value
        return double_value(2.0 ** math.frexp(number)[1])

    def down(self, value: Value) -> Value:
        if value[0] in (INT32, INT64):
            number = int_of(value)
            if not number:
                return value
            power = 1 << (number - 1).bit_length() - 1 if number > 1 else 0
            return (int32_value if value[0] == INT32 else int64_value)(power) if power else double_value(0.5)
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            return value if exact.is_zero() or exact.is_infinite() else from_decimal(_power_below(exact))
        fraction, exponent = math.frexp(_double(value))
        if fraction == 0.0 or math.isinf(fraction):
            return value
        return double_value(2.0 ** (exponent - 2 if fraction == 0.5 else exponent - 1))


def _power_above(exact: Decimal) -> Decimal:
    power = Decimal(1)
    while power <= exact:
        power *= 2
    while power / 2 > exact:
        power /= 2
    return power


def _power_below(exact: Decimal) -> Decimal:
    power = Decimal(1)
    while power >= exact:
        power /= 2
    while power * 2 < exact:
        power *= 2
    return power


def _double(value: Value) -> float:
    return double_of(value) if value[0] == DOUBLE else float(int_of(value))


def rounding(granularity: str) -> Rounding:
    """The rounding that a granularity names. Errors: 40257."""
    if granularity == "POWERSOF2":
        return PowersOfTwo()
    series = SERIES.get(granularity)
    if series is None:
        raise CommandError(40257, f"Unknown rounding granularity '{granularity}'")
    return PreferredNumbers(series)
