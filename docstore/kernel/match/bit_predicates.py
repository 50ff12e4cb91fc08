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
    from docstore.bson.allowance import spend
    from docstore.bson.number import integer_at
    from docstore.bson.walk import BINARY, DECIMAL, DOUBLE, INT32, INT64

_BYTES_SHIFT = 4


class Bits(PathPredicate):
    """Tests the bits of a mask (see `docstore.query.filter.tree.Bits`): all of them (`every`) or at least one must be
    set (`ones`) or clear.
    """

    every: bool
    ones: bool
    _number_mask: cython.longlong
    _mask: bytes
    _sparse: list[tuple[int, int]]

    def __init__(self, path: str, mask: bytes, sparse: Iterable[tuple[int, int]], every: bool, ones: bool) -> None:
        super().__init__(path, True)
        self.every = every
        self.ones = ones
        self._mask = mask
        self._sparse = list(sparse)
        number = int.from_bytes(mask[:8], "little")
        further = mask[8:].strip(b"\0") != b""
        for index, bits in self._sparse:
            if index < 8:
                number |= bits << (8 * index)
            else:
                further = True
        if further:
            number |= 1 << 63
        self._number_mask = number - (1 << 64) if number >> 63 else number

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
        return self._test_bits(bits & self._number_mask, self._number_mask)

    @cython.exceptval(check=False)
    def _test_bits(self, present: cython.longlong, mask: cython.longlong) -> cython.bint:
        if self.ones:
            return present == mask if self.every else present != 0
        return present == 0 if self.every else present != mask

    def _test_bytes(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        index: cython.Py_ssize_t
        mask: cython.int
        present: cython.int
        masks: bytes = self._mask
        spend((len(masks) + 16 * len(self._sparse)) >> _BYTES_SHIFT)
        for index in range(len(masks)):
            mask = masks[index]
            if mask == 0:
                continue
            present = raw[at + index] & mask if index < end - at else 0
            if self._test_bits(present, mask) != self.every:
                return not self.every
        for index, mask in self._sparse:
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
