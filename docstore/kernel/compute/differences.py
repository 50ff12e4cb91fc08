"""Diffs of two documents, in the format of updates in the oplog (`docstore.collection.oplog.diff`).

A document's diff has sections of fields: deleted (`d`), updated in place (`u`), put at the end (`i`, also if they
existed elsewhere), and changed inside (`s` and name). An array's (`a: true`) has the new length (`l`), new elements
(`u` and position) and changed ones (`s` and position).

A field is diffed inside or written as a whole, whichever takes less room. With `paths`, those that operators changed
decide: names to their subtrees, or, for an operator on the field itself, True if its appended members are a diff of
their own. Fields that they do not name are written as a whole. `ANY_ELEMENT` stands for one element of an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import cython

from docstore.bson.build import enclosed
from docstore.bson.walk import elements

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        INT32,
        NULL,
        OBJECT,
        document_stop,
        name_end,
        part,
        same_bytes,
        same_front,
        uint64_at,
        value_end,
    )
    from docstore.kernel.compute.new_values import is_element

Element = tuple[str, int, bytes]
Paths = Mapping[str, Union["Paths", bool]]

ANY_ELEMENT = "$"
_DELETED = b"\0"
_EACH = ""
"""In the paths of an array: every element that is not named."""
_IS_ARRAY = b"\x08a\0\x01"


@cython.ccall
def document_diff(before: bytes, after: bytes, paths: Paths | None = None) -> bytes | None:
    """Return the diff document; None if a document repeats a name, which a diff cannot express."""
    old_stop: cython.Py_ssize_t = document_stop(before, 0, len(before))
    new_stop: cython.Py_ssize_t = document_stop(after, 0, len(after))
    old_at: cython.Py_ssize_t = 4
    new_at: cython.Py_ssize_t = 4
    old_named: cython.Py_ssize_t
    new_named: cython.Py_ssize_t
    old_end: cython.Py_ssize_t
    new_end: cython.Py_ssize_t
    same: cython.Py_ssize_t = 0
    differ: cython.Py_ssize_t = 4 + same_front(before, after, 4, min(old_stop, new_stop) - 4)
    updated: list[bytes] = []
    inside: list[bytes] = []
    deleted: list[bytes] = []
    inserted: list[bytes] = []
    while old_at < differ:
        old_end = value_end(before, before[old_at], name_end(before, old_at + 1, old_stop) + 1, old_stop)
        if old_end > differ:
            break
        old_at = new_at = old_end
        same += 1
    while old_at < old_stop and new_at < new_stop:
        old_named = name_end(before, old_at + 1, old_stop)
        new_named = name_end(after, new_at + 1, new_stop)
        if old_named - old_at != new_named - new_at or not same_bytes(
            before, old_at + 1, after, new_at + 1, old_named - old_at
        ):
            break
        old_end = value_end(before, before[old_at], old_named + 1, old_stop)
        new_end = value_end(after, after[new_at], new_named + 1, new_stop)
        if (
            before[old_at] != after[new_at]
            or old_end - old_at != new_end - new_at
            or not same_bytes(before, old_named, after, new_named, old_end - old_named)
        ):
            _change(
                before[old_at],
                part(before, old_named + 1, old_end),
                part(after, new_at + 1, new_named),
                after[new_at],
                part(after, new_named + 1, new_end),
                updated,
                inside,
                paths,
            )
        old_at = old_end
        new_at = new_end
        same += 1
    if old_at < old_stop or new_at < new_stop:
        if _twice(before, old_stop, _count(before, old_stop)) or _twice(after, new_stop, _count(after, new_stop)):
            return None
        if old_at < old_stop:
            _rearrange(elements(before)[same:], elements(after)[same:], updated, inside, deleted, inserted, paths)
        else:
            inserted.append(part(after, new_at, new_stop))
    elif (updated or inside) and _twice(before, old_stop, same):
        return None
    return _put_together(deleted, updated, inserted, inside)


def _put_together(deleted: list[bytes], updated: list[bytes], inserted: list[bytes], inside: list[bytes]) -> bytes:
    """Return the diff with these sections."""
    parts: list[bytes] = []
    for label, section in ((b"d", deleted), (b"u", updated), (b"i", inserted)):
        if section:
            parts += (b"\x03", label, b"\0", enclosed(b"".join(section)))
    return enclosed(b"".join(parts + inside))


def _count(raw: bytes, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of a document's fields."""
    at: cython.Py_ssize_t = 4
    count: cython.Py_ssize_t = 0
    while at < stop:
        at = value_end(raw, raw[at], name_end(raw, at + 1, stop) + 1, stop)
        count += 1
    return count


def _twice(raw: bytes, stop: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.bint:
    """True if a name occurs twice in a document of `count` fields."""
    at: cython.Py_ssize_t = 4
    if count < 2:
        return False
    if not cython.compiled:
        return _name_twice(raw, stop)
    named: cython.Py_ssize_t
    mark: cython.ulonglong
    slot: cython.Py_ssize_t
    size: cython.Py_ssize_t = 16
    steps: cython.Py_ssize_t = 8 * count
    while size < 2 * count:
        size *= 2
    room: bytearray = bytearray(8 * size)
    marks: cython.pointer[cython.ulonglong] = cython.cast(
        cython.pointer[cython.ulonglong], cython.cast(cython.p_char, room)
    )
    at = 4
    while at < stop:
        named = name_end(raw, at + 1, stop)
        mark = _mark_of(raw, at + 1, named)
        slot = cython.cast(cython.Py_ssize_t, (mark >> 20) & cython.cast(cython.ulonglong, size - 1))
        while marks[slot] != 0:
            steps -= 1
            if marks[slot] == mark or steps == 0:
                # The names are probably equal. Frequent collisions may be an attack on the hash.
                return _name_twice(raw, stop)
            slot = (slot + 1) & (size - 1)
        marks[slot] = mark
        at = value_end(raw, raw[at], named + 1, stop)
    return False


@cython.exceptval(check=False)
def _mark_of(raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
    """Return a hash of a name that is not 0; different names rarely have the same."""
    factor: cython.ulonglong = 0x1E3779B97F4A7C15
    mark: cython.ulonglong = factor
    while end - at >= 8:
        mark = (mark ^ uint64_at(raw, at)) * factor
        mark ^= mark >> 32
        at += 8
    while at < end:
        mark = (mark ^ raw[at]) * factor
        at += 1
    mark ^= mark >> 29
    return mark | 1


def _name_twice(raw: bytes, stop: cython.Py_ssize_t) -> cython.bint:
    at: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    names: set[bytes] = set()
    while at < stop:
        named = name_end(raw, at + 1, stop)
        names.add(part(raw, at + 1, named))
        count += 1
        at = value_end(raw, raw[at], named + 1, stop)
    return len(names) < count


def _encoded(code: cython.int, name: bytes, data: bytes) -> bytes:
    return b"%c%b\0%b" % (code, name, data)


def _rearrange(
    old: list[Element],
    new: list[Element],
    updated: list[bytes],
    inside: list[bytes],
    deleted: list[bytes],
    inserted: list[bytes],
    paths: Paths | None,
) -> None:
    """Sort the fields after the common beginning: kept while the old order allows, then put at the end."""
    positions: dict[str, int] = {item[0]: position for position, item in enumerate(old)}
    last: cython.Py_ssize_t = -1
    ordered_count: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t
    for item in new:
        position = positions.get(item[0], -1)
        if position <= last:
            break
        mine = old[position]
        if mine != item:
            _change(mine[1], mine[2], item[0].encode(), item[1], item[2], updated, inside, paths)
        last = position
        ordered_count += 1
    for item in new[ordered_count:]:
        inserted.append(_encoded(item[1], item[0].encode(), item[2]))
    new_names = {item[0] for item in new}
    deleted += [_encoded(8, item[0].encode(), _DELETED) for item in old if item[0] not in new_names]


@cython.ccall
def _change(
    old_code: cython.int,
    old: bytes,
    name: bytes,
    code: cython.int,
    data: bytes,
    updated: list[bytes],
    inside: list[bytes],
    paths: Paths | None,
) -> None:
    """Add the changed value of a field to the sections."""
    diff = _inner_diff(old_code, old, name, code, data, paths)
    if diff is not None:
        inside.append(_encoded(OBJECT, b"s" + name, diff))
    else:
        updated.append(_encoded(code, name, data))


def _inner_diff(
    old_code: cython.int, old: bytes, name: bytes, code: cython.int, data: bytes, paths: Paths | None
) -> bytes | None:
    """Return the diff of two values under a name; None if the new value is to be written as a whole."""
    if code != old_code or (code != OBJECT and code != ARRAY):
        return None
    if paths is None:
        diff = document_diff(old, data) if code == OBJECT else _array_diff(old, data, None)
        return diff if diff is not None and len(diff) < len(data) else None
    below = paths.get(name.decode(), paths.get(_EACH, False))
    if isinstance(below, bool):
        return _appended(old, data) if below and code == ARRAY else None
    return document_diff(old, data, below) if code == OBJECT else _array_diff(old, data, below)


@cython.cfunc
def _appended(before: bytes, after: bytes) -> bytes | None:
    """Return the diff of two arrays; None unless the new one begins with the old one."""
    old_stop: cython.Py_ssize_t = document_stop(before, 0, len(before))
    stop: cython.Py_ssize_t = document_stop(after, 0, len(after))
    old_at: cython.Py_ssize_t = 4
    at: cython.Py_ssize_t = 4
    old_begin: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    index: cython.Py_ssize_t = 0
    while old_at < old_stop:
        if at >= stop or before[old_at] != after[at]:
            return None
        old_begin = name_end(before, old_at + 1, old_stop) + 1
        begin = name_end(after, at + 1, stop) + 1
        end = value_end(after, after[at], begin, stop)
        old_at = value_end(before, before[old_at], old_begin, old_stop)
        if old_at - old_begin != end - begin or not same_bytes(before, old_begin, after, begin, end - begin):
            return None
        at = end
        index += 1
    if at >= stop:
        return None
    parts = [_IS_ARRAY]
    while at < stop:
        begin = name_end(after, at + 1, stop) + 1
        end = value_end(after, after[at], begin, stop)
        parts.append(_encoded(after[at], b"u%d" % index, part(after, begin, end)))
        at = end
        index += 1
    return enclosed(b"".join(parts))


@cython.cfunc
def _array_diff(before: bytes, after: bytes, paths: Paths | None) -> bytes | None:
    """Return the diff of two arrays; None if the new one's names are not 0, 1, 2, ..., which applying a diff would
    change.
    """
    old_stop: cython.Py_ssize_t = document_stop(before, 0, len(before))
    stop: cython.Py_ssize_t = document_stop(after, 0, len(after))
    old_at: cython.Py_ssize_t = 4
    at: cython.Py_ssize_t = 4
    old_begin: cython.Py_ssize_t = 0
    old_end: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t
    end: cython.Py_ssize_t
    index: cython.Py_ssize_t = 0
    has_old: cython.bint
    diff: bytes | None
    parts: list[bytes] = []
    if paths is not None and ANY_ELEMENT in paths:
        paths = {**paths, _EACH: paths[ANY_ELEMENT]}
    while at < stop:
        begin = name_end(after, at + 1, stop) + 1
        if not is_element(after, at + 1, begin - 1, index):
            return None
        end = value_end(after, after[at], begin, stop)
        has_old = old_at < old_stop
        diff = None
        if has_old:
            old_begin = name_end(before, old_at + 1, old_stop) + 1
            old_end = value_end(before, before[old_at], old_begin, old_stop)
        if (
            has_old
            and before[old_at] == after[at]
            and old_end - old_begin == end - begin
            and same_bytes(before, old_begin, after, begin, end - begin)
        ):
            pass
        elif not has_old and paths is not None and after[at] == NULL and end < stop and str(index) not in paths:
            # The update filled the array up to a new element with nulls.
            pass
        else:
            name = b"%d" % index
            data = part(after, begin, end)
            if has_old:
                old = part(before, old_begin, old_end)
                diff = _inner_diff(before[old_at], old, name, after[at], data, paths)
            if diff is not None:
                parts.append(_encoded(OBJECT, b"s" + name, diff))
            else:
                parts.append(_encoded(after[at], b"u" + name, data))
        if has_old:
            old_at = old_end
        at = end
        index += 1
    if old_at < old_stop:
        parts.insert(0, _encoded(INT32, b"l", int(index).to_bytes(4, "little")))
    return enclosed(b"".join([_IS_ARRAY, *parts]))
