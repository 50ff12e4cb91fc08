"""A sum of doubles that keeps what the sum cannot hold of the smaller ones.

Always true: `high` is the sum as a double, `low` what is left over by rounding. The steps are those of
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

    def plus(self, number: cython.double) -> None:
        term: cython.double = number + self.low
        rest: cython.double = self.low - (term - number)
        total: cython.double = self.high + term
        part: cython.double = total - self.high
        self.low = rest + ((self.high - (total - part)) + (term - part))
        self.high = total

    def plus_long(self, number: cython.longlong) -> None:
        """In two parts, of which each is a double exactly: the lowest 32 bits, cut towards zero, and the others."""
        upper: cython.longlong
        upper = number >> 32 << 32 if number >= 0 else -(-number >> 32 << 32)
        self.plus(cython.cast(cython.double, number - upper))
        self.plus(cython.cast(cython.double, upper))

    def overflows(self, number: cython.double) -> cython.bint:
        """Whether the sum with that number is none that is finite."""
        total: cython.double = self.high + number
        return total - total != 0.0
