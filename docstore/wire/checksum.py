"""CRC-32C (Castagnoli), the checksum of OP_MSG.

A byte-wise table would hold the event loop for seconds on the largest message, so long messages are shortened first.
The checksum is the remainder of the message, read as a polynomial over GF(2), modulo P. Because x^6777 + x^484 + x^100
+ 1 is a multiple of P (a test checks it), x^6777 may be replaced by x^484 + x^100 + 1: the front of the message is
folded onto its rest with three shifts of one big integer. Squaring the identity doubles its exponents, so each fold can
halve the message.

In the integer below bit 0 is the highest power, because CRC-32C takes the lowest bit of each byte first.
"""

from __future__ import annotations

_POLYNOMIAL = 0x82F63B78
A, B, C = 6777, 484, 100
_SHORT_BYTES = 4096


def _table() -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        entries.append(crc)
    return tuple(entries)


_TABLE = _table()


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of the bytes."""
    crc = 0xFFFFFFFF
    if len(data) > _SHORT_BYTES:
        # The initial value is equivalent to flipping the first 32 bits.
        data = _shorten(int.from_bytes(data, "little") ^ crc, len(data) * 8)
        crc = 0
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _shorten(message: int, bits: int) -> bytes:
    """Return a message of at most `_SHORT_BYTES` with the same remainder modulo P."""
    scale = 1
    while bits > 4 * A * scale:
        scale *= 2
    while bits > _SHORT_BYTES * 8:
        while bits < 2 * A * scale:
            scale //= 2
        take = min((A - B) * scale, bits - A * scale) & ~7
        front = message & (1 << take) - 1
        message >>= take
        for exponent in (B, C, 0):
            message ^= front << (A - exponent) * scale - take
        bits -= take
    return message.to_bytes(bits // 8, "little")
