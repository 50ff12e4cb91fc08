"""The commonest updates of whole top-level fields, applied in one walk over a document: `$set`, `$inc`, `$unset`,
`$min`, `$max`, `$push` (with `$each` and `$slice`), `$addToSet`, `$pull` of a value, and `$setOnInsert`.

`field_changes` makes them from a specification, or answers None where there is anything that it does not know:
another operator, a dotted or numeric name, a name that begins with `$`, `_id`, a name given twice, an operand that is
no int, long or double, too many names. `FieldChanges.apply` answers None where the general way must judge the document:
a value that is not of those types under `$inc`, a long that overflows, a NaN, what is no array or a large one, a
`$push` after which it is as it was. These are then left to `docstore.query.update`, whose results all others are too,
byte for byte: existing fields keep their place, the first of equal names is changed, new fields come behind in the
order of their names.
"""

from __future__ import annotations

import cython

from docstore.bson.build import array_from, enclosed
from docstore.bson.walk import Value, elements, values
from docstore.kernel.keys.encoding import encode_key

if not cython.compiled:
    from docstore.bson.number import integer_at
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        REGEX,
        bits_of,
        document_stop,
        double_at,
        name_end,
        part,
        value_end,
    )

_MOST = 16
_LARGEST = (1 << 62) - 1
"""Longs up to this, either way, cannot overflow when two are added."""
_LARGE_ARRAY = 1 << 16

_SET = 0
_INC = 1
_UNSET = 2
_PUSH = 3
_ADD_TO_SET = 4
_PULL = 5
_LEAVE = 6
_MIN = 7
_MAX = 8
_KINDS: dict[bytes, int] = {
    b"$set": _SET, b"$inc": _INC, b"$unset": _UNSET, b"$push": _PUSH, b"$addToSet": _ADD_TO_SET, b"$pull": _PULL,
    b"$setOnInsert": _LEAVE, b"$min": _MIN, b"$max": _MAX,
}  # fmt: skip
_COMPARING = frozenset((_ADD_TO_SET, _PULL, _MIN, _MAX))

Change = tuple[bytes, int, int, bytes, list[Value], int]
"""(name, kind, type and bytes of the operand, the members it stands for, how many `$slice` keeps or `_ALL`)."""
_ALL = 1 << 40


class FieldChanges:
    """`names` are those of the fields that may change, `compares` says whether values are compared with each other,
    `pushes` whether members are added to arrays by `$push`. The lists go with each other, in the order of the names:
    `_codes` and `_values` are the operands.
    """

    names: frozenset[bytes]
    compares: cython.bint
    pushes: cython.bint
    _names: list[bytes]
    _kinds: list[int]
    _codes: list[int]
    _values: list[bytes]
    _members: list[list[Value]]
    _keeps: list[int]
    _count: cython.int
    _inserting: cython.bint

    def __init__(self, changes: list[Change]) -> None:
        changes.sort(key=_name_of)
        self._names = [change[0] for change in changes]
        self.names = frozenset([change[0] for change in changes if change[1] != _LEAVE])
        self._kinds = [change[1] for change in changes]
        self.compares = not _COMPARING.isdisjoint(self._kinds)
        self.pushes = _PUSH in self._kinds
        self._inserting = False
        self._codes = [change[2] for change in changes]
        self._values = [change[3] for change in changes]
        self._members = [change[4] for change in changes]
        self._keeps = [change[5] for change in changes]
        self._count = len(changes)

    def insert(self, seed: bytes) -> bytes | None:
        """The document to insert, from what the filter says of it; None as in `apply`."""
        self._inserting = True
        try:
            return self.apply(seed)
        finally:
            self._inserting = False

    def apply(self, raw: bytes) -> bytes | None:
        """The document after the update, the same object when nothing changes; None: do it the general way."""
        stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
        at: cython.Py_ssize_t = 4
        kept_from: cython.Py_ssize_t = 4
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        place: cython.int
        kind: cython.int
        met: cython.int = 0
        field: bytes | None
        parts: list[bytes] = []
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            place = self._place(raw, at + 1, named)
            if place >= 0 and not met & (1 << place):
                met |= 1 << place
                kind = self._kind(place)
                if kind <= _INC or kind >= _MIN:
                    field = self._changed(place, raw, at, named + 1, end)
                elif kind == _UNSET:
                    field = b""
                elif kind == _LEAVE:
                    at = end
                    continue
                else:
                    field = self._array(place, raw, at, named + 1, end)
                if field is None:
                    return None
                if field != part(raw, at, end):
                    parts.append(part(raw, kept_from, at))
                    parts.append(field)
                    kept_from = end
                elif kind == _PUSH:
                    return None
            at = end
        for place in range(self._count):
            kind = self._kind(place)
            if not met & (1 << place) and kind not in (_UNSET, _PULL, _LEAVE):
                if kept_from < stop:
                    parts.append(part(raw, kept_from, stop))
                    kept_from = stop
                if kind <= _INC or kind >= _MIN:
                    parts.append(_field(self._codes[place], self._names[place], self._values[place]))
                else:
                    parts.append(_field(ARRAY, self._names[place], array_from(self._joined(place, []))))
        if not parts:
            return raw
        parts.append(part(raw, kept_from, stop))
        return enclosed(b"".join(parts))

    def _kind(self, place: cython.Py_ssize_t) -> cython.int:
        """What a change does: what is for inserted documents alone sets their fields."""
        kind: cython.int = self._kinds[place]
        return _SET if kind == _LEAVE and self._inserting else kind

    def _array(
        self,
        place: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> bytes | None:
        """The field at [at, end), which must be an array, its value at `begin`, after its change; None: leave it to the
        general way.
        """
        if raw[at] != ARRAY or end - begin > _LARGE_ARRAY:
            return None
        old: list[Value] = values(part(raw, begin, end))
        new: list[Value] = self._joined(place, old)
        # Unless members come or go an array stays as it is, also one that is not numbered as arrays are.
        if new is old:
            return part(raw, at, end)
        return _field(ARRAY, self._names[place], array_from(new))

    def _joined(self, place: cython.int, old: list[Value]) -> list[Value]:
        """The members of an array after its change: the same list where none comes or goes."""
        kind: cython.int = self._kinds[place]
        keep: cython.longlong
        new: list[Value]
        keys: set[bytes]
        key: bytes
        if kind == _PUSH:
            keep = self._keeps[place]
            new = old + self._members[place]
            if keep == _ALL:
                return new
            return new[:keep] if keep >= 0 else new[max(0, len(new) + keep) :]
        if kind == _PULL:
            key = encode_key(self._members[place][0])
            new = [member for member in old if encode_key(member) != key]
            return old if len(new) == len(old) else new
        keys = {encode_key(member) for member in old}
        new = []
        for member in self._members[place]:
            key = encode_key(member)
            if key not in keys:
                keys.add(key)
                new.append(member)
        return old + new if new else old

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
        change: cython.int = self._kind(place)
        if change >= _MIN:
            order: cython.int = compare_at(kind, operand, 0, len(operand), code, raw, begin, end, 0)
            if order != (-1 if change == _MIN else 1):
                return part(raw, at, end)
        if change != _INC:
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


def _name_of(change: Change) -> bytes:
    return change[0]


def field_changes(specification: bytes) -> FieldChanges | None:
    """The changes of an update's document; None where the general way must judge it."""
    stop: cython.Py_ssize_t = document_stop(specification, 0, len(specification))
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    kind: cython.int
    changes: list[Change] = []
    while at < stop:
        named = name_end(specification, at + 1, stop)
        kind = _KINDS.get(part(specification, at + 1, named), -1)
        if specification[at] != OBJECT or kind < 0:
            return None
        at = value_end(specification, OBJECT, named + 1, stop)
        if not _gather(specification, named + 1, at, kind, changes):
            return None
    if not changes or len({change[0] for change in changes}) < len(changes):
        return None
    return FieldChanges(changes)


def _gather(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    kind: cython.int,
    changes: list[Change],
) -> bool:
    """Take in the fields of one operator; False where one of them is not simple."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    name: bytes
    change: Change | None
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        name = part(raw, at + 1, named)
        if not name or name == b"_id" or name.startswith(b"$") or b"." in name or name.isdigit():
            return False
        if (kind == _INC and raw[at] not in (INT32, INT64, DOUBLE)) or len(changes) == _MOST:
            return False
        change = _change(name, kind, raw[at], part(raw, named + 1, end))
        if change is None:
            return False
        changes.append(change)
        at = end
    return True


def _change(name: bytes, kind: cython.int, code: cython.int, value: bytes) -> Change | None:
    """One change; None where its operand is not simple."""
    members: list[Value] = [(code, value)]
    keep: cython.longlong = _ALL
    if kind == _PULL and code in (OBJECT, REGEX):
        return None
    if kind in (_PUSH, _ADD_TO_SET) and code == OBJECT:
        clauses = elements(value)
        if any([clause[0] == "$each" for clause in clauses]):  # noqa: C419 (compiled, a generator is slower)
            if clauses[0][:2] != ("$each", ARRAY) or len(clauses) > 2 - (kind == _ADD_TO_SET):
                return None
            members = values(clauses[0][2])
            if len(clauses) == 2:
                if clauses[1][:2] != ("$slice", INT32):
                    return None
                keep = int.from_bytes(clauses[1][2], "little", signed=True)
    return name, kind, code, value, members, keep
