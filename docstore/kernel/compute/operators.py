"""Compiles an update's document of operators to changes of `docstore.kernel.compute.field_updates`.

`field_changes` returns None, and leaves the update to `docstore.query.update`, for

- another operator, or an operand of `$inc` and the like that is not an int, long or double;
- a path with an empty part, a part that begins with `$`, a top-level number or `_id`; a path twice or within another;
- an array filter with conditions other than equalities;
- too many paths.

Invariant: it returns None for every specification that the general update rejects.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from docstore.bson.walk import Value, elements, values
from docstore.kernel.compute.changes import Change
from docstore.kernel.compute.elements import Equalities, array_filter, equalities
from docstore.kernel.compute.field_updates import FieldChanges
from docstore.kernel.limits import MAX_UPDATED_FIELDS

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        BOOL,
        DOUBLE,
        INT32,
        INT64,
        OBJECT,
        REGEX,
        document_stop,
        double_at,
        int32_at,
        int64_at,
        name_end,
        part,
        value_end,
    )
    from docstore.kernel.compute.changes import (
        ADD_TO_SET,
        BELOW,
        EVERY,
        INC,
        LEAVE,
        MATCHED,
        MAX,
        MIN,
        MUL,
        NOW,
        POP,
        PULL,
        PUSH,
        SET,
        UNSET,
    )

_DEEPEST: cython.int = 16
_POSITION_DIGITS: cython.Py_ssize_t = 6
_KINDS: dict[bytes, int] = {
    b"$set": SET, b"$inc": INC, b"$unset": UNSET, b"$push": PUSH, b"$addToSet": ADD_TO_SET, b"$pull": PULL,
    b"$setOnInsert": LEAVE, b"$min": MIN, b"$max": MAX, b"$mul": MUL, b"$pop": POP, b"$currentDate": NOW,
}  # fmt: skip
_ALL_ELEMENTS = b"$[]"

Filters = dict[bytes, Equalities]
"""The equalities of array filters, by the part of a path that refers to them: `$[<name>]`."""
_NO_FILTERS: Filters = {}


@cython.ccall
def field_changes(specification: bytes, array_filters: Sequence[bytes] = ()) -> FieldChanges | None:
    """Return the changes of an update's document; None if the general update must parse it."""
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
    filters = _filters(array_filters) if array_filters else _NO_FILTERS
    if not changes or filters is None:
        return None
    names = [change.name for change in changes if change.kind != LEAVE]
    if not any([b"." in change.name for change in changes]):  # noqa: C419 (compiled, a generator is slower)
        return None if filters else _level(changes, frozenset(names))
    if not _all_used(changes, filters):
        return None
    tree = _tree(changes, frozenset([_place_of(name.split(b".")) for name in names]), 1, filters)
    if tree is not None and tree.positional:
        parts = [name.split(b".") for name in names]
        tree.arrays = frozenset([b".".join(path[: path.index(MATCHED)]).decode() for path in parts if MATCHED in path])
        tree.names_in_place = frozenset([_place_of([name for name in path if name != MATCHED]) for path in parts])
    return tree


def _filters(array_filters: Sequence[bytes]) -> Filters | None:
    """Return the array filters; None if one has conditions other than equalities, or two have the same identifier."""
    filters: Filters = {}
    for document in array_filters:
        pair = array_filter(document)
        if pair is None:
            return None
        filters[b"$[%b]" % pair[0]] = pair[1]
    return filters if len(filters) == len(array_filters) else None


def _all_used(changes: list[Change], filters: Filters) -> bool:
    """True if each identifier in a path has a filter, and each filter is used."""
    used = {name for change in changes for name in change.name.split(b".") if name.startswith(EVERY)}
    used.discard(_ALL_ELEMENTS)
    return used == set(filters)


@cython.ccall
def _tree(changes: list[Change], names: frozenset[bytes], depth: cython.int, filters: Filters) -> FieldChanges | None:
    """Return the changes of paths as a tree of their parts; None if one is within another, or one is too long."""
    here: list[Change] = []
    groups: dict[bytes, list[Change]] = {}
    nothing: frozenset[bytes] = frozenset()
    for change in changes:
        first, dot, subpath = change.name.partition(b".")
        if dot:
            change.name = subpath
            groups.setdefault(first, []).append(change)
        else:
            here.append(change)
    for first, group in groups.items():
        below = None if depth == _DEEPEST else _tree(group, nothing, depth + 1, filters)
        if below is None:
            return None
        here.append(_below(first, below))
    if filters:
        for change in here:
            if change.name in filters:
                if change.kind == PULL and change.condition is not None:
                    return None
                change.condition = filters[change.name]
    return _level(here, names)


def _below(name: bytes, changes: FieldChanges) -> Change:
    change = Change(name, BELOW, 0, b"")
    change.below = changes
    return change


def _level(changes: list[Change], names: frozenset[bytes]) -> FieldChanges | None:
    """Return the changes of these fields; None if one is named twice, or if selected elements are not the
    only change.
    """
    field_names = {change.name for change in changes}
    alone = len(field_names) == 1 or not any([name.startswith(MATCHED) for name in field_names])  # noqa: C419 (as above)
    return FieldChanges(changes, names) if len(field_names) == len(changes) and alone else None


def _place_of(path: list[bytes]) -> bytes:
    """Return the place as `docstore.query.value.places.changed_place` does."""
    parts: list[bytes] = []
    for name in path:
        if name.isdigit() or name == MATCHED:
            break
        if not name.startswith(EVERY):
            parts.append(name)
    return b".".join(parts)


@cython.ccall
def _gather(
    raw: bytes,
    start: cython.Py_ssize_t,
    limit: cython.Py_ssize_t,
    kind: cython.int,
    changes: list[Change],
) -> bool:
    """Add the fields of one operator to the changes; False if one of them is not simple."""
    stop: cython.Py_ssize_t = document_stop(raw, start, limit)
    at: cython.Py_ssize_t = start + 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    name: bytes
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        name = part(raw, at + 1, named)
        if not _is_plain(name) or len(changes) == MAX_UPDATED_FIELDS:
            return False
        if kind in (INC, MUL) and raw[at] not in (INT32, INT64, DOUBLE):
            return False
        change = Change(name, kind, raw[at], part(raw, named + 1, end))
        if kind in (PUSH, ADD_TO_SET, PULL, POP, NOW) and not _take_operand(change):
            return False
        changes.append(change)
        at = end
    return True


def _is_plain(path: bytes) -> cython.bint:
    """True if a path leads to a place that can be changed here."""
    if b"." not in path:
        return bool(path) and path != b"_id" and not path.startswith(b"$") and not path.isdigit()
    names = path.split(b".")
    for name in names:
        if not name or (name.startswith(b"$") and name != MATCHED and not _is_selector(name)):
            return False
        if name.isdigit() and (len(name) > _POSITION_DIGITS or (name[0] == 0x30 and len(name) > 1)):
            return False
    first = names[0]
    return not (first == b"_id" or first.startswith(MATCHED) or first.isdigit() or names.count(MATCHED) > 1)


def _is_selector(name: bytes) -> bool:
    return name.startswith(EVERY) and name.endswith(b"]")


def _take_operand(change: Change) -> bool:
    """Parse the operand of an array operator, or of `$currentDate`; False if it is not simple."""
    kind: cython.int = change.kind
    code: cython.int = change.code
    value: bytes = change.operand
    if kind == NOW:
        return code == BOOL or (code == OBJECT and elements(value) == [("$type", 2, b"\5\0\0\0date\0")])
    if kind == POP:
        return _take_end(change)
    if kind == PULL:
        if code == OBJECT:
            change.condition = equalities(value, 0, len(value))
            return change.condition is not None
        return code != REGEX
    if code != OBJECT:
        return True
    listed = elements(value)
    clauses: dict[str, Value] = {name: (type_, data) for name, type_, data in listed}
    if "$each" not in clauses:
        return True
    if len(clauses) < len(listed):
        return False
    allowed = ("$each",) if kind == ADD_TO_SET else ("$each", "$slice", "$position")
    if next(iter(clauses)) != "$each" or clauses["$each"][0] != ARRAY or not clauses.keys() <= set(allowed):
        return False
    change.members = values(clauses["$each"][1])
    for name, (type_, data) in clauses.items():
        if name != "$each":
            if type_ != INT32:
                return False
            if name == "$slice":
                change.keep = int32_at(data, 0)
            else:
                change.position = int32_at(data, 0)
    return True


def _take_end(change: Change) -> bool:
    """Parse the end from which `$pop` removes a member."""
    code: cython.int = change.code
    value: bytes = change.operand
    number: cython.double
    if code == INT32:
        number = int32_at(value, 0)
    elif code == INT64:
        number = int64_at(value, 0)
    elif code == DOUBLE:
        number = double_at(value, 0)
    else:
        return False
    if number not in (1.0, -1.0):
        return False
    change.keep = 1 if number > 0 else -1
    return True
