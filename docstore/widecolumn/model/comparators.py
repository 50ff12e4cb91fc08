"""Comparators: the valid column names, their order, and their encoding in storage keys.

Invariants of a comparator with an encoding of its own, and of every built-in one:

- `compare(a, b)` has the sign of comparing `encode(a)` and `encode(b)` as unsigned bytes;
- no encoding is a prefix of another, so encodings can be concatenated in a key;
- `decode(encode(a), 0)` returns a value that compares equal to `a`, and the end of its encoding.

An encoding begins with 00 for the empty value of a fixed-width type, which sorts first, and with 01 otherwise. Texts
and byte strings are escaped: 00 becomes 00 FF, and 00 01 ends the string.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from docstore.kernel.columns.encoding import escape
from docstore.widecolumn.limits import MAX_SHORT_INTEGER_BYTES
from docstore.widecolumn.model.errors import MarshalError

_ESCAPED_ZERO = b"\x00\xff"
_INVERTED = bytes(255 - byte for byte in range(256))
_FLIP_SIGN = bytes(byte ^ 0x80 for byte in range(256))


class Comparator(Protocol):
    """A type of names. `name` is the full class name; `ordered` is false where names are stored under their escaped
    bytes because there is no order-preserving encoding.
    """

    @property
    def name(self) -> str: ...

    @property
    def ordered(self) -> bool: ...

    def validate(self, value: bytes) -> None:
        """MarshalError when the bytes are no value of the type."""

    def compare(self, a: bytes, b: bytes) -> int:
        """Negative, zero or positive."""

    def encode(self, value: bytes) -> bytes: ...

    def decode(self, data: bytes, start: int) -> tuple[bytes, int]:
        """(the value whose encoding begins at `start`, where the encoding ends)."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A comparator whose order is the order of its encodings."""

    name: str
    check: Callable[[bytes], None]
    encode_value: Callable[[bytes], bytes]
    decode_value: Callable[[bytes, int], tuple[bytes, int]]

    @property
    def ordered(self) -> bool:
        return True

    def validate(self, value: bytes) -> None:
        self.check(value)

    def compare(self, a: bytes, b: bytes) -> int:
        first, second = self.encode_value(a), self.encode_value(b)
        return (first > second) - (first < second)

    def encode(self, value: bytes) -> bytes:
        return self.encode_value(value)

    def decode(self, data: bytes, start: int) -> tuple[bytes, int]:
        return self.decode_value(data, start)


@dataclass(frozen=True, slots=True)
class Reversed:
    """The order of another comparator backwards: its encodings with every byte inverted."""

    inner: Comparator

    @property
    def name(self) -> str:
        return f"org.apache.cassandra.db.marshal.ReversedType({self.inner.name})"

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    def validate(self, value: bytes) -> None:
        self.inner.validate(value)

    def compare(self, a: bytes, b: bytes) -> int:
        return self.inner.compare(b, a)

    def encode(self, value: bytes) -> bytes:
        return invert(self.inner.encode(value))

    def decode(self, data: bytes, start: int) -> tuple[bytes, int]:
        value, end = self.inner.decode(invert(data[start:]), 0)
        return value, start + end


def invert(data: bytes) -> bytes:
    """Return every byte inverted, which reverses the order."""
    return data.translate(_INVERTED)


# Byte strings and texts


def unescape(data: bytes, start: int) -> tuple[bytes, int]:
    end = start
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1] == 1:
            return data[start:end].replace(_ESCAPED_ZERO, b"\x00"), end + 2
        end += 2


def _anything(value: bytes) -> None:
    pass


def _ascii(value: bytes) -> None:
    if not value.isascii():
        offender = next(byte for byte in value if byte >= 0x80)
        raise MarshalError(f"Invalid byte for ascii: {offender - 256}")


def _utf8(value: bytes) -> None:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        raise MarshalError("String didn't validate.") from None


# Numbers of a fixed width


def _of_width(width: int, message: str, *, empty: bool = True) -> Callable[[bytes], None]:
    def check(value: bytes) -> None:
        if len(value) != width and (value or not empty):
            raise MarshalError(message.format(len(value)))

    return check


def _encode_signed(value: bytes) -> bytes:
    return b"\x01" + bytes((value[0] ^ 0x80,)) + value[1:] if value else b"\x00"


def _decode_signed(width: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    def decode(data: bytes, start: int) -> tuple[bytes, int]:
        if data[start] == 0:
            return b"", start + 1
        end = start + 1 + width
        return bytes((data[start + 1] ^ 0x80,)) + data[start + 2 : end], end

    return decode


def _encode_float(unpack: Callable[[bytes], tuple[float, ...]], nan: bytes) -> Callable[[bytes], bytes]:
    def encode(value: bytes) -> bytes:
        if not value:
            return b"\x00"
        [number] = unpack(value)
        if number != number:
            value = nan
        if value[0] & 0x80:
            return b"\x01" + invert(value)
        return b"\x01" + bytes((value[0] | 0x80,)) + value[1:]

    return encode


def _decode_float(width: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    def decode(data: bytes, start: int) -> tuple[bytes, int]:
        if data[start] == 0:
            return b"", start + 1
        end = start + 1 + width
        value = data[start + 1 : end]
        return (value[:1].translate(_FLIP_SIGN) + value[1:] if value[0] & 0x80 else invert(value)), end

    return decode


def _decode_plain(width: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    def decode(data: bytes, start: int) -> tuple[bytes, int]:
        if data[start] == 0:
            return b"", start + 1
        end = start + 1 + width
        return data[start + 1 : end], end

    return decode


def _check_boolean(value: bytes) -> None:
    if len(value) != 1:
        raise MarshalError(f"Expected 1 byte value ({len(value)})")


# Whole numbers of any width


def minimal_integer(value: bytes) -> bytes:
    """Two's complement without the leading bytes that only repeat the sign."""
    start = 0
    while start < len(value) - 1 and (
        (value[start] == 0x00 and value[start + 1] < 0x80) or (value[start] == 0xFF and value[start + 1] >= 0x80)
    ):
        start += 1
    return value[start:]


def _encode_integer(value: bytes) -> bytes:
    if not value:
        return b"\x00"
    value = minimal_integer(value)
    length = len(value)
    negative = value[0] >= 0x80
    if length <= MAX_SHORT_INTEGER_BYTES:
        return bytes((0x80 - length if negative else 0x80 + length,)) + value
    counted = struct.pack(">I", length)
    return (b"\x08" + invert(counted) if negative else b"\xf8" + counted) + value


def _decode_integer(data: bytes, start: int) -> tuple[bytes, int]:
    header = data[start]
    if header == 0:
        return b"", start + 1
    at = start + 1
    if header in (0xF8, 0x08):
        counted = data[at : at + 4]
        [length] = struct.unpack(">I", counted if header == 0xF8 else invert(counted))
        at += 4
    else:
        length = abs(header - 0x80)
    return data[at : at + length], at + length


# UUIDs


def _lexical_uuid(value: bytes) -> None:
    if len(value) not in (0, 16):
        raise MarshalError(f"UUID should be 16 or 0 bytes ({len(value)})")


def _encode_lexical_uuid(value: bytes) -> bytes:
    if not value:
        return b"\x00"
    return b"\x01" + _flip_halves(value)


def _decode_lexical_uuid(data: bytes, start: int) -> tuple[bytes, int]:
    if data[start] == 0:
        return b"", start + 1
    return _flip_halves(data[start + 1 : start + 17]), start + 17


def _flip_halves(value: bytes) -> bytes:
    return bytes((value[0] ^ 0x80,)) + value[1:8] + bytes((value[8] ^ 0x80,)) + value[9:]


def _time_uuid(value: bytes) -> None:
    if len(value) not in (0, 16):
        raise MarshalError(f"TimeUUID should be 16 or 0 bytes ({len(value)})")
    if value and value[6] >> 4 != 1:
        raise MarshalError("Invalid version for TimeUUID type.")


def _time_first(value: bytes) -> bytes:
    """The 60-bit timestamp of a version 1 UUID, most significant byte first."""
    return bytes((value[6] & 0x0F, value[7])) + value[4:6] + value[0:4]


def _time_back(time: bytes) -> bytes:
    """The first half of the version 1 UUID with that timestamp."""
    return time[4:8] + time[2:4] + bytes((time[0] | 0x10, time[1]))


def _encode_time_uuid(value: bytes) -> bytes:
    return b"\x01" + _time_first(value) + value[8:] if value else b"\x00"


def _decode_time_uuid(data: bytes, start: int) -> tuple[bytes, int]:
    if data[start] == 0:
        return b"", start + 1
    return _time_back(data[start + 1 : start + 9]) + data[start + 9 : start + 17], start + 17


def _encode_signed_time_uuid(value: bytes) -> bytes:
    return b"\x01" + _time_first(value) + value[8:].translate(_FLIP_SIGN) if value else b"\x00"


def _decode_signed_time_uuid(data: bytes, start: int) -> tuple[bytes, int]:
    if data[start] == 0:
        return b"", start + 1
    return _time_back(data[start + 1 : start + 9]) + data[start + 9 : start + 17].translate(_FLIP_SIGN), start + 17


def _encode_uuid(value: bytes) -> bytes:
    if not value:
        return b"\x00"
    version = value[6] >> 4
    high = _time_first(value) if version == 1 else value[:8]
    return bytes((1, version)) + high + value[8:]


def _decode_uuid(data: bytes, start: int) -> tuple[bytes, int]:
    if data[start] == 0:
        return b"", start + 1
    high = data[start + 2 : start + 10]
    return (_time_back(high) if data[start + 1] == 1 else high) + data[start + 10 : start + 18], start + 18


def _check_inet(value: bytes) -> None:
    if len(value) not in (4, 16):
        raise MarshalError(f"Expected 4 or 16 byte inet address ({len(value)})")


def _signed(name: str, width: int, message: str, *, empty: bool = True) -> BuiltIn:
    return BuiltIn(name, _of_width(width, message, empty=empty), _encode_signed, _decode_signed(width))


def _escaped(name: str, check: Callable[[bytes], None]) -> BuiltIn:
    return BuiltIn(name, check, escape, unescape)


PACKAGE = "org.apache.cassandra.db.marshal."

BYTES = _escaped(PACKAGE + "BytesType", _anything)
ASCII = _escaped(PACKAGE + "AsciiType", _ascii)
UTF8 = _escaped(PACKAGE + "UTF8Type", _utf8)
LONG = _signed(PACKAGE + "LongType", 8, "Expected 8 or 0 byte long ({})")
LEXICAL_UUID = BuiltIn(PACKAGE + "LexicalUUIDType", _lexical_uuid, _encode_lexical_uuid, _decode_lexical_uuid)
TIME_UUID = BuiltIn(PACKAGE + "TimeUUIDType", _time_uuid, _encode_time_uuid, _decode_time_uuid)
SIGNED_TIME_UUID = BuiltIn("timeuuid", _time_uuid, _encode_signed_time_uuid, _decode_signed_time_uuid)
"""The `timeuuid` of CQL: ties are broken by the last eight bytes taken as signed ones."""
UUID = BuiltIn(PACKAGE + "UUIDType", _lexical_uuid, _encode_uuid, _decode_uuid)
INT32 = _signed(PACKAGE + "Int32Type", 4, "Expected 4 or 0 byte int ({})")
SHORT = _signed(PACKAGE + "ShortType", 2, "Expected 2 bytes for a smallint ({})", empty=False)
BYTE = _signed(PACKAGE + "ByteType", 1, "Expected 1 byte for a tinyint ({})", empty=False)
TIMESTAMP = _signed(PACKAGE + "TimestampType", 8, "Expected 8 or 0 byte long for date ({})")
INTEGER = BuiltIn(PACKAGE + "IntegerType", _anything, _encode_integer, _decode_integer)
DOUBLE = BuiltIn(
    PACKAGE + "DoubleType",
    _of_width(8, "Expected 8 or 0 byte value for a double ({})"),
    _encode_float(struct.Struct(">d").unpack, bytes.fromhex("7ff8000000000000")),
    _decode_float(8),
)
FLOAT = BuiltIn(
    PACKAGE + "FloatType",
    _of_width(4, "Expected 4 or 0 byte value for a float ({})"),
    _encode_float(struct.Struct(">f").unpack, bytes.fromhex("7fc00000")),
    _decode_float(4),
)
BOOLEAN = BuiltIn(PACKAGE + "BooleanType", _check_boolean, lambda value: b"\x01" + value, _decode_plain(1))
DATE = _escaped(PACKAGE + "SimpleDateType", _of_width(4, "Expected 4 byte long for date ({})", empty=False))
TIME = _escaped(PACKAGE + "TimeType", _of_width(8, "Expected 8 byte long for time ({})", empty=False))
INET = _escaped(PACKAGE + "InetAddressType", _check_inet)

COLUMN_COMPARATORS: dict[str, Comparator] = {
    comparator.name: comparator
    for comparator in (
        BYTES,
        ASCII,
        UTF8,
        LONG,
        LEXICAL_UUID,
        TIME_UUID,
        UUID,
        INT32,
        INTEGER,
        DOUBLE,
        FLOAT,
        BOOLEAN,
    )
}
"""Comparators that a column family may name, by full class name."""
