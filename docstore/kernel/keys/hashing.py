"""The hash of a value by which hashed indexes and hashed shard keys order documents.

It is the first eight bytes, as a little-endian integer, of the MD5 of a seed (an int32 zero) and of the value: its
canonical type as an int32, then its bytes. Values of the four number types hash as a 64-bit integer, so that equal
numbers have one hash: doubles are truncated, decimals rounded, both clamped to 64 bits. Documents and arrays contribute
their elements with their names, and an int32 zero at their end.

Nothing here may ever change: hashes are on disk and in chunk maps.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN
from hashlib import md5
from struct import pack, unpack

from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.number import EXACT, decimal_value
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    CODE,
    CODE_WITH_SCOPE,
    DATE,
    DB_POINTER,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    Value,
    elements,
)

_CANONICAL = {
    MIN_KEY: -1,
    UNDEFINED: 0,
    NULL: 5,
    DOUBLE: 10,
    INT32: 10,
    INT64: 10,
    DECIMAL: 10,
    STRING: 15,
    SYMBOL: 15,
    OBJECT: 20,
    ARRAY: 25,
    BINARY: 30,
    OBJECT_ID: 35,
    BOOL: 40,
    DATE: 45,
    TIMESTAMP: 47,
    REGEX: 50,
    DB_POINTER: 55,
    CODE: 60,
    CODE_WITH_SCOPE: 65,
    MAX_KEY: 127,
}
_END = b"\0\0\0\0"


def hashed_key(value: Value | None) -> int:
    """Return the hash of a value as a signed 64-bit integer; a missing value has that of null."""
    parts: list[bytes] = [_END]
    _gather(parts, (NULL, b"") if value is None else value, b"")
    return int.from_bytes(md5(b"".join(parts), usedforsecurity=False).digest()[:8], "little", signed=True)


def _gather(parts: list[bytes], value: Value, name: bytes) -> None:
    code, raw = value
    parts += (pack("<i", _CANONICAL[code]), name)
    if code in (DOUBLE, INT32, INT64, DECIMAL):
        parts.append(pack("<q", _truncated_integer(code, raw)))
    elif code in (OBJECT, ARRAY):
        _gather_elements(parts, raw)
    elif code == CODE_WITH_SCOPE:
        text_end = 8 + int.from_bytes(raw[4:8], "little")
        parts.append(raw[8:text_end])
        _gather_elements(parts, raw[text_end:])
    else:
        parts.append(raw)


def _gather_elements(parts: list[bytes], raw: bytes) -> None:
    for name, code, data in elements(raw):
        _gather(parts, (code, data), name.encode() + b"\0")
    parts.append(_END)


def _truncated_integer(code: int, raw: bytes) -> int:
    """Return the 64-bit integer that a number hashes as: 0 for NaN."""
    if code in (INT32, INT64):
        return int.from_bytes(raw, "little", signed=True)
    if code == DOUBLE:
        number: float = unpack("<d", raw)[0]
        if number != number:
            return 0
        if number == 2.0**63:
            # The reference wraps around at exactly this number, and hashes must agree.
            return LONG_MIN
        return max(LONG_MIN, min(LONG_MAX, int(number))) if abs(number) < 2.0**64 else _limit(number > 0)
    exact = decimal_value(raw, 0)
    if exact.is_nan():
        return 0
    if not exact.is_finite() or exact.adjusted() > 18:
        return _limit(exact > 0) if not exact.is_zero() else 0
    if exact.adjusted() < -1:
        return 0
    return max(LONG_MIN, min(LONG_MAX, int(exact.to_integral_value(ROUND_HALF_EVEN, EXACT))))


def _limit(positive: bool) -> int:
    return LONG_MAX if positive else LONG_MIN
