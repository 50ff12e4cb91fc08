"""Names, values and partition keys between BSON and the bytes they stand for.

A name is given in the form natural to its comparator (text, number, UUID) or as the bytes themselves, and comes back in
the natural form. The bytes are validated by the comparator wherever they come in.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable

from docstore.bson import BINARY, DOUBLE, INT32, INT64, STRING, Value
from docstore.kernel.columns.encoding import (
    ASCII_NAMES,
    LONG_NAMES,
    PLAIN_NAMES,
    TEXT_NAMES,
    TIME_UUID_NAMES,
    ColumnForm,
)
from docstore.kernel.columns.encoding import plain_bytes as bytes_of
from docstore.kernel.limits import MAX_COLUMN_KEY_BYTES
from docstore.query.value.values import TYPE_NAMES, integral_of, text_of
from docstore.widecolumn.model import comparators
from docstore.widecolumn.model.comparators import (
    ASCII,
    BYTES,
    INTEGER,
    LEXICAL_UUID,
    LONG,
    SIGNED_TIME_UUID,
    TIME_UUID,
    TIMESTAMP,
    UTF8,
    UUID,
    Comparator,
    Reversed,
    minimal_integer,
)
from docstore.widecolumn.model.errors import MarshalError, invalid_request

_LENGTH = struct.Struct("<i")
_LONG = struct.Struct("<q")
_WIDTHS = {LONG.name: 8, TIMESTAMP.name: 8, comparators.INT32.name: 4}
_TEXTS = frozenset((ASCII.name, UTF8.name))
_UUIDS = frozenset((LEXICAL_UUID.name, TIME_UUID.name, SIGNED_TIME_UUID.name, UUID.name))
_UUID_SUBTYPES = (0, 3, 4)
_FORMS = {
    id(comparator): (ColumnForm(kind), ColumnForm(kind, True))
    for comparator, kind in (
        (BYTES, PLAIN_NAMES),
        (UTF8, TEXT_NAMES),
        (ASCII, ASCII_NAMES),
        (LONG, LONG_NAMES),
        (TIME_UUID, TIME_UUID_NAMES),
    )
}
"""The forms, by identity: a registered class may have the name of a built-in one."""


def string_value(data: bytes) -> Value:
    return STRING, _LENGTH.pack(len(data) + 1) + data + b"\0"


def binary_value(data: bytes, subtype: int = 0) -> Value:
    return BINARY, _LENGTH.pack(len(data)) + bytes((subtype,)) + data


def long_value(number: int) -> Value:
    return INT64, _LONG.pack(number)


def plain_bytes(value: Value) -> bytes | None:
    """The bytes of a string (UTF-8) or of binary data; None for any other type."""
    return bytes_of(*value)


def partition_key_of(value: Value) -> bytes:
    """A partition key. InvalidRequest for an empty or overlong one."""
    data = plain_bytes(value)
    if data is None:
        raise invalid_request(f"a row key must be a string or binary data, not {TYPE_NAMES[value[0]]}")
    if not data:
        raise invalid_request("Key may not be empty")
    if len(data) > MAX_COLUMN_KEY_BYTES:
        raise invalid_request(f"Key length of {len(data)} is longer than maximum of {MAX_COLUMN_KEY_BYTES}")
    return data


def partition_key_value(key: bytes) -> Value:
    """A string where the key is valid UTF-8, else binary data."""
    return _text_or_binary(key)


def name_bytes(comparator: Comparator, value: Value, kind: str = "column") -> bytes:
    """Return a name's bytes, not empty. `kind`: the word for it in errors."""
    data = bound_bytes(comparator, value)
    if not data:
        raise invalid_request(f"{kind} name must not be empty")
    if len(data) > MAX_COLUMN_KEY_BYTES:
        raise invalid_request(f"{kind} name length must not be greater than {MAX_COLUMN_KEY_BYTES}")
    return data


def encoded_name(comparator: Comparator, value: Value, kind: str = "column") -> bytes:
    """Return a name in the form of keys; as `name_bytes`."""
    forms = _FORMS.get(id(comparator))
    encoded = None if forms is None else forms[0].encode(*value)
    return comparator.encode(name_bytes(comparator, value, kind)) if encoded is None else encoded


def bound_bytes(comparator: Comparator, value: Value) -> bytes:
    """The bytes of a name or of a bound of names; empty bounds are open ones."""
    if value[0] == INT64 and comparator is LONG:
        # Little-endian in documents, big-endian in names.
        return value[1][::-1]
    data = _natural_bytes(_natural(comparator), value)
    if data:
        try:
            comparator.validate(data)
        except MarshalError as error:
            raise invalid_request(str(error)) from None
    return data


def _natural(comparator: Comparator) -> str:
    """The name of the type whose natural form names have."""
    while isinstance(comparator, Reversed):
        comparator = comparator.inner
    return comparator.name


def _natural_bytes(kind: str, value: Value) -> bytes:
    code, raw = value
    if kind in _UUIDS and code == BINARY:
        return _uuid_bytes(raw)
    if kind in _UUIDS and code == STRING:
        return _uuid_of_text(text_of(value))
    # JavaScript's numbers are doubles.
    number = integral_of(value) if code in (INT32, INT64, DOUBLE) else None
    if number is not None and -(2**63) <= number < 2**63:
        if kind in _WIDTHS:
            return _fixed(number, _WIDTHS[kind])
        if kind == INTEGER.name:
            return minimal_integer(number.to_bytes(9, "big", signed=True))
    data = plain_bytes(value)
    if data is None:
        raise invalid_request(f"{TYPE_NAMES[code]} is no name for {kind.rpartition('.')[2]}")
    return data


def _fixed(number: int, width: int) -> bytes:
    try:
        return number.to_bytes(width, "big", signed=True)
    except OverflowError:
        raise invalid_request(f"{number} does not fit {width} bytes") from None


def _uuid_bytes(raw: bytes) -> bytes:
    """The 16 bytes in standard order; subtype 3 is the legacy order of one driver, whose halves stand reversed."""
    data, subtype = raw[5:], raw[4]
    if subtype not in _UUID_SUBTYPES:
        raise invalid_request(f"binary data of subtype {subtype} is no UUID")
    if subtype == 3 and len(data) == 16:
        return data[7::-1] + data[15:7:-1]
    return data


def _uuid_of_text(text: str) -> bytes:
    if not text:
        return b""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise invalid_request(f"unable to make a UUID from '{text}'") from None


def name_value(comparator: Comparator, name: bytes, *, as_text: bool = False) -> Value:
    """A name in its natural form. `as_text`: bytes that are valid UTF-8 come as a string."""
    kind = _natural(comparator)
    if kind in _TEXTS:
        return string_value(name)
    if kind in _UUIDS and len(name) == 16:
        return binary_value(name, 4)
    if kind in _WIDTHS and name:
        return long_value(int.from_bytes(name, "big", signed=True))
    if kind == INTEGER.name and 0 < len(name) <= 8:
        return long_value(int.from_bytes(name, "big", signed=True))
    return content_value(name, as_text=as_text)


def name_writer(comparator: Comparator, *, as_text: bool = False) -> Callable[[bytes], bytes]:
    """Return the function that encodes a name as the field `name`, in the form of `name_value`."""
    kind = _natural(comparator)
    pack = _LENGTH.pack
    if kind == LONG.name:
        return lambda name: b"\x12name\0" + name[::-1] if name else b"\x05name\0" + pack(0) + b"\0"
    if kind not in _TEXTS and kind not in _UUIDS and kind not in _WIDTHS and kind != INTEGER.name and not as_text:
        return lambda name: b"".join((b"\x05name\0", pack(len(name)), b"\0", name))

    def written(name: bytes) -> bytes:
        code, data = name_value(comparator, name, as_text=as_text)
        return bytes((code,)) + b"name\0" + data

    return written


def column_form(comparator: Comparator, *, as_text: bool = False) -> ColumnForm | None:
    """The form that the kernel has of a built-in comparator's names; None for those that it does not know."""
    forms = _FORMS.get(id(comparator))
    return None if forms is None else forms[as_text]


def content_bytes(value: Value, *, as_long: bool = False) -> bytes:
    """The bytes of a column's value. `as_long`: integers are taken, as 8 bytes."""
    if as_long and value[0] in (INT32, INT64):
        number = integral_of(value)
        assert number is not None, "an integer is integral"
        return _fixed(number, 8)
    data = plain_bytes(value)
    if data is None:
        raise invalid_request(f"a value must be a string or binary data, not {TYPE_NAMES[value[0]]}")
    return data


def content_value(data: bytes, *, as_text: bool = False) -> Value:
    return _text_or_binary(data) if as_text else binary_value(data)


def _text_or_binary(data: bytes) -> Value:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return binary_value(data)
    return string_value(data)
