"""Values between BSON and CQL."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from bson.binary import Binary
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.bson import UNDEFINED, from_python
from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.plan.bindings import UNSET
from docstore.widecolumn.cql.types.bson_forms import bound_of, shower_of
from docstore.widecolumn.cql.types.collections import ListType, MapType, TupleType
from docstore.widecolumn.cql.types.native import NATIVE_TYPES, CqlType

TIME_UUID = UUID("537fd200-8b94-11de-8000-010203040506")
INT, TEXT = NATIVE_TYPES["int"], NATIVE_TYPES["text"]

BOTH_WAYS: list[tuple[CqlType | str, Any, Any]] = [
    ("int", 5, 5),
    ("int", Int64(5), 5),
    ("int", 5.0, 5),
    ("bigint", 5, Int64(5)),
    ("varint", "123456789012345678901234567890", "123456789012345678901234567890"),
    ("varint", Decimal128("7"), Int64(7)),
    ("double", 1, 1.0),
    ("float", 1.5, 1.5),
    ("decimal", Decimal128("1.50"), Decimal128("1.50")),
    ("decimal", 3, Decimal128("3")),
    ("decimal", "1.000000000000000000000000000000000000001", "1.000000000000000000000000000000000000001"),
    ("text", "a\0b", "a\0b"),
    ("text", "", ""),
    ("blob", Binary(b"\0\1", 0), Binary(b"\0\1", 0)),
    ("blob", "ab", Binary(b"ab", 0)),
    ("boolean", True, True),
    ("timestamp", DatetimeMS(-5), DatetimeMS(-5)),
    ("timestamp", "1970-01-01", DatetimeMS(0)),
    ("timestamp", Int64(9), DatetimeMS(9)),
    ("date", "2017-08-31", "2017-08-31"),
    ("date", DatetimeMS(-1), "1969-12-31"),
    ("time", "08:12:54", "08:12:54.000000000"),
    ("inet", "::1", "::1"),
    ("duration", "1mo", "1mo"),
    ("timeuuid", Binary.from_uuid(TIME_UUID), Binary.from_uuid(TIME_UUID)),
    ("uuid", str(TIME_UUID), Binary.from_uuid(TIME_UUID)),
    ("timeuuid", Binary(TIME_UUID.bytes[7::-1] + TIME_UUID.bytes[:7:-1], 3), Binary.from_uuid(TIME_UUID)),
    (ListType(INT), [3, 1], [3, 1]),
    (MapType(TEXT, INT), {"b": 1, "a": 2}, [["a", 2], ["b", 1]]),
    (TupleType((INT, TEXT)), [1], [1, None]),
]


@pytest.mark.parametrize(("kind", "given", "shown"), BOTH_WAYS)
def test_values_go_in_and_come_back(kind: CqlType | str, given: Any, shown: Any) -> None:
    named = NATIVE_TYPES[kind] if isinstance(kind, str) else kind
    data = bound_of(named, from_python(given), "v")
    assert isinstance(data, bytes)
    result = shower_of(named)(data)
    assert result == shown
    assert type(result) is type(shown)


REFUSED = [
    ("int", "x", 'Invalid string value for "v" of type int'),
    ("int", 1.5, 'Invalid double value for "v" of type int'),
    ("int", Int64(1 << 40), 'Invalid long value for "v" of type int'),
    ("int", True, 'Invalid bool value for "v" of type int'),
    ("text", 5, 'Invalid int value for "v" of type text'),
    ("boolean", 1, 'Invalid int value for "v" of type boolean'),
    ("timestamp", True, 'Invalid bool value for "v" of type timestamp'),
    ("time", DatetimeMS(0), 'Invalid date value for "v" of type time'),
    ("decimal", 1.5, 'Invalid double value for "v" of type decimal'),
    ("double", "1", 'Invalid string value for "v" of type double'),
    ("timeuuid", Binary(bytes(15), 0), "TimeUUID should be 16 or 0 bytes (15)"),
    ("ascii", "\u00e9", 'Invalid string value for "v" of type ascii'),
]


@pytest.mark.parametrize(("name", "given", "message"), REFUSED)
def test_what_is_no_value_is_refused(name: str, given: Any, message: str) -> None:
    with pytest.raises(CqlError) as caught:
        bound_of(NATIVE_TYPES[name], from_python(given), "v")
    assert caught.value.message == message


def test_null_and_undefined_are_null_and_unset() -> None:
    assert bound_of(INT, from_python(None), "v") is None
    assert bound_of(INT, (UNDEFINED, b""), "v") is UNSET


def test_a_decimal_beyond_34_digits_comes_as_text() -> None:
    wide = NATIVE_TYPES["decimal"].serialise(Decimal("9" * 40))
    assert shower_of(NATIVE_TYPES["decimal"])(wide) == "9" * 40
