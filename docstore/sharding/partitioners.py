"""Partitioners: from a partition key to the token that decides where its row lives.

* Murmur3: 64-bit signed tokens (`docstore.kernel.columns.murmur3`).
* Random: the absolute value of the MD5 read as a signed 128-bit number.
* Byte-ordered: no token; rows lie in the order of their keys.

A token's bytes in storage keys compare as the tokens do.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass

from docstore.kernel.columns.murmur3 import murmur3_place, murmur3_token

_MASK = (1 << 64) - 1
_TOKEN = struct.Struct(">Q")
MIN_TOKEN = -(1 << 63)
MAX_TOKEN = (1 << 63) - 1
RANDOM_TOKENS = 1 << 127

MURMUR3 = "org.apache.cassandra.dht.Murmur3Partitioner"
RANDOM = "org.apache.cassandra.dht.RandomPartitioner"
BYTE_ORDERED = "org.apache.cassandra.dht.ByteOrderedPartitioner"


def random_token(key: bytes) -> int:
    """The token of the random partitioner: 0 to 2^127."""
    return abs(int.from_bytes(hashlib.md5(key, usedforsecurity=False).digest(), "big", signed=True))


@dataclass(frozen=True, slots=True)
class Partitioner:
    """A partitioner. `token_bytes`: the part of row keys before the partition key; empty if rows are ordered by their
    keys.
    """

    name: str

    def token(self, key: bytes) -> int | None:
        """The token; None where there is none."""
        if self.name == MURMUR3:
            return murmur3_token(key)
        return random_token(key) if self.name == RANDOM else None

    def token_bytes(self, key: bytes) -> bytes:
        if self.name == MURMUR3:
            return murmur3_place(key)
        return random_token(key).to_bytes(16, "big") if self.name == RANDOM else b""

    def bytes_of(self, token: int) -> bytes:
        """The bytes of a given token."""
        if self.name == MURMUR3:
            return _TOKEN.pack((token & _MASK) ^ (1 << 63))
        return token.to_bytes(16, "big") if self.name == RANDOM else b""

    def token_of(self, data: bytes) -> int:
        """The token whose bytes the data begins with, where there are tokens."""
        number = int.from_bytes(data[: self.width], "big")
        return number - (1 << 63) if self.name == MURMUR3 else number

    @property
    def width(self) -> int:
        """Return the width of a token in bytes; 0 without tokens."""
        return {MURMUR3: 8, RANDOM: 16}.get(self.name, 0)


_NAMES = {
    "Murmur3Partitioner": MURMUR3,
    "Murmur3": MURMUR3,
    "RandomPartitioner": RANDOM,
    "OrderPreservingPartitioner": BYTE_ORDERED,
    "ByteOrderedPartitioner": BYTE_ORDERED,
    "ByteOrdered": BYTE_ORDERED,
}


def find_partitioner(name: str) -> Partitioner | None:
    """The partitioner of a short or full class name."""
    full_name = _NAMES.get(name.rpartition(".")[2])
    return None if full_name is None else Partitioner(full_name)
