"""Updates as the oplog carries them: `{$v: 2, diff: {d, u, i, s<field>}}`, or the whole document where that is shorter.

A diff says of a document which fields go (`d`), which get a new value in place (`u`), which are put at its end (`i`,
wherever they stood before), and which are changed inside (`s` + name). Of an array (`a: true`) it says the new
length (`l`), new elements (`u` + position) and changed ones (`s` + position).

Invariants: applying a made update to the document it was made from gives the other document byte for byte; applying
it to any other document never fails, and a sequence of updates applied from any point of itself ends in the same
document, because each names what it leaves behind and not what it found.
"""

from __future__ import annotations

import struct

from docstore.bson import ARRAY, NULL, OBJECT, Value, array_from, document_from, elements, get_field, values
from docstore.bson.build import enclosed

Element = tuple[str, int, bytes]

_INT = struct.Struct("<i")
_HEAD = b"\x10$v\0\x02\0\0\0\x03diff\0"
_DELETED = b"\0"
_IS_ARRAY = b"\x08a\0\x01"
_NULL: Value = (NULL, b"")


def make_update(before: bytes, after: bytes) -> bytes:
    """The `o` of an update entry: a diff when it is shorter than `after`, else `after`."""
    diff = _document_diff(before, after)
    if diff is None or len(diff) + len(_HEAD) + 5 >= len(after):
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


def _encoded(item: Element) -> bytes:
    name, code, data = item
    return b"".join((code.to_bytes(1, "little"), name.encode(), b"\0", data))


def _document_diff(before: bytes, after: bytes) -> bytes | None:
    """The diff document; None when a name stands twice in a document, which no diff can speak of."""
    old = elements(before)
    new = elements(after)
    updated: list[bytes] = []
    inside: list[bytes] = []
    at = 0
    for mine, theirs in zip(old, new, strict=False):
        if mine[0] != theirs[0]:
            break
        if mine != theirs:
            _change(mine, theirs, updated, inside)
        at += 1
    deleted: list[bytes] = []
    inserted: list[bytes] = []
    if at < len(old) or at < len(new):
        names = {item[0] for item in old}
        if len(names) < len(old) or len({item[0] for item in new}) < len(new):
            return None
        _rearrange(old[at:], new[at:], updated, inside, deleted, inserted)
    elif (updated or inside) and len({item[0] for item in old}) < len(old):
        return None
    parts: list[bytes] = []
    for label, section in (("d", deleted), ("u", updated), ("i", inserted)):
        if section:
            parts += (b"\x03", label.encode(), b"\0", enclosed(b"".join(section)))
    return enclosed(b"".join(parts + inside))


def _rearrange(
    old: list[Element],
    new: list[Element],
    updated: list[bytes],
    inside: list[bytes],
    deleted: list[bytes],
    inserted: list[bytes],
) -> None:
    """Sort the fields behind the common beginning: kept while the old order allows, then put at the end."""
    places = {item[0]: place for place, item in enumerate(old)}
    last = -1
    kept = 0
    for item in new:
        place = places.get(item[0], -1)
        if place <= last:
            break
        if old[place] != item:
            _change(old[place], item, updated, inside)
        last = place
        kept += 1
    inserted += [_encoded(item) for item in new[kept:]]
    wanted = {item[0] for item in new}
    deleted += [_encoded((item[0], 8, _DELETED)) for item in old if item[0] not in wanted]


def _change(mine: Element, theirs: Element, updated: list[bytes], inside: list[bytes]) -> None:
    name, code, data = theirs
    diff = None
    if code == mine[1]:
        if code == OBJECT:
            diff = _document_diff(mine[2], data)
        elif code == ARRAY:
            diff = _array_diff(mine[2], data)
    if diff is not None and len(diff) < len(data):
        inside.append(_encoded(("s" + name, OBJECT, diff)))
    else:
        updated.append(_encoded(theirs))


def _array_diff(before: bytes, after: bytes) -> bytes | None:
    """The diff of two arrays; None when the new one is not numbered as arrays are, which a diff would mend."""
    if any(name != str(place) for place, (name, _, _) in enumerate(elements(after))):
        return None
    old = values(before)
    new = values(after)
    parts: list[bytes] = [_IS_ARRAY]
    if len(new) < len(old):
        parts.append(b"\x10l\0" + _INT.pack(len(new)))
    for place, item in enumerate(new):
        mine = old[place] if place < len(old) else None
        if mine == item:
            continue
        diff = None
        if mine is not None and mine[0] == item[0]:
            if item[0] == OBJECT:
                diff = _document_diff(mine[1], item[1])
            elif item[0] == ARRAY:
                diff = _array_diff(mine[1], item[1])
        if diff is not None and len(diff) < len(item[1]):
            parts.append(_encoded((f"s{place}", OBJECT, diff)))
        else:
            parts.append(_encoded((f"u{place}", *item)))
    return enclosed(b"".join(parts))


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
