"""Partition keys: the bytes that a partition's values make, and their tokens.

A key of one column is its value; a key of several is, for each, its length (2 bytes), its bytes and 00.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from docstore.kernel.limits import MAX_COLUMN_KEY_BYTES
from docstore.sharding.partitioners import MURMUR3, RANDOM, Partitioner
from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.schema.tables import Table
from docstore.widecolumn.cql.types.native import BIGINT, BLOB, VARINT, CqlType

_LENGTH = struct.Struct(">H")


def joined(values: Sequence[bytes]) -> bytes:
    """The key of a partition. CqlError for one that cannot be."""
    if len(values) == 1:
        [key] = values
        if not key:
            raise invalid("Key may not be empty")
    else:
        for value in values:
            _check_length(value)
        key = b"".join(_LENGTH.pack(len(value)) + value + b"\0" for value in values)
    _check_length(key)
    return key


def _check_length(key: bytes) -> None:
    if len(key) > MAX_COLUMN_KEY_BYTES:
        raise invalid(f"Key length of {len(key)} is longer than maximum of {MAX_COLUMN_KEY_BYTES}")


def split(table: Table, key: bytes) -> tuple[bytes, ...]:
    """The values of a partition key's columns."""
    if len(table.partition) == 1:
        return (key,)
    values: list[bytes] = []
    at = 0
    while at < len(key):
        end = at + _LENGTH.size + _LENGTH.unpack_from(key, at)[0]
        values.append(key[at + _LENGTH.size : end])
        at = end + 1
    return tuple(values)


def token_type(partitioner: Partitioner) -> CqlType:
    """Return the result type of `token()`."""
    return {MURMUR3: BIGINT, RANDOM: VARINT}.get(partitioner.name, BLOB)


def token_value(partitioner: Partitioner, key: bytes) -> bytes:
    """The value of `token()`; where rows are ordered by their keys, the key itself."""
    token = partitioner.token(key)
    return key if token is None else token_type(partitioner).serialise(token)
