"""Oplog updates: `{$v: 2, diff: {d, u, i, s<field>}}`, or the whole document if that is shorter.

The diff format: `docstore.kernel.compute.differences`. Change streams show the granularity of a diff, so it is that of
real servers: the paths that update operators name; else the smaller encoding.

- Applying an update to its pre-image yields its post-image byte for byte.
- Applying it to any other document never fails. A sequence of updates, applied from any of its points, ends in the same
  document: each names the new values, not the old ones.
"""

from __future__ import annotations

import struct
from types import MappingProxyType

from docstore.bson import ARRAY, NULL, OBJECT, Value, array_from, document_from, elements, get_field, values
from docstore.bson.build import enclosed
from docstore.kernel.compute.differences import ANY_ELEMENT, Paths, document_diff

WHOLE_FIELDS: Paths = MappingProxyType({})
"""The paths of operators on top-level fields."""
REPLACED: Paths = MappingProxyType({"": False})
"""The paths of a replacement."""
__all__ = ["ANY_ELEMENT", "REPLACED", "WHOLE_FIELDS", "Paths", "apply_update", "is_replacement", "make_update"]

_INT = struct.Struct("<i")
_HEAD = b"\x10$v\0\x02\0\0\0\x03diff\0"
_NULL: Value = (NULL, b"")


def make_update(before: bytes, after: bytes, paths: Paths | None = None) -> bytes:
    """Return the `o` of an update entry: a diff if operators changed these `paths`; `after` if `paths` is REPLACED.

    Otherwise return the shorter one: a diff or `after`.
    """
    if paths is REPLACED:
        return after
    diff = document_diff(before, after, paths)
    if diff is None or (paths is None and len(diff) + len(_HEAD) + 5 >= len(after)):
        return after
    return enclosed(_HEAD + diff)


def apply_update(before: bytes, o: bytes) -> bytes:
    """Return the post-image of `before` under an update entry's `o`."""
    if is_replacement(o):
        return o
    diff = get_field(o, "diff")
    assert diff is not None, "an update entry with $v has a diff"
    return _apply_document(before, diff[1])


def is_replacement(o: bytes) -> bool:
    """True if `o` is a whole document; a diff has no `_id`."""
    return get_field(o, "$v") is None or get_field(o, "_id") is not None


def _apply_document(raw: bytes, diff: bytes) -> bytes:
    fields: dict[str, Value] = {}
    old = elements(raw)
    for name, code, data in old:
        fields[name] = (code, data)
    if len(fields) < len(old):
        # A duplicate field name: the diff was not made from this document, so a later entry will replace it.
        return raw
    for name, _, data in elements(diff):
        if name == "d":
            for removed_name, _, _ in elements(data):
                fields.pop(removed_name, None)
        elif name == "u":
            for changed, code, part in elements(data):
                fields[changed] = (code, part)
        elif name == "i":
            for added, code, part in elements(data):
                fields.pop(added, None)
                fields[added] = (code, part)
        else:
            assert name.startswith("s"), f"no such part of a diff: {name!r}"
            value = fields.get(name[1:])
            if value is not None:
                fields[name[1:]] = _apply_value(value, data)
    return document_from([(name, code, data) for name, (code, data) in fields.items()])


def _apply_value(value: Value, diff: bytes) -> Value:
    """Return the value with a nested change applied; unchanged if it is no longer of the type that the diff expects."""
    of_array = get_field(diff, "a") is not None
    if value[0] == OBJECT and not of_array:
        return OBJECT, _apply_document(value[1], diff)
    if value[0] == ARRAY and of_array:
        return ARRAY, _apply_array(value[1], diff)
    return value


def _apply_array(raw: bytes, diff: bytes) -> bytes:
    members = values(raw)
    for name, code, data in elements(diff):
        if name == "a":
            continue
        if name == "l":
            del members[_INT.unpack(data)[0] :]
            continue
        position = int(name[1:])
        members += [_NULL] * (position - len(members))
        if name[0] == "u":
            members[position : position + 1] = [(code, data)]
        elif position < len(members):
            members[position] = _apply_value(members[position], data)
    return array_from(members)
