"""Expressions over the values of a document, for the common types.

A `Calculation` takes its operands from sources, in the order of their evaluation, and only those needed. If an
operand's type or size is not supported here, it calls `otherwise` on the document: the general expression, which
handles all cases and errors. Invariant: the result is always that of `otherwise`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.group.sources import Source, ValueRef
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_RESULT_BYTES, WALKED_SHIFT

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.number import double_bytes, integer_bytes
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        BOOL,
        DATE,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        MIN_KEY,
        NULL,
        STRING,
        UNDEFINED,
        document_stop,
        double_at,
        int32_at,
        int64_at,
        name_end,
        value_end,
    )
    from docstore.kernel.group.sources import put_result

    UNKNOWN = -2
_PER_OPERATOR: cython.Py_ssize_t = 16
"""The cost of an operator without that of its operands."""
_ONCE_ROUNDED = 1 << 53
"""Integers below this are doubles without rounding."""


@cython.exceptval(check=False)
def is_integer(value: ValueRef) -> cython.bint:
    return value.code in (INT32, INT64)


@cython.exceptval(check=False)
def is_binary(value: ValueRef) -> cython.bint:
    """True if the value is an int, long or double."""
    return value.code in (INT32, INT64, DOUBLE)


@cython.exceptval(check=False)
def integer_of(value: ValueRef) -> cython.longlong:
    return int32_at(value.raw, value.at) if value.code == INT32 else int64_at(value.raw, value.at)


@cython.exceptval(check=False)
def double_of(value: ValueRef) -> cython.double:
    return double_at(value.raw, value.at) if value.code == DOUBLE else float(integer_of(value))


def put_integer(result: ValueRef, code: cython.int, number: cython.longlong) -> cython.int:
    """Put an integer of type `code`; an int that does not fit becomes a long."""
    if code == INT32 and -0x80000000 <= number <= 0x7FFFFFFF:
        return result.put(INT32, integer_bytes(number, 4))
    return put_long(result, INT64, number)


def put_long(result: ValueRef, code: cython.int, number: cython.longlong) -> cython.int:
    """Put a value of eight bytes: a long, or a date."""
    return result.put(code, integer_bytes(number, 8))


def put_boolean(result: ValueRef, truth: cython.bint) -> cython.int:
    return result.put(BOOL, b"\1" if truth else b"\0")


@cython.exceptval(check=False)
def truth_of(value: ValueRef) -> cython.int:
    """Return 1 for a true value, 0 for a false one, `UNKNOWN` for decimals."""
    if value.code in (0, NULL, UNDEFINED):
        return 0
    if value.code == BOOL:
        return 1 if value.raw[value.at] else 0
    if value.code in (INT32, INT64):
        return 1 if integer_of(value) != 0 else 0
    if value.code == DOUBLE:
        return 1 if double_at(value.raw, value.at) != 0.0 else 0
    return UNKNOWN if value.code == DECIMAL else 1


class Calculation(Source):
    """An operator applied to `operands`, with `otherwise` as its fallback (see the module).

    Cannot be used with `unwind`.
    """

    _operands: list[Source]
    _otherwise: Callable[[bytes], Value | None]
    _first: ValueRef
    _second: ValueRef

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None]) -> None:
        self._operands = list(operands)
        self._otherwise = otherwise
        self._first = ValueRef()
        self._second = ValueRef()

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a calculation needs the unwound document")

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        if not self._calculated(document, result):
            put_result(result, self._otherwise(document))
        # What an operator walks of its operands, be its result as small as it may.
        spend(_PER_OPERATOR + ((self._first.end - self._first.at + self._second.end - self._second.at) >> WALKED_SHIFT))
        return 0

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        """Compute the value into `result`; False if `otherwise` must do it."""
        raise NotImplementedError

    def _locate(self, position: cython.Py_ssize_t, document: bytes, result: ValueRef) -> cython.int:
        """Locate the value of an operand in `result`."""
        operand: Source = self._operands[position]
        return operand.locate(document, None, result)

    def _two_numbers(self, document: bytes) -> cython.bint:
        """Locate both operands. True if they are ints, longs or doubles."""
        self._locate(0, document, self._first)
        self._locate(1, document, self._second)
        return is_binary(self._first) and is_binary(self._second)

    def _two_from_behind(self, document: bytes) -> cython.bint:
        """Like `_two_numbers`, for operators that evaluate their second operand first."""
        self._locate(1, document, self._second)
        self._locate(0, document, self._first)
        return is_binary(self._first) and is_binary(self._second)


@cython.exceptval(check=False)
def is_small(number: cython.longlong) -> cython.bint:
    """True if sums and differences of two such numbers fit 64 bits."""
    return -1 <= number >> 61 <= 0


class Sum(Calculation):
    """`$add` of integers, or of two numbers."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        number: cython.longlong
        total: cython.longlong = 0
        code: cython.int = INT32
        operand: ValueRef = self._first
        for position in range(len(self._operands)):
            self._locate(position, document, operand)
            if not is_integer(operand):
                # A null ends the evaluation of operands.
                return is_binary(operand) and self._of_doubles(document, result)
            number = integer_of(operand)
            if operand.code == INT64:
                code = INT64
            if not (is_small(number) and is_small(total)):
                return False
            total += number
        put_integer(result, code, total)
        return True

    def _of_doubles(self, document: bytes, result: ValueRef) -> cython.bint:
        """Add two numbers with one rounding; if the second one is a long, it is added in parts."""
        total: cython.double
        if len(self._operands) != 2 or not self._two_numbers(document) or self._second.code == INT64:
            return False
        if self._first.code == INT64 and not -_ONCE_ROUNDED < integer_of(self._first) < _ONCE_ROUNDED:
            return False
        total = double_of(self._first) + double_of(self._second)
        if total == 0.0 or total - total != 0.0:
            return False
        result.put(DOUBLE, double_bytes(total))
        return True


class Difference(Calculation):
    """`$subtract` of numbers, or of dates."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        difference: cython.double
        number: cython.longlong
        other: cython.longlong
        if not self._two_from_behind(document):
            if self._first.code != DATE or self._second.code != DATE:
                return False
            number, other = int64_at(self._first.raw, self._first.at), int64_at(self._second.raw, self._second.at)
            if not (is_small(number) and is_small(other)):
                return False
            put_integer(result, INT64, number - other)
            return True
        if self._first.code == DOUBLE or self._second.code == DOUBLE:
            difference = double_of(self._first) - double_of(self._second)
            if difference != difference:
                return False
            result.put(DOUBLE, double_bytes(difference))
            return True
        number, other = integer_of(self._first), integer_of(self._second)
        if not (is_small(number) and is_small(other)):
            return False
        put_integer(result, INT64 if INT64 in (self._first.code, self._second.code) else INT32, number - other)
        return True


class Product(Calculation):
    """`$multiply` of numbers; of integers as long as they stay within 32 bits before each step."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        number: cython.longlong
        integer_product: cython.longlong = 1
        product: cython.double = 1.0
        code: cython.int = INT32
        operand: ValueRef = self._first
        for position in range(len(self._operands)):
            self._locate(position, document, operand)
            if not is_binary(operand):
                return False
            if code == DOUBLE:
                product *= double_of(operand)
            elif operand.code == DOUBLE:
                product = float(integer_product) * double_at(operand.raw, operand.at)
                code = DOUBLE
            else:
                number = integer_of(operand)
                if not (-1 <= number >> 31 <= 0 and -1 <= integer_product >> 31 <= 0):
                    return False
                integer_product *= number
                if operand.code == INT64 or not -1 <= integer_product >> 31 <= 0:
                    code = INT64
        if code == DOUBLE:
            if product != product:
                return False
            result.put(DOUBLE, double_bytes(product))
        else:
            put_integer(result, code, integer_product)
        return True


class Quotient(Calculation):
    """`$divide` by a number other than zero."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        quotient: cython.double
        divisor: cython.double
        if not self._two_from_behind(document):
            return False
        divisor = double_of(self._second)
        if divisor == 0.0:
            return False
        quotient = double_of(self._first) / divisor
        if quotient != quotient:
            return False
        result.put(DOUBLE, double_bytes(quotient))
        return True


class Remainder(Calculation):
    """`$mod` of integers that are not negative."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        number: cython.longlong
        divisor: cython.longlong
        if not self._two_numbers(document) or DOUBLE in (self._first.code, self._second.code):
            return False
        number, divisor = integer_of(self._first), integer_of(self._second)
        if number < 0 or divisor <= 0:
            return False
        put_integer(result, INT64 if INT64 in (self._first.code, self._second.code) else INT32, number % divisor)
        return True


class Comparison(Calculation):
    """A comparison. `answers` are its values for less, equal and greater."""

    _answers: list[Value]

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], answers: Sequence[Value]
    ) -> None:
        super().__init__(operands, otherwise)
        self._answers = list(answers)

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        order: cython.int
        first: ValueRef = self._first
        second: ValueRef = self._second
        self._locate(0, document, first)
        self._locate(1, document, second)
        if first.code == 0 or second.code == 0:
            order = _above_missing(first) - _above_missing(second)
        else:
            order = compare_at(
                first.code, first.raw, first.at, first.end, second.code, second.raw, second.at, second.end, 0
            )
        put_result(result, self._answers[1 if order == 0 else (2 if order > 0 else 0)])
        return True


@cython.exceptval(check=False)
def _above_missing(value: ValueRef) -> cython.int:
    """Return the rank beside a missing value, which sorts between MinKey and all others."""
    if value.code == 0:
        return 0
    return -1 if value.code == MIN_KEY else 1


class Connective(Calculation):
    """`$and` (stops at the first false operand) and `$or` (at the first true one)."""

    _stop: cython.int

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], stop: bool) -> None:
        super().__init__(operands, otherwise)
        self._stop = 1 if stop else 0

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        truth: cython.int
        for position in range(len(self._operands)):
            self._locate(position, document, self._first)
            truth = truth_of(self._first)
            if truth == UNKNOWN:
                return False
            if truth == self._stop:
                put_boolean(result, truth == 1)
                return True
        put_boolean(result, self._stop == 0)
        return True


class Negation(Calculation):
    """`$not`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        truth: cython.int
        self._locate(0, document, self._first)
        truth = truth_of(self._first)
        if truth == UNKNOWN:
            return False
        put_boolean(result, truth == 0)
        return True


class Choice(Calculation):
    """`$cond`, `$switch`: operands are conditions, each followed by its result, and the default at the end."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t = 0
        truth: cython.int
        while position + 1 < len(self._operands):
            self._locate(position, document, self._first)
            truth = truth_of(self._first)
            if truth == UNKNOWN:
                return False
            if truth == 1:
                self._locate(position + 1, document, result)
                return True
            position += 2
        if position == len(self._operands):
            return False
        self._locate(position, document, result)
        return True


class FirstPresent(Calculation):
    """`$ifNull`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        for position in range(len(self._operands)):
            self._locate(position, document, result)
            if result.code not in (0, NULL, UNDEFINED):
                return True
        return True


class Concatenation(Calculation):
    """`$concat` of strings."""

    _out: KeyWriter

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None]) -> None:
        super().__init__(operands, otherwise)
        self._out = KeyWriter()

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        position: cython.Py_ssize_t
        operand: ValueRef = self._first
        out: KeyWriter = self._out
        out.clear()
        out.put_little(0, 4)
        for position in range(len(self._operands)):
            self._locate(position, document, operand)
            if operand.code != STRING or out.size + operand.end - operand.at > MAX_RESULT_BYTES:
                return False
            out.put_part(operand.raw, operand.at + 4, operand.end - 1)
        out.put(0)
        out.set_little(0, out.size - 4, 4)
        size: cython.Py_ssize_t = out.size
        result.put(STRING, out.contents())
        spend(size)
        return True


def member_of(array: ValueRef, index: cython.longlong, result: ValueRef) -> cython.longlong:
    """Locate a member of an array, or a missing value. Return the index of the member, or the number of members."""
    raw: bytes = array.raw
    stop: cython.Py_ssize_t = document_stop(raw, array.at, array.end)
    at: cython.Py_ssize_t = array.at + 4
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    position: cython.longlong = 0
    while at < stop:
        begin = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, raw[at], begin, stop)
        if position == index:
            result.raw = raw
            result.code = raw[at]
            result.at = begin
            result.end = end
            return position
        position += 1
        at = end
    result.code = 0
    return position


class Size(Calculation):
    """`$size` of an array."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        self._locate(0, document, self._first)
        if self._first.code != ARRAY:
            return False
        put_integer(result, INT32, member_of(self._first, -1, self._second))
        return True


class Member(Calculation):
    """`$arrayElemAt` with an int; with a constant `index`, `$first` and `$last`."""

    _index: cython.longlong
    _has_index: cython.bint

    def __init__(
        self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], index: int | None = None
    ) -> None:
        super().__init__(operands, otherwise)
        self._has_index = index is not None
        self._index = 0 if index is None else index

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        index: cython.longlong = self._index
        self._locate(0, document, self._first)
        if not self._has_index:
            self._locate(1, document, self._second)
            if self._second.code != INT32:
                return False
            index = integer_of(self._second)
        if self._first.code != ARRAY:
            return False
        if index < 0:
            index += member_of(self._first, -1, self._second)
        if index < 0:
            result.code = 0
        else:
            member_of(self._first, index, result)
        return True


class Membership(Calculation):
    """`$in`."""

    def _calculated(self, document: bytes, result: ValueRef) -> cython.bint:
        value: ValueRef = self._first
        array: ValueRef = self._second
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        self._locate(0, document, value)
        self._locate(1, document, array)
        if value.code == 0 or array.code != ARRAY:
            return False
        stop = document_stop(array.raw, array.at, array.end)
        at = array.at + 4
        while at < stop:
            begin = name_end(array.raw, at + 1, stop) + 1
            end = value_end(array.raw, array.raw[at], begin, stop)
            if compare_at(value.code, value.raw, value.at, value.end, array.raw[at], array.raw, begin, end, 0) == 0:
                put_boolean(result, True)
                return True
            at = end
        put_boolean(result, False)
        return True
