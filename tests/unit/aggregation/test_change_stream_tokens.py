"""Resume tokens, byte for byte as a real mongod 6.0.5 gave them."""

from __future__ import annotations

import datetime
import struct
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.code import Code as Javascript
from bson.int64 import Int64
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from docstore.aggregation.change_stream.token import EventToken, ddl_identifier, high_water_mark, parse_token
from docstore.bson import from_python
from docstore.errors import CommandError

UUID = bytes.fromhex("DCECCDB62CE94BF8B4CBE724372D7635")
TIME = 0x6B065DD7 << 32
LONG, DOUBLE = b"\x81\x80", b"@"


def event(timestamp: int, index: int, uuid: bytes | None, identifier: Any = None) -> EventToken:
    return EventToken(TIME | timestamp, index, uuid, None if identifier is None else from_python(identifier))


def data(raw: bytes) -> str:
    text: str = bson.decode(raw)["_data"]
    return text


@pytest.mark.parametrize(
    ("identity", "text", "types"),
    [
        (0, "1E5F696400290004", None),
        (1, "1E5F6964002B020004", None),
        (-1, "1E5F69640027FD0004", None),
        (127, "1E5F6964002BFE0004", None),
        (128, "1E5F6964002C01000004", None),
        (-255, "1E5F69640026FE010004", None),
        (65536, "1E5F6964002D0200000004", None),
        (-(2**31), "1E5F69640023FEFFFFFFFF0004", None),
        (Int64(5), "1E5F6964002B0A0004", LONG),
        (Int64(2**40), "1E5F696400300200000000000004", LONG),
        (Int64(-(2**62)), "1E5F696400207FFFFFFFFFFFFFFF0004", LONG),
        (1.5, "1E5F6964002B03800000000000000004", DOUBLE),
        (-1.5, "1E5F69640027FC7FFFFFFFFFFFFF0004", DOUBLE),
        (1000000.125, "1E5F6964002D1E848120000000000004", DOUBLE),
        (0.5, "1E5F6964002AFF800000000000000004", DOUBLE),
        (-0.5, "1E5F69640028007FFFFFFFFFFFFF0004", DOUBLE),
        (0.1, "1E5F6964002AFEE66666666666680004", DOUBLE),
        (1e-300, "1E5F6964002A634ADC3F85F1E6B20004", DOUBLE),
        (2.0**52, "1E5F69640031200000000000000004", DOUBLE),
        (2.0**60, "1E5F6964003220000000000000000004", DOUBLE),
        (1e300, "1E5F696400337C6FC8791000EB380004", DOUBLE),
        (-1e300, "1E5F6964001F83903786EFFF14C70004", DOUBLE),
        (float("nan"), "1E5F6964001E0004", DOUBLE),
        (float("inf"), "1E5F69640033FFFFFFFFFFFFFFFF0004", DOUBLE),
        (float("-inf"), "1E5F6964001F00000000000000000004", DOUBLE),
        (3.14159, "1E5F6964002B07243F3E0370CDC00004", DOUBLE),
        (255.75, "1E5F6964002C01FFC000000000000004", DOUBLE),
        ("a\0b", "3C5F6964003C6100FF62000004", None),
        (Javascript("x"), "A05F696400A078000004", None),
        ({"a": {"b": Int64(1)}}, "465F69640046466100461E62002B0200000004", LONG),
        (
            {"a": 1.5, "b": [1, 2.5, "x"]},
            "465F696400461E61002B0380000000000000506200502B022B05800000000000003C780000000004",
            b"\x82@\x04",
        ),
        (ObjectId("6b06a867c742f59e8dc10e79"), "645F696400646B06A867C742F59E8DC10E790004", None),
        (None, "145F696400140004", None),
        (True, "6E5F6964006F0004", None),
        (b"abc", "5A5F6964005A03006162630004", None),
        (Binary(b"abc", 2), "5A5F6964005A0702030000006162630004", None),
        (datetime.datetime(1960, 1, 1), "785F696400787FFFFFB683A134000004", None),
        (Timestamp(5, 6), "825F6964008200000005000000060004", None),
        (MinKey(), "0A5F6964000A0004", None),
        ({"r": Regex("a.b", "i")}, "465F696400468C72008C612E62006900000004", None),
        (Javascript("f", {"a": 1}), "AA5F696400AA66001E61002B02000004", None),
        (
            {"x": Int64(1), "y": 2.5, "z": Int64(3), "w": 4.5, "v": 5.5, "t": Int64(9)},
            "465F696400461E78002B021E79002B05800000000000001E7A002B061E77002B09800000000000001E76002B0B80000000000000"
            "1E74002B12000004",
            b"\x83\x80Y\x02",
        ),
    ],
)
def test_what_identifies_a_document_is_written_as_there(identity: Any, text: str, types: bytes | None) -> None:
    made = bson.decode(event(1, 0, UUID, {"_id": identity}).raw)
    assert made["_data"] == f"826B065DD7000000012B022C0100296E5A1004{UUID.hex().upper()}46{text}"
    assert made.get("_typeBits") == types


def test_tokens_of_events_of_each_kind() -> None:
    uuid = UUID.hex().upper()
    assert data(high_water_mark(TIME | 5)) == "826B065DD7000000052B0229296E04"
    assert data(event(42, 0, UUID).raw) == f"826B065DD70000002A2B022C0100296E5A1004{uuid}04"
    assert data(event(42, 0, UUID).invalidation_raw) == f"826B065DD70000002A2B022C0100296F5A1004{uuid}04"
    assert data(event(48, 0, None).raw) == "826B065DD7000000302B022C0100296E04"
    assert data(event(48, 0, None).invalidation_raw) == "826B065DD7000000302B022C0100296F04"
    third = event(13, 3, UUID, {"_id": "t1"})
    assert data(third.raw) == f"826B065DD70000000D2B022C01002B066E5A1004{uuid}463C5F6964003C7431000004"
    made = EventToken(TIME | 32, 0, UUID, ddl_identifier("modify", bson.encode({"validationLevel": "off"})))
    assert data(made.raw) == (
        f"826B065DD7000000202B022C0100296E5A1004{uuid}463C6F7065726174696F6E54797065003C6D6F6469667900466F7065726174"
        "696F6E4465736372697074696F6E00463C76616C69646174696F6E4C6576656C003C6F666600000004"
    )


def test_a_token_says_what_it_was_made_of() -> None:
    token = parse_token(event(13, 3, UUID, {"_id": 1}).raw)
    assert (token.timestamp, token.index, token.uuid, token.invalidates) == (TIME | 13, 3, UUID, False)
    assert not token.is_mark
    assert parse_token(event(13, 3, UUID).invalidation_raw).invalidates
    assert parse_token(high_water_mark(7)).is_mark


def test_tokens_are_ordered_as_events_are() -> None:
    made = [
        parse_token(high_water_mark(TIME | 4)).key,
        event(4, 0, UUID, {"_id": 9}).key,
        event(4, 1, UUID, {"_id": 1}).key,
        event(4, 1, UUID, {"_id": 2}).key,
        event(4, 200, UUID, {"_id": 1}).key,
        event(5, 0, UUID).key,
        event(5, 0, UUID).invalidation_key,
        event(5, 1, None).key,
    ]
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ({}, 40647),
        ({"_data": 1}, 40647),
        ({"_data": "zz"}, 9),
        ({"_data": ""}, 40649),
        ({"_data": "82"}, 15),
        ({"_data": "826B065DCD000000022B0429296E04"}, 6189500),
    ],
)
def test_what_is_no_token_is_refused(token: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        parse_token(bson.encode(token))
    assert refused.value.code == code


def test_lower_case_and_a_missing_end_are_accepted() -> None:
    raw = event(1, 0, UUID, {"_id": 1}).raw
    text = data(raw)
    for other in (text.lower(), text[:-2]):
        assert parse_token(bson.encode({"_data": other})).key == parse_token(raw).key


def test_any_prefix_of_a_token_is_read_or_refused() -> None:
    text = data(event(1, 200, UUID, {"_id": 1}).raw)
    for length in range(0, len(text), 2):
        try:
            parse_token(bson.encode({"_data": text[:length]}))
        except CommandError:
            continue
        except (IndexError, struct.error) as error:
            raise AssertionError(text[:length]) from error
