"""The most common updates, applied in one pass over a document; `docstore.kernel.compute.operators` compiles them.

- Operators: `$set`, `$inc`, `$mul`, `$unset`, `$min`, `$max`, `$currentDate`, `$push` (without `$sort`), `$addToSet`,
  `$pop`, `$pull` of a value or of documents by equalities, and `$setOnInsert`.
- Paths: top-level and nested fields, and array elements: by position, the matched one (`$`), all (`$[]`), and those
  that an array filter of equalities selects.

`FieldChanges.apply` returns None if the general update (`docstore.query.update`) must decide:

- the path has a scalar, or a position beyond the array's end; an element is to be unset;
- under `$inc` or `$mul`, the field has another type than int, long or double, a long may overflow, or there is a NaN;
- the target of an array operator is not an array, or a large one; a `$push` changes nothing.

Invariant: the result is that of the general update, byte for byte. Existing fields keep their place, the first of equal
names is changed, and new fields come last, numbers before names, in their order.
"""

from __future__ import annotations

import cython

from docstore.bson.build import enclosed
from docstore.bson.validation import validate
from docstore.kernel.compute.changes import Change, order_of
from docstore.kernel.compute.differences import Paths

if not cython.compiled:
    from docstore.bson.order import compare_at
    from docstore.bson.walk import (
        ARRAY,
        DATE,
        INT32,
        INT64,
        OBJECT,
        document_stop,
        name_end,
        part,
        same_bytes,
        value_end,
    )
    from docstore.kernel.compute.changes import (
        ADD_TO_SET,
        ALL,
        BELOW,
        COMPARING,
        EVERY,
        INC,
        LARGE_ARRAY,
        LEAVE,
        MATCHED,
        MAX,
        MIN,
        MUL,
        NOW,
        POP,
        PULL,
        PUSH,
        UNSET,
        array_changed,
        joined,
    )
    from docstore.kernel.compute.new_values import LARGEST_ARRAY, UNCHANGED, calculated, encoded, is_element

_NOWHERE: cython.Py_ssize_t = -1
_NO_TIME: cython.longlong = -1


class _Occasion:
    """The context of a change besides the document: the position of the element that the filter matched, the time as
    the operand of a date, and whether the document is to be inserted.
    """

    position: cython.Py_ssize_t
    now: bytes
    inserting: cython.bint

    def __init__(self, position: cython.Py_ssize_t, now: cython.longlong, inserting: cython.bint) -> None:
        self.position = position
        self.now = b"" if now == _NO_TIME else int(now).to_bytes(8, "little", signed=True)
        self.inserting = inserting


_ANY: _Occasion = _Occasion(_NOWHERE, _NO_TIME, False)


class FieldChanges:
    """The changes of the fields of one document, or of the elements of one array, in the order of their names.

    `names` are the places (`docstore.query.value.places`) that may change. `compares`: values are compared with each
    other. `positional`: there is a `$`. `paths` are the changed paths for the oplog entry (None: whole top-level
    fields). `arrays` are the paths before a `$`; `names_in_place` are `names` if the elements at `$` exist. `_chooses`:
    the only change is to selected elements.
    """

    names: frozenset[bytes]
    names_in_place: frozenset[bytes]
    arrays: frozenset[str]
    compares: cython.bint
    positional: cython.bint
    paths: Paths | None
    _changes: list[Change]
    _count: cython.int
    _chooses: cython.bint

    def __init__(self, changes: list[Change], names: frozenset[bytes]) -> None:
        change: Change
        changes.sort(key=order_of)
        self._changes = changes
        self._count = len(changes)
        self.names = self.names_in_place = names
        self.arrays = frozenset()
        self.compares = False
        self.positional = changes[0].name == MATCHED
        self._chooses = self.positional or changes[0].name.startswith(EVERY)
        self.paths = None
        plain: cython.bint = True
        for change in changes:
            self.compares = self.compares or change.kind in COMPARING or change.condition is not None
            plain = plain and change.kind not in (PUSH, BELOW)
        if not plain:
            self._look_below()

    @cython.cfunc
    def _look_below(self) -> None:
        """Derive the properties of changes within fields."""
        paths: dict[str, Paths | bool] = {}
        change: Change
        below: FieldChanges | None
        for change in self._changes:
            below = change.below
            if below is None:
                paths[change.name.decode()] = change.kind == PUSH and change.position == ALL
                continue
            self.compares = self.compares or below.compares
            self.positional = self.positional or below.positional
            if below._chooses and below._changes[0].name != MATCHED:
                paths[change.name.decode()] = False
            else:
                paths[change.name.decode()] = below.paths if below.paths is not None else below.whole_paths()
        self.paths = paths

    def whole_paths(self) -> Paths:
        """Return the paths of changes that are all of whole fields."""
        return {change.name.decode(): False for change in self._changes}

    @cython.ccall
    def insert(self, seed: bytes, now: cython.longlong = _NO_TIME) -> bytes | None:
        """Return the document to insert, from the seed that the filter describes; None as in `apply`."""
        document: bytes | None = self._document(seed, 0, len(seed), _Occasion(_NOWHERE, now, True))
        return seed if document is not None and not document else document

    @cython.ccall
    def apply(
        self, raw: bytes, position: cython.Py_ssize_t = _NOWHERE, now: cython.longlong = _NO_TIME
    ) -> bytes | None:
        """Return the document after the update, the same object if nothing changes; None if the general update must
        decide.

        `position`: the position of the element that the filter matched; `now`: milliseconds since 1970.
        """
        occasion: _Occasion = _ANY
        if position != _NOWHERE or now != _NO_TIME:
            occasion = _Occasion(position, now, False)
        document: bytes | None = self._document(raw, 0, len(raw), occasion)
        return raw if document is not None and not document else document

    @cython.ccall
    def apply_each(
        self, documents: list[bytes], now: cython.longlong, largest: cython.Py_ssize_t
    ) -> list[bytes] | None:
        """Return `apply` of many documents. None if the general update must decide one of them, or one has more than
        `largest` bytes. Errors: those of `validate`.
        """
        occasion: _Occasion = _Occasion(_NOWHERE, now, False)
        results: list[bytes] = []
        raw: bytes
        result: bytes | None
        for raw in documents:
            result = self._document(raw, 0, len(raw), occasion)
            if result is None or len(result) > largest:
                return None
            if not result:
                result = raw
            else:
                validate(result)
            results.append(result)
        return results

    def _document(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, occasion: _Occasion
    ) -> bytes | None:
        """Return the document at `start` after its changes."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        kept_from: cython.Py_ssize_t = at
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        index: cython.int
        bit: cython.ulonglong
        present: cython.ulonglong = 0
        change: Change
        field: bytes | None
        parts: list[bytes] = []
        if self._chooses:
            return None
        while at < stop:
            named = name_end(raw, at + 1, stop)
            end = value_end(raw, raw[at], named + 1, stop)
            index = self._change_index(raw, at + 1, named)
            if index >= 0:
                bit = cython.cast(cython.ulonglong, 1) << index
                if not present & bit:
                    present |= bit
                    change = self._changes[index]
                    field = _field(change, raw, at, named + 1, end, occasion)
                    if field is None:
                        return None
                    if field or change.kind == UNSET:
                        parts.append(part(raw, kept_from, at))
                        parts.append(field)
                        kept_from = end
            at = end
        for index in range(self._count):
            if not present & (cython.cast(cython.ulonglong, 1) << index):
                field = _new(self._changes[index], occasion)
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
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, occasion: _Occasion
    ) -> bytes | None:
        """Return the array at `start` after the changes of its elements; None if a position is beyond its end."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        kept_from: cython.Py_ssize_t = at
        named: cython.Py_ssize_t
        end: cython.Py_ssize_t
        index: cython.Py_ssize_t
        number: cython.Py_ssize_t = 0
        changed_count: cython.int = 0
        change: Change
        field: bytes | None
        parts: list[bytes] = []
        if limit - start > (LARGE_ARRAY if self._chooses and not self.positional else LARGEST_ARRAY):
            return None
        while at < stop:
            named = name_end(raw, at + 1, stop)
            if not is_element(raw, at + 1, named, number):
                return None
            end = value_end(raw, raw[at], named + 1, stop)
            if self._chooses:
                index = self._chosen(raw, raw[at], named + 1, end, number, occasion)
            else:
                index = self._change_index(raw, at + 1, named)
            if index >= 0:
                changed_count += 1
                change = self._changes[index]
                field = None if change.kind == UNSET else _field(change, raw, at, named + 1, end, occasion)
                if field is None:
                    return None
                if field:
                    parts.append(part(raw, kept_from, at))
                    parts.append(field)
                    kept_from = end
            elif index < _NOWHERE:
                return None
            number += 1
            at = end
        if changed_count < self._count and (not self._chooses or self.positional):
            return None
        if not parts:
            return UNCHANGED
        parts.append(part(raw, kept_from, stop))
        return enclosed(b"".join(parts))

    @cython.exceptval(-9)
    def _chosen(
        self,
        raw: bytes,
        code: cython.int,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        number: cython.Py_ssize_t,
        occasion: _Occasion,
    ) -> cython.Py_ssize_t:
        """Return 0 for an element to change, -1 for another, or `UNKNOWN`."""
        change: Change = self._changes[0]
        matches: cython.Py_ssize_t
        if change.name == MATCHED:
            return 0 if number == occasion.position else _NOWHERE
        if change.condition is None:
            return 0
        matches = change.condition.holds(raw, code, begin, end)
        return matches if matches < 0 else matches - 1

    @cython.cfunc
    def _new_document(self, occasion: _Occasion) -> bytes | None:
        """Return a document of the new fields, `UNCHANGED` if there are none."""
        index: cython.int
        field: bytes | None
        parts: list[bytes] = []
        if self._chooses:
            return None
        for index in range(self._count):
            field = _new(self._changes[index], occasion)
            if field is None:
                return None
            if field:
                parts.append(field)
        return enclosed(b"".join(parts)) if parts else UNCHANGED

    @cython.exceptval(-9)
    def _change_index(self, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Return the number of the change to the field whose name is at [at, end), or -1."""
        index: cython.int
        size: cython.Py_ssize_t = end - at
        change: Change
        name: bytes
        for index in range(self._count):
            change = self._changes[index]
            name = change.name
            if len(name) == size and same_bytes(raw, at, name, 0, size):
                return index
        return -1


def _field(
    change: Change,
    raw: bytes,
    at: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    occasion: _Occasion,
) -> bytes | None:
    """Return the field at [at, end), whose value begins at `begin`, after its change; None if the general update must
    decide. `UNCHANGED` stands for the same field, and for a removed one.
    """
    kind: cython.int = change.kind
    below: FieldChanges
    value: bytes | None = None
    if kind <= NOW or (kind == LEAVE and occasion.inserting):
        return _changed(change, raw, at, begin, end, occasion)
    if kind in (UNSET, LEAVE):
        return UNCHANGED
    if kind != BELOW:
        return array_changed(change, raw, at, begin, end)
    below = change.below
    if raw[at] == OBJECT:
        value = below._document(raw, begin, end, occasion)
    elif raw[at] == ARRAY:
        value = below._elements(raw, begin, end, occasion)
    return value if value is None or not value else part(raw, at, begin) + value


@cython.cfunc
def _new(change: Change, occasion: _Occasion) -> bytes | None:
    """Return the new field, `UNCHANGED` if none is added; None if the general update must decide."""
    kind: cython.int = change.kind
    below: FieldChanges
    value: bytes | None
    if kind in (UNSET, PULL, POP) or (kind == LEAVE and not occasion.inserting):
        return UNCHANGED
    if kind == BELOW:
        below = change.below
        value = below._new_document(occasion)
        return value if value is None or not value else encoded(OBJECT, change.name, value)
    if kind in (PUSH, ADD_TO_SET):
        value = joined(change, [])
        return None if value is None else encoded(ARRAY, change.name, value)
    if kind == NOW:
        return encoded(DATE, change.name, occasion.now) if occasion.now else None
    if kind == MUL:
        return encoded(change.code, change.name, bytes(len(change.operand))) if change.code in (INT32, INT64) else None
    return encoded(change.code, change.name, change.operand)


def _changed(
    change: Change,
    raw: bytes,
    at: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    occasion: _Occasion,
) -> bytes | None:
    """Return the field at [at, end), whose value begins at `begin`, after a change of its value; None as in
    `_field`.
    """
    kind: cython.int = change.kind
    code: cython.int = change.code
    operand: bytes = change.operand
    order: cython.int
    if kind in (INC, MUL):
        return calculated(raw, at, begin, code, operand, kind == MUL)
    if kind in (MIN, MAX):
        order = compare_at(code, operand, 0, len(operand), raw[at], raw, begin, end, 0)
        if order != (-1 if kind == MIN else 1):
            return UNCHANGED
    elif kind == NOW:
        code = DATE
        operand = occasion.now
        if not operand:
            return None
    if raw[at] == code and len(operand) == end - begin and same_bytes(raw, begin, operand, 0, end - begin):
        return UNCHANGED
    return encoded(code, part(raw, at + 1, begin - 1), operand)
