"""Updates as the oplog carries them: `{$v: 2, diff: {d, u, i, s<field>}}`, or the whole document where that is shorter.

What a diff says: `docstore.kernel.compute.differences`.

What is changed inside and what as a whole is decided as real servers do, since change streams show it: where operators
have changed a document, by the paths that they name, else by what takes less room.

Invariants: applying a made update to the document it was made from gives the other document byte for byte; applying
it to any other document never fails, and a sequence of updates applied from any point of itself ends in the same
document, because each names what it leaves behind and not what it found.
"""

from __future__ import annotations

import struct
from types import MappingProxyType

from docstore.bson import ARRAY, NULL, OBJECT, Value, array_from, document_from, elements, get_field, values
from docstore.bson.build import enclosed
from docstore.kernel.compute.differences import ANY_ELEMENT, Paths, document_diff

WHOLE_FIELDS: Paths = MappingProxyType({})
"""Of operators on top-level fields."""
REPLACED: Paths = MappingProxyType({"": False})
"""Of a document that was put in the place of the other."""
__all__ = ["ANY_ELEMENT", "REPLACED", "WHOLE_FIELDS", "Paths", "apply_update", "is_replacement", "make_update"]

_INT = struct.Struct("<i")
_HEAD = b"\x10$v\0\x02\0\0\0\x03diff\0"
_NULL: Value = (NULL, b"")


def make_update(before: bytes, after: bytes, paths: Paths | None = None) -> bytes:
    """The `o` of an update entry: a diff where operators have changed these `paths`; `after` where it was REPLACED.
    Otherwise a diff when it is shorter than `after`, else `after`.
    """
    if paths is REPLACED:
        return after
    diff = document_diff(before, after, paths)
    if diff is None or (paths is None and len(diff) + len(_HEAD) + 5 >= len(after)):
        return after
    return enclosed(_HEAD + diff)


def apply_update(before: bytes, o: bytes) -> bytes:
    """The document that an update entry's `o` makes of `before`."""
    if is_replacement(o):
        return o
    diff = get_field(o, "diff")
    assert diff is not None, "an update entry with $v has a diff"
    return _apply_document(before, diff[1])


def is_replacement(o: bytes) -> bool:
    """Whether `o` is a whole document; a diff has no `_id`."""
    return get_field(o, "$v") is None or get_field(o, "_id") is not None


def _apply_document(raw: bytes, diff: bytes) -> bytes:
    fields: dict[str, Value] = {}
    old = elements(raw)
    for name, code, data in old:
        fields[name] = (code, data)
    if len(fields) < len(old):
        # A name stands twice: no diff was made from this document, so a later entry will replace it.
        return raw
    for name, _, data in elements(diff):
        if name == "d":
            for gone, _, _ in elements(data):
                fields.pop(gone, None)
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
    """A value changed inside; one that is no longer of the kind that the diff speaks of stays as it is."""
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
        place = int(name[1:])
        members += [_NULL] * (place - len(members))
        if name[0] == "u":
            members[place : place + 1] = [(code, data)]
        elif place < len(members):
            members[place] = _apply_value(members[place], data)
    return array_from(members)
