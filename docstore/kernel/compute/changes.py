"""What an update does with one field (`docstore.kernel.compute.field_updates`), and what it does with arrays."""

from __future__ import annotations

from typing import Any

import cython

from docstore.bson.build import array_from
from docstore.bson.walk import Value, values
from docstore.kernel.compute.elements import Equalities
from docstore.kernel.keys.encoding import encode_key

if not cython.compiled:
    from docstore.bson.walk import ARRAY, OBJECT, part
    from docstore.kernel.compute.new_values import UNCHANGED, appended

LARGE_ARRAY = 1 << 16
"""Bytes of an array that is not taken apart."""

# What changes a value.
SET = 0
INC = 1
MUL = 2
MIN = 3
MAX = 4
NOW = 5
# What changes the members of an array.
PUSH = 10
ADD_TO_SET = 11
PULL = 12
POP = 13
# Others.
UNSET = 20
LEAVE = 21
BELOW = 22
COMPARING = frozenset((ADD_TO_SET, PULL, MIN, MAX))

ALL = 1 << 40
MATCHED = b"$"
"""The name of the element that a filter has matched."""
EVERY = b"$["
"""What the name of elements that are chosen begins with."""


class Change:
    """One change of the field `name`: `code` and `operand` are what is set, added or compared, `members` what it is for
    an array, of which `keep` is what `$slice` keeps (`ALL`: all) or the end where `$pop` takes one, and `place` where
    they are put (`ALL`: at the end); `condition` says which elements go, or are changed; `below` what changes inside.
    """

    name: bytes
    kind: cython.int
    code: cython.int
    operand: bytes
    members: list[Value]
    keep: cython.longlong
    place: cython.longlong
    condition: Equalities | None
    below: Any

    def __init__(self, name: bytes, kind: cython.int, code: cython.int, operand: bytes) -> None:
        self.name = name
        self.kind = kind
        self.code = code
        self.operand = operand
        self.members = [(code, operand)]
        self.keep = self.place = ALL
        self.condition = None
        self.below = None


def array_changed(
    change: Change, raw: bytes, at: cython.Py_ssize_t, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> bytes | None:
    """The field at [at, end), which must be an array, its value at `begin`, after its change."""
    pushes: cython.bint = change.kind == PUSH
    made: bytes | None
    if raw[at] != ARRAY:
        return None
    if pushes and change.keep == ALL and change.place == ALL and change.members:
        made = appended(raw, begin, end, change.members)
        return None if made is None else part(raw, at, begin) + made
    if end - begin > LARGE_ARRAY:
        return None
    made = joined(change, values(part(raw, begin, end)))
    if made is None or not made:
        return made
    made = part(raw, at, begin) + made
    if made == part(raw, at, end):
        return None if pushes else UNCHANGED
    return made


def joined(change: Change, old: list[Value]) -> bytes | None:
    """The array of these members after its change; `UNCHANGED`, also of one that is not numbered as arrays are, where
    none comes or goes.
    """
    kind: cython.int = change.kind
    keep: cython.longlong = change.keep
    place: cython.longlong
    held: cython.Py_ssize_t
    condition: Equalities | None = change.condition
    new: list[Value]
    keys: set[bytes]
    key: bytes
    if kind == PUSH:
        place = len(old) if change.place == ALL else change.place
        new = old[:place] + change.members + old[place:]
        if keep != ALL:
            new = new[:keep] if keep >= 0 else new[max(0, len(new) + keep) :]
        return array_from(new)
    if kind == POP:
        return array_from(old[1:] if keep < 0 else old[: len(old) - 1] if old else old)
    new = []
    if kind == PULL:
        key = b"" if condition is not None else encode_key(change.members[0])
        for code, data in old:
            if condition is None:
                held = encode_key((code, data)) == key
            else:
                held = condition.holds(data, code, 0, len(data)) if code == OBJECT else 0
            if held < 0:
                return None
            if not held:
                new.append((code, data))
        return UNCHANGED if len(new) == len(old) else array_from(new)
    keys = {encode_key(member) for member in old}
    for member in change.members:
        key = encode_key(member)
        if key not in keys:
            keys.add(key)
            new.append(member)
    return array_from(old + new) if new or not old else UNCHANGED


def order_of(change: Change) -> tuple[bool, int, bytes]:
    name: bytes = change.name
    return (False, int(name), b"") if name.isdigit() else (True, 0, name)
