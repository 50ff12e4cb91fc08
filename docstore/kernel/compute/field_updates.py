"""The commonest updates, `$set` and `$inc` of whole top-level fields, applied in one walk over a document.

`field_changes` makes them from a specification, or answers None where there is anything that it does not know:
another operator, a dotted or numeric name, a name that begins with `$`, `_id`, a name given twice, an operand that is
no int, long or double, too many names. `FieldChanges.apply` answers None where the general way must judge the document:
a value that is not of those types under `$inc`, a long that overflows, a NaN. These are then left to
`docstore.query.update`, whose results all others are too, byte for byte: existing fields keep their place, the first
of equal names is changed, new fields come behind in the order of their names.
"""

from __future__ import annotations

import cython

from docstore.bson.build import enclosed

if not cython.compiled:
    from docstore.bson.number import integer_at
    from docstore.bson.walk import (
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        bits_of,
        document_stop,
        double_at,
        name_end,
        part,
        value_end,
    )

_MOST = 16
_LARGEST = 1 << 62
"""Longs up to this, either way, cannot overflow when two are added."""


class FieldChanges:
    """`names` are in order; the other lists go with them. `heads` are type byte and name as they stand in a document,
    `values` the encoded operands, `codes` their types.
    """

    names: frozenset[bytes]
    _names: list[bytes]
    _increments: list[bool]
    _codes: list[int]
    _values: list[bytes]
    _count: cython.int

    def __init__(self, changes: list[tuple[bytes, bool, int, bytes]]) -> None:
        changes.sort()
        self._names = [change[0] for change in changes]
        self.names = frozenset(self._names)
        self._increments = [change[1] for change in changes]
        self._codes = [change[2] for change in changes]
        self._values = [change[3] for change in changes]
        self._count = len(changes)

    def apply(self, raw: bytes) -> bytes | None:
        """The document after the update, the same object when nothing changes; None: do it the general way."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        kept_from: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        place: cython.int
        met: cython.int = 0
        field: bytes | None
        parts: list[bytes] = []
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            place = self._place(raw, at + 1, named)
            if place >= 0 and not met & (1 << place):
                met |= 1 << place
                field = self._changed(place, raw, at, named + 1, end)
                if field is None:
                    return None
                if field != part(raw, at, end):
                    parts.append(part(raw, kept_from, at))
                    parts.append(field)
                    kept_from = end
            at = end
        for place in range(self._count):
            if not met & (1 << place):
                if kept_from < stop:
                    parts.append(part(raw, kept_from, stop))
                    kept_from = stop
                parts.append(_field(self._codes[place], self._names[place], self._values[place]))
        if not parts:
            return raw
        parts.append(part(raw, kept_from, stop))
        return enclosed(b"".join(parts))

    def _place(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """The number of the change of the field whose name lies at [at, end), or -1."""
        place: cython.int
        same: cython.Py_ssize_t
        size: cython.Py_ssize_t = end - at
        name: bytes
        for place in range(self._count):
            name = self._names[place]
            if len(name) == size:
                same = 0
                while same < size and raw[at + same] == name[same]:
                    same += 1
                if same == size:
                    return place
        return -1

    def _changed(
        self,
        place: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> bytes | None:
        """The field at [at, end), its value at `begin`, after its change; None: leave it to the general way."""
        operand: bytes = self._values[place]
        code: cython.int = raw[at]
        kind: cython.int = self._codes[place]
        one: cython.longlong
        two: cython.longlong
        sum_: cython.longlong
        if not self._increments[place]:
            return _field(kind, self._names[place], operand)
        if code not in (INT32, INT64, DOUBLE):
            return None
        if code == DOUBLE or kind == DOUBLE:
            before: cython.double = _as_double(code, raw, begin)
            total: cython.double = before + _as_double(kind, operand, 0)
            if total != total:
                return None
            if code == DOUBLE and total == before:
                return part(raw, at, end)
            return _field(DOUBLE, self._names[place], int(bits_of(total)).to_bytes(8, "little"))
        one = integer_at(code, raw, begin)
        two = integer_at(kind, operand, 0)
        if not (-_LARGEST <= one <= _LARGEST and -_LARGEST <= two <= _LARGEST):
            return None
        sum_ = one + two
        if code == INT32 and kind == INT32 and -0x80000000 <= sum_ <= 0x7FFFFFFF:
            return _field(INT32, self._names[place], int(sum_).to_bytes(4, "little", signed=True))
        return _field(INT64, self._names[place], int(sum_).to_bytes(8, "little", signed=True))


def _as_double(code: cython.int, raw: bytes, at: cython.Py_ssize_t) -> cython.double:
    return double_at(raw, at) if code == DOUBLE else cython.cast(cython.double, integer_at(code, raw, at))


def _field(code: cython.int, name: bytes, value: bytes) -> bytes:
    return b"%c%b\0%b" % (code, name, value)


def field_changes(specification: bytes) -> FieldChanges | None:
    """The changes of an update's document; None where the general way must judge it."""
    stop: cython.Py_ssize_t = document_stop(specification, 0, len(specification))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    operator: bytes
    changes: list[tuple[bytes, bool, int, bytes]] = []
    while at < stop:
        named = name_end(specification, at + 1, stop)
        operator = part(specification, at + 1, named)
        if specification[at] != OBJECT or operator not in (b"$set", b"$inc"):
            return None
        at = value_end(specification, OBJECT, named + 1, stop)
        if not _gather(specification, named + 1, at, operator == b"$inc", changes):
            return None
    if not changes or len({change[0] for change in changes}) < len(changes):
        return None
    return FieldChanges(changes)


def _gather(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    increment: bool,
    changes: list[tuple[bytes, bool, int, bytes]],
) -> bool:
    """Take in the fields of one operator; False where one of them is not simple."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    name: bytes
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        name = part(raw, at + 1, named)
        if not name or name == b"_id" or name.startswith(b"$") or b"." in name or name.isdigit():
            return False
        if (increment and raw[at] not in (INT32, INT64, DOUBLE)) or len(changes) == _MOST:
            return False
        changes.append((name, increment, raw[at], part(raw, named + 1, end)))
        at = end
    return True
