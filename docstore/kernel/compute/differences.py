"""What has changed between two documents, as updates in the oplog say it (`docstore.collection.oplog.diff`).

A diff says of a document which fields go (`d`), which get a new value in place (`u`), which are put at its end (`i`,
wherever they stood before), and which are changed inside (`s` + name). Of an array (`a: true`) it says the new
length (`l`), new elements (`u` + position) and changed ones (`s` + position).

What is told inside and what as a whole: by what takes less room, or by `paths`, which are what operators have changed:
names to what is below them, or, where an operator was applied to the field itself, whether what it adds to the end of
an array is told by itself. What they do not name is told as a whole. `ANY_ELEMENT` stands for one element of an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

import cython

from docstore.bson.build import enclosed
from docstore.bson.walk import Value, elements, values

if not cython.compiled:
    from docstore.bson.walk import ARRAY, INT32, NULL, OBJECT, document_stop, name_end, part, value_end

Element = tuple[str, int, bytes]
Paths = Mapping[str, Union["Paths", bool]]

ANY_ELEMENT = "$"
_DELETED = b"\0"
_EACH = ""
"""In the paths of an array: every element that is not named."""
_IS_ARRAY = b"\x08a\0\x01"


def document_diff(before: bytes, after: bytes, paths: Paths | None = None) -> bytes | None:
    """The diff document; None when a name stands twice in a document, which no diff can speak of."""
    old_stop: cython.Py_ssize_t = document_stop(before, 0, len(before))
    new_stop: cython.Py_ssize_t = document_stop(after, 0, len(after))
    old_at: cython.Py_ssize_t = 4
    new_at: cython.Py_ssize_t = 4
    old_named: cython.Py_ssize_t
    new_named: cython.Py_ssize_t
    old_end: cython.Py_ssize_t
    new_end: cython.Py_ssize_t
    same: cython.Py_ssize_t = 0
    updated: list[bytes] = []
    inside: list[bytes] = []
    deleted: list[bytes] = []
    inserted: list[bytes] = []
    parts: list[bytes] = []
    while old_at < old_stop and new_at < new_stop:
        old_named = name_end(before, old_at + 1, old_stop)
        new_named = name_end(after, new_at + 1, new_stop)
        if old_named - old_at != new_named - new_at or not _equal(
            before, old_at + 1, after, new_at + 1, old_named - old_at
        ):
            break
        old_end = value_end(before, before[old_at], old_named + 1, old_stop)
        new_end = value_end(after, after[new_at], new_named + 1, new_stop)
        if (
            before[old_at] != after[new_at]
            or old_end - old_at != new_end - new_at
            or not _equal(before, old_named, after, new_named, old_end - old_named)
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
        if _twice(before, old_stop) or _twice(after, new_stop):
            return None
        if old_at < old_stop:
            _rearrange(elements(before)[same:], elements(after)[same:], updated, inside, deleted, inserted, paths)
        else:
            inserted.append(part(after, new_at, new_stop))
    elif (updated or inside) and _twice(before, old_stop):
        return None
    for label, section in ((b"d", deleted), (b"u", updated), (b"i", inserted)):
        if section:
            parts += (b"\x03", label, b"\0", enclosed(b"".join(section)))
    return enclosed(b"".join(parts + inside))


def _equal(
    one: bytes, at: cython.Py_ssize_t, other: bytes, begin: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.bint:
    """Whether so many bytes from `at` and from `begin` on are the same."""
    place: cython.Py_ssize_t
    for place in range(size):
        if one[at + place] != other[begin + place]:
            return False
    return True


def _twice(raw: bytes, stop: cython.Py_ssize_t) -> cython.bint:
    """Whether a name stands twice in a document."""
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
    """Sort the fields behind the common beginning: kept while the old order allows, then put at the end."""
    places: dict[str, int] = {item[0]: place for place, item in enumerate(old)}
    last: cython.Py_ssize_t = -1
    kept: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    for item in new:
        place = places.get(item[0], -1)
        if place <= last:
            break
        mine = old[place]
        if mine != item:
            _change(mine[1], mine[2], item[0].encode(), item[1], item[2], updated, inside, paths)
        last = place
        kept += 1
    for item in new[kept:]:
        inserted.append(_encoded(item[1], item[0].encode(), item[2]))
    wanted = {item[0] for item in new}
    deleted += [_encoded(8, item[0].encode(), _DELETED) for item in old if item[0] not in wanted]


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
    """Say of a field that it has another value now."""
    diff = _inner_diff(old_code, old, name, code, data, paths)
    if diff is not None:
        inside.append(_encoded(OBJECT, b"s" + name, diff))
    else:
        updated.append(_encoded(code, name, data))


def _inner_diff(
    old_code: cython.int, old: bytes, name: bytes, code: cython.int, data: bytes, paths: Paths | None
) -> bytes | None:
    """The diff of two values under a name; None where the new value is told as a whole."""
    if code != old_code or (code != OBJECT and code != ARRAY):
        return None
    if paths is None:
        diff = document_diff(old, data) if code == OBJECT else _array_diff(old, data, None)
        return diff if diff is not None and len(diff) < len(data) else None
    below = paths.get(name.decode(), paths.get(_EACH, False))
    if isinstance(below, bool):
        return _appended(old, data) if below and code == ARRAY else None
    return document_diff(old, data, below) if code == OBJECT else _array_diff(old, data, below)


def _appended(before: bytes, after: bytes) -> bytes | None:
    """The diff of two arrays; None unless the new one begins as the old one is."""
    old: list[Value] = list(values(before))
    new: list[Value] = list(values(after))
    if new[: len(old)] != old or len(new) == len(old):
        return None
    parts = [_IS_ARRAY]
    for at in range(len(old), len(new)):
        parts.append(_encoded(new[at][0], b"u%d" % at, new[at][1]))
    return enclosed(b"".join(parts))


def _array_diff(before: bytes, after: bytes, paths: Paths | None) -> bytes | None:
    """The diff of two arrays; None when the new one is not numbered as arrays are, which a diff would mend."""
    for number, (name, _, _) in enumerate(elements(after)):
        if name != str(number):
            return None
    if paths is not None and ANY_ELEMENT in paths:
        paths = {**paths, _EACH: paths[ANY_ELEMENT]}
    old: list[Value] = list(values(before))
    new: list[Value] = list(values(after))
    parts: list[bytes] = [_IS_ARRAY]
    mine: Value | None
    diff: bytes | None
    if len(new) < len(old):
        parts.append(_encoded(INT32, b"l", len(new).to_bytes(4, "little")))
    for place, item in enumerate(new):
        mine = old[place] if place < len(old) else None
        if mine == item:
            continue
        if mine is None and paths is not None and str(place) not in paths and item[0] == NULL and place < len(new) - 1:
            # An array is filled up to a new element with nulls.
            continue
        diff = None
        if mine is not None:
            diff = _inner_diff(mine[0], mine[1], b"%d" % place, item[0], item[1], paths)
        if diff is not None:
            parts.append(_encoded(OBJECT, b"s%d" % place, diff))
        else:
            parts.append(_encoded(item[0], b"u%d" % place, item[1]))
    return enclosed(b"".join(parts))
