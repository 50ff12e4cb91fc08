"""Partitioners: from a row key to the token that decides where its row lives.

* Murmur3: 64-bit signed tokens, the first half of MurmurHash3 x64 128 with the tail's bytes taken as signed ones, as
  CQL drivers compute it; the lowest value stands for "before everything", so a hash of -2^63 becomes 2^63-1.
* Random: the absolute value of the MD5 read as a signed 128-bit number.
* Byte-ordered: no token; rows lie in the order of their keys.

A token's bytes in storage keys compare as the tokens do.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache

_MASK = (1 << 64) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F
_BLOCK = struct.Struct("<QQ")
_SIGNS = 0x8080808080808080
_TOKEN = struct.Struct(">Q")
MIN_TOKEN = -(1 << 63)
MAX_TOKEN = (1 << 63) - 1
RANDOM_TOKENS = 1 << 127

MURMUR3 = "org.apache.cassandra.dht.Murmur3Partitioner"
RANDOM = "org.apache.cassandra.dht.RandomPartitioner"
BYTE_ORDERED = "org.apache.cassandra.dht.ByteOrderedPartitioner"


def murmur3_token(key: bytes) -> int:
    """The signed 64-bit token of a row key."""
    h1 = h2 = 0
    length = len(key)
    whole = length & ~15
    for k1, k2 in _BLOCK.iter_unpack(key[:whole]):
        h1 ^= _mixed(k1, _C1, 31, _C2)
        h1 = (_rotated(h1, 27) + h2) & _MASK
        h1 = (h1 * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed(k2, _C2, 33, _C1)
        h2 = (_rotated(h2, 31) + h1) & _MASK
        h2 = (h2 * 5 + 0x38495AB5) & _MASK
    if length > whole:
        k1, k2 = _BLOCK.unpack(key[whole:].ljust(16, b"\0"))
        if length - whole > 8:
            h2 ^= _mixed(_extended(k2), _C2, 33, _C1)
        h1 ^= _mixed(_extended(k1), _C1, 31, _C2)
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = (_finished(h1) + _finished(h2)) & _MASK
    token = h1 - (1 << 64) if h1 >> 63 else h1
    return MAX_TOKEN if token == MIN_TOKEN else token


def _extended(k: int) -> int:
    """The bytes of the number as signed ones, each extended over those above it, all of them xored."""
    if not k & _SIGNS:
        return k
    extended = 0
    for place in range(0, 64, 8):
        byte = k >> place & 0xFF
        extended ^= (byte - 256 if byte > 127 else byte) << place
    return extended & _MASK


def _mixed(k: int, first: int, turn: int, second: int) -> int:
    return (_rotated((k * first) & _MASK, turn) * second) & _MASK


def _rotated(x: int, by: int) -> int:
    return ((x << by) | (x >> (64 - by))) & _MASK


def _finished(h: int) -> int:
    h ^= h >> 33
    h = (h * 0xFF51AFD7ED558CCD) & _MASK
    h ^= h >> 33
    h = (h * 0xC4CEB9FE1A85EC53) & _MASK
    return h ^ (h >> 33)


def random_token(key: bytes) -> int:
    """The token of the random partitioner: 0 to 2^127."""
    return abs(int.from_bytes(hashlib.md5(key, usedforsecurity=False).digest(), "big", signed=True))


@dataclass(frozen=True, slots=True)
class Partitioner:
    """`token_bytes`: what stands in storage keys before the row key; empty where rows are ordered by their keys."""

    name: str

    def token(self, key: bytes) -> int | None:
        """The token; None where there is none."""
        if self.name == MURMUR3:
            return murmur3_token(key)
        return random_token(key) if self.name == RANDOM else None

    def token_bytes(self, key: bytes) -> bytes:
        return _token_bytes(self.name, key)

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
        """How many bytes a token takes."""
        return {MURMUR3: 8, RANDOM: 16}.get(self.name, 0)


@lru_cache(maxsize=16384)
def _token_bytes(name: str, key: bytes) -> bytes:
    partitioner = Partitioner(name)
    token = partitioner.token(key)
    return b"" if token is None else partitioner.bytes_of(token)


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
    found = _NAMES.get(name.rpartition(".")[2])
    return None if found is None else Partitioner(found)
