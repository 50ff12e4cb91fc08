"""The hash that distributes rows over the ring: the first half of MurmurHash3 x64 128 with the bytes of the tail taken
as signed ones, as CQL drivers compute it. The lowest value stands for "before everything", so a hash of -2^63 becomes
2^63-1.

Nothing here may ever change: tokens are on disk and in chunk maps.
"""

from __future__ import annotations

import cython

if not cython.compiled:
    from docstore.bson.walk import uint64_at

_MASK: cython.ulonglong = 0xFFFFFFFFFFFFFFFF
_SIGN: cython.ulonglong = 0x8000000000000000
_NEGATIVE: cython.ulonglong = 0xFFFFFFFFFFFFFF00
_C1: cython.ulonglong = 0x87C37B91114253D5
_C2: cython.ulonglong = 0x4CF5AD432745937F
_F1: cython.ulonglong = 0xFF51AFD7ED558CCD
_F2: cython.ulonglong = 0xC4CEB9FE1A85EC53
_OFFSET = 1 << 63
"""A Python object, because it exceeds every signed C type."""


def murmur3_token(key: bytes) -> int:
    """Return the signed 64-bit token of a row key."""
    return int(_hash(key) ^ _SIGN) - _OFFSET


@cython.ccall
def murmur3_place(key: bytes) -> bytes:
    """Return the token as eight bytes that compare as tokens do."""
    return int(_hash(key) ^ _SIGN).to_bytes(8, "big")


@cython.exceptval(check=False)
def _hash(key: bytes) -> cython.ulonglong:
    h1: cython.ulonglong = 0
    h2: cython.ulonglong = 0
    length: cython.Py_ssize_t = len(key)
    body_size: cython.Py_ssize_t = length - length % 16
    at: cython.Py_ssize_t = 0
    while at < body_size:
        h1 ^= _mixed(uint64_at(key, at), _C1, 31, _C2)
        h1 = (_rotated(h1, 27) + h2) & _MASK
        h1 = (h1 * 5 + 0x52DCE729) & _MASK
        h2 ^= _mixed(uint64_at(key, at + 8), _C2, 33, _C1)
        h2 = (_rotated(h2, 31) + h1) & _MASK
        h2 = (h2 * 5 + 0x38495AB5) & _MASK
        at += 16
    if length > body_size + 8:
        h2 ^= _mixed(_tail(key, body_size + 8, length), _C2, 33, _C1)
    if length > body_size:
        h1 ^= _mixed(_tail(key, body_size, min(length, body_size + 8)), _C1, 31, _C2)
    h1 ^= length
    h2 ^= length
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = (_finished(h1) + _finished(h2)) & _MASK
    return _SIGN - 1 if h1 == _SIGN else h1


@cython.exceptval(check=False)
def _tail(key: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the xor of bytes as signed numbers, each sign-extended over the bytes above it."""
    k: cython.ulonglong = 0
    byte: cython.ulonglong
    shift: cython.int = 0
    while at < end:
        byte = key[at]
        if byte > 127:
            byte |= _NEGATIVE
        k ^= (byte << shift) & _MASK
        shift += 8
        at += 1
    return k


@cython.exceptval(check=False)
def _mixed(
    k: cython.ulonglong, first: cython.ulonglong, turn: cython.int, second: cython.ulonglong
) -> cython.ulonglong:
    return (_rotated((k * first) & _MASK, turn) * second) & _MASK


@cython.exceptval(check=False)
def _rotated(x: cython.ulonglong, by: cython.int) -> cython.ulonglong:
    return ((x << by) | (x >> (64 - by))) & _MASK


@cython.exceptval(check=False)
def _finished(h: cython.ulonglong) -> cython.ulonglong:
    h ^= h >> 33
    h = (h * _F1) & _MASK
    h ^= h >> 33
    h = (h * _F2) & _MASK
    return h ^ (h >> 33)
