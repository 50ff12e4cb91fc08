"""Undo records: what an oplog entry has overwritten, kept until the entry is majority-committed, and
for some minutes longer so that reads of the past can be answered.

A record lists every key that the entry's change has touched, with the value that stood there before, and by how much
the counters of collections moved. Undoing puts those values back and removes the entry and the record, in one batch:
done once or not at all. Records are undone newest first, and the keys of each from the last to the first, so that each
finds the state that its own change has left: of a document that was changed, a record has only what it changed.

Layout (little-endian): ident (4), count change (4), size change (8), then for each key: family (1), key length (4),
length of the previous value or -1 (4), key, previous value. Where 64 is added to the family, the length is that of the
part in which the document there was another, and the key is followed by how many bytes are the same in front of it,
behind the document's length, and behind it (4 each), and by that part. Ident 0 means no counters. What moves further
counters has for each of them the family 255 and, as its key, the same three numbers. What counts as written before its
entry has as its first key, of the family 254, the timestamp (8). `docstore.kernel.log.undo` puts the keys together.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docstore.kernel.log.undo import REPLACED
from docstore.storage import DataCorrupted, Family

_HEAD = struct.Struct("<Iiq")
_KEY = struct.Struct("<Bii")

_SAME = struct.Struct("<ii")
_LENGTH = struct.Struct("<i")

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


class Part(NamedTuple):
    """Where a document was another: between `front` bytes behind its length and `end` bytes it had this `middle`."""

    front: int
    end: int
    middle: bytes

    def put_back(self, present: bytes | None) -> bytes:
        """The document as it was, by what is there now. DataCorrupted where that has too little."""
        kept = _LENGTH.size + self.front + self.end
        if present is None or len(present) < kept:
            raise DataCorrupted("a document that is to be made what it was is not as it was left")
        front = present[_LENGTH.size : _LENGTH.size + self.front]
        return b"".join((_LENGTH.pack(kept + len(self.middle)), front, self.middle, present[len(present) - self.end :]))


Previous = bytes | Part | None
"""What stood at a key, None for nothing."""


def undo_keys(record: bytes) -> Iterator[tuple[Family, bytes, Previous]]:
    """(family, key, what stood there) of each key of a record, in the order they were touched."""
    at = _HEAD.size
    while at < len(record):
        family, key_bytes, previous_bytes = _KEY.unpack_from(record, at)
        at += _KEY.size
        key = record[at : at + key_bytes]
        at += key_bytes
        if family >= _AS_OF:
            continue
        previous: Previous = None
        if family >= REPLACED:
            front, end = _SAME.unpack_from(record, at)
            at += _SAME.size
            previous = Part(front, end, record[at : at + previous_bytes])
            at += previous_bytes
            family -= REPLACED
        elif previous_bytes >= 0:
            previous = record[at : at + previous_bytes]
            at += previous_bytes
        yield Family(family), key, previous
