"""Compression of bodies (version 4: LZ4, Snappy) and of segments (version 5: LZ4)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

import cramjam

from docstore.widecolumn.protocol.errors import OversizedRequest, ProtocolViolation

_LENGTH = struct.Struct(">I")
LZ4 = "lz4"
SNAPPY = "snappy"
ALGORITHMS = (LZ4, SNAPPY)


class BodyCompression(NamedTuple):
    """An algorithm for bodies. `inflate(data, limit)` raises ProtocolViolation, also where more than `limit` bytes are
    announced; these are never taken.
    """

    deflate: Callable[[bytes], bytes]
    inflate: Callable[[bytes, int], bytes]


def lz4_block(data: bytes) -> bytes:
    """Compress to a bare LZ4 block."""
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def inflate_lz4_block(block: bytes, length: int) -> bytes:
    """Decompress a bare block that holds `length` bytes. ProtocolViolation."""
    try:
        data = bytes(cramjam.lz4.decompress_block(block, output_len=length)) if length else b""
    except Exception as error:
        raise ProtocolViolation(f"the data is no LZ4 block: {error}") from None
    if len(data) != length:
        raise ProtocolViolation(f"an LZ4 block holds {len(data)} bytes, and {length} are announced")
    return data


def _deflate_lz4(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + (lz4_block(data) if data else b"")


def _inflate_lz4(data: bytes, limit: int) -> bytes:
    if len(data) < _LENGTH.size:
        raise ProtocolViolation("a compressed body has no length")
    [length] = _LENGTH.unpack_from(data)
    _check(length, limit)
    return inflate_lz4_block(data[_LENGTH.size :], length)


def _deflate_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def _inflate_snappy(data: bytes, limit: int) -> bytes:
    try:
        _check(cramjam.snappy.decompress_raw_len(data), limit)
        return bytes(cramjam.snappy.decompress_raw(data))
    except ProtocolViolation:
        raise
    except Exception as error:
        raise ProtocolViolation(f"the body is not compressed by Snappy: {error}") from None


def _check(length: int, limit: int) -> None:
    if length > limit:
        raise OversizedRequest(length, limit)


BODY_COMPRESSIONS = {
    LZ4: BodyCompression(_deflate_lz4, _inflate_lz4),
    SNAPPY: BodyCompression(_deflate_snappy, _inflate_snappy),
}
