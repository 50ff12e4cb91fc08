"""Names compare as their encodings do, and encodings stand one behind another without running together."""

from __future__ import annotations

import struct
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.widecolumn.model import comparators as types
from docstore.widecolumn.model.comparator_registry import Registry
from docstore.widecolumn.model.comparators import Comparator, Reversed, minimal_integer
from docstore.widecolumn.model.errors import MarshalError


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def varint(number: int) -> bytes:
    return minimal_integer(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True))


def texts(*names: str) -> list[bytes]:
    return [name.encode() for name in names]


def uuids(*names: str) -> list[bytes]:
    return [uuid.UUID(name).bytes for name in names]


def hexes(*names: str) -> list[bytes]:
    return [bytes.fromhex(name) for name in names]


ASCENDING = [
    (types.LONG, [long(3), long(123), long(976), long(832416)]),
    (types.UTF8, texts("123", "3", "832416", "976")),
    (types.LONG, [b"", long(-(2**63)), long(-1), long(0), long(1), long(2**63 - 1)]),
    (types.BYTES, hexes("00", "0000", "00FF", "01", "7F", "80", "FF", "FF00")),
    (types.UTF8, texts("", "Z", "a", "aa", "b", "\u00e9", "\uffff", "\U00010000")),
    (
        types.LEXICAL_UUID,
        uuids(
            "80000000-0000-4000-8000-000000000000",
            "ffffffff-0000-4000-8000-000000000000",
            "00000000-0000-4000-8000-000000000000",
            "7fffffff-0000-4000-8000-000000000000",
        ),
    ),
    (types.UUID, uuids("ffffffff-ffff-1fff-bfff-ffffffffffff", "00000000-0000-4000-8000-000000000000")),
    (
        types.TIME_UUID,
        uuids(
            "edecf200-8a7c-11de-8000-010203040506",
            "ff73ee00-8b91-11de-8000-010203040506",
            "537fd200-8b94-11de-8000-010203040506",
        ),
    ),
    (
        types.TIME_UUID,
        uuids(
            "537fd200-8b94-11de-8000-010203040506",
            "537fd200-8b94-11de-8000-0102030405ff",
            "537fd200-8b94-11de-8001-000000000000",
        ),
    ),
    (
        types.TIME_UUID,
        uuids("537fd200-8b94-11de-807f-000000000000", "537fd200-8b94-11de-8080-000000000000"),
    ),
    (
        types.SIGNED_TIME_UUID,
        uuids("537fd200-8b94-11de-8080-000000000000", "537fd200-8b94-11de-807f-000000000000"),
    ),
    (types.INTEGER, [b"", *map(varint, (-(2**2000), -129, -128, -1, 0, 127, 128, 2**2000))]),
    (
        types.DOUBLE,
        [struct.pack(">d", number) for number in (-float("inf"), -1.5, -0.0, 0.0, 1.5, float("inf"), float("nan"))],
    ),
    (types.FLOAT, [struct.pack(">f", number) for number in (-1.5, -0.0, 0.0, 1.5, float("nan"))]),
    (types.INT32, [b"", *hexes("80000000", "FFFFFFFF", "00000000", "7FFFFFFF")]),
    (types.BOOLEAN, [b"\0", b"\1"]),
]


@pytest.mark.parametrize(("comparator", "names"), ASCENDING)
def test_names_stand_in_the_published_order(comparator: Comparator, names: list[bytes]) -> None:
    assert sorted(names, key=comparator.encode) == names
    assert sorted(names, key=Reversed(comparator).encode) == names[::-1]
    for first, second in pairwise(names):
        assert comparator.compare(first, second) < 0 < comparator.compare(second, first)


@pytest.mark.parametrize(
    ("comparator", "name", "encoded"),
    [
        (types.LONG, long(0), "018000000000000000"),
        (types.LONG, long(-1), "017FFFFFFFFFFFFFFF"),
        (
            types.TIME_UUID,
            uuids("537fd200-8b94-11de-8000-010203040506")[0],
            "01 01de 8b94 537fd200 8000 010203040506",
        ),
        (types.INTEGER, varint(128), "820080"),
        (types.INTEGER, varint(-129), "7EFF7F"),
    ],
)
def test_encodings_are_the_published_ones(comparator: Comparator, name: bytes, encoded: str) -> None:
    assert comparator.encode(name) == bytes.fromhex(encoded)


@pytest.mark.parametrize(
    ("comparator", "name", "why"),
    [
        (types.LONG, b"1234", "Expected 8 or 0 byte long (4)"),
        (types.LEXICAL_UUID, bytes(15), "UUID should be 16 or 0 bytes (15)"),
        (types.TIME_UUID, bytes(15), "TimeUUID should be 16 or 0 bytes (15)"),
        (types.TIME_UUID, uuid.UUID(int=1, version=4).bytes, "Invalid version for TimeUUID type."),
        (types.ASCII, b"a\xc3", "Invalid byte for ascii: -61"),
        (types.UTF8, b"\xc0\x80", "String didn't validate."),
        (types.UTF8, b"\xed\xa0\x80", "String didn't validate."),
    ],
)
def test_what_is_no_name_is_refused_with_its_reason(comparator: Comparator, name: bytes, why: str) -> None:
    with pytest.raises(MarshalError) as refused:
        comparator.validate(name)
    assert str(refused.value) == why


def time_uuid(raw: bytes) -> bytes:
    return raw[:6] + bytes((raw[6] & 0x0F | 0x10,)) + raw[7:]


sixteen = st.binary(min_size=16, max_size=16)
NAMES: list[tuple[Comparator, st.SearchStrategy[bytes]]] = [
    (types.BYTES, st.binary(max_size=4)),
    (types.BYTES, st.lists(st.sampled_from((0, 1, 254, 255)), max_size=5).map(bytes)),
    (types.UTF8, st.text(max_size=4).map(str.encode)),
    (types.LONG, st.one_of(st.just(b""), st.integers(-(2**63), 2**63 - 1).map(long))),
    (types.LEXICAL_UUID, st.one_of(st.just(b""), sixteen)),
    (types.TIME_UUID, sixteen.map(time_uuid)),
    (types.SIGNED_TIME_UUID, sixteen.map(time_uuid)),
    (types.UUID, st.one_of(st.just(b""), sixteen, sixteen.map(time_uuid))),
    (types.INTEGER, st.integers().map(varint)),
    (types.DOUBLE, st.floats(allow_nan=False).map(struct.Struct(">d").pack)),
]


@pytest.mark.parametrize(("comparator", "names"), NAMES)
def test_an_encoding_is_decoded_wherever_it_stands(comparator: Comparator, names: st.SearchStrategy[bytes]) -> None:
    @given(names, names, st.binary(max_size=3))
    def check(name: bytes, other: bytes, before: bytes) -> None:
        for kind in (comparator, Reversed(comparator)):
            first, second = kind.encode(name), kind.encode(other)
            assert kind.decode(before + first + second, len(before)) == (name, len(before) + len(first))
            assert (first == second) == (name == other)
            assert first == second or not (first.startswith(second) or second.startswith(first))

    check()


@given(st.lists(st.integers()))
def test_whole_numbers_of_any_width_are_ordered_as_numbers(numbers: list[int]) -> None:
    assert sorted(map(varint, numbers), key=types.INTEGER.encode) == list(map(varint, sorted(numbers)))


@given(st.lists(st.floats(allow_nan=False)))
def test_floating_point_names_are_ordered_as_numbers(numbers: list[float]) -> None:
    packed = sorted((struct.pack(">d", number) for number in numbers), key=types.DOUBLE.encode)
    assert [struct.unpack(">d", name)[0] for name in packed] == sorted(numbers)


class Shortest:
    """A class of an operator's own: names by length."""

    name = "org.example.Shortest"

    def validate(self, value: bytes) -> None:
        if len(value) > 9:
            raise MarshalError("too long")

    def compare(self, a: bytes, b: bytes) -> int:
        return len(a) - len(b)


def test_names_of_classes_are_resolved() -> None:
    registry = Registry([Shortest()])
    assert registry.find("LongType") is registry.find("org.apache.cassandra.db.marshal.LongType")
    assert registry.find("ReversedType(LongType)").encode(long(1)) > registry.find("ReversedType(LongType)").encode(
        long(2)
    )
    assert not registry.find("org.example.Shortest").ordered
    with pytest.raises(Exception, match="Unable to find comparator class 'Nope'"):
        registry.find("Nope")
