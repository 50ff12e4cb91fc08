"""Cells and deletions as they are stored, and how two versions of one merge.

The merge is commutative, associative and idempotent, so mutations can arrive in any order and more than once. Of two
versions of a cell, in this order:

1. the higher timestamp wins;
2. a tombstone beats a value; of two tombstones the one with the later local deletion time is kept;
3. an expiring value beats one that does not expire; of two expiring ones the later expiry wins;
4. the larger value wins, as unsigned bytes; then the longer TTL, so that the result never depends on order.

A record is flags (1 byte), timestamp (8), local deletion time (4, of tombstones and expiring cells), TTL (4, of
expiring cells), value; numbers big-endian. The local deletion time of an expiring cell is the second of its expiry.
A deletion of a row, super column or range is a flag of its own (1), timestamp (8) and local deletion time (4): every
record says of itself how it merges.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from docstore.kernel.columns.encoding import EXPIRING, TOMBSTONE, WHOLE

_STAMP = struct.Struct(">q")
_PLAIN = struct.Struct(">Bq")
_DELETED = struct.Struct(">BqI")
_EXPIRES = struct.Struct(">BqII")
_DELETION = struct.Struct(">BqI")

stamp_of = _STAMP.pack
"""A timestamp as it stands in records."""

MAX_TTL = 630_720_000
"""Seconds: twenty years."""


class Cell(NamedTuple):
    """One version of a cell. `local_deletion` and `ttl` are 0 where they do not apply."""

    flags: int
    timestamp: int
    value: bytes
    local_deletion: int = 0
    ttl: int = 0

    def is_live(self, now: int) -> bool:
        """True if the cell is a value that has not expired at second `now`."""
        if self.flags & TOMBSTONE:
            return False
        return not self.flags & EXPIRING or now < self.local_deletion


class Deletion(NamedTuple):
    """A deletion of a row, super column or range: hides cells with timestamps up to its own."""

    timestamp: int
    local_deletion: int


NOT_DELETED = Deletion(-(1 << 63), 0)


def value_cell(value: bytes, timestamp: int, *, ttl: int = 0, now: int = 0) -> Cell:
    """A value, expiring `ttl` seconds after `now` unless that is 0."""
    if ttl:
        return Cell(EXPIRING, timestamp, value, now + ttl, ttl)
    return Cell(0, timestamp, value)


def value_record(value: bytes, timestamp: int, ttl: int, now: int) -> bytes:
    """Return the packed `value_cell`."""
    if ttl:
        return _EXPIRES.pack(EXPIRING, timestamp, now + ttl, ttl) + value
    return _PLAIN.pack(0, timestamp) + value


def tombstone(timestamp: int, now: int) -> Cell:
    return Cell(TOMBSTONE, timestamp, b"", now)


def pack_cell(cell: Cell) -> bytes:
    flags, timestamp, value, local_deletion, ttl = cell
    if flags & EXPIRING:
        return _EXPIRES.pack(flags, timestamp, local_deletion, ttl) + value
    if flags & TOMBSTONE:
        return _DELETED.pack(flags, timestamp, local_deletion) + value
    return _PLAIN.pack(flags, timestamp) + value


def unpack_cell(record: bytes) -> Cell:
    flags = record[0]
    if flags & EXPIRING:
        _, timestamp, local_deletion, ttl = _EXPIRES.unpack_from(record)
        return Cell(flags, timestamp, record[_EXPIRES.size :], local_deletion, ttl)
    if flags & TOMBSTONE:
        _, timestamp, local_deletion = _DELETED.unpack_from(record)
        return Cell(flags, timestamp, record[_DELETED.size :], local_deletion)
    _, timestamp = _PLAIN.unpack_from(record)
    return Cell(flags, timestamp, record[_PLAIN.size :])


def is_record(record: bytes) -> bool:
    """True if the bytes are a cell or a deletion."""
    if not record:
        return False
    flags = record[0]
    if flags == WHOLE:
        return len(record) == _DELETION.size
    if flags not in (0, TOMBSTONE, EXPIRING):
        return False
    return len(record) >= (_EXPIRES if flags else _PLAIN).size or (flags == TOMBSTONE and len(record) >= _DELETED.size)


def _rank(cell: Cell) -> tuple[int, bool, bool, int, bytes, int]:
    """Return the sort key that decides between two versions, most important part first."""
    flags, timestamp, value, local_deletion, ttl = cell
    return timestamp, bool(flags & TOMBSTONE), bool(flags & EXPIRING), local_deletion, value, ttl


def merge_cells(a: Cell, b: Cell) -> Cell:
    """Return the winner of two versions of a cell."""
    return a if _rank(a) >= _rank(b) else b


def pack_deletion(deletion: Deletion) -> bytes:
    return _DELETION.pack(WHOLE, *deletion)


def unpack_deletion(record: bytes) -> Deletion:
    _, timestamp, local_deletion = _DELETION.unpack(record)
    return Deletion(timestamp, local_deletion)


def merge_deletions(a: Deletion, b: Deletion) -> Deletion:
    """The maximum of both fields."""
    return Deletion(max(a.timestamp, b.timestamp), max(a.local_deletion, b.local_deletion))
