"""Undo records: the previous values that an oplog entry overwrote.

A record is kept until its entry is majority-committed, and some minutes longer for point-in-time reads. It lists every
key that the entry changed with its previous value, and the counter changes of collections. Undo restores the values and
removes the entry and the record in one atomic batch. Records are undone newest first, and the keys of each from last to
first, so that each finds the state its own change left. For a changed document, a record has only the changed part.

Layout (little-endian): ident (4), count change (4), size change (8), then for each key: family (1), key length (4),
length of the previous value or -1 (4), key, previous value.

- Family + 64: the value is a changed document. The length is that of its previous middle part. The key is followed by
  the lengths of the common prefix, after the document's length field, and common suffix (4 each), and the middle.
- Ident 0: no counters. Further counters each have family 255 and, as the key, the same three numbers.
- A change that commits at an earlier time has a first key of family 254: the timestamp (8).

`docstore.kernel.log.undo` encodes the keys.
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
"""Encode (ident, count change, size change): the head of a record."""

NOTHING_COUNTED = undo_head(0, 0, 0)

_COUNTERS = 255
_AS_OF = 254
_LONG = struct.Struct("<Q")
_pack_key = _KEY.pack


def undo_as_of(timestamp: int) -> bytes:
    """Return the field, placed before all keys, with the timestamp as of which the change commits."""
    return _pack_key(_AS_OF, _LONG.size, -1) + _LONG.pack(timestamp)


def counts_as_of(record: bytes) -> int | None:
    """Return the commit timestamp of the change, if it differs from its entry's."""
    at = _HEAD.size
    while record[at : at + 1] == b"\xff":
        at += _KEY.size + _HEAD.size
    if record[at : at + 1] != b"\xfe":
        return None
    timestamp: int = _LONG.unpack_from(record, at + _KEY.size)[0]
    return timestamp


def undo_sums(counted: Sequence[tuple[int, int, int]]) -> bytes:
    """Return the head of a record that changes the counters of several collections."""
    if not counted:
        return NOTHING_COUNTED
    parts = [undo_head(*counted[0])]
    parts += [_pack_key(_COUNTERS, _HEAD.size, -1) + undo_head(*counters) for counters in counted[1:]]
    return b"".join(parts)


def undo_counters(record: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (ident, count change, size change) of each collection in a record."""
    ident, count, size = _HEAD.unpack_from(record)
    at = _HEAD.size
    while ident:
        yield ident, count, size
        if record[at : at + 1] != b"\xff":
            return
        ident, count, size = _HEAD.unpack_from(record, at + _KEY.size)
        at += _KEY.size + _HEAD.size


class Part(NamedTuple):
    """The changed part of a document: its previous `middle`, between `front` bytes after the length field and `end`
    bytes.
    """

    front: int
    end: int
    middle: bytes

    def put_back(self, present: bytes | None) -> bytes:
        """Return the previous document, given the present one. Errors: DataCorrupted if the present one is too
        short.
        """
        outer_bytes = _LENGTH.size + self.front + self.end
        if present is None or len(present) < outer_bytes:
            raise DataCorrupted("a document that is to be made what it was is not as it was left")
        front = present[_LENGTH.size : _LENGTH.size + self.front]
        return b"".join(
            (_LENGTH.pack(outer_bytes + len(self.middle)), front, self.middle, present[len(present) - self.end :])
        )


Previous = bytes | Part | None
"""The previous value of a key; None: absent."""


def undo_keys(record: bytes) -> Iterator[tuple[Family, bytes, Previous]]:
    """Yield (family, key, previous value) of each key of a record, in the order of the changes."""
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
