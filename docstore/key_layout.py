"""Every key prefix on disk, in one table.

| family    | key                                           | value                                              |
|-----------|-----------------------------------------------|----------------------------------------------------|
| `records` | ident, record id                              | the document's bytes                               |
| `indexes` | ident, encoded key (unique index)             | record id                                          |
| `indexes` | ident, encoded key, record id (other indexes) | nothing                                            |
| `oplog`   | timestamp                                     | the oplog entry's bytes                            |
| `undo`    | timestamp                                     | what the entry of that timestamp has overwritten   |
| `wide`    | `W`, ident, what stands below it              | a record that says how it merges                   |
| `meta`    | `!format`                                     | format version                                     |
| `meta`    | `!identity`                                   | the identity in the directory's marker             |
| `meta`    | `c`, ident of a collection                    | catalog row: a BSON document                       |
| `meta`    | `g`, ident of a dropped or unfinished tree    | timestamp of the drop; 0: remove at the next start |
| `meta`    | `k`, ident of a collection                    | count and data size                                |
| `meta`    | `n`                                           | the next ident                                     |
| `meta`    | `i`, timestamp, place in the entry (4 bytes)  | when, and the document before the change           |
| `meta`    | `p`, session id                               | the row of a session whose transaction is prepared |
| `meta`    | `s`, session id                               | the session's newest retryable write               |

Idents (4 bytes) name collections and indexes; they are drawn from one counter and never used twice, not even after a
rollback. Record ids and timestamps have 8 bytes. All numbers in keys are big-endian, so that byte order is number
order. Keys of the family `wide`, rows of column families, are in `docstore.widecolumn.model.keys`.
"""

from __future__ import annotations

import struct

FORMAT_KEY = b"!format"
DIRECTORY_IDENTITY_KEY = b"!identity"
NEXT_IDENT_KEY = b"n"
CATALOG_PREFIX = b"c"
GARBAGE_PREFIX = b"g"
UNLOGGED = 1
"""The timestamp of a garbage row whose tree can go at any time: its drop is not logged."""
BUILDING = 0
"""The timestamp of a garbage row whose tree an index build is filling."""
COUNTERS_PREFIX = b"k"
PRE_IMAGE_PREFIX = b"i"
PREPARED_PREFIX = b"p"
SESSION_PREFIX = b"s"
FAMILY_PREFIX = b"W"

OPLOG_IDENT = 0
"""The ident under which the oplog keeps its counters; no collection has it."""

IDENT_BYTES = 4
RECORD_ID_BYTES = 8

_IDENT = struct.Struct(">I")
_LONG = struct.Struct(">Q")
_IDENT_LONG = struct.Struct(">IQ")
_LONG_PLACE = struct.Struct(">QI")

ident_bytes = _IDENT.pack
"""The prefix of every key of a collection's records or an index's entries."""

record_id_bytes = _LONG.pack
timestamp_key = _LONG.pack
record_key = _IDENT_LONG.pack
"""(ident, record id) -> key."""


def pre_image_key(timestamp: int, place: int) -> bytes:
    """The key of the document before a change."""
    return PRE_IMAGE_PREFIX + _LONG_PLACE.pack(timestamp, place)


def ident_end(ident: int) -> bytes:
    """The end of the half-open range of keys that start with `ident`."""
    return _IDENT.pack(ident + 1)


def family_prefix(ident: int) -> bytes:
    """Return the prefix of all keys of a column family."""
    return FAMILY_PREFIX + _IDENT.pack(ident)


def family_end(ident: int) -> bytes:
    """The end of the half-open range of a column family's keys."""
    return FAMILY_PREFIX + _IDENT.pack(ident + 1)


def ident_of(key: bytes, offset: int = 0) -> int:
    """The ident that stands in `key` from `offset`."""
    ident: int = _IDENT.unpack_from(key, offset)[0]
    return ident


def long_of(key: bytes, offset: int = 0) -> int:
    """The record id or timestamp that stands in `key` from `offset`."""
    number: int = _LONG.unpack_from(key, offset)[0]
    return number


def last_long(key: bytes) -> int:
    """The record id at the end of `key`."""
    number: int = _LONG.unpack_from(key, len(key) - 8)[0]
    return number


def after_prefix(prefix: bytes) -> bytes:
    """The smallest key above every key that starts with `prefix` (which must not be all 0xff)."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1])
