"""Compiled predicates over raw documents, with MongoDB's rules for arrays on paths.

A predicate is a tree: `And`, `Or`, `Nor`, `Not` over leaves. A leaf tests the values at a dotted path:

* on the way, an array stands for its embedded documents (arrays directly inside arrays do not). A number in the path
  also selects the array's element at that position;
* at the end, an array stands for its elements and for itself. It stands only for itself for `Size` and `ElemMatch`, and
  if a number in the path named it;
* a path without a value yields one missing value, except after an array element that a number in the path named.

The leaf holds if one of these values passes. Negation is `Not`: `{a: {$ne: 1}}` is `Not(Compare("a", "eq", 1))`.

Inside `ElemMatch(..., on_values=True)` a leaf tests one array element. It ignores its path then, and arrays stand only
for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from docstore.bson.walk import encoded_name, place_in_array

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, find, name_end, value_end

    MISSING = 0
    """The type byte that leaves receive for a missing value."""
    _BYTES_SHIFT = 4
    """Of the bytes of a document or array, one in sixteen is charged for passing its fields."""


_MANY = 64
_PER_PART = 32


class Predicate:
    """A condition on a document."""

    def matches(self, raw: bytes) -> bool:
        """True if the predicate holds for the document."""
        return self.test(raw, 0, len(raw))

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        """True if the predicate holds for the document at [start, limit)."""
        raise NotImplementedError

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        """True if the predicate holds for the one value at [at, end)."""
        raise NotImplementedError


class Always(Predicate):
    """A constant predicate."""

    _holds: bool

    def __init__(self, holds: bool) -> None:
        self._holds = holds

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return self._holds

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return self._holds


def cost_of(parts: list[Predicate]) -> int:
    """Return the units of work to charge for testing these parts; a few are free."""
    return len(parts) * _PER_PART if len(parts) > _MANY else 0


class And(Predicate):
    """All of the parts hold."""

    _parts: list[Predicate]
    _cost: cython.Py_ssize_t

    def __init__(self, parts: Sequence[Predicate]) -> None:
        self._parts = list(parts)
        self._cost = cost_of(self._parts)

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        if self._cost:
            spend(self._cost)
        for part in self._parts:
            if not part.test(raw, start, limit):
                return False
        return True

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        if self._cost:
            spend(self._cost)
        for part in self._parts:
            if not part.test_value(code, raw, at, end):
                return False
        return True


class Or(Predicate):
    """At least one of the parts holds."""

    _parts: list[Predicate]
    _cost: cython.Py_ssize_t

    def __init__(self, parts: Sequence[Predicate]) -> None:
        self._parts = list(parts)
        self._cost = cost_of(self._parts)

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        if self._cost:
            spend(self._cost)
        for part in self._parts:
            if part.test(raw, start, limit):
                return True
        return False

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        part: Predicate
        if self._cost:
            spend(self._cost)
        for part in self._parts:
            if part.test_value(code, raw, at, end):
                return True
        return False


class Not(Predicate):
    """The part does not hold."""

    _part: Predicate

    def __init__(self, part: Predicate) -> None:
        self._part = part

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return not self._part.test(raw, start, limit)

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return not self._part.test_value(code, raw, at, end)


class Nor(Not):
    """None of the parts holds."""

    def __init__(self, parts: Sequence[Predicate]) -> None:
        self._part = Or(parts)


class PathPredicate(Predicate):
    """A leaf: it holds if a value at its path passes `test_value`."""

    path: str
    into_arrays: bool
    _names: list[bytes]
    _positions: list[int]
    _last: cython.Py_ssize_t
    _elements: bool

    def __init__(self, path: str, into_arrays: bool) -> None:
        names = path.split(".")
        self.path = path
        self.into_arrays = into_arrays
        self._names = [encoded_name(name) for name in names]
        self._positions = [place_in_array(name) for name in names]
        self._last = len(names) - 1
        # An empty last part after an array stands for the array's elements, as the path without it does.
        self._elements = self._last > 0 and not names[self._last]

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return self._test_field(raw, start, limit, 0)

    def _test_field(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.bint:
        """True if a value passes, in the document with the path's part at `depth`."""
        name: bytes = self._names[depth]
        at: cython.Py_ssize_t = find(raw, start, limit, name)
        begin: cython.Py_ssize_t
        # Of the fields that were passed; short documents cost nothing.
        spend(((limit if at < 0 else at) - start) >> _BYTES_SHIFT)
        if at < 0:
            return self.test_value(MISSING, raw, start, start)
        begin = at + len(name) + 2
        return self._test_at(raw[at], raw, begin, value_end(raw, raw[at], begin, limit), depth)

    def _test_at(
        self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.bint:
        """True if a value passes, at or below the value of the path's part at `depth`."""
        if depth == self._last or (code == ARRAY and self._elements and depth == self._last - 1):
            if code == ARRAY and self.into_arrays and self._test_members(raw, at, end):
                return True
            return self.test_value(code, raw, at, end)
        if code == OBJECT:
            return self._test_field(raw, at, end, depth + 1)
        if code == ARRAY:
            return self._test_array(raw, at, end, depth + 1)
        return self.test_value(MISSING, raw, at, at)

    def _test_members(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        spend((stop - start) >> _BYTES_SHIFT)
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            if self.test_value(raw[at], raw, begin, end):
                return True
            at = end
        return False

    def _test_array(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.bint:
        """True if a value passes, below an array in place of the document with the path's part at `depth`."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        position: cython.Py_ssize_t = self._positions[depth]
        index: cython.Py_ssize_t = 0
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        spend((stop - start) >> _BYTES_SHIFT)
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            if raw[at] == OBJECT and self._test_field(raw, begin, end, depth):
                return True
            if index == position and self._test_member(raw[at], raw, begin, end, depth):
                return True
            at = end
            index += 1
        return False

    def _test_member(
        self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.bint:
        """True if a value passes, at or below the array element that a number in the path names."""
        if depth == self._last:
            return self.test_value(code, raw, at, end)
        return code in (OBJECT, ARRAY) and self._test_at(code, raw, at, end, depth)
