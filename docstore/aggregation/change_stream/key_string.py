"""Values as MongoDB's key strings, version 1: byte strings that sort like the values.

Resume tokens are key strings. Number types that a key string does not encode are stored beside it (`KeyString.types`):
two bits per number, one per string, in order.

A decimal is encoded as the nearest double. Real servers distinguish more decimals; nothing depends on it.
"""

from __future__ import annotations

import math
import struct

from docstore.bson.convert import to_python
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
    values,
)

END = 0x04
"""The last byte of a complete key string."""

_INTEGERS = {INT32: 0, INT64: 2}
_BITS = struct.Struct(">d")
_TOP = 1 << 63
_ZERO = 0x29
_MIN_PLAIN_MAGNITUDE = 2.0**-255
"""From here down a double is encoded in a larger scale, with one more bit of exponent."""

_KINDS = {
    MIN_KEY: 0x0A, UNDEFINED: 0x0F, NULL: 0x14, INT32: 0x1E, INT64: 0x1E, DOUBLE: 0x1E, DECIMAL: 0x1E, STRING: 0x3C,
    SYMBOL: 0x3C, OBJECT: 0x46, ARRAY: 0x50, BINARY: 0x5A, OBJECT_ID: 0x64, BOOL: 0x6E, DATE: 0x78, TIMESTAMP: 0x82,
    REGEX: 0x8C, DB_POINTER: 0x96, CODE: 0xA0, CODE_WITH_SCOPE: 0xAA, MAX_KEY: 0xF0,
}  # fmt: skip


class KeyString:
    """A key string built value by value."""

    def __init__(self) -> None:
        self._parts = bytearray()
        self._types: list[int] = []

    def append(self, value: Value) -> None:
        """Append a value."""
        code, data = value
        parts = self._parts
        if code in _INTEGERS:
            self._two_bits(_INTEGERS[code])
            parts += _integer(int.from_bytes(data, "little", signed=True))
        elif code == DOUBLE:
            self._two_bits(1)
            parts += _double(struct.unpack("<d", data)[0])
        elif code == DECIMAL:
            self._two_bits(3)
            parts += _double(float(to_python(value).to_decimal()))
        elif code == BOOL:
            parts.append(0x6F if data[0] else 0x6E)
        else:
            parts.append(_KINDS[code])
            self._append_data(code, data)

    def _append_data(self, code: int, data: bytes) -> None:
        parts = self._parts
        if code in (STRING, SYMBOL):
            self._types.append(code == SYMBOL)
            parts += _text(data[4:-1])
        elif code == CODE:
            parts += _text(data[4:-1])
        elif code == OBJECT:
            self._fields(data)
        elif code == ARRAY:
            for member in values(data):
                self.append(member)
            parts.append(0)
        elif code == BINARY:
            content = data[4:]
            length = len(content) - 1
            parts += bytes([length]) if length < 0xFF else b"\xff" + length.to_bytes(4, "big")
            parts += content
        elif code == DATE:
            parts += (int.from_bytes(data, "little", signed=True) + _TOP).to_bytes(8, "big")
        elif code == TIMESTAMP:
            parts += data[::-1]
        elif code in (OBJECT_ID, REGEX):
            parts += data
        elif code == DB_POINTER:
            length = int.from_bytes(data[:4], "little") - 1
            parts += length.to_bytes(4, "big") + data[4 : 4 + length] + data[5 + length :]
        elif code == CODE_WITH_SCOPE:
            length = int.from_bytes(data[4:8], "little")
            parts += _text(data[8 : 7 + length])
            self._fields(data[8 + length :])

    def _fields(self, document: bytes) -> None:
        parts = self._parts
        for name, code, data in elements(document):
            parts.append(_KINDS[code])
            parts += name.encode() + b"\0"
            self.append((code, data))
        parts.append(0)

    def _two_bits(self, number: int) -> None:
        self._types += (number & 1, number >> 1)

    def finished(self) -> bytes:
        """Return the complete key string."""
        return bytes(self._parts) + bytes([END])

    @property
    def types(self) -> bytes:
        """Return the types of numbers and strings; empty if all are ints and strings."""
        bits = self._types
        if not any(bits):
            return b""
        packed = bytearray(-(-len(bits) // 8))
        for index, bit in enumerate(bits):
            packed[index // 8] |= bit << index % 8
        if len(packed) == 1 and packed[0] < 0x80:
            return bytes(packed)
        return bytes([0x80 | len(packed)]) + packed


def _text(text: bytes) -> bytes:
    return text.replace(b"\0", b"\0\xff") + b"\0"


def _integer(number: int) -> bytes:
    if number == 0:
        return bytes([_ZERO])
    return _encode_magnitude(abs(number) << 1, negative=number < 0)


def _encode_magnitude(shifted: int, *, negative: bool, fraction: bytes = b"") -> bytes:
    """Encode a number of at least 1: its length, and its bytes; the last bit tells if there is a fraction."""
    length = (shifted.bit_length() + 7) // 8
    return _signed(1 + length, shifted.to_bytes(length, "big") + fraction, negative=negative)


def _signed(distance: int, content: bytes, *, negative: bool) -> bytes:
    """Encode the sign and kind of a number. `distance`: that of its kind from zero."""
    if negative:
        return bytes([_ZERO - distance]) + bytes(255 - byte for byte in content)
    return bytes([_ZERO + distance]) + content


def _double(number: float) -> bytes:
    if math.isnan(number):
        return b"\x1e"
    magnitude, negative = abs(number), number < 0
    if magnitude == 0:
        return bytes([_ZERO])
    if magnitude < 1:
        return _signed(1, _small(magnitude), negative=negative)
    if magnitude >= 2.0**63:
        content = b"\xff" * 8
        if not math.isinf(magnitude):
            content = ((int.from_bytes(_BITS.pack(magnitude), "big") & (_TOP >> 1) - 1) << 1).to_bytes(8, "big")
        return _signed(10, content, negative=negative)
    integer = int(magnitude)
    if integer == magnitude:
        return _encode_magnitude(integer << 1, negative=negative)
    room = 8 - ((integer << 1).bit_length() + 7) // 8
    fraction = int(math.ldexp(magnitude - integer, 8 * room)).to_bytes(room, "big")
    return _encode_magnitude(integer << 1 | 1, negative=negative, fraction=fraction)


def _small(magnitude: float) -> bytes:
    if magnitude >= _MIN_PLAIN_MAGNITUDE:
        return (int.from_bytes(_BITS.pack(magnitude), "big") << 2).to_bytes(8, "big")
    return (int.from_bytes(_BITS.pack(math.ldexp(magnitude, 768)), "big") << 1).to_bytes(8, "big")
