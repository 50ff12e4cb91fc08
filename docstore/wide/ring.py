"""The places of rows as documents: what a column family is sharded by is the field `token` of its rows.

A row's document is `{token: <place>}`. The place is the token as a 64-bit integer under Murmur3; otherwise what stands
in storage keys before the area, as hexadecimal text: its order is that of the rows, and a token of 128 bits fits.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import document_from, from_python
from docstore.wide.comparators import escape
from docstore.wide.tokens import MURMUR3, Partitioner

SHARD_KEY_FIELD = "token"


def place_of(partitioner: Partitioner, key: bytes) -> Any:
    """The place of a row key."""
    token = partitioner.token(key)
    if partitioner.name == MURMUR3:
        assert token is not None, "the partitioner has tokens"
        return Int64(token)
    return (partitioner.token_bytes(key) or escape(key)).hex()


def ring_document(partitioner: Partitioner, key: bytes) -> bytes:
    """The document of a row key."""
    return document_from([(SHARD_KEY_FIELD, *from_python(place_of(partitioner, key)))])


def tail_of_place(partitioner: Partitioner, place: Any) -> bytes:
    """What the parts of keys begin with of the rows from that place on."""
    return partitioner.bytes_of(int(place)) if partitioner.name == MURMUR3 else bytes.fromhex(str(place))
