"""Rounding to preferred numbers: the Renard and E series, 1-2-5, and the powers of two.

A series is given by its members in one decade; the others are these times powers of ten.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from decimal import Context, Decimal
from typing import Protocol

from docstore.bson.walk import DECIMAL, DOUBLE, Value
from docstore.errors import CommandError
from docstore.query.value.arithmetic import from_decimal
from docstore.query.value.values import decimal_of, double_of, double_value, int32_value, int64_value, int_of

_R80 = (
    "100 103 106 109 112 115 118 122 125 128 132 136 140 145 150 155 160 165 170 175 180 185 190 195 200 206 212 218 "
    "224 230 236 243 250 258 265 272 280 290 300 307 315 325 335 345 355 365 375 387 400 412 425 437 450 462 475 487 "
    "500 515 530 545 560 580 600 615 630 650 670 690 710 730 750 775 800 825 850 875 900 925 950 975"
)
_E24 = "10 11 12 13 15 16 18 20 22 24 27 30 33 36 39 43 47 51 56 62 68 75 82 91"


def _of(text: str) -> list[int]:
    return [int(number) for number in text.split()]


def _e_series(size: int) -> list[int]:
    """Return an E series of three digits: equal ratios, rounded; 920 is as in the standard."""
    series = [round(100 * 10 ** (step / size)) for step in range(size)]
    return [920 if number == 919 else number for number in series]


SERIES: dict[str, list[int]] = {
    "1-2-5": [10, 20, 50],
    "R5": _of("10 16 25 40 63"),
    "R10": _of("100 125 160 200 250 315 400 500 630 800"),
    "R20": _of("100 112 125 140 160 180 200 224 250 280 315 355 400 450 500 560 630 710 800 900"),
    "R40": _of(
        "100 106 112 118 125 132 140 150 160 170 180 190 200 212 224 236 250 265 280 300 315 335 355 375 400 425 450 "
        "475 500 530 560 600 630 670 710 750 800 850 900 950"
    ),
    "R80": _of(_R80),
    "E6": _of("10 15 22 33 47 68"),
    "E12": _of("10 12 15 18 22 27 33 39 47 56 68 82"),
    "E24": _of(_E24),
    "E48": _e_series(48),
    "E96": _e_series(96),
    "E192": _e_series(192),
}
"""The members of one decade, as integers."""


class Rounding(Protocol):
    """Rounding to the next greater, or the next smaller, number of a series."""

    def up(self, value: Value) -> Value: ...

    def down(self, value: Value) -> Value: ...


class PreferredNumbers:
    """Rounding in a decimal series. Zero stays zero; decimals stay decimals."""

    def __init__(self, series: list[int]) -> None:
        self._series = series

    def up(self, value: Value) -> Value:
        if is_zero(value) or _is_infinite(value):
            return value
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            members = self._decimals(exact)
            return from_decimal(members[bisect_right(members, exact)])
        number = _double(value)
        scale = 1.0
        while number >= self._series[-1] * scale:
            scale *= 10
        while number < self._series[0] * scale:
            scale /= 10
        members_here = [member * scale for member in self._series]
        at = bisect_right(members_here, number)
        return double_value(members_here[at] if at < len(members_here) else self._series[0] * scale * 10)

    def down(self, value: Value) -> Value:
        if is_zero(value) or _is_infinite(value):
            return value
        if value[0] == DECIMAL:
            exact = decimal_of(value).to_decimal()
            members = self._decimals(exact)
            return from_decimal(members[bisect_left(members, exact) - 1])
        number = _double(value)
        scale = 1.0
        while number > self._series[-1] * scale:
            scale *= 10
        while number <= self._series[0] * scale:
            scale /= 10
        members_here = [member * scale for member in self._series]
        return double_value(members_here[bisect_left(members_here, number) - 1])

    def _decimals(self, exact: Decimal) -> list[Decimal]:
        """Return the members of the decades around a number, with 15 digits each."""
        exponent = exact.adjusted()
        return [
            Decimal(member).scaleb(12 + 3 - len(str(member))).quantize(Decimal(1)).scaleb(exponent + decade - 14)
            for decade in (-1, 0, 1)
            for member in self._series
        ]


class PowersOfTwo:
    """Rounding to powers of two: integers from 1 up, else doubles; decimals stay decimals."""

    def up(self, value: Value) -> Value:
        if is_zero(value) or _is_infinite(value):
            return value
        if value[0] == DECIMAL:
            return _decimal_power(decimal_of(value).to_decimal(), above=True)
        return _power(math.frexp(_double(value))[1])

    def down(self, value: Value) -> Value:
        if is_zero(value) or _is_infinite(value):
            return value
        if value[0] == DECIMAL:
            return _decimal_power(decimal_of(value).to_decimal(), above=False)
        fraction, exponent = math.frexp(_double(value))
        return _power(exponent - 2 if fraction == 0.5 else exponent - 1)


def _power(exponent: int) -> Value:
    if not 0 <= exponent < 63:
        return double_value(2.0**exponent)
    return int32_value(1 << exponent) if exponent < 31 else int64_value(1 << exponent)


def _decimal_power(exact: Decimal, *, above: bool) -> Value:
    power = Decimal(1)
    while power <= exact if above else power * 2 < exact:
        power *= 2
    while power / 2 > exact if above else power >= exact:
        power /= 2
    return from_decimal(power.quantize(Decimal(1).scaleb(power.adjusted() - 33), context=_WIDE))


_WIDE = Context(prec=40)


def is_zero(value: Value) -> bool:
    """True if a number is zero."""
    if value[0] == DECIMAL:
        return decimal_of(value).to_decimal().is_zero()
    return _double(value) == 0.0


def _is_infinite(value: Value) -> bool:
    if value[0] == DECIMAL:
        return decimal_of(value).to_decimal().is_infinite()
    return math.isinf(_double(value))


def _double(value: Value) -> float:
    return double_of(value) if value[0] == DOUBLE else float(int_of(value))


def rounding(granularity: str) -> Rounding:
    """Return the rounding of a granularity. Errors: 40257."""
    if granularity == "POWERSOF2":
        return PowersOfTwo()
    series = SERIES.get(granularity)
    if series is None:
        raise CommandError(40257, f"Unknown rounding granularity '{granularity}'")
    return PreferredNumbers(series)
