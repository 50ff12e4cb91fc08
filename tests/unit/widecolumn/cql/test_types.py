"""Values of every type: their bytes, their order in keys, and how they are written."""

from __future__ import annotations

import math
from decimal import Decimal
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.plan.terms import Receiver, constant_bytes
from docstore.widecolumn.cql.statements import Constant, ConstantKind
from docstore.widecolumn.cql.types import text_forms
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import NATIVE_TYPES, CqlType
from docstore.widecolumn.model.errors import MarshalError
from tests.unit.widecolumn.cql.running import Cql

TIME_UUID = UUID("537fd200-8b94-11de-8000-010203040506")
RANDOM_UUID = UUID("00000000-0000-4000-8000-000000000000")

WRITTEN = [
    ("ascii", ConstantKind.STRING, "abc", b"abc"),
    ("text", ConstantKind.STRING, "\u00e9", b"\xc3\xa9"),
    ("blob", ConstantKind.HEX, "0xCafe", b"\xca\xfe"),
    ("bigint", ConstantKind.INTEGER, "-1", b"\xff" * 8),
    ("int", ConstantKind.INTEGER, "1", b"\0\0\0\1"),
    ("smallint", ConstantKind.INTEGER, "-2", b"\xff\xfe"),
    ("tinyint", ConstantKind.INTEGER, "127", b"\x7f"),
    ("boolean", ConstantKind.BOOLEAN, "TRUE", b"\1"),
    ("decimal", ConstantKind.FLOAT, "1.50", bytes.fromhex("000000020096")),
    ("decimal", ConstantKind.FLOAT, "-0.1", bytes.fromhex("00000001ff")),
    ("decimal", ConstantKind.INTEGER, "7", bytes.fromhex("0000000007")),
    ("double", ConstantKind.FLOAT, "-1.5", bytes.fromhex("bff8000000000000")),
    ("double", ConstantKind.INTEGER, "1", bytes.fromhex("3ff0000000000000")),
    ("float", ConstantKind.FLOAT, "NaN", bytes.fromhex("7fc00000")),
    ("timestamp", ConstantKind.STRING, "2017-08-31T00:00Z", bytes.fromhex("0000015E35965C00")),
    ("timestamp", ConstantKind.STRING, "2017-08-31 02:00:00.000+0200", bytes.fromhex("0000015E35965C00")),
    ("timestamp", ConstantKind.STRING, "2017-08-31", bytes.fromhex("0000015E35965C00")),
    ("timestamp", ConstantKind.INTEGER, "-1", b"\xff" * 8),
    ("uuid", ConstantKind.UUID, str(RANDOM_UUID), RANDOM_UUID.bytes),
    ("timeuuid", ConstantKind.UUID, str(TIME_UUID), TIME_UUID.bytes),
    ("varint", ConstantKind.INTEGER, "128", bytes.fromhex("0080")),
    ("varint", ConstantKind.INTEGER, "-128", bytes.fromhex("80")),
    ("varint", ConstantKind.INTEGER, "-1", bytes.fromhex("ff")),
    ("varint", ConstantKind.INTEGER, "0", bytes.fromhex("00")),
    ("inet", ConstantKind.STRING, "127.0.0.1", bytes((127, 0, 0, 1))),
    ("inet", ConstantKind.STRING, "::1", bytes(15) + b"\1"),
    ("date", ConstantKind.STRING, "1970-01-01", bytes.fromhex("80000000")),
    ("date", ConstantKind.STRING, "1969-12-31", bytes.fromhex("7fffffff")),
    ("date", ConstantKind.INTEGER, "2147483648", bytes.fromhex("80000000")),
    ("time", ConstantKind.STRING, "08:12:54.123456789", bytes.fromhex("00001AE5C31F8915")),
    ("duration", ConstantKind.DURATION, "1mo2d3ns", bytes.fromhex("020406")),
    ("duration", ConstantKind.DURATION, "P1M2D", bytes.fromhex("020400")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "text", "data"), WRITTEN)
def test_constants_have_the_bytes_of_the_protocol(name: str, kind: ConstantKind, text: str, data: bytes) -> None:
    native = NATIVE_TYPES[name]
    assert constant_bytes(Constant(kind, text), Receiver("v", native)) == data
    native.validate(data)


MISFITS = [
    ("int", ConstantKind.STRING, "x", 'Invalid STRING constant (x) for "v" of type int'),
    ("text", ConstantKind.INTEGER, "5", 'Invalid INTEGER constant (5) for "v" of type text'),
    ("boolean", ConstantKind.INTEGER, "1", 'Invalid INTEGER constant (1) for "v" of type boolean'),
    ("int", ConstantKind.FLOAT, "1.5", 'Invalid FLOAT constant (1.5) for "v" of type int'),
    ("int", ConstantKind.INTEGER, "2147483648", "Unable to make int from '2147483648'"),
    ("tinyint", ConstantKind.INTEGER, "128", "Unable to make tinyint from '128'"),
    ("timestamp", ConstantKind.STRING, "2017-02-30", "Unable to parse a date/time from '2017-02-30'"),
    ("ascii", ConstantKind.STRING, "\u00e9", "Unable to make ascii from '\u00e9'"),
    ("timeuuid", ConstantKind.UUID, "00000000-0000-4000-8000-000000000000",
     "Unable to make timeuuid from '00000000-0000-4000-8000-000000000000'"),
    ("time", ConstantKind.STRING, "24:00:00", "Unable to coerce '24:00:00' to a formatted time (long)"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "text", "message"), MISFITS)
def test_what_is_no_value_is_refused(name: str, kind: ConstantKind, text: str, message: str) -> None:
    with pytest.raises(CqlError) as caught:
        constant_bytes(Constant(kind, text), Receiver("v", NATIVE_TYPES[name]))
    assert caught.value.message == message


INVALID_BYTES = [
    ("int", b"\0\0\0", "Expected 4 or 0 byte int (3)"),
    ("bigint", b"\0\0\0\0", "Expected 8 or 0 byte long (4)"),
    ("uuid", bytes(15), "UUID should be 16 or 0 bytes (15)"),
    ("text", b"\xc0\x80", "String didn't validate."),
    ("ascii", b"\xc3", "Invalid byte for ascii: -61"),
    ("timeuuid", UUID("00000000-0000-4000-8000-000000000000").bytes, "Invalid version for TimeUUID type."),
]


@pytest.mark.parametrize(("name", "data", "message"), INVALID_BYTES)
def test_bound_bytes_are_validated(name: str, data: bytes, message: str) -> None:
    cql = Cql()
    cql.run(f"CREATE TABLE t (a int PRIMARY KEY, v {name})")
    assert cql.refusal("INSERT INTO t (a, v) VALUES (1, ?)", data).message == message


integers = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64, "timestamp": 64}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in integers.items()},
    "varint": st.integers(),
    "ascii": st.text(st.characters(max_codepoint=127)),
    "text": st.text(),
    "blob": st.binary(),
    "boolean": st.booleans(),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False),
    "uuid": st.uuids(),
    "timeuuid": st.uuids(version=1),
    "inet": st.ip_addresses(),
    "date": st.integers(-(1 << 31), (1 << 31) - 1),
    "time": st.integers(0, 86_400 * 10**9 - 1),
    "duration": st.tuples(st.integers(0, 1 << 30), st.integers(0, 1 << 30), st.integers(0, (1 << 63) - 1)),
}


def test_every_type_is_tried() -> None:
    assert VALUES.keys() | {"varchar", "counter"} == NATIVE_TYPES.keys()


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_values_come_back_from_their_bytes(name: str, data: st.DataObject) -> None:
    native = NATIVE_TYPES[name]
    value = data.draw(VALUES[name])
    packed = native.serialise(value)
    native.validate(packed)
    assert native.parse(packed) == value
    assert isinstance(native.format(packed), str)


@given(st.sampled_from(sorted(VALUES)), st.data())
def test_keys_lie_in_the_order_of_their_values(name: str, data: st.DataObject) -> None:
    comparator = NATIVE_TYPES[name].comparator
    if comparator is None or name in ("uuid", "timeuuid", "inet"):
        return
    first, second = data.draw(VALUES[name]), data.draw(VALUES[name])
    if isinstance(first, str):
        first, second = first.encode(), second.encode()
    packed = (
        [NATIVE_TYPES[name].serialise(value) for value in (first, second)]
        if not isinstance(first, bytes)
        else [
            first,
            second,
        ]
    )
    order = comparator.compare(packed[0], packed[1])
    if first == 0 == second and isinstance(first, float):
        assert order == math.copysign(1, first) - math.copysign(1, second) or abs(order) == 1
    else:
        assert (order > 0) - (order < 0) == (first > second) - (first < second)


@given(st.integers(-(1 << 45), 1 << 45))
def test_dates_come_back_from_their_written_form(millis: int) -> None:
    assert text_forms.parse_timestamp(text_forms.format_timestamp(millis)) == millis
    days = millis // 86_400_000
    assert text_forms.parse_date(text_forms.format_date(days)) == days


@given(VALUES["duration"], st.booleans())
def test_durations_come_back_from_their_written_form(duration: text_forms.Duration, negative: bool) -> None:
    if duration == (0, 0, 0):
        return
    signed = tuple(-part for part in duration) if negative else duration
    assert text_forms.parse_duration(text_forms.format_duration(signed)) == signed  # type: ignore[arg-type]


TEXT, INT = NATIVE_TYPES["text"], NATIVE_TYPES["int"]
COLLECTIONS: list[tuple[CqlType, Any, str]] = [
    (ListType(INT), [3, 1, 3], "[3, 1, 3]"),
    (SetType(TEXT), ["a", "it's"], "{'a', 'it''s'}"),
    (MapType(TEXT, INT), {"a": 1, "b": 2}, "{'a': 1, 'b': 2}"),
    (TupleType((INT, TEXT)), (1, None), "(1, null)"),
    (ListType(SetType(INT)), [[1, 2], []], "[{1, 2}, {}]"),
]


@pytest.mark.parametrize(("kind", "value", "text"), COLLECTIONS, ids=[kind.name for kind, _, _ in COLLECTIONS])
def test_collections_are_one_value(kind: CqlType, value: Any, text: str) -> None:
    packed = kind.serialise(value)
    kind.validate(packed)
    assert kind.parse(packed) == value
    assert kind.format(packed) == text
    with pytest.raises(MarshalError):
        kind.validate(packed + b"x")


def test_sets_and_maps_are_kept_in_order() -> None:
    assert SetType(INT).parse(SetType(INT).serialise([3, -1, 3])) == [-1, 3]
    assert list(MapType(INT, INT).parse(MapType(INT, INT).serialise({2: 0, 1: 0}))) == [1, 2]


def test_written_forms_are_those_of_statements() -> None:
    shown = {
        "decimal": (Decimal("1E+3"), "1000"),
        "double": (math.inf, "Infinity"),
        "blob": (b"\xca\xfe", "0xcafe"),
        "boolean": (True, "true"),
        "inet": (ip_address("::1"), "::1"),
        "duration": ((14, 3, 3661 * 10**9), "1y2mo3d1h1m1s"),
        "time": (1, "00:00:00.000000001"),
    }
    for name, (value, text) in shown.items():
        native = NATIVE_TYPES[name]
        assert native.format(native.serialise(value)) == text
