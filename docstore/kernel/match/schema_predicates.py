"""Predicates of `$jsonSchema` keywords: each restricts the values of its types and accepts all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.match.predicate import Predicate

if not cython.compiled:
    from docstore.bson.walk import ARRAY, OBJECT, STRING, document_stop, find, name_end, name_text, part, value_end
    from docstore.kernel.keys.encoding import append_key


class DocumentPredicate(Predicate):
    """A document, as a value, satisfies the predicate."""

    _part: Predicate

    def __init__(self, part: Predicate) -> None:
        self._part = part

    def test(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        return self._part.test_value(OBJECT, raw, start, limit)


class Among(Predicate):
    """A value is not of these types, or satisfies the predicate."""

    _codes: frozenset[int]
    _part: Predicate

    def __init__(self, codes: frozenset[int], part: Predicate) -> None:
        self._codes = codes
        self._part = part

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return code not in self._codes or self._part.test_value(code, raw, at, end)


class OneOf(Predicate):
    """A value satisfies exactly one of the parts."""

    _parts: list[Predicate]

    def __init__(self, parts: Sequence[Predicate]) -> None:
        self._parts = list(parts)

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        inner: Predicate
        count: cython.int = 0
        for inner in self._parts:
            count += inner.test_value(code, raw, at, end)
        return count == 1


class Holds(Predicate):
    """A document, in a value's place, satisfies a predicate of documents."""

    _part: Predicate

    def __init__(self, part: Predicate) -> None:
        self._part = part

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return code != OBJECT or self._part.test(raw, at, end)


class Required(Predicate):
    """A document has fields of these names."""

    _names: list[bytes]

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [encoded_name(name) for name in names]

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        name: bytes
        if code == OBJECT:
            for name in self._names:
                if find(raw, at, end, name) < 0:
                    return False
        return True


class Properties(Predicate):
    """A document's fields satisfy their predicates: those `named`, by paths through embedded documents; those whose
    names match `patterns`; and all others `additional`.
    """

    _paths: list[list[bytes]]
    _parts: list[Predicate]
    _patterns: list[tuple[Callable[[str], Any], Predicate]]
    _additional: Predicate | None
    _names: set[bytes]

    def __init__(
        self,
        named: dict[str, Predicate],
        patterns: Sequence[tuple[Callable[[str], Any], Predicate]],
        additional: Predicate | None,
    ) -> None:
        self._paths = [[encoded_name(field) for field in name.split(".")] for name in named]
        self._parts = list(named.values())
        self._patterns = list(patterns)
        self._additional = additional
        self._names = {encoded_name(name) for name in named}

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        index: cython.Py_ssize_t
        if code != OBJECT:
            return True
        for index in range(len(self._paths)):
            if not self._test_path(self._paths[index], self._parts[index], raw, at, end):
                return False
        if self._additional is None and not self._patterns:
            return True
        return self._test_others(raw, at, end)

    def _test_path(
        self, path: list[bytes], inner: Predicate, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t
    ) -> cython.bint:
        depth: cython.Py_ssize_t
        last: cython.Py_ssize_t = len(path) - 1
        at: cython.Py_ssize_t
        offset: cython.Py_ssize_t
        name: bytes
        for depth in range(last + 1):
            name = path[depth]
            offset = find(raw, start, limit, name)
            if offset < 0:
                return True
            at = offset + len(name) + 2
            limit = value_end(raw, raw[offset], at, limit)
            start = at
            if depth < last and raw[offset] != OBJECT:
                return True
        return inner.test_value(raw[offset], raw, start, limit)

    def _test_others(self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        is_named: cython.bint
        inner: Predicate
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            is_named = part(raw, at + 1, named) in self._names
            for search, inner in self._patterns:
                if search(name_text(raw, at + 1, named)):
                    is_named = True
                    if not inner.test_value(raw[at], raw, named + 1, end):
                        return False
            if (
                not is_named
                and self._additional is not None
                and not self._additional.test_value(raw[at], raw, named + 1, end)
            ):
                return False
            at = end
        return True


class Items(Predicate):
    """The elements of an array satisfy their predicates: the first ones those of `first`, all others `additional`."""

    _first: list[Predicate]
    _additional: Predicate | None

    def __init__(self, first: Sequence[Predicate], additional: Predicate | None) -> None:
        self._first = list(first)
        self._additional = additional

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        index: cython.Py_ssize_t = 0
        inner: Predicate | None
        if code != ARRAY:
            return True
        stop = document_stop(raw, at, end)
        at += 4
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            inner = self._first[index] if index < len(self._first) else self._additional
            if inner is not None and not inner.test_value(raw[at], raw, begin, end):
                return False
            index += 1
            at = end
        return True


class Length(Predicate):
    """A value of the type (a string, an array or a document) has at least `bound` characters, elements or fields, or at
    most.
    """

    _code: cython.int
    _bound: cython.longlong
    _at_most: cython.bint

    def __init__(self, code: int, bound: int, at_most: bool) -> None:
        self._code = code
        self._bound = bound
        self._at_most = at_most

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        size: cython.Py_ssize_t
        if code != self._code:
            return True
        size = _characters(raw, at + 4, end - 1) if code == STRING else _fields(raw, at, end)
        return size <= self._bound if self._at_most else size >= self._bound


@cython.exceptval(check=False)
def _characters(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of characters: the bytes that do not continue one."""
    size: cython.Py_ssize_t = 0
    while at < end:
        if raw[at] & 0xC0 != 0x80:
            size += 1
        at += 1
    return size


def _fields(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.Py_ssize_t:
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    size: cython.Py_ssize_t = 0
    while at < stop:
        at = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
        size += 1
    return size


class Equalities(Predicate):
    """Compares values by keys that ignore number types and the order of fields. `key_of` makes the keys of documents
    and arrays; other values have their encoded key.
    """

    _key_of: Callable[[Value], bytes]
    _out: KeyWriter

    def __init__(self, key_of: Callable[[Value], bytes]) -> None:
        self._key_of = key_of
        self._out = KeyWriter()

    def _key(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
        if code in (OBJECT, ARRAY):
            return self._key_of((code, part(raw, at, end)))
        self._out.clear()
        append_key(self._out, code, raw, at, end)
        return self._out.contents()


class Listed(Equalities):
    """A value has one of these keys."""

    _keys: set[bytes]

    def __init__(self, key_of: Callable[[Value], bytes], keys: set[bytes]) -> None:
        super().__init__(key_of)
        self._keys = keys

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        return self._key(code, raw, at, end) in self._keys


class Different(Equalities):
    """No two elements of an array are equal."""

    def test_value(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
        stop: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        keys: set[bytes]
        count: cython.Py_ssize_t = 0
        if code != ARRAY:
            return True
        keys = set()
        stop = document_stop(raw, at, end)
        at += 4
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            keys.add(self._key(raw[at], raw, begin, end))
            count += 1
            if len(keys) < count:
                return False
            at = end
        return True
