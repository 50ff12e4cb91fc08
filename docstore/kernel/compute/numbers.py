"""Functions of numbers, and conversions of values to numbers and booleans.

The rules are those of `docstore.kernel.compute.expressions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.limits import LONG_MIN
from docstore.bson.walk import Value
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Source, ValueRef

if cython.compiled:
    from cython.cimports.libc.math import ceil, floor, rint

if not cython.compiled:
    import math
    from math import copysign, exp, fabs, isfinite, log, log10, sqrt
    from math import pow as c_pow

    from docstore.bson.number import double_bytes
    from docstore.bson.walk import BOOL, DATE, DOUBLE, INT32, INT64, NULL, UNDEFINED
    from docstore.kernel.compute.expressions import (
        UNKNOWN,
        double_of,
        integer_of,
        is_binary,
        is_integer,
        put_boolean,
        put_integer,
        put_long,
        truth_of,
    )
    from docstore.kernel.group.sources import put_result

    def ceil(number: float) -> float:
        return copysign(math.ceil(number), number)

    def floor(number: float) -> float:
        return copysign(math.floor(number), number)

    def rint(number: float) -> float:
        return copysign(round(number), number)


_SAFE_LONG = 9.2e18
"""Doubles below this are longs."""

if not cython.compiled:
    _ABSOLUTE, _FLOOR, _CEILING, _ROOT, _EXPONENTIAL, _LOGARITHM, _COMMON_LOGARITHM = range(7)
FUNCTIONS = {
    "$abs": _ABSOLUTE,
    "$ceil": _CEILING,
    "$exp": _EXPONENTIAL,
    "$floor": _FLOOR,
    "$ln": _LOGARITHM,
    "$log10": _COMMON_LOGARITHM,
    "$sqrt": _ROOT,
}
"""The codes of the functions of one number, for `Function`."""


class Function(Calculation):
    """A function of one finite number, by its code in `FUNCTIONS`; null for null."""

    _function: cython.int

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], function: int) -> None:
        super().__init__(operands, otherwise)
        self._function = function

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        function: cython.int = self._function
        number: cython.double
        self._locate(0, document, result)
        if result.code in (0, NULL, UNDEFINED):
            result.put(NULL, b"")
            return True
        if not is_binary(result):
            return False
        if is_integer(result) and function <= _CEILING:
            return function != _ABSOLUTE or self._absolute(result)
        number = double_of(result)
        if not isfinite(number) or (number < 0.0 and function >= _ROOT and function != _EXPONENTIAL):
            return False
        if number == 0.0 and function >= _LOGARITHM:
            return False
        if function == _ABSOLUTE:
            number = fabs(number)
        elif function == _FLOOR:
            number = floor(number)
        elif function == _CEILING:
            number = ceil(number)
        elif function == _ROOT:
            number = sqrt(number)
        elif function == _LOGARITHM:
            number = log(number)
        elif function == _COMMON_LOGARITHM:
            number = log10(number)
        elif number > 700.0:
            return False
        else:
            number = exp(number)
        result.put(DOUBLE, double_bytes(number))
        return True

    def _absolute(self, result: ValueRef) -> cython.bint:
        integer: cython.longlong = integer_of(result)
        if integer == LONG_MIN:
            return False
        put_integer(result, result.code, -integer if integer < 0 else integer)
        return True


class Rounded(Calculation):
    """`$round` to decimal places, or `$trunc`, of doubles and integers."""

    _cut: cython.bint

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], cut: bool) -> None:
        super().__init__(operands, otherwise)
        self._cut = cut

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        digits: cython.longlong = 0
        number: cython.double
        self._locate(0, document, result)
        if not is_binary(result):
            return False
        if len(self._operands) > 1:
            self._locate(1, document, self._second)
            if self._second.code != INT32:
                return False
            digits = integer_of(self._second)
            if digits < 0 or digits > 100:
                return False
        if is_integer(result):
            return True
        number = double_of(result)
        if not isfinite(number) or (self._cut and digits):
            return False
        if self._cut:
            number = ceil(number) if number < 0.0 else floor(number)
        elif digits:
            number = round(number, digits)
        else:
            number = rint(number)
        result.put(DOUBLE, double_bytes(number))
        return True


class Power(Calculation):
    """`$pow` if one of both is a double."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        number: cython.double
        power: cython.double
        if not self._two_numbers(document) or DOUBLE not in (self._first.code, self._second.code):
            return False
        number, power = double_of(self._first), double_of(self._second)
        if not (isfinite(number) and isfinite(power)) or number <= 0.0 or fabs(power) > 64.0 or number > 1e4:
            return False
        number = c_pow(number, power)
        if number == 0.0:
            return False
        result.put(DOUBLE, double_bytes(number))
        return True


class Converted(Calculation):
    """`$toInt`, `$toLong`, `$toDouble`, `$toBool` and `$toDate` of numbers, booleans and dates; null for null."""

    _code: cython.int

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], code: int) -> None:
        super().__init__(operands, otherwise)
        self._code = code

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        code: cython.int = self._code
        number: cython.double
        integer: cython.longlong
        truth: cython.int
        self._locate(0, document, result)
        if result.code in (0, NULL, UNDEFINED):
            result.put(NULL, b"")
            return True
        if result.code == code:
            return True
        if code == BOOL:
            truth = truth_of(result)
            if truth == UNKNOWN:
                return False
            put_boolean(result, truth == 1)
            return True
        if code == DATE:
            if result.code != INT64:
                return False
            result.code = DATE
            return True
        if result.code == BOOL:
            integer = 1 if result.raw[result.at] else 0
        elif result.code == DOUBLE:
            number = double_of(result)
            if not -_SAFE_LONG < number < _SAFE_LONG:
                return False
            integer = cython.cast(cython.longlong, number)
        elif is_integer(result):
            integer = integer_of(result)
        else:
            return False
        if code == DOUBLE:
            result.put(DOUBLE, double_bytes(cython.cast(cython.double, integer)))
        elif code == INT64:
            put_long(result, INT64, integer)
        elif -0x80000000 <= integer <= 0x7FFFFFFF:
            put_integer(result, INT32, integer)
        else:
            return False
        return True


class TypeName(Calculation):
    """`$type`: `names` by type byte, 0 for a missing value."""

    _names: dict[int, Value]

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], names: dict[int, Value]
    ) -> None:
        super().__init__(operands, otherwise)
        self._names = names

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        self._locate(0, document, self._first)
        put_result(result, self._names[self._first.code])
        return True
