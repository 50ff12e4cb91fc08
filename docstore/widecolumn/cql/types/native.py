"""The types of CQL: the values of each, their bytes, and their text forms.

Invariants: `parse(serialise(x)) == x`; `validate` refuses exactly the bytes that `parse` cannot read; bytes are those
of the native protocol. A type's `comparator` (`docstore.widecolumn.model.comparators`) orders its values in keys.
"""

from __future__ import annotations

import ipaddress
import math
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Any, Protocol

from docstore.widecolumn.cql.statements import ConstantKind
from docstore.widecolumn.cql.types import text_forms
from docstore.widecolumn.limits import MAX_DECIMAL_ZEROS
from docstore.widecolumn.model import comparators
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.errors import MarshalError

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_DATE_ZERO = 1 << 31
MAX_NUMBER_BYTES = 8192
"""The maximal length of a decimal or varint: calculating with longer ones takes seconds."""
MAX_SUM_DIGITS = 100_000
EXACT = Context(
    prec=MAX_SUM_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow]
)
"""The arithmetic of decimals, which rounds nothing."""


class CqlType(Protocol):
    """`code`: the option of the native protocol. `comparator`: None where values cannot be clustering columns."""

    @property
    def name(self) -> str: ...

    @property
    def code(self) -> int: ...

    @property
    def comparator(self) -> Comparator | None: ...

    def validate(self, data: bytes) -> None:
        """MarshalError when the bytes are no value."""

    def canonical(self, data: bytes) -> bytes:
        """Return the bytes that are stored for these: sets and maps in order, once each. MarshalError as `validate`."""

    def order(self, first: bytes, second: bytes) -> int:
        """Return whether the first value is less than, equal to or greater than the second: below, at or above 0."""

    def parse(self, data: bytes) -> Any:
        """The value as a Python object; None for the empty value of a type that has one."""

    def serialise(self, value: Any) -> bytes:
        """The bytes of a Python object. ValueError, TypeError, OverflowError when it is no value of the type."""

    def format(self, data: bytes) -> str:
        """Return the value in the notation of statements, without quotes."""


def has_durations(kind: CqlType) -> bool:
    """True if durations are among the values of a type or in them: such values have no order."""
    return "duration" in kind.name


@dataclass(frozen=True, slots=True, eq=False)
class NativeType:
    """A type without parameters. `kinds`: the constants that denote its values; `read`: from the text of one.

    Bytes of length 0 are a value only if the comparator of the type takes them.
    """

    name: str
    code: int
    comparator: Comparator | None
    kinds: frozenset[ConstantKind]
    read: Callable[[str], Any]
    from_bytes: Callable[[bytes], Any]
    to_bytes: Callable[[Any], bytes]
    show: Callable[[Any], str] = str
    check: Callable[[bytes], None] | None = None

    def validate(self, data: bytes) -> None:
        if self.check is not None:
            self.check(data)
        elif self.comparator is not None:
            self.comparator.validate(data)

    def canonical(self, data: bytes) -> bytes:
        self.validate(data)
        return data

    def order(self, first: bytes, second: bytes) -> int:
        if self.comparator is not None:
            return self.comparator.compare(first, second)
        if self.name == "decimal" and first and second:
            return int(_decimal(first).compare(_decimal(second)))
        return (first > second) - (first < second)

    def parse(self, data: bytes) -> Any:
        return self.from_bytes(data) if data or self.name in _TEXTS else None

    def serialise(self, value: Any) -> bytes:
        return self.to_bytes(value)

    def format(self, data: bytes) -> str:
        return self.show(self.parse(data)) if data or self.name in _TEXTS else ""


_TEXTS = frozenset(("ascii", "text", "blob"))


def _fixed(width: int) -> Callable[[Any], bytes]:
    def serialise(value: Any) -> bytes:
        return _check_integer(value).to_bytes(width, "big", signed=True)

    return serialise


def _check_integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def integer_bytes(value: Any) -> bytes:
    """The shortest two's complement."""
    number = _check_integer(value)
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _text_bytes(encoding: str) -> Callable[[Any], bytes]:
    def serialise(value: Any) -> bytes:
        if not isinstance(value, str):
            raise TypeError(value)
        return value.encode(encoding)

    return serialise


def _boolean_bytes(value: Any) -> bytes:
    if not isinstance(value, bool):
        raise TypeError(value)
    return b"\x01" if value else b"\x00"


def _decimal(data: bytes) -> Decimal:
    [scale] = _INT.unpack_from(data)
    return Decimal(_signed(data[4:])).scaleb(-scale, EXACT)


def _decimal_bytes(value: Any) -> bytes:
    number = Decimal(value) if isinstance(value, int) else value
    if not isinstance(number, Decimal) or not number.is_finite():
        raise TypeError(value)
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the number is finite"
    if not -(1 << 31) < exponent <= 1 << 31:
        raise OverflowError(value)
    return _INT.pack(-exponent) + integer_bytes(int(number.scaleb(-exponent, EXACT)))


def _check_decimal(data: bytes) -> None:
    if data and len(data) < 5:
        raise MarshalError(f"Expected 0 or at least 4 bytes ({len(data)})")
    _check_digits("decimal", data)


def _check_varint(data: bytes) -> None:
    comparators.INTEGER.validate(data)
    _check_digits("varint", data)


def _check_digits(kind: str, data: bytes) -> None:
    if len(data) > MAX_NUMBER_BYTES:
        raise MarshalError(f"A {kind} has at most {MAX_NUMBER_BYTES} bytes here ({len(data)})")


def _show_whole(number: int) -> str:
    # Python itself writes no integer of thousands of digits.
    return f"{Decimal(number):f}"


def _show_decimal(number: Decimal) -> str:
    """Without an exponent, unless that takes many zeros."""
    return f"{number:f}" if abs(number.adjusted()) < MAX_DECIMAL_ZEROS else str(number)


def _read_decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _real(unpack: struct.Struct) -> tuple[Callable[[bytes], float], Callable[[Any], bytes]]:
    def parse(data: bytes) -> float:
        number: float = unpack.unpack(data)[0]
        return number

    def serialise(value: Any) -> bytes:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise TypeError(value)
        try:
            return unpack.pack(value)
        except OverflowError:
            return unpack.pack(math.copysign(math.inf, value))

    return parse, serialise


def _show_real(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _uuid_bytes(value: Any) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise TypeError(value)
    return value.bytes


def _time_uuid_bytes(value: Any) -> bytes:
    data = _uuid_bytes(value)
    if data[6] >> 4 != 1:
        raise ValueError(value)
    return data


def _inet_bytes(value: Any) -> bytes:
    if not isinstance(value, ipaddress.IPv4Address | ipaddress.IPv6Address):
        raise TypeError(value)
    return value.packed


def _date_bytes(value: Any) -> bytes:
    return (_check_integer(value) + _DATE_ZERO).to_bytes(4, "big")


def _read_date(text: str) -> int:
    """Days since 1970; a bare number counts them from the lowest date."""
    return int(text) - _DATE_ZERO if text.isdigit() else text_forms.parse_date(text)


def _read_time(text: str) -> int:
    return text_forms.check_time(int(text)) if text.isdigit() else text_forms.parse_time(text)


def _read_timestamp(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return text_forms.parse_timestamp(text)


def _vint(number: int) -> bytes:
    """A zig-zag number of variable length: the leading ones of the first byte count the bytes that follow."""
    value = (number << 1) ^ (number >> 63)
    extra = max(0, (value.bit_length() - 1) // 7) if value.bit_length() <= 56 else 8
    data = value.to_bytes(extra + 1, "big") if extra < 8 else b"\0" + value.to_bytes(8, "big")
    return bytes((data[0] | (0xFF << (8 - extra)) & 0xFF,)) + data[1:]


def _read_vint(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    extra = 8 - (first ^ 0xFF).bit_length()
    value = int.from_bytes(bytes((first & (0xFF >> extra),)) + data[at + 1 : at + 1 + extra], "big")
    return (value >> 1) ^ -(value & 1), at + 1 + extra


def _duration(data: bytes) -> text_forms.Duration:
    months, at = _read_vint(data, 0)
    days, at = _read_vint(data, at)
    nanos, _ = _read_vint(data, at)
    return months, days, nanos


def _duration_bytes(value: Any) -> bytes:
    months, days, nanos = value
    return b"".join(_vint(_check_integer(part)) for part in (months, days, nanos))


def _check_duration(data: bytes) -> None:
    try:
        _, end = _read_vint(data, _read_vint(data, _read_vint(data, 0)[1])[1])
    except IndexError:
        end = -1
    if end != len(data):
        raise MarshalError(f"Expected at least 3 bytes for a duration ({len(data)})")


_INTEGERS = frozenset((ConstantKind.INTEGER,))
_NUMBERS = frozenset((ConstantKind.INTEGER, ConstantKind.FLOAT))
_STRINGS = frozenset((ConstantKind.STRING,))
_UUIDS = frozenset((ConstantKind.UUID,))
_DATED = frozenset((ConstantKind.STRING, ConstantKind.INTEGER))


def _integer(name: str, code: int, comparator: Comparator, width: int) -> NativeType:
    return NativeType(name, code, comparator, _INTEGERS, int, _signed, _fixed(width))


def _floating(name: str, code: int, comparator: Comparator, unpack: struct.Struct) -> NativeType:
    parse, serialise = _real(unpack)
    return NativeType(name, code, comparator, _NUMBERS, float, parse, serialise, _show_real)


def _identity(data: bytes) -> bytes:
    return data


def _blob_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(value)
    return value


def _read_hex(text: str) -> bytes:
    return bytes.fromhex(text[2:])


ASCII = NativeType("ascii", 0x01, comparators.ASCII, _STRINGS, str, bytes.decode, _text_bytes("ascii"))
BIGINT = _integer("bigint", 0x02, comparators.LONG, 8)
BLOB = NativeType(
    "blob",
    0x03,
    comparators.BYTES,
    frozenset((ConstantKind.HEX,)),
    _read_hex,
    _identity,
    _blob_bytes,
    lambda data: "0x" + data.hex(),
)
BOOLEAN = NativeType(
    "boolean", 0x04, comparators.BOOLEAN, frozenset((ConstantKind.BOOLEAN,)), lambda text: text.lower() == "true",
    lambda data: data != b"\0", _boolean_bytes, lambda value: str(value).lower(),
)  # fmt: skip
COUNTER = _integer("counter", 0x05, comparators.LONG, 8)
DECIMAL = NativeType(
    "decimal", 0x06, None, _NUMBERS, _read_decimal, _decimal, _decimal_bytes, _show_decimal, _check_decimal
)
DOUBLE = _floating("double", 0x07, comparators.DOUBLE, struct.Struct(">d"))
FLOAT = _floating("float", 0x08, comparators.FLOAT, struct.Struct(">f"))
INT = _integer("int", 0x09, comparators.INT32, 4)
TIMESTAMP = NativeType(
    "timestamp", 0x0B, comparators.TIMESTAMP, _DATED, _read_timestamp, _signed, _fixed(8), text_forms.format_timestamp
)
UUID = NativeType("uuid", 0x0C, comparators.UUID, _UUIDS, uuid.UUID, lambda data: uuid.UUID(bytes=data), _uuid_bytes)
TEXT = NativeType("text", 0x0D, comparators.UTF8, _STRINGS, str, bytes.decode, _text_bytes("utf-8"))
VARINT = NativeType(
    "varint", 0x0E, comparators.INTEGER, _INTEGERS, int, _signed, integer_bytes, _show_whole, _check_varint
)
TIMEUUID = NativeType(
    "timeuuid", 0x0F, comparators.SIGNED_TIME_UUID, _UUIDS, uuid.UUID, lambda data: uuid.UUID(bytes=data),
    _time_uuid_bytes,
)  # fmt: skip
INET = NativeType("inet", 0x10, comparators.INET, _STRINGS, ipaddress.ip_address, ipaddress.ip_address, _inet_bytes)
DATE = NativeType(
    "date", 0x11, comparators.DATE, _DATED, _read_date, lambda data: int.from_bytes(data, "big") - _DATE_ZERO,
    _date_bytes, text_forms.format_date,
)  # fmt: skip
TIME = NativeType("time", 0x12, comparators.TIME, _DATED, _read_time, _signed, _fixed(8), text_forms.format_time)
SMALLINT = _integer("smallint", 0x13, comparators.SHORT, 2)
TINYINT = _integer("tinyint", 0x14, comparators.BYTE, 1)
DURATION = NativeType(
    "duration", 0x15, None, frozenset((ConstantKind.DURATION,)), text_forms.parse_duration, _duration, _duration_bytes,
    text_forms.format_duration, _check_duration,
)  # fmt: skip

NATIVE_TYPES: dict[str, NativeType] = {
    native.name: native
    for native in (
        ASCII, BIGINT, BLOB, BOOLEAN, COUNTER, DATE, DECIMAL, DOUBLE, DURATION, FLOAT, INET, INT, SMALLINT, TEXT, TIME,
        TIMESTAMP, TIMEUUID, TINYINT, UUID, VARINT,
    )
}  # fmt: skip
NATIVE_TYPES["varchar"] = TEXT
