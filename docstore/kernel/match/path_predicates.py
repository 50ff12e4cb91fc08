"""Predicates of the values at a path; `docstore.kernel.match.predicate` defines which values these are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

import cython

from docstore.bson.number import exact_value
from docstore.bson.walk import Value
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.folding import TextFolding
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.match.predicate import PathPredicate, Predicate

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.number import integer_at
    from docstore.bson.order import (
        CLASS_MAX_KEY,
        CLASS_MIN_KEY,
        CLASS_NULL,
        CLASS_NUMBER,
        CLASS_UNDEFINED,
        class_of,
        compare_at,
    )
    from docstore.bson.walk import (
        ARRAY,
        BINARY,
        CODE,
        DATE,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        OBJECT_ID,
        REGEX,
        STRING,
        SYMBOL,
        TIMESTAMP,
        document_stop,
        double_at,
        name_end,
        part,
        same_bytes,
        value_end,
    )
    from docstore.kernel.keys.encoding import append_key
    from docstore.kernel.match.predicate import MISSING

    _LESS = 1
    _EQUAL = 2
    _GREATER = 4

_EQUAL_BY_BYTES = frozenset((BINARY, CODE, DATE, INT32, INT64, OBJECT_ID, REGEX, STRING, SYMBOL, TIMESTAMP))
"""Types of which two values are equal exactly if their bytes are."""

_OUTCOMES = {"eq": _EQUAL, "lt": _LESS, "lte": _LESS | _EQUAL, "gt": _GREATER, "gte": _GREATER | _EQUAL}


class Compare(PathPredicate):
    """A value compares with the operand by `op`: "eq", "lt", "lte", "gt" or "gte".

    Only values of the operand's class are compared, with three exceptions: null also equals undefined and a missing
    value; MinKey and MaxKey are compared with everything; NaN is neither less nor greater than any number.

    `_bytewise`: a value of the operand's own type is equal exactly if its bytes are.
    """

    op: str
    operand: Value
    _code: cython.int
    _raw: bytes
    _end: cython.Py_ssize_t
    _class: cython.int
    _accepted: cython.int
    _nan: bool
    _bytewise: bool

    def __init__(self, path: str, op: str, operand: Value) -> None:
        super().__init__(path, True)
        self.op = op
        self.operand = operand
        self._code, self._raw = operand
        self._end = len(self._raw)
        self._class = class_of(self._code)
        self._accepted = _OUTCOMES[op]
        self._nan = encode_key(operand) == b"\x28"
        self._bytewise = op == "eq" and self._code in _EQUAL_BY_BYTES

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        type_class: cython.int
        order: cython.int
        if self._bytewise and code == self._code:
            return end - at == self._end and stands_at(raw, at, self._raw, self._end)
        type_class = CLASS_NULL if code == MISSING else class_of(code)
        if type_class == CLASS_UNDEFINED and self._class == CLASS_NULL:
            type_class = CLASS_NULL
        if type_class != self._class:
            if self._class == CLASS_MIN_KEY:
                return (self._accepted & _GREATER) != 0
            if self._class == CLASS_MAX_KEY:
                return (self._accepted & _LESS) != 0
            return False
        if type_class == CLASS_NULL:
            return (self._accepted & _EQUAL) != 0
        order = compare_at(code, raw, at, end, self._code, self._raw, 0, self._end, 0)
        if order == 0:
            return (self._accepted & _EQUAL) != 0
        if type_class == CLASS_NUMBER and (self._nan or _is_nan(code, raw, at)):
            return False
        return (self._accepted & (_LESS if order < 0 else _GREATER)) != 0

    def _test_members(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        size: cython.Py_ssize_t = self._end
        if not self._bytewise:
            return PathPredicate._test_members(self, raw, start, limit)
        stop = document_stop(raw, start, limit)
        while at < stop:
            code = raw[at]
            # The names of the first ten members have one character.
            if at + 2 < stop and raw[at + 1] != 0 and raw[at + 2] == 0:
                begin = at + 3
            else:
                begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, code, begin, stop)
            if code == self._code:
                if end - begin == size and stands_at(raw, begin, self._raw, size):
                    return True
            elif self.test_value(code, raw, begin, end):
                return True
            at = end
        return False


@cython.exceptval(check=False)
def stands_at(raw: bytes, at: cython.Py_ssize_t, text: bytes, size: cython.Py_ssize_t) -> cython.bint:
    """True if the bytes at `at` are the `size` bytes of `text`; there must be as many."""
    return same_bytes(raw, at, text, 0, size)


@cython.exceptval(check=False)
def is_name(raw: bytes, at: cython.Py_ssize_t, named: cython.Py_ssize_t, name: bytes) -> cython.bint:
    """True if the name at [at, named) is `name`."""
    return named - at == len(name) and stands_at(raw, at, name, len(name))


def _is_nan(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.bint:
    number: cython.double
    if code == DOUBLE:
        number = double_at(raw, at)
        return number != number
    if code == DECIMAL:
        return exact_value(code, raw, at).is_nan()
    return False


class In(PathPredicate):
    """A value equals one of the operands."""

    _keys: set[bytes]
    _out: KeyWriter
    _null: bool

    def __init__(self, path: str, operands: Sequence[Value]) -> None:
        super().__init__(path, True)
        self._out = KeyWriter()
        self._keys = {encode_key(operand) for operand in operands}
        self._null = encode_key((10, b"")) in self._keys

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        type_class: cython.int = CLASS_NULL if code == MISSING else class_of(code)
        if type_class in (CLASS_NULL, CLASS_UNDEFINED):
            return self._null
        self._out.clear()
        append_key(self._out, code, raw, at, end)
        return self._out.contents() in self._keys


class Present(PathPredicate):
    """There is a value at the path."""

    def __init__(self, path: str) -> None:
        super().__init__(path, False)

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return code != MISSING


class Exists(Predicate):
    """There is a value at the path; if not `exists`, there is none at all."""

    path: str
    exists: cython.bint
    _present: Predicate

    def __init__(self, path: str, exists: bool) -> None:
        self.path = path
        self.exists = exists
        self._present = Present(path)

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return self._present.test(raw, start, limit) == self.exists

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return self._present.test_value(code, raw, at, end) == self.exists


class Type(PathPredicate):
    """A value has one of the types, given as type bytes."""

    codes: frozenset[int]

    def __init__(self, path: str, codes: Collection[int]) -> None:
        super().__init__(path, True)
        self.codes = frozenset([code & 0xFF for code in codes])

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return code in self.codes


class Mod(PathPredicate):
    """A number, truncated, divided by `divisor` leaves `remainder`, which has the number's sign."""

    divisor: int
    remainder: int
    _divisor: cython.longlong
    _remainder: cython.longlong

    def __init__(self, path: str, divisor: int, remainder: int) -> None:
        super().__init__(path, True)
        self.divisor = divisor
        self.remainder = remainder
        # Division by -1 leaves no remainder, but it overflows for the least number.
        self._divisor = 1 if divisor == -1 else divisor
        self._remainder = remainder

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        if code == MISSING or class_of(code) != CLASS_NUMBER:
            return False
        if code in (DOUBLE, DECIMAL):
            exact: Decimal = exact_value(code, raw, at)
            if not exact.is_finite() or abs(exact) >= 2**63:
                return False
            return _truncated_remainder(int(exact), self.divisor) == self.remainder
        if cython.compiled:
            return integer_at(code, raw, at) % self._divisor == self._remainder
        return _truncated_remainder(integer_at(code, raw, at), self.divisor) == self.remainder


def _truncated_remainder(number: int, divisor: int) -> int:
    remainder = abs(number) % abs(divisor)
    return -remainder if number < 0 else remainder


class Size(PathPredicate):
    """An array has exactly `size` elements."""

    size: cython.Py_ssize_t

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, False)
        self.size = size

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        if code != ARRAY:
            return False
        stop = document_stop(raw, at, end)
        at += 4
        while at < stop and count <= self.size:
            at = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
            count += 1
        return count == self.size


class All(Predicate):
    """Every operand equals some value at the path; never true for no operands."""

    path: str
    _parts: list[Predicate]

    def __init__(self, path: str, operands: Sequence[Value]) -> None:
        self.path = path
        self._parts = [Compare(path, "eq", operand) for operand in operands]

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        for part in self._parts:
            if not part.test(raw, start, limit):
                return False
        return len(self._parts) > 0

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        for part in self._parts:
            if not part.test_value(code, raw, at, end):
                return False
        return len(self._parts) > 0


class ElemMatch(PathPredicate):
    """One element of an array satisfies a predicate.

    The predicate tests elements that are documents (or arrays, as documents with fields "0", "1", ...). With
    `on_values` it tests every element as one value, for `{$elemMatch: {$gt: 1, $lt: 5}}`.
    """

    _part: Predicate
    _on_values: bool

    def __init__(self, path: str, part: Predicate, on_values: bool = False) -> None:
        super().__init__(path, False)
        self._part = part
        self._on_values = on_values

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        inner: cython.int
        if code != ARRAY:
            return False
        stop = document_stop(raw, at, end)
        at += 4
        spend((stop - at) >> 1)
        while at < stop:
            inner = raw[at]
            begin = name_end(raw, at + 1, stop) + 1
            at = value_end(raw, inner, begin, stop)
            if self._on_values:
                if self._part.test_value(inner, raw, begin, at):
                    return True
            elif (inner in (OBJECT, ARRAY)) and self._part.test(raw, begin, at):
                return True
        return False


class Folded(PathPredicate):
    """A value, folded by a collation, satisfies a leaf; the leaf's operands are folded already.

    The leaf tests only strings and values that can hold them.
    """

    _inner: PathPredicate
    _fold: TextFolding

    def __init__(self, inner: PathPredicate, fold: TextFolding) -> None:
        super().__init__(inner.path, inner.into_arrays)
        self._inner = inner
        self._fold = fold

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        folded: bytes
        if code in (STRING, OBJECT, ARRAY):
            folded = self._fold.folded(code, raw, at, end)
            return self._inner.test_value(code, folded, 0, len(folded))
        return self._inner.test_value(code, raw, at, end)


class ValueCall(PathPredicate):
    """A Python function returns true for a value."""

    _function: Callable[[Value], bool]

    def __init__(self, path: str, function: Callable[[Value], bool]) -> None:
        super().__init__(path, True)
        self._function = function

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return code != MISSING and bool(self._function((code, part(raw, at, end))))


class Call(Predicate):
    """A Python function returns true for the document."""

    _function: Callable[[bytes], bool]

    def __init__(self, function: Callable[[bytes], bool]) -> None:
        self._function = function

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return bool(self._function(part(raw, start, limit)))


class Ranges(Predicate):
    """The document's shard key lies in one of the ranges [low, high) of encoded keys.

    False for a document with an array on the path of its shard key: no shard owns such a document.
    """

    pattern: KeyPattern
    _lows: list[bytes]
    _highs: list[bytes]

    def __init__(self, pattern: KeyPattern, ranges: Sequence[tuple[bytes, bytes]]) -> None:
        self.pattern = pattern
        ordered = sorted(ranges)
        self._lows = [low for low, _ in ordered]
        self._highs = [high for _, high in ordered]

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        key: bytes | None = self.pattern.plain_key(raw if start == 0 and limit == len(raw) else part(raw, start, limit))
        if key is None:
            return False
        index: cython.Py_ssize_t = bisect_right(self._lows, key) - 1
        return index >= 0 and key < self._highs[index]
