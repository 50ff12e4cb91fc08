"""The changes of an update to one field (`docstore.kernel.compute.field_updates`), and its operators on arrays."""

from __future__ import annotations

from typing import Any

import cython

from docstore.bson.build import array_from, enclosed
from docstore.bson.order import compare
from docstore.bson.walk import Value, values
from docstore.kernel.compute.elements import Equalities
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_COMPARED_VALUES

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.order import compare_at
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, name_end, part, value_end
    from docstore.kernel.compute.new_values import LARGEST_ARRAY, UNCHANGED, appended, is_element

LARGE_ARRAY: cython.Py_ssize_t = 1 << 16
"""Most bytes of an array whose members are all taken apart; the general update handles larger ones."""

# Kinds that change a value.
SET: cython.int = 0
INC: cython.int = 1
MUL: cython.int = 2
MIN: cython.int = 3
MAX: cython.int = 4
NOW: cython.int = 5
# Kinds that change the members of an array.
PUSH: cython.int = 10
ADD_TO_SET: cython.int = 11
PULL: cython.int = 12
POP: cython.int = 13
# Other kinds.
UNSET: cython.int = 20
LEAVE: cython.int = 21
BELOW: cython.int = 22
COMPARING: frozenset[int] = frozenset((ADD_TO_SET, PULL, MIN, MAX))

ALL: cython.longlong = 1 << 40
MATCHED: bytes = b"$"
"""The name of the element that the filter matched."""
EVERY: bytes = b"$["
"""The prefix of the names that select elements (`$[]`, `$[id]`)."""


class Change:
    """One change of the field `name`, by `kind`.

    - `code` and `operand` are the value to set, add or compare; `members` are those for an array.
    - `keep` is the number that `$slice` keeps (`ALL`: all), or the end from which `$pop` removes.
    - `position` is the position where members are inserted (`ALL`: at the end).
    - `condition` selects the elements to remove or change; `below` are the changes inside the field.
    """

    name: bytes
    kind: cython.int
    code: cython.int
    operand: bytes
    members: list[Value]
    keep: cython.longlong
    position: cython.longlong
    condition: Equalities | None
    below: Any

    def __init__(self, name: bytes, kind: cython.int, code: cython.int, operand: bytes) -> None:
        self.name = name
        self.kind = kind
        self.code = code
        self.operand = operand
        self.members = [(code, operand)]
        self.keep = self.position = ALL
        self.condition = None
        self.below = None


def array_changed(
    change: Change, raw: bytes, at: cython.Py_ssize_t, begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> bytes | None:
    """Return the array field at [at, end), whose value begins at `begin`, after its change; None as in `apply`."""
    pushes: cython.bint = change.kind == PUSH
    result: bytes | None
    if raw[at] != ARRAY:
        return None
    if pushes and change.keep == ALL and change.position == ALL and change.members:
        result = appended(raw, begin, end, change.members)
        return None if result is None else part(raw, at, begin) + result
    if end - begin > LARGEST_ARRAY:
        return None
    spend(end - begin)
    if _count_of(raw, begin, end) < 0 or (change.kind == ADD_TO_SET and len(change.members) > MAX_COMPARED_VALUES):
        if end - begin > LARGE_ARRAY:
            return None
        result = joined(change, values(part(raw, begin, end)))
    elif pushes:
        result = _inserted(change, raw, begin, end)
    elif change.kind == POP:
        result = _popped(change, raw, begin, end)
    elif change.kind == PULL:
        result = _pulled(change, raw, begin, end)
    else:
        result = _united(change, raw, begin, end)
    if result is None or not result:
        return result
    result = part(raw, at, begin) + result
    if result == part(raw, at, end):
        return None if pushes else UNCHANGED
    return result


@cython.exceptval(-2)
def _count_of(raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of members of the array at [begin, end); -1 if its names are not those of an array."""
    stop: cython.Py_ssize_t = document_stop(raw, begin, end)
    at: cython.Py_ssize_t = begin + 4
    named: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    while at < stop:
        named = name_end(raw, at + 1, stop)
        if not is_element(raw, at + 1, named, count):
            return -1
        at = value_end(raw, raw[at], named + 1, stop)
        count += 1
    return count


def _copy_members(
    out: KeyWriter,
    raw: bytes,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    position: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Append `count` members from `at` on, numbered from `position`; return the offset after them."""
    named: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    while count > 0:
        named = name_end(raw, at + 1, end)
        stop = value_end(raw, raw[at], named + 1, end)
        out.put_member(raw[at], position)
        out.put_part(raw, named + 1, stop)
        position += 1
        count -= 1
        at = stop
    return at


def _place_of_member(
    raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, count: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the offset of the member `count` members after the one at `at`."""
    while count > 0:
        at = value_end(raw, raw[at], name_end(raw, at + 1, end) + 1, end)
        count -= 1
    return at


def _inserted(change: Change, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    """Return the array after `$push`: with the members inserted, and cut to those that `$slice` keeps."""
    old_count: cython.Py_ssize_t = _count_of(raw, begin, end)
    push_count: cython.Py_ssize_t = len(change.members)
    position: cython.Py_ssize_t = old_count
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = old_count + push_count
    number: cython.Py_ssize_t
    at: cython.Py_ssize_t
    head_count: cython.Py_ssize_t
    out: KeyWriter = KeyWriter()
    if change.position != ALL:
        position = max(0, old_count + change.position) if change.position < 0 else min(old_count, change.position)
    if change.keep != ALL:
        if change.keep >= 0:
            high = min(high, change.keep)
        else:
            low = max(0, high + change.keep)
    first: cython.Py_ssize_t = out.begin_document()
    # Before the position: members keep their numbers unless first ones are removed.
    head_count = min(position, high)
    if low == 0:
        at = _place_of_member(raw, begin + 4, end - 1, head_count)
        out.put_part(raw, begin + 4, at)
    else:
        number = min(low, head_count)
        at = _place_of_member(raw, begin + 4, end - 1, number)
        at = _copy_members(out, raw, at, end - 1, 0, head_count - number)
    for number in range(push_count):
        if low <= position + number < high:
            code, data = change.members[number]
            out.put_member(code, position + number - low)
            out.put_bytes(data)
    if high > position + push_count:
        number = max(0, low - position - push_count)
        at = _place_of_member(raw, at, end - 1, number)
        _copy_members(
            out, raw, at, end - 1, position + push_count + number - low, high - position - push_count - number
        )
    out.end_document(first)
    return out.contents()


def _popped(change: Change, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes:
    """Return the array after `$pop`, without its first or its last member."""
    count: cython.Py_ssize_t = _count_of(raw, begin, end)
    at: cython.Py_ssize_t
    out: KeyWriter = KeyWriter()
    if count == 0:
        return UNCHANGED
    if change.keep >= 0:
        return enclosed(part(raw, begin + 4, _place_of_member(raw, begin + 4, end - 1, count - 1)))
    at = _place_of_member(raw, begin + 4, end - 1, 1)
    first: cython.Py_ssize_t = out.begin_document()
    _copy_members(out, raw, at, end - 1, 0, count - 1)
    out.end_document(first)
    return out.contents()


def _pulled(change: Change, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes | None:
    """Return the array after `$pull`, without the members that match; None if the general update must test them."""
    at: cython.Py_ssize_t = begin + 4
    named: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    position: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t = 0
    goes: cython.Py_ssize_t
    condition: Equalities | None = change.condition
    code: cython.int
    operand: bytes
    out: KeyWriter | None = None
    code, operand = change.members[0]
    while at < end - 1:
        named = name_end(raw, at + 1, end - 1)
        stop = value_end(raw, raw[at], named + 1, end - 1)
        if condition is None:
            goes = compare_at(code, operand, 0, len(operand), raw[at], raw, named + 1, stop, 0) == 0
        else:
            goes = condition.holds(raw, raw[at], named + 1, stop) if raw[at] == OBJECT else 0
        if goes < 0:
            return None
        if goes:
            if out is None:
                out = KeyWriter()
                first = out.begin_document()
                out.put_part(raw, begin + 4, at)
        else:
            if out is not None:
                out.put_member(raw[at], position)
                out.put_part(raw, named + 1, stop)
            position += 1
        at = stop
    if out is None:
        return UNCHANGED
    out.end_document(first)
    return out.contents()


def _united(change: Change, raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> bytes | None:
    """Return the array after `$addToSet`: with each new member appended that equals no earlier one."""
    new: list[Value] = []
    member: Value
    for member in change.members:
        if not _holds(raw, begin, end, member[0], member[1]) and not _is_among(new, member):
            new.append(member)
    return appended(raw, begin, end, new) if new else UNCHANGED


def _is_among(members: list[Value], value: Value) -> cython.bint:
    member: Value
    for member in members:
        if compare(member, value) == 0:
            return True
    return False


def _holds(raw: bytes, begin: cython.Py_ssize_t, end: cython.Py_ssize_t, code: cython.int, data: bytes) -> cython.bint:
    """True if a member of the array equals a value."""
    at: cython.Py_ssize_t = begin + 4
    named: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    while at < end - 1:
        named = name_end(raw, at + 1, end - 1)
        stop = value_end(raw, raw[at], named + 1, end - 1)
        if compare_at(code, data, 0, len(data), raw[at], raw, named + 1, stop, 0) == 0:
            return True
        at = stop
    return False


@cython.cfunc
def joined(change: Change, old: list[Value]) -> bytes | None:
    """Return the array of these members after its change. `UNCHANGED` if no member comes or goes, even if the names of
    the array's elements are wrong.
    """
    kind: cython.int = change.kind
    keep: cython.longlong = change.keep
    position: cython.longlong
    matches: cython.Py_ssize_t
    condition: Equalities | None = change.condition
    new: list[Value]
    keys: set[bytes]
    key: bytes
    if kind == PUSH:
        position = len(old) if change.position == ALL else change.position
        new = old[:position] + change.members + old[position:]
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
                matches = encode_key((code, data)) == key
            else:
                matches = condition.holds(data, code, 0, len(data)) if code == OBJECT else 0
            if matches < 0:
                return None
            if not matches:
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
