"""Compensated summation of doubles.

Invariant: `high` is the sum as a double, `low` its rounding error. The steps are those of
`docstore.query.value.summation`.
"""

from __future__ import annotations

import cython


@cython.no_gc
@cython.cclass
class DoubleSum:
    high: cython.double
    low: cython.double

    def __init__(self) -> None:
        self.high = 0.0
        self.low = 0.0

    @cython.exceptval(check=False)
    def plus(self, number: cython.double) -> None:
        term: cython.double = number + self.low
        error: cython.double = self.low - (term - number)
        total: cython.double = self.high + term
        part: cython.double = total - self.high
        self.low = error + ((self.high - (total - part)) + (term - part))
        self.high = total

    @cython.exceptval(check=False)
    def plus_long(self, number: cython.longlong) -> None:
        """Add an integer in two parts, each exactly a double: its lowest 32 bits, truncated towards zero, and the
        others.
        """
        upper: cython.longlong
        upper = number >> 32 << 32 if number >= 0 else -(-number >> 32 << 32)
        self.plus(cython.cast(cython.double, number - upper))
        self.plus(cython.cast(cython.double, upper))

    @cython.exceptval(check=False)
    def overflows(self, number: cython.double) -> cython.bint:
        """True if the sum with that number is not finite."""
        total: cython.double = self.high + number
        return total - total != 0.0
