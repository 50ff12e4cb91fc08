"""BSON values in the query languages: `(type, bytes)` pairs, read and made without decoding documents.

A `Value` is the type byte and exactly the value's bytes in the document, so unchanged values are never re-encoded.
Codes and names are those of the BSON specification and of MongoDB's `$type` aliases.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from bson.decimal128 import Decimal128

from docstore.bson.limits import LONG_MAX, LONG_MIN
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
)

TYPE_NAMES: Final[dict[int, str]] = {
    DOUBLE: "double",
    STRING: "string",
    OBJECT: "object",
    ARRAY: "array",
    BINARY: "binData",
    UNDEFINED: "undefined",
    OBJECT_ID: "objectId",
    BOOL: "bool",
    DATE: "date",
    NULL: "null",
    REGEX: "regex",
    DB_POINTER: "dbPointer",
    CODE: "javascript",
    SYMBOL: "symbol",
    CODE_WITH_SCOPE: "javascriptWithScope",
    INT32: "int",
    TIMESTAMP: "timestamp",
    INT64: "long",
    DECIMAL: "decimal",
    MAX_KEY: "maxKey",
    MIN_KEY: "minKey",
}
TYPE_CODES: Final = {name: code for code, name in TYPE_NAMES.items()}
NUMBERS: Final = frozenset((DOUBLE, INT32, INT64, DECIMAL))

INT_MIN: Final = -(1 << 31)
INT_MAX: Final = (1 << 31) - 1

NULL_VALUE: Final[Value] = (NULL, b"")
TRUE: Final[Value] = (BOOL, b"\x01")
FALSE: Final[Value] = (BOOL, b"\x00")

_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_DOUBLE = struct.Struct("<d")
_UNSIGNED = struct.Struct("<Q")

int32_bytes = _INT.pack
int64_bytes = _LONG.pack
double_bytes = _DOUBLE.pack
timestamp_bytes = _UNSIGNED.pack


def boolean(flag: object) -> Value:
    return TRUE if flag else FALSE


def int32_value(number: int) -> Value:
    """Return a 32-bit integer; the caller ensures that it fits."""
    return INT32, int32_bytes(number)


def int64_value(number: int) -> Value:
    return INT64, int64_bytes(number)


def integer_value(number: int) -> Value:
    """Return the narrowest integer type that holds the number (int, else long)."""
    return (INT32, int32_bytes(number)) if INT_MIN <= number <= INT_MAX else (INT64, int64_bytes(number))


def double_value(number: float) -> Value:
    return DOUBLE, double_bytes(number)


def decimal_value(number: Decimal128) -> Value:
    return DECIMAL, number.bid


def string_value(text: str) -> Value:
    encoded = text.encode()
    return STRING, int32_bytes(len(encoded) + 1) + encoded + b"\x00"


def text_of(value: Value) -> str:
    """Return the text of a string, symbol or code value."""
    return value[1][4:-1].decode()


def int_of(value: Value) -> int:
    """Return the number in an int, long, date or (as 64 bits) timestamp value."""
    number: int = (_INT if value[0] == INT32 else _LONG).unpack(value[1])[0]
    return number


def double_of(value: Value) -> float:
    number: float = _DOUBLE.unpack(value[1])[0]
    return number


def decimal_of(value: Value) -> Decimal128:
    return Decimal128.from_bid(value[1])


def number_of(value: Value) -> float:
    """Return a number of any type as a double, rounded if necessary."""
    if value[0] == DOUBLE:
        return double_of(value)
    return float(decimal_of(value).to_decimal()) if value[0] == DECIMAL else float(int_of(value))


def regex_of(value: Value) -> tuple[str, str]:
    """Return (pattern, options) of a regular expression value."""
    pattern, options, _ = value[1].split(b"\x00", 2)
    return pattern.decode(), options.decode()


def is_true(value: Value | None) -> bool:
    """Return MongoDB's truth value: null, undefined, missing, false and zero are false, all else is true."""
    if value is None or value[0] in (NULL, UNDEFINED):
        return False
    code, data = value
    if code == BOOL:
        return data != b"\x00"
    if code in (INT32, INT64):
        return any(data)
    if code == DOUBLE:
        return double_of(value) != 0.0
    if code == DECIMAL:
        number = decimal_of(value).to_decimal()
        return not number.is_zero()
    return True


def integral_of(value: Value) -> int | None:
    """Return the integer that a numeric value equals, or None for a fraction, NaN, infinity or another type."""
    code = value[0]
    if code in (INT32, INT64):
        return int_of(value)
    if code == DOUBLE:
        number = double_of(value)
        return int(number) if number.is_integer() else None
    if code == DECIMAL:
        exact = decimal_of(value).to_decimal()
        if not exact.is_finite() or abs(exact.adjusted()) > 40:
            return 0 if exact.is_zero() else None
        return int(exact) if exact == exact.to_integral_value() else None
    return None


def truncated_of(value: Value) -> int | None:
    """Return a double truncated towards zero, or a decimal rounded half to even, clamped to 64 bits; NaN is 0.

    None for another type.
    """
    code = value[0]
    if code in (INT32, INT64):
        return int_of(value)
    if code == DOUBLE:
        number = double_of(value)
        if math.isnan(number):
            return 0
        return max(LONG_MIN, min(LONG_MAX, int(number))) if math.isfinite(number) else _limit(number > 0)
    if code == DECIMAL:
        exact = decimal_of(value).to_decimal()
        if exact.is_nan():
            return 0
        if not exact.is_finite() or exact.adjusted() > 18:
            return _limit(exact > 0)
        return max(LONG_MIN, min(LONG_MAX, round(exact)))
    return None


def _limit(positive: bool) -> int:
    return LONG_MAX if positive else LONG_MIN


def type_name(value: Value | None) -> str:
    """Return the `$type` alias of a value, `missing` for None."""
    return "missing" if value is None else TYPE_NAMES[value[0]]
