"""Values of CQL as BSON: parameters that come with a command, and rows that go back.

| type | taken | given |
|---|---|---|
| tinyint, smallint, int | int32, int64, double without a fraction | int32 |
| bigint, counter | the same | int64 |
| varint | the same, decimal, string | int64; beyond it a string |
| float, double | any number but decimal | double |
| decimal | int32, int64, decimal, string | decimal; with more than 34 digits a string |
| text, ascii | string | string |
| blob | binary data, string | binary data |
| boolean | boolean | boolean |
| timestamp | date, int64, string | date |
| date, time, inet, duration | string, and for date a date, for time an int64 | string |
| uuid, timeuuid | UUID, string | UUID |
| list, set, tuple | array | array |
| map | document | array of [key, value] |

Null is null; undefined is "unset", which leaves a column alone.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from bson.binary import Binary, UuidRepresentation
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.errors import BSONError
from bson.int64 import Int64

from docstore.bson import BINARY, NULL, STRING, UNDEFINED, Value, to_python
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.query.value.values import TYPE_NAMES
from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import UNSET, Bound
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import VARINT, CqlType, NativeType
from docstore.widecolumn.model.errors import MarshalError

_DAY_MS = 86_400_000
_INTEGERS = frozenset(("tinyint", "smallint", "int", "bigint", "counter"))
_TEXTS = frozenset(("text", "blob"))
"""Types of which a string is its UTF-8."""
_READ = frozenset(("varint", "decimal", "timestamp", "date", "time", "inet", "duration", "uuid", "timeuuid"))
"""Types of which a string is read as a constant is."""


def bound_of(kind: CqlType, value: Value, name: str) -> Bound:
    """Return the value for a marker of a type. CqlError, naming the marker, if it does not fit."""
    code, raw = value
    if code == NULL:
        return None
    if code == UNDEFINED:
        return UNSET
    try:
        if code == STRING and kind.name in _TEXTS:
            data = raw[4:-1]
        elif code == BINARY and kind.name in ("uuid", "timeuuid"):
            data = _uuid_of(raw)
        elif code == BINARY:
            data = kind.serialise(raw[5:])
        else:
            data = kind.serialise(_python(kind, to_python(value)))
        kind.validate(data)
    except MarshalError as error:
        raise invalid(str(error)) from None
    except (TypeError, ValueError, OverflowError, AttributeError, InvalidOperation):
        raise invalid(f'Invalid {TYPE_NAMES[code]} value for "{name}" of type {kind.name}') from None
    return data


def _uuid_of(raw: bytes) -> bytes:
    """Return the bytes of a UUID from 16 bytes of binary data. In subtype 3 the bytes of each half are reversed."""
    data, subtype = raw[5:], raw[4]
    if subtype == 3 and len(data) == 16:
        return Binary(data, 3).as_uuid(UuidRepresentation.JAVA_LEGACY).bytes
    return data


def _python(kind: CqlType, value: Any) -> Any:
    """Return the Python value that `serialise` takes. TypeError, ValueError."""
    if isinstance(kind, ListType | SetType):
        return [_python(kind.element, item) for item in _array(value)]
    if isinstance(kind, TupleType):
        items = [*_array(value), *[None] * len(kind.elements)][: max(len(kind.elements), len(value))]
        return [
            None if item is None else _python(element, item) for element, item in zip(kind.elements, items, strict=True)
        ]
    if isinstance(kind, MapType):
        pairs = value.items() if isinstance(value, dict) else _array(value)
        return {_python(kind.key, key): _python(kind.value, item) for key, item in pairs}
    assert isinstance(kind, NativeType), "there are no other types"
    return _native(kind, value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


def _native(kind: NativeType, value: Any) -> Any:
    if isinstance(value, str):
        return kind.read(value) if kind.name in _READ else value.encode() if kind.name == "blob" else value
    if isinstance(value, Decimal128):
        number = value.to_decimal()
        return _to_integer(number) if kind.name == "varint" else number
    if isinstance(value, DatetimeMS):
        millis = int(value)
        return millis if kind.name == "timestamp" else _date(kind, millis)
    if isinstance(value, Binary):
        return bytes(value)
    if isinstance(value, float) and (kind.name in _INTEGERS or kind.name == "varint"):
        return _to_integer(Decimal(value))
    return value


def _date(kind: NativeType, millis: int) -> int:
    if kind.name != "date":
        raise TypeError(kind.name)
    return millis // _DAY_MS


def _to_integer(number: Decimal) -> int:
    if not number.is_finite() or number != number.to_integral_value():
        raise ValueError(number)
    return int(number)


def shower_of(kind: CqlType) -> Callable[[bytes], Any]:
    """Return the function that turns a value's bytes into an object to encode as BSON."""
    if isinstance(kind, NativeType) and kind.name in _SHOWN:
        convert, parse = _SHOWN[kind.name], kind.from_bytes
        if kind.name in ("text", "ascii", "blob"):
            return lambda data: convert(parse(data))
        return lambda data: convert(parse(data)) if data else None
    if isinstance(kind, ListType | SetType):
        element, parts = shower_of(kind.element), kind.items
        return lambda data: [element(part) for part in parts(data)]
    if isinstance(kind, MapType):
        key, item, pairs = shower_of(kind.key), shower_of(kind.value), kind.pairs
        return lambda data: [[key(first), item(second)] for first, second in pairs(data)]
    if isinstance(kind, TupleType):
        showers, split = [shower_of(part) for part in kind.elements], kind.parts
        return lambda data: [
            None if part is None else show(part) for show, part in zip(showers, split(data), strict=True)
        ]
    return kind.format


def _same(value: Any) -> Any:
    return value


def _varint(number: int) -> Any:
    return Int64(number) if LONG_MIN <= number <= LONG_MAX else VARINT.show(number)


def _decimal(number: Decimal) -> Any:
    try:
        return Decimal128(number)
    except (BSONError, ValueError, ArithmeticError):
        return str(number)


def _uuid(value: UUID) -> Binary:
    return Binary.from_uuid(value)


_SHOWN: dict[str, Callable[[Any], Any]] = {
    "ascii": _same,
    "bigint": Int64,
    "blob": Binary,
    "boolean": _same,
    "counter": Int64,
    "decimal": _decimal,
    "double": _same,
    "float": _same,
    "int": _same,
    "smallint": _same,
    "text": _same,
    "timestamp": DatetimeMS,
    "timeuuid": _uuid,
    "tinyint": _same,
    "uuid": _uuid,
    "varint": _varint,
}
"""Types with a BSON form; values of others are shown as text."""
