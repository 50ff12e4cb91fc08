"""Every key on disk: the one table of column families and of the prefixes in them.

All numbers are big-endian, so that the order of keys is the order of numbers. An ident (4 bytes, from 1 up, never used twice)
stands for a collection or an index; names are only in the catalog.

| family  | key | value |
|---|---|---|
| records | ident + record id (8) | the document |
| indexes, not unique | ident + encoded key values + record id (8) | empty |
| indexes, unique | ident + encoded key values | record id (8) |
| oplog   | timestamp (8) | the oplog entry |
| undo    | timestamp (8) + sequence (4) | what one change of that entry replaced |
| meta    | a letter of `Meta` + what it says | see there |
| wide    | (nothing yet) | |
"""

from __future__ import annotations

from enum import Enum

RECORDS = "records"
INDEXES = "indexes"
OPLOG = "oplog"
UNDO = "undo"
META = "meta"
WIDE = "wide"
FAMILIES = (RECORDS, INDEXES, OPLOG, UNDO, META, WIDE)

FORMAT_VERSION = 1
"""Raised when a change of this table or of `docstore.bson.keys` makes old data unreadable."""

_RECORD_ID_BYTES = 8


class Meta(Enum):
    """The first byte of a key in the meta family."""

    CATALOG = b"c"
    """+ namespace: the catalog entry of a collection (its ident, uuid, options, indexes)."""
    COUNTERS = b"n"
    """+ ident: number of documents and their bytes."""
    SESSIONS = b"s"
    """+ session id: the last retryable statements of a session."""
    FORMAT = b"f"
    """The format version of the whole directory."""
    IDENTS = b"i"
    """The next unused ident."""
    DROPPED = b"d"
    """+ ident: dropped, its space still to be reclaimed."""
    REPLICATION = b"r"
    """+ name: a document that the replica-set member keeps (vote, configuration, applied and commit points)."""


def _ident(ident: int) -> bytes:
    return ident.to_bytes(4, "big")


def ident_range(ident: int) -> tuple[bytes, bytes]:
    """The [start, end) of all keys of a collection or an index."""
    return _ident(ident), _ident(ident + 1)


def record_key(ident: int, record_id: int) -> bytes:
    """The key of a document."""
    return _ident(ident) + record_id.to_bytes(8, "big")


def record_id_of(record: bytes) -> int:
    """The record id in the key of a document."""
    return int.from_bytes(record[4:], "big")


def index_prefix(ident: int, encoded: bytes) -> bytes:
    """The key of a unique index entry; the beginning of one that is not unique."""
    return _ident(ident) + encoded


def index_key(ident: int, encoded: bytes, record_id: int) -> bytes:
    """The key of an entry of an index that is not unique."""
    return _ident(ident) + encoded + record_id.to_bytes(8, "big")


def split_index_key(key: bytes) -> tuple[bytes, int]:
    """(encoded key values, record id) of an entry of an index that is not unique."""
    return key[4:-_RECORD_ID_BYTES], int.from_bytes(key[-_RECORD_ID_BYTES:], "big")


def encoded_of(key: bytes) -> bytes:
    """The encoded key values of a unique index entry."""
    return key[4:]


def record_id_value(record_id: int) -> bytes:
    """What a unique index entry holds."""
    return record_id.to_bytes(8, "big")


def oplog_key(timestamp: int) -> bytes:
    """The key of an oplog entry."""
    return timestamp.to_bytes(8, "big")


def timestamp_of(key: bytes) -> int:
    """The timestamp in the key of an oplog entry or of an undo record."""
    return int.from_bytes(key[:8], "big")


def undo_key(timestamp: int, sequence: int) -> bytes:
    """The key of an undo record."""
    return timestamp.to_bytes(8, "big") + sequence.to_bytes(4, "big")


def meta_key(kind: Meta, name: bytes = b"") -> bytes:
    """A key in the meta family."""
    return kind.value + name


def meta_range(kind: Meta) -> tuple[bytes, bytes]:
    """The [start, end) of all keys of one kind in the meta family."""
    return kind.value, bytes([kind.value[0] + 1])
