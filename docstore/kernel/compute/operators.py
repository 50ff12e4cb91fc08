"""An update's document of operators as the changes that `docstore.kernel.compute.field_updates` carries out.

`field_changes` answers None where there is anything that they do not know: another operator, a part of a path that is
empty or begins with `$`, a document's field that is a number or `_id`, a path given twice or within another, an operand
that is no int, long or double, too many paths. Nothing that the general way (`docstore.query.update`) refuses is let
by.
"""

from __future__ import annotations

import cython

from docstore.bson.walk import Value, elements, values
from docstore.kernel.compute.field_updates import Change, FieldChanges

if not cython.compiled:
    from docstore.bson.walk import ARRAY, DOUBLE, INT32, INT64, OBJECT, REGEX, document_stop, name_end, part, value_end
    from docstore.kernel.compute.field_updates import (
        ADD_TO_SET,
        ALL,
        BELOW,
        INC,
        LEAVE,
        MATCHED,
        MAX,
        MIN,
        PULL,
        PUSH,
        SET,
        UNSET,
    )

_MOST = 60
_DEEPEST = 16
_POSITION_DIGITS = 6
_KINDS: dict[bytes, int] = {
    b"$set": SET, b"$inc": INC, b"$unset": UNSET, b"$push": PUSH, b"$addToSet": ADD_TO_SET, b"$pull": PULL,
    b"$setOnInsert": LEAVE, b"$min": MIN, b"$max": MAX,
}  # fmt: skip


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
    if not changes:
        return None
    names = [change[0] for change in changes if change[1] != LEAVE]
    if any([b"." in change[0] for change in changes]):  # noqa: C419 (compiled, a generator is slower)
        made = _tree(changes, frozenset(map(_place_of, names)), 1)
        if made is not None and made.positional:
            made.arrays = frozenset([name[: name.index(b".$")].decode() for name in names if b".$" in name])
            made.names_in_place = frozenset([_place_of(name.replace(b".$", b"")) for name in names])
        return made
    return _level(changes, frozenset(names))


def _tree(changes: list[Change], names: frozenset[bytes], depth: cython.int) -> FieldChanges | None:
    """The changes of paths, by what they begin with; None where one is within another, or one is too long."""
    here: list[Change] = []
    within: dict[bytes, list[Change]] = {}
    nothing: frozenset[bytes] = frozenset()
    for change in changes:
        first, dot, rest = change[0].partition(b".")
        if dot:
            within.setdefault(first, []).append((rest, *change[1:]))
        else:
            here.append(change)
    for first, group in within.items():
        below = None if depth == _DEEPEST else _tree(group, nothing, depth + 1)
        if below is None:
            return None
        here.append((first, BELOW, 0, b"", [], 0, below))
    return _level(here, names)


def _level(changes: list[Change], names: frozenset[bytes]) -> FieldChanges | None:
    """The changes of these fields; None where one is named twice, or besides the element that a filter has matched."""
    found = {change[0] for change in changes}
    if len(found) < len(changes) or (len(found) > 1 and MATCHED in found):
        return None
    return FieldChanges(changes, names)


def _place_of(path: bytes) -> bytes:
    """As `docstore.query.value.places.changed_place`."""
    found: list[bytes] = []
    for name in path.split(b"."):
        if name.isdigit() or name == MATCHED:
            break
        found.append(name)
    return b".".join(found)


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
        if not _is_plain(name) or len(changes) == _MOST:
            return False
        if kind == INC and raw[at] not in (INT32, INT64, DOUBLE):
            return False
        change = _change(name, kind, raw[at], part(raw, named + 1, end))
        if change is None:
            return False
        changes.append(change)
        at = end
    return True


def _is_plain(path: bytes) -> cython.bint:
    """Whether a path leads to a place that can be changed here."""
    if b"." not in path:
        return bool(path) and path != b"_id" and not path.startswith(b"$") and not path.isdigit()
    names = path.split(b".")
    for name in names:
        if not name or (name.startswith(b"$") and name != MATCHED):
            return False
        if name.isdigit() and (len(name) > _POSITION_DIGITS or (name[0] == 0x30 and len(name) > 1)):
            return False
    first = names[0]
    return not (first == b"_id" or first == MATCHED or first.isdigit() or names.count(MATCHED) > 1)


def _change(name: bytes, kind: cython.int, code: cython.int, value: bytes) -> Change | None:
    """One change; None where its operand is not simple."""
    members: list[Value] = [(code, value)]
    keep: cython.longlong = ALL
    if kind == PULL and code in (OBJECT, REGEX):
        return None
    if kind in (PUSH, ADD_TO_SET) and code == OBJECT:
        clauses = elements(value)
        if any([clause[0] == "$each" for clause in clauses]):  # noqa: C419 (compiled, a generator is slower)
            if clauses[0][:2] != ("$each", ARRAY) or len(clauses) > 2 - (kind == ADD_TO_SET):
                return None
            members = values(clauses[0][2])
            if len(clauses) == 2:
                if clauses[1][:2] != ("$slice", INT32):
                    return None
                keep = int.from_bytes(clauses[1][2], "little", signed=True)
    return name, kind, code, value, members, keep, None
