"""Comparison of numbers of the four BSON types by exact value.

NaN (of any type) is one value below all others; -0.0 equals 0; infinities are equal across types. int32, int64 and
double are compared in machine arithmetic, decimal128 through `decimal` in a context that never rounds.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact

import cython

from docstore.bson.limits import MAX_COEFFICIENT

if not cython.compiled:
    from struct import pack

    from docstore.bson.allowance import spend
    from docstore.bson.walk import DECIMAL, DOUBLE, INT32, double_at, int32_at, int64_at

EXACT = Context(prec=16384, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact])
"""Wide enough for the difference of any decimal128 and any double; a rounded result raises."""

_EXPONENT_BIAS = 6176
_PER_DECIMAL: cython.Py_ssize_t = 512
"""Units of work charged for a comparison with a decimal, which takes microseconds."""


def integer_bytes(number: cython.longlong, size: cython.int) -> bytes:
    """Return the bytes of an int (4) or a long (8)."""
    if cython.compiled:
        return cython.cast(cython.p_char, cython.address(number))[:size]  # type: ignore[index, return-value]
    return number.to_bytes(size, "little", signed=True)


def double_bytes(number: cython.double) -> bytes:
    """Return the bytes of a double."""
    if cython.compiled:
        return cython.cast(cython.p_char, cython.address(number))[:8]  # type: ignore[index, return-value]
    return pack("<d", number)


def decimal_value(raw: bytes, at: int) -> Decimal:
    """Return the decimal128 at `at`; NaN payloads are dropped, coefficients beyond 34 digits are 0 (IEEE 754-2008,
    3.5.2).
    """
    bits = int.from_bytes(raw[at : at + 16], "little")
    sign = bits >> 127
    if (bits >> 122) & 0x1F == 0x1F:
        return Decimal("NaN")
    if (bits >> 122) & 0x1F == 0x1E:
        return Decimal("-Infinity") if sign else Decimal("Infinity")
    if (bits >> 125) & 3 == 3:
        exponent = (bits >> 111) & 0x3FFF
        coefficient = 0
    else:
        exponent = (bits >> 113) & 0x3FFF
        coefficient = bits & ((1 << 113) - 1)
        if coefficient > MAX_COEFFICIENT:
            coefficient = 0
    return Decimal((sign, tuple(map(int, str(coefficient))), exponent - _EXPONENT_BIAS))


def exact_value(code: int, raw: bytes, at: int) -> Decimal:
    """Return the number at `at`, of any of the four types, without rounding."""
    if code == DECIMAL:
        return decimal_value(raw, at)
    if code == DOUBLE:
        return Decimal(double_at(raw, at))
    return Decimal(integer_at(code, raw, at))


@cython.exceptval(check=False)
def integer_at(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.longlong:
    """Return the int32 or int64 at `at`."""
    if code == INT32:
        return int32_at(raw, at)
    return int64_at(raw, at)


@cython.exceptval(check=False)
def _compare_doubles(a: cython.double, b: cython.double) -> cython.int:
    if a < b:
        return -1
    if a > b:
        return 1
    if a == b:
        return 0
    if a == a:
        return 1
    return 0 if b != b else -1


@cython.exceptval(check=False)
def _compare_integer_double(a: cython.longlong, b: cython.double) -> cython.int:
    integer: cython.longlong
    if b != b:
        return 1
    if b >= 9223372036854775808.0:
        return -1
    if b < -9223372036854775808.0:
        return 1
    integer = cython.cast(cython.longlong, b)
    if a != integer:
        return -1 if a < integer else 1
    return _compare_doubles(0.0, b - cython.cast(cython.double, integer))


@cython.exceptval(-9, check=True)
def compare_numbers(
    a_code: cython.int, a: bytes, a_at: cython.Py_ssize_t, b_code: cython.int, b: bytes, b_at: cython.Py_ssize_t
) -> cython.int:
    """Return -1, 0 or 1; both codes are number types."""
    first: cython.longlong
    second: cython.longlong
    if a_code == DECIMAL or b_code == DECIMAL:
        spend(_PER_DECIMAL)
        return _compare_exactly(exact_value(a_code, a, a_at), exact_value(b_code, b, b_at))
    if a_code == DOUBLE:
        if b_code == DOUBLE:
            return _compare_doubles(double_at(a, a_at), double_at(b, b_at))
        return -_compare_integer_double(integer_at(b_code, b, b_at), double_at(a, a_at))
    first = integer_at(a_code, a, a_at)
    if b_code == DOUBLE:
        return _compare_integer_double(first, double_at(b, b_at))
    second = integer_at(b_code, b, b_at)
    if first == second:
        return 0
    return -1 if first < second else 1


def _compare_exactly(a: Decimal, b: Decimal) -> int:
    if a.is_nan() or b.is_nan():
        return int(b.is_nan()) - int(a.is_nan())
    return int(a > b) - int(a < b)
