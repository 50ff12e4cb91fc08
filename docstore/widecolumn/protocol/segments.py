"""Segments of version 5, which carry envelopes with checksums.

    plain  header 3 bytes little-endian: bits 0-16 length of the payload, bit 17 self-contained | CRC-24
    LZ4    header 5 bytes little-endian: bits 0-16 length as sent, 17-33 length uncompressed (0: not compressed),
           bit 34 self-contained | CRC-24
    both   payload, at most 131,071 bytes | CRC-32 of the payload as sent

A self-contained segment holds whole envelopes. Any other is a slice of one large envelope; its slices are consecutive.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from docstore.widecolumn.protocol.compression import inflate_lz4_block, lz4_block
from docstore.widecolumn.protocol.errors import DamagedSegment, ProtocolViolation

MAX_PAYLOAD_BYTES = (1 << 17) - 1
_CRC24_START = 0x875060
_CRC24_POLYNOMIAL = 0x1974F0B
_CRC24_BYTES = 3
_CRC32_BYTES = 4
_CRC32_START = zlib.crc32(b"\xfa\x2d\x55\xca")
_PLAIN_BYTES = 3
_LZ4_BYTES = 5


def _table() -> tuple[int, ...]:
    rows: list[int] = []
    for byte in range(256):
        crc = byte << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= _CRC24_POLYNOMIAL
        rows.append(crc)
    return tuple(rows)


_CRC24_TABLE = _table()


def crc24(data: bytes) -> int:
    """The checksum of a header."""
    crc = _CRC24_START
    for byte in data:
        crc = (crc << 8 & 0xFFFFFF) ^ _CRC24_TABLE[crc >> 16 ^ byte]
    return crc


def crc32(data: bytes) -> int:
    """The checksum of a payload."""
    return zlib.crc32(data, _CRC32_START)


class Segment(NamedTuple):
    payload: bytes
    is_self_contained: bool


class _Header(NamedTuple):
    length: int
    inflated_length: int
    is_self_contained: bool


class SegmentBuffer:
    """Cuts received bytes into segments. `compressed`: LZ4 has been agreed on."""

    __slots__ = ("_buffer", "_compressed", "_header", "_header_bytes")

    def __init__(self, *, compressed: bool) -> None:
        self._buffer = bytearray()
        self._compressed = compressed
        self._header_bytes = _LZ4_BYTES if compressed else _PLAIN_BYTES
        self._header: _Header | None = None

    def __len__(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def next_segment(self) -> Segment | None:
        """Return the next complete segment; None if there is none. Errors: DamagedSegment."""
        buffer, start = self._buffer, self._header_bytes + _CRC24_BYTES
        if self._header is None:
            if len(buffer) < start:
                return None
            self._header = self._read_header()
        header = self._header
        end = start + header.length
        if len(buffer) < end + _CRC32_BYTES:
            return None
        payload = bytes(buffer[start:end])
        if crc32(payload) != int.from_bytes(buffer[end : end + _CRC32_BYTES], "little"):
            raise DamagedSegment("the checksum of a segment's payload does not match")
        del buffer[: end + _CRC32_BYTES]
        self._header = None
        if header.inflated_length:
            try:
                payload = inflate_lz4_block(payload, header.inflated_length)
            except ProtocolViolation as error:
                raise DamagedSegment(str(error)) from None
        return Segment(payload, header.is_self_contained)

    def _read_header(self) -> _Header:
        raw = bytes(self._buffer[: self._header_bytes])
        if crc24(raw) != int.from_bytes(self._buffer[len(raw) : len(raw) + _CRC24_BYTES], "little"):
            raise DamagedSegment("the checksum of a segment's header does not match")
        bits = int.from_bytes(raw, "little")
        length, bits = bits & MAX_PAYLOAD_BYTES, bits >> 17
        inflated_length = 0
        if self._compressed:
            inflated_length, bits = bits & MAX_PAYLOAD_BYTES, bits >> 17
        return _Header(length, inflated_length, bool(bits & 1))


def encode_segment(payload: bytes, *, is_self_contained: bool, compressed: bool) -> bytes:
    """Return the bytes of a segment; a payload that LZ4 does not make smaller is sent as it is."""
    inflated_length = 0
    if compressed:
        block = lz4_block(payload) if payload else payload
        if len(block) < len(payload):
            payload, inflated_length = block, len(payload)
        bits = len(payload) | inflated_length << 17 | is_self_contained << 34
    else:
        bits = len(payload) | is_self_contained << 17
    header = bits.to_bytes(_LZ4_BYTES if compressed else _PLAIN_BYTES, "little")
    return b"".join(
        (
            header,
            crc24(header).to_bytes(_CRC24_BYTES, "little"),
            payload,
            crc32(payload).to_bytes(_CRC32_BYTES, "little"),
        )
    )


def encode_segments(envelopes: list[bytes], *, compressed: bool) -> list[bytes]:
    """Return segments that carry the envelopes in their order, as few as possible."""
    segments: list[bytes] = []
    batch: list[bytes] = []
    size = 0
    for envelope in envelopes:
        if size + len(envelope) > MAX_PAYLOAD_BYTES and batch:
            segments.append(encode_segment(b"".join(batch), is_self_contained=True, compressed=compressed))
            batch, size = [], 0
        if len(envelope) > MAX_PAYLOAD_BYTES:
            segments += [
                encode_segment(envelope[at : at + MAX_PAYLOAD_BYTES], is_self_contained=False, compressed=compressed)
                for at in range(0, len(envelope), MAX_PAYLOAD_BYTES)
            ]
            continue
        batch.append(envelope)
        size += len(envelope)
    if batch:
        segments.append(encode_segment(b"".join(batch), is_self_contained=True, compressed=compressed))
    return segments
