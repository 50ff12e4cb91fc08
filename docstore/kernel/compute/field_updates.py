"""The commonest updates, applied in one walk over a document: `$set`, `$inc`, `$unset`, `$min`, `$max`, `$push` (with
`$each` and `$slice`), `$addToSet`, `$pull` of a value, and `$setOnInsert`, of fields of the document, of fields within
others, of elements of arrays at a position, and of the one that a filter has matched (`$`). They are made from a
specification by `docstore.kernel.compute.operators`.

`FieldChanges.apply` answers None where the general way must judge the document: what is no document or array on the
way, a position that no element has, an element that is to go, a value that is not of those types under `$inc`, a long
that overflows, a NaN, what is no array or a large one, a `$push` after which it is as it was. These are then left to
`docstore.query.update`, whose results all others are too, byte for byte: existing fields keep their place, the first of
equal names is changed, new fields come behind, numbers before names, in their order.
"""

from __future__ import annotations

from typing import Any, Union

import cython

from docstore.bson.build import array_from, enclosed
from docstore.bson.walk import Value, values
from docstore.kernel.compute.differences import Paths
from docstore.kernel.keys.encoding import encode_key

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        OBJECT,
        document_stop,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.compute.new_values import UNCHANGED, appended, encoded, increased, is_element

_LARGE_ARRAY = 1 << 16
"""Bytes of an array that is not taken apart."""

SET = 0
INC = 1
UNSET = 2
PUSH = 3
ADD_TO_SET = 4
PULL = 5
LEAVE = 6
MIN = 7
MAX = 8
BELOW = 9
_COMPARING = frozenset((ADD_TO_SET, PULL, MIN, MAX))

Change = tuple[bytes, int, int, bytes, list[Value], int, Union["FieldChanges", None]]
"""(name, kind, type and bytes of the operand, the members it stands for, how many `$slice` keeps or `ALL`, the changes
within the field where that is its kind).
"""
ALL = 1 << 40
MATCHED = b"$"
"""The name of the element that a filter has matched."""
_NOWHERE = -1
_INSERTING = -2
"""In the place of its position: the filter has matched no element; no document."""


class FieldChanges:
    """The changes of the fields of one document, or of the elements of one array.

    `names` are the places (`docstore.query.value.places`) that may change, `compares` says whether values are compared
    with each other, `positional` whether there is a `$`, `paths` is what the log goes by (None: whole fields of the
    document); `arrays` are the paths before a `$`, `names_in_place` are `names` where the elements that it stands for
    are there. The lists go with each other, in the order of the names: `_codes` and `_values` are the operands,
    `_below` the changes within.
    """

    names: frozenset[bytes]
    names_in_place: frozenset[bytes]
    arrays: frozenset[str]
    compares: cython.bint
    positional: cython.bint
    paths: Paths | None
    _names: list[bytes]
    _kinds: list[int]
    _codes: list[int]
    _values: list[bytes]
    _members: list[list[Value]]
    _keeps: list[int]
    _below: list[Any]
    _count: cython.int
    _matched: cython.bint

    def __init__(self, changes: list[Change], names: frozenset[bytes]) -> None:
        changes.sort(key=_order_of)
        self._names = [change[0] for change in changes]
        self.names = self.names_in_place = names
        self.arrays = frozenset()
        self._kinds = [change[1] for change in changes]
        self.compares = not _COMPARING.isdisjoint(self._kinds)
        self.positional = self._matched = MATCHED in self._names
        self._codes = [change[2] for change in changes]
        self._values = [change[3] for change in changes]
        self._members = [change[4] for change in changes]
        self._keeps = [change[5] for change in changes]
        self._below = [change[6] for change in changes]
        self._count = len(changes)
        self.paths = None
        if PUSH in self._kinds or BELOW in self._kinds:
            self._look_below()

    def _look_below(self) -> None:
        paths: dict[str, Paths | bool] = {}
        for name, kind, below in zip(self._names, self._kinds, self._below, strict=True):
            if below is None:
                paths[name.decode()] = kind == PUSH
            else:
                self.compares = self.compares or below.compares
                self.positional = self.positional or below.positional
                paths[name.decode()] = below.paths if below.paths is not None else below.whole_paths()
        self.paths = paths

    def whole_paths(self) -> Paths:
        """The paths of changes that are all of whole fields."""
        return {name.decode(): False for name in self._names}

    def insert(self, seed: bytes) -> bytes | None:
        """The document to insert, from what the filter says of it; None as in `apply`."""
        made: bytes | None = self._document(seed, 0, len(seed), _INSERTING)
        return seed if made is not None and not made else made

    def apply(self, raw: bytes, position: cython.Py_ssize_t = _NOWHERE) -> bytes | None:
        """The document after the update, the same object when nothing changes; None: do it the general way.

        `position`: of the element that the filter has matched.
        """
        made: bytes | None = self._document(raw, 0, len(raw), position)
        return raw if made is not None and not made else made

    def _document(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, position: cython.Py_ssize_t
    ) -> bytes | None:
        """The document at `start` after its changes."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        kept_from: cython.Py_ssize_t = at
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        place: cython.int
        bit: cython.ulonglong
        met: cython.ulonglong = 0
        field: bytes | None
        parts: list[bytes] = []
        if self._matched:
            return None
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            place = self._place(raw, at + 1, named)
            if place >= 0:
                bit = cython.cast(cython.ulonglong, 1) << place
                if not met & bit:
                    met |= bit
                    field = self._field(place, raw, at, named + 1, end, position)
                    if field is None:
                        return None
                    if field or self._kinds[place] == UNSET:
                        parts.append(part(raw, kept_from, at))
                        parts.append(field)
                        kept_from = end
            at = end
        for place in range(self._count):
            if not met & (cython.cast(cython.ulonglong, 1) << place):
                field = self._new(place, position)
                if field is None:
                    return None
                if field:
                    parts.append(part(raw, kept_from, stop))
                    parts.append(field)
                    kept_from = stop
        if not parts:
            return UNCHANGED
        parts.append(part(raw, kept_from, stop))
        return enclosed(b"".join(parts))

    def _elements(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, position: cython.Py_ssize_t
    ) -> bytes | None:
        """The array at `start` after the changes of its elements, which must be there."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        kept_from: cython.Py_ssize_t = at
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        place: cython.int
        number: cython.Py_ssize_t = 0
        met: cython.int = 0
        field: bytes | None
        parts: list[bytes] = []
        while at < stop:
            named = name_end(raw, at + 1, stop)
            if not is_element(raw, at + 1, named, number):
                return None
            end = value_end(raw, raw[at], named + 1, stop)
            place = (0 if number == position else -1) if self._matched else self._place(raw, at + 1, named)
            if place >= 0:
                met += 1
                if self._kinds[place] == UNSET:
                    return None
                field = self._field(place, raw, at, named + 1, end, position)
                if field is None:
                    return None
                if field:
                    parts.append(part(raw, kept_from, at))
                    parts.append(field)
                    kept_from = end
            number += 1
            at = end
        if met < self._count:
            return None
        if not parts:
            return UNCHANGED
        parts.append(part(raw, kept_from, stop))
        return enclosed(b"".join(parts))

    def _field(
        self,
        place: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        position: cython.Py_ssize_t,
    ) -> bytes | None:
        """The field at [at, end), its value at `begin`, after its change, `UNCHANGED` (which is also what is left of
        one that goes); None: leave it to the general way.
        """
        kind: cython.int = self._kind(place, position)
        below: FieldChanges
        made: bytes | None
        if kind <= INC or kind in (MIN, MAX):
            return self._changed(place, kind, raw, at, begin, end)
        if kind in (UNSET, LEAVE):
            return UNCHANGED
        if kind != BELOW:
            return self._array(place, raw, at, begin, end)
        below = self._below[place]
        if raw[at] == OBJECT:
            made = below._document(raw, begin, end, position)
        elif raw[at] == ARRAY:
            made = below._elements(raw, begin, end, position)
        else:
            return None
        return made if made is None or not made else part(raw, at, begin) + made

    def _new(self, place: cython.int, position: cython.Py_ssize_t) -> bytes | None:
        """The field where there is none, `UNCHANGED` where none comes; None: leave it to the general way."""
        kind: cython.int = self._kind(place, position)
        below: FieldChanges
        name: bytes = self._names[place]
        made: bytes | None
        if name == MATCHED:
            return None
        if kind in (UNSET, PULL, LEAVE):
            return UNCHANGED
        if kind == BELOW:
            below = self._below[place]
            made = below._made(position)
            return made if made is None or not made else encoded(OBJECT, name, made)
        if kind in (PUSH, ADD_TO_SET):
            return encoded(ARRAY, name, array_from(self._joined(place, [])))
        return encoded(self._codes[place], name, self._values[place])

    def _made(self, position: cython.Py_ssize_t) -> bytes | None:
        """A document of the new fields, `UNCHANGED` where there are none."""
        place: cython.int
        field: bytes | None
        parts: list[bytes] = []
        for place in range(self._count):
            field = self._new(place, position)
            if field is None:
                return None
            if field:
                parts.append(field)
        return enclosed(b"".join(parts)) if parts else UNCHANGED

    def _kind(self, place: cython.Py_ssize_t, position: cython.Py_ssize_t) -> cython.int:
        """What a change does: what is for inserted documents alone sets their fields."""
        kind: cython.int = self._kinds[place]
        return SET if kind == LEAVE and position == _INSERTING else kind

    def _array(
        self,
        place: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> bytes | None:
        """The field at [at, end), which must be an array, its value at `begin`, after its change."""
        pushes: cython.bint = self._kinds[place] == PUSH
        made: bytes | None
        old: list[Value]
        new: list[Value]
        if raw[at] != ARRAY:
            return None
        if pushes and self._keeps[place] == ALL and self._members[place]:
            made = appended(raw, begin, end, self._members[place])
            return None if made is None else part(raw, at, begin) + made
        if end - begin > _LARGE_ARRAY:
            return None
        old = values(part(raw, begin, end))
        new = self._joined(place, old)
        # Unless members come or go an array stays as it is, also one that is not numbered as arrays are.
        if new is old:
            return UNCHANGED
        made = part(raw, at, begin) + array_from(new)
        return None if pushes and made == part(raw, at, end) else made

    def _joined(self, place: cython.int, old: list[Value]) -> list[Value]:
        """The members of an array after its change: the same list where none comes or goes."""
        kind: cython.int = self._kinds[place]
        keep: cython.longlong
        new: list[Value]
        keys: set[bytes]
        key: bytes
        if kind == PUSH:
            keep = self._keeps[place]
            new = old + self._members[place]
            if keep == ALL:
                return new
            return new[:keep] if keep >= 0 else new[max(0, len(new) + keep) :]
        if kind == PULL:
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
        change: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> bytes | None:
        """The field at [at, end), its value at `begin`, after a change of a value; None as in `_field`."""
        operand: bytes = self._values[place]
        code: cython.int = raw[at]
        kind: cython.int = self._codes[place]
        same: cython.Py_ssize_t = 0
        if change >= MIN:
            order: cython.int = compare_at(kind, operand, 0, len(operand), code, raw, begin, end, 0)
            if order != (-1 if change == MIN else 1):
                return UNCHANGED
        if change == INC:
            return increased(raw, at, begin, kind, operand)
        if code == kind and len(operand) == end - begin:
            while same < end - begin and raw[begin + same] == operand[same]:
                same += 1
            if same == end - begin:
                return UNCHANGED
        return encoded(kind, part(raw, at + 1, begin - 1), operand)


def _order_of(change: Change) -> tuple[bool, int, bytes]:
    name = change[0]
    return (False, int(name), b"") if name.isdigit() else (True, 0, name)
