"""Undo records: what an oplog entry has overwritten, kept until the entry is majority-committed, and
for some minutes longer so that reads of the past can be answered.

A record lists every key that the entry's change has touched, with the value that stood there before, and by how much
the counters of collections moved. Undoing puts those values back and removes the entry and the record, in one batch:
done once or not at all, and harmless when a value is the same already. Records are undone newest first, so each
finds the state that its own change has left.

Layout (little-endian): ident (4), count change (4), size change (8), then for each key: family (1), key length (4),
length of the previous value or -1 (4), key, previous value. Ident 0 means no counters. What moves further counters has
for each of them the family 255 and, as its key, the same three numbers. What counts as written before its entry
has as its first key, of the family 254, the timestamp (8). `docstore.kernel.log.entries` puts the keys together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from docstore.storage import Family

_HEAD = struct.Struct("<Iiq")
_KEY = struct.Struct("<Bii")

undo_head = _HEAD.pack
"""(ident, count change, size change): the beginning of a record."""

NOTHING_COUNTED = undo_head(0, 0, 0)

_COUNTERS = 255
_AS_OF = 254
_LONG = struct.Struct("<Q")
_pack_key = _KEY.pack


def undo_as_of(timestamp: int) -> bytes:
    """Says, before all keys, as of when the change counts."""
    return _pack_key(_AS_OF, _LONG.size, -1) + _LONG.pack(timestamp)


def counts_as_of(record: bytes) -> int | None:
    """As of when the change counts, where that is not the time of its entry."""
    at = _HEAD.size
    while record[at : at + 1] == b"\xff":
        at += _KEY.size + _HEAD.size
    if record[at : at + 1] != b"\xfe":
        return None
    timestamp: int = _LONG.unpack_from(record, at + _KEY.size)[0]
    return timestamp


def undo_sums(counted: Sequence[tuple[int, int, int]]) -> bytes:
    """The beginning of a record that moves the counters of several collections."""
    if not counted:
        return NOTHING_COUNTED
    parts = [undo_head(*counted[0])]
    parts += [_pack_key(_COUNTERS, _HEAD.size, -1) + undo_head(*each) for each in counted[1:]]
    return b"".join(parts)


def undo_counters(record: bytes) -> Iterator[tuple[int, int, int]]:
    """(ident, count change, size change) of each collection whose counters a record moves."""
    ident, count, size = _HEAD.unpack_from(record)
    at = _HEAD.size
    while ident:
        yield ident, count, size
        if record[at : at + 1] != b"\xff":
            return
        ident, count, size = _HEAD.unpack_from(record, at + _KEY.size)
        at += _KEY.size + _HEAD.size


def undo_keys(record: bytes) -> Iterator[tuple[Family, bytes, bytes | None]]:
    """(family, key, previous value or None) of a record, in the order they were touched."""
    at = _HEAD.size
    while at < len(record):
        family, key_bytes, previous_bytes = _KEY.unpack_from(record, at)
        at += _KEY.size
        key = record[at : at + key_bytes]
        at += key_bytes
        if family >= _AS_OF:
            continue
        previous = None
        if previous_bytes >= 0:
            previous = record[at : at + previous_bytes]
            at += previous_bytes
        yield Family(family), key, previous
