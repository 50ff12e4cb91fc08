"""Paging states: the position from which any router can continue a SELECT.

A state is: version (1 byte), digest of statement and table (8), rows left under LIMIT and under PER PARTITION LIMIT
(4 each, all ones: no limit), length of the partition key (4), the key, the last row's clustering key, CRC-32 of it
all (4). The next page begins after that row. It misses rows written before the position meanwhile; if that row is
deleted, nothing is lost.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from uuid import UUID

from docstore.widecolumn.cql.errors import protocol

_VERSION = 1
_HEAD = struct.Struct(">B8sIII")
_SUM = struct.Struct(">I")
_UNLIMITED = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class PagePosition:
    """The row after which a page begins, and how many rows may still follow."""

    key: bytes
    clustering_key: bytes
    left: int | None
    left_in_partition: int | None


def digest_of(keyspace: str | None, text: str, table: UUID) -> bytes:
    """Return a digest that identifies statement and table in a paging state."""
    digest_input = f"{keyspace or ''}\0{text}".encode() + table.bytes
    return hashlib.md5(digest_input, usedforsecurity=False).digest()[:8]


def encode(position: PagePosition, digest: bytes) -> bytes:
    head = _HEAD.pack(_VERSION, digest, _number(position.left), _number(position.left_in_partition), len(position.key))
    body = head + position.key + position.clustering_key
    return body + _SUM.pack(zlib.crc32(body))


def _number(count: int | None) -> int:
    return _UNLIMITED if count is None else count


def decode(state: bytes, digest: bytes) -> PagePosition:
    """Return the position of a paging state of this statement. CqlError for any other bytes."""
    body, end = state[: -_SUM.size], state[-_SUM.size :]
    if len(body) < _HEAD.size or end != _SUM.pack(zlib.crc32(body)):
        raise _malformed()
    version, of, remaining, remaining_in_partition, length = _HEAD.unpack_from(body)
    key, clustering_key = body[_HEAD.size : _HEAD.size + length], body[_HEAD.size + length :]
    if version != _VERSION or of != digest or len(key) != length:
        raise _malformed()
    return PagePosition(key, clustering_key, _count(remaining), _count(remaining_in_partition))


def _count(number: int) -> int | None:
    return None if number == _UNLIMITED else number


def _malformed() -> Exception:
    return protocol("Invalid value for the paging state")
