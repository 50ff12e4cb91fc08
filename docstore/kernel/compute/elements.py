"""Array elements selected by equalities: the usual condition of `$`, `$[<name>]` and `$pull`.

Invariant: a test gives the result of the condition as a filter (`docstore.query.filter`) without collation, or UNKNOWN,
and then the caller must apply the filter.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import Value
from docstore.kernel.limits import MAX_ELEMENT_CONDITIONS

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        BINARY,
        BOOL,
        DATE,
        DECIMAL,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        OBJECT_ID,
        STRING,
        TIMESTAMP,
        document_stop,
        find,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.compute.new_values import LARGEST_ARRAY

UNKNOWN: cython.Py_ssize_t = -2
_NOWHERE: cython.Py_ssize_t = -1
_ITSELF: bytes = b""
_EQUALITY: cython.int = 1
"""Among conditions on several arrays, an equality has precedence over an `$elemMatch`."""


class Equalities:
    """Equalities of an element's fields with values; the field `_ITSELF` is the element."""

    _names: list[bytes]
    _values: list[Value]

    def __init__(self, names: list[bytes], values: list[Value]) -> None:
        self._names = names
        self._values = values

    @cython.exceptval(-9)
    def holds(
        self, raw: bytes, code: cython.int, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.Py_ssize_t:
        """Return 1 if the element at [begin, end) satisfies the equalities, 0 if not, or UNKNOWN."""
        index: cython.Py_ssize_t
        at: cython.Py_ssize_t
        value_code: cython.int
        name: bytes
        value: bytes
        stop: cython.Py_ssize_t
        if code == ARRAY:
            return UNKNOWN
        for index in range(len(self._names)):
            name = self._names[index]
            value_code, value = self._values[index]
            if not name:
                if compare_at(value_code, value, 0, len(value), code, raw, begin, end, 0) != 0:
                    return 0
                continue
            at = find(raw, begin, end, name) if code == OBJECT else -1
            if at < 0:
                return 0
            if raw[at] == ARRAY:
                return UNKNOWN
            stop = value_end(raw, raw[at], at + len(name) + 2, end)
            if compare_at(value_code, value, 0, len(value), raw[at], raw, at + len(name) + 2, stop, 0) != 0:
                return 0
        return 1


@cython.ccall
@cython.exceptval(check=False)
def is_plain_value(code: cython.int) -> cython.bint:
    """True if a value of this type in a filter is a plain equality."""
    if code in (STRING, OBJECT_ID, INT32, INT64, DOUBLE):
        return True
    return code in (BOOL, DATE, DECIMAL, BINARY, TIMESTAMP)


@cython.ccall
def equalities(raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> Equalities | None:
    """Return the equalities of the document at `start`; None if it has other conditions."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    name: bytes
    names: list[bytes] = []
    values: list[Value] = []
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        name = part(raw, at + 1, named)
        if not name or name.startswith(b"$") or b"." in name or not is_plain_value(raw[at]):
            return None
        names.append(name)
        values.append((raw[at], part(raw, named + 1, end)))
        at = end
    return Equalities(names, values) if 0 < len(names) <= MAX_ELEMENT_CONDITIONS else None


@cython.ccall
def array_filter(raw: bytes) -> tuple[bytes, Equalities] | None:
    """Return (identifier of the filter in an update's `arrayFilters`, its equalities); None if it has conditions other
    than equalities of the element or of its fields.
    """
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    names: list[bytes] = []
    values: list[Value] = []
    identifier: bytes | None = None
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        first, dot, field = part(raw, at + 1, named).partition(b".")
        if (identifier is not None and first != identifier) or not is_plain_value(raw[at]):
            return None
        if (dot and not field) or field.startswith(b"$") or b"." in field:
            return None
        identifier = first
        names.append(field)
        values.append((raw[at], part(raw, named + 1, end)))
        at = end
    if (
        identifier is None
        or not identifier.isalnum()
        or not identifier[:1].islower()
        or len(names) > MAX_ELEMENT_CONDITIONS
    ):
        return None
    return identifier, Equalities(names, values)


class MatchedElement:
    """Finds the array element that a filter of equalities matched (`docstore.query.projection.positions`).

    `paths` are the paths of its conditions. The lists are parallel, in the order of precedence: the parts of a path,
    the condition on an element if the array is at the path's end (None: unknown), and if the array is one part before.
    """

    paths: list[str]
    _parts: list[list[bytes]]
    _itself: list[Equalities]
    _field: list[Equalities | None]

    def __init__(self, conditions: list[tuple[int, bytes, Equalities, Equalities | None]]) -> None:
        conditions.sort(key=_rank_of)
        conditions.reverse()
        self.paths = [condition[1].decode() for condition in conditions]
        self._parts = [condition[1].split(b".") for condition in conditions]
        self._itself = [condition[2] for condition in conditions]
        self._field = [condition[3] for condition in conditions]

    @cython.ccall
    @cython.exceptval(-9)
    def of(self, raw: bytes) -> cython.Py_ssize_t:
        """Return the position that the filter matches in a document; -1 if it matches none, or UNKNOWN."""
        index: cython.Py_ssize_t
        position: cython.Py_ssize_t
        for index in range(len(self._parts)):
            position = self._position(index, raw)
            if position != _NOWHERE:
                return position
        return _NOWHERE

    @cython.exceptval(-9)
    def _position(self, index: cython.Py_ssize_t, raw: bytes) -> cython.Py_ssize_t:
        parts: list[bytes] = self._parts[index]
        condition: Equalities | None
        length: cython.Py_ssize_t
        remaining: cython.Py_ssize_t
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = len(raw)
        at: cython.Py_ssize_t
        code: cython.int
        name: bytes
        for length in range(len(parts)):
            name = parts[length]
            at = find(raw, start, end, name)
            if at < 0:
                return _NOWHERE
            code = raw[at]
            start = at + len(name) + 2
            end = value_end(raw, code, start, end)
            if code == ARRAY:
                remaining = len(parts) - length - 1
                if remaining > 1 or (remaining == 1 and parts[length + 1].isdigit()):
                    return UNKNOWN
                condition = self._field[index] if remaining == 1 else self._itself[index]
                return UNKNOWN if condition is None else _first(condition, raw, start, end)
            if code != OBJECT:
                return _NOWHERE
        return _NOWHERE


@cython.exceptval(-9)
def _first(condition: Equalities, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the position of the first element of the array at `start` that satisfies the condition; -1 or UNKNOWN."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    number: cython.Py_ssize_t = 0
    matches: cython.Py_ssize_t
    if limit - start > LARGEST_ARRAY:
        return UNKNOWN
    while at < stop:
        begin = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, raw[at], begin, stop)
        matches = condition.holds(raw, raw[at], begin, end)
        if matches != 0:
            return number if matches == 1 else UNKNOWN
        number += 1
        at = end
    return _NOWHERE


def _rank_of(condition: tuple[int, bytes, Equalities, Equalities | None]) -> tuple[int, bytes]:
    return condition[0], condition[1]


@cython.ccall
def matched_element(filter_: bytes) -> MatchedElement | None:
    """Return the finder for a filter; None if it has conditions other than equalities of fields or `$elemMatch` of
    these.
    """
    stop: cython.Py_ssize_t = document_stop(filter_, 0, len(filter_))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    path: bytes
    conditions: list[tuple[int, bytes, Equalities, Equalities | None]] = []
    while at < stop:
        named = name_end(filter_, at + 1, stop)
        end = value_end(filter_, filter_[at], named + 1, stop)
        path = part(filter_, at + 1, named)
        if not all(path.split(b".")) or path.startswith(b"$") or len(conditions) == MAX_ELEMENT_CONDITIONS:
            return None
        if path != b"_id":
            if is_plain_value(filter_[at]):
                value: Value = (filter_[at], part(filter_, named + 1, end))
                last = path.rpartition(b".")[2]
                conditions.append((_EQUALITY, path, Equalities([_ITSELF], [value]), Equalities([last], [value])))
            else:
                inner = _all_of_one(filter_, filter_[at], named + 1, end)
                if inner is None:
                    return None
                conditions.append((0, path, inner, None))
        at = end
    return MatchedElement(conditions)


def _all_of_one(raw: bytes, code: cython.int, start: cython.Py_ssize_t, limit: cython.Py_ssize_t) -> Equalities | None:
    """Return the equalities of an `$elemMatch`; None if there are other operators beside it."""
    if code != OBJECT or raw[start + 4] != OBJECT:
        return None
    named: cython.Py_ssize_t = name_end(raw, start + 5, limit)
    if part(raw, start + 5, named) != b"$elemMatch":
        return None
    if value_end(raw, OBJECT, named + 1, limit) != document_stop(raw, start, limit):
        return None
    return equalities(raw, named + 1, limit)
