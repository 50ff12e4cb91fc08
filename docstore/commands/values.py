"""Conversion of BSON command fields to Python values, and type names for error texts.

It works on the encoded bytes, so that types can be checked before they are lost.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

from bson.decimal128 import Decimal128

from docstore.bson import to_python
from docstore.bson.limits import LONG_MAX
from docstore.bson.walk import BOOL, DECIMAL, DOUBLE, INT32, INT64
from docstore.errors import Code, CommandError

NUMBERS = (INT32, INT64, DOUBLE, DECIMAL)

_TYPE_NAMES = {
    0x01: "double", 0x02: "string", 0x03: "object", 0x04: "array", 0x05: "binData", 0x06: "undefined", 0x07: "objectId",
    0x08: "bool", 0x09: "date", 0x0A: "null", 0x0B: "regex", 0x0C: "dbPointer", 0x0D: "javascript", 0x0E: "symbol",
    0x0F: "javascriptWithScope", 0x10: "int", 0x11: "timestamp", 0x12: "long", 0x13: "decimal", 0x7F: "maxKey",
    0xFF: "minKey",
}  # fmt: skip
_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_MIN_INT64 = -(2**63)


def type_name(code: int) -> str:
    """Return the `$type` alias of a BSON type byte."""
    return _TYPE_NAMES.get(code, f"unknown ({code})")


def wrong_type(field: str, code: int, expected: str) -> CommandError:
    """Return a TypeMismatch in the real server's words; `expected` is a type name, or several in brackets."""
    plural = "s" if expected.startswith("[") else ""
    return CommandError(
        Code.TypeMismatch,
        f"BSON field '{field}' is the wrong type '{type_name(code)}', expected type{plural} '{expected}'",
    )


def text_of(data: bytes) -> str:
    """Return the text of a string value. Errors: InvalidBSON if it is not UTF-8."""
    try:
        return data[4:-1].decode()
    except UnicodeDecodeError:
        raise CommandError(Code.InvalidBSON, "a string is not valid UTF-8") from None


def integer_of(code: int, data: bytes) -> int:
    """Return a number as an integer: doubles are truncated, decimals rounded half to even.

    NaN is 0; values beyond 64 bits clamp.
    """
    if code == INT32:
        return int(_INT32.unpack(data)[0])
    if code == INT64:
        return int(_INT64.unpack(data)[0])
    number: float | Decimal
    if code == DOUBLE:
        number = _DOUBLE.unpack(data)[0]
        if math.isnan(number):
            return 0
    else:
        number = Decimal128.from_bid(data).to_decimal()
        if number.is_nan():
            return 0
    if number >= LONG_MAX:
        return LONG_MAX
    if number <= _MIN_INT64:
        return _MIN_INT64
    return round(number) if isinstance(number, Decimal) else int(number)


def number_of(code: int, data: bytes) -> int | float:
    """Return a number as `int` or `float` (decimals become floats)."""
    if code in (INT32, INT64):
        return integer_of(code, data)
    if code == DOUBLE:
        return float(_DOUBLE.unpack(data)[0])
    number = Decimal128.from_bid(data).to_decimal()
    return math.nan if number.is_nan() else float(number)


def truth_of(code: int, data: bytes) -> bool:
    """True if a boolean or number is true."""
    return data != b"\0" if code == BOOL else number_of(code, data) != 0


def value_of(code: int, data: bytes) -> Any:
    """Return any value decoded."""
    return to_python((code, data))
