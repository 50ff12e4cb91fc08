"""From index entries back to documents: what comes back is, byte for byte, what the keys were made of."""

from __future__ import annotations

import struct
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from tests.unit.kernel.kernels import Kernel

PREFIX = b"\0\0\0\x09"
RID = b"\0\0\0\0\0\0\0\x05"
SCALARS: list[Any] = [
    0, 1, -1, 2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 2**53 - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63),
    Int64(0), Int64(1), Int64(-7), Int64(2**31 - 1), 1234567890123456789, -1234567890123456789, 10**18,
    0.0, -0.0, 1.0, -2.0, 0.5, -0.5, 1e15, 2.0**53, 2.0**63, -(2.0**63), 1e300, -1e-300, float("inf"), float("-inf"),
    float("nan"), "", "a", "a\0b\1c", "é", None, True, False, bson.MinKey(), bson.MaxKey(), bson.Code("x"),
    bson.ObjectId(b"0123456789ab"), bson.Timestamp(5, 7), bson.Binary(b"xy", 0), bson.Binary(b"", 5),
    bson.Regex("a\1", "im"), bson.DatetimeMS(-5), bson.DatetimeMS(2**50),
]  # fmt: skip


def raw_of(code: int, value: bytes) -> bytes:
    """{a: value} of a type that the driver does not write."""
    body = bytes([code]) + b"a\0" + value
    return struct.pack("<i", len(body) + 5) + body + b"\0"


RARE = [
    raw_of(0x0E, b"\2\0\0\0x\0"),
    raw_of(0x06, b""),
    raw_of(0x0C, b"\2\0\0\0n\0" + b"i" * 12),
    raw_of(0x05, struct.pack("<i", 6) + b"\2" + struct.pack("<i", 2) + b"ok"),
]


def covered(kernel: Kernel, fields: list[tuple[str, int]], raw: bytes, *, is_id: bool = False) -> list[bytes]:
    keys, multikey, marks = kernel.KeyPattern(fields).marked_keys(raw)
    assert not multikey
    entry = (PREFIX + keys[0], marks + RID) if is_id else (PREFIX + keys[0] + RID, marks)
    examined = kernel.scan.fetch.Examined()
    records = {b"c" + RID: b"the document"}
    covering = kernel.scan.covered.Covering(iter([entry]), fields, len(PREFIX), is_id, records.get, b"c", examined)
    found = list(covering)
    assert (examined.keys, examined.documents) == (1, int(found == [b"the document"]))
    return found


@pytest.mark.parametrize("direction", [1, -1])
def test_values_come_back_as_they_were(kernel: Kernel, direction: int) -> None:
    for raw in [bson.encode({"a": value}) for value in SCALARS] + RARE:
        assert covered(kernel, [("a", direction)], raw) == [raw], raw


@pytest.mark.parametrize("seed", range(5))
def test_fields_come_in_the_order_of_the_index(kernel: Kernel, seed: int) -> None:
    picked = [SCALARS[(7 * place + 13 * seed) % len(SCALARS)] for place in range(6)]
    names = ["a", "b", "c", "d", "e", "f"]
    raw = bson.encode(dict(reversed(list(zip(names, picked, strict=True)))))

    fields = [(name, 1 - 2 * (place % 2)) for place, name in enumerate(names)]

    assert covered(kernel, fields, raw) == [bson.encode(dict(zip(names, picked, strict=True)))]


def test_a_field_that_is_missing_is_not_null(kernel: Kernel) -> None:
    fields = [("a", 1), ("b", -1), ("c", 1)]
    assert covered(kernel, fields, bson.encode({"b": None})) == [bson.encode({"b": None})]
    assert covered(kernel, fields, bson.encode({"c": 1.0})) == [bson.encode({"c": 1.0})]


def test_nested_fields_stand_in_their_documents(kernel: Kernel) -> None:
    raw = bson.encode({"a": {"c": 2.0, "b": 1}, "d": 3})

    assert covered(kernel, [("a.b", 1), ("d", 1), ("a.c", -1)], raw) == [bson.encode({"a": {"b": 1, "c": 2.0}, "d": 3})]


@pytest.mark.parametrize(
    "thing",
    [{"a": {"b": 1}}, {"a": bson.Decimal128("1.0")}, {"a": bson.Code("x", {})}],
)
def test_what_a_key_does_not_hold_is_fetched(kernel: Kernel, thing: dict[str, Any]) -> None:
    assert covered(kernel, [("a", 1)], bson.encode(thing)) == [b"the document"]


def test_a_field_missing_below_the_top_level_is_fetched(kernel: Kernel) -> None:
    for thing in ({}, {"a": 1}, {"a": {}}):
        assert covered(kernel, [("a.b", 1)], bson.encode(thing)) == [b"the document"]


def test_entries_of_the_identity_hold_their_record_ids_behind_the_marks(kernel: Kernel) -> None:
    for identity in (1, 1.0, Int64(1), "x"):
        raw = bson.encode({"_id": identity})
        assert covered(kernel, [("_id", 1)], raw, is_id=True) == [raw]
        assert kernel.scan.covered.identity_marks(raw) == kernel.KeyPattern([("_id", 1)]).marked_keys(raw)[2]


def test_of_a_document_with_arrays_the_other_fields_are_told(kernel: Kernel) -> None:
    raw = bson.encode({"a": [5, 7], "b": 2.0})
    keys, places, marks = kernel.KeyPattern([("a", 1), ("b", 1)]).marked_keys(raw)
    assert (len(keys), places) == (2, 1)
    entries = iter([(PREFIX + key + RID, marks) for key in keys])
    examined = kernel.scan.fetch.Examined()
    fields = [("a", 1), ("b", 1)]

    found = list(
        kernel.scan.covered.Covering(entries, fields, len(PREFIX), False, lambda _: None, b"c", examined, set())
    )

    assert found == [bson.encode({"a": 5, "b": 2.0})]


def test_arrays_within_documents_leave_an_entry_that_is_not_read_back(kernel: Kernel) -> None:
    raw = bson.encode({"a": [{"b": 1}], "c": 2.0})

    assert kernel.KeyPattern([("a.b", 1), ("c", 1)]).marked_keys(raw)[2] == kernel.scan.covered.OPAQUE


def test_usual_values_need_no_marks(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("a", 1), ("b", 1)])
    for thing in ({"a": 1, "b": "x"}, {"a": 0.5, "b": bson.ObjectId()}, {"a": None, "b": True}, {"a": [1.0], "b": 2}):
        assert pattern.marked_keys(bson.encode(thing))[2] == b""
