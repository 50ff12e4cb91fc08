"""Predicates of bits: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

- Numbers are 64-bit two's complement; every bit from 63 on is the sign.
- Decimals are rounded half to even; those beyond 64 bits, infinities and NaN count as the least number.
- Doubles match only if they are exactly such a number.
- Binary data counts from the low bit of its first byte and is zero after its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, Decimal

import cython

from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.number import exact_value
from docstore.kernel.match.predicate import PathPredicate

if not cython.compiled:
    from docstore.bson.number import integer_at
    from docstore.bson.walk import BINARY, DECIMAL, DOUBLE, INT32, INT64


class Bits(PathPredicate):
    """Tests the bits at `positions`: all of them (`every`) or at least one must be set (`ones`) or clear."""

    every: bool
    ones: bool
    positions: frozenset[int]
    _mask: cython.longlong
    _bytes: list[tuple[int, int]]

    def __init__(self, path: str, positions: Iterable[int], every: bool, ones: bool) -> None:
        super().__init__(path, True)
        self.every = every
        self.ones = ones
        self.positions = frozenset(positions)
        mask = 0
        grouped: dict[int, int] = {}
        for position in self.positions:
            mask |= 1 << min(position, 63)
            grouped[position >> 3] = grouped.get(position >> 3, 0) | 1 << (position & 7)
        self._mask = mask - (1 << 64) if mask >> 63 else mask
        self._bytes = sorted(grouped.items())

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        bits: cython.longlong
        if code in (INT32, INT64):
            bits = integer_at(code, raw, at)
        elif code in (DOUBLE, DECIMAL):
            number: int | None = _integer_of(exact_value(code, raw, at), code == DECIMAL)
            if number is None:
                return False
            bits = number
        elif code == BINARY:
            return self._test_bytes(raw, at + 5, end)
        else:
            return False
        return self._test_bits(bits & self._mask, self._mask)

    @cython.exceptval(check=False)
    def _test_bits(self, present: cython.longlong, mask: cython.longlong) -> cython.bint:
        if self.ones:
            return present == mask if self.every else present != 0
        return present == 0 if self.every else present != mask

    def _test_bytes(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        index: cython.Py_ssize_t
        mask: cython.int
        present: cython.int
        for index, mask in self._bytes:
            present = raw[at + index] & mask if index < end - at else 0
            if self._test_bits(present, mask) != self.every:
                return not self.every
        return self.every


def _integer_of(number: Decimal, rounded: bool) -> int | None:
    """Return the 64-bit number that a double or a decimal represents; None if it represents none."""
    if not number.is_finite():
        return LONG_MIN if rounded else None
    if number.adjusted() > 19:
        return LONG_MIN if rounded else None
    integer = int(number.to_integral_value(ROUND_HALF_EVEN))
    if not LONG_MIN <= integer <= LONG_MAX:
        return LONG_MIN if rounded else None
    return integer if rounded or integer == number else None
