"""Oplog entries and undo records as the kernel puts them together, taken apart by others."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.collection.oplog.undo import NOTHING_COUNTED, undo_counters, undo_keys
from docstore.storage import Family
from tests.unit.kernel.kernels import Kernel

LARGE = b"x" * 100_000


def fields(**values: Any) -> bytes:
    """Encoded elements."""
    return bson.encode(values)[4:-1]


@pytest.mark.parametrize("term", [-1, 0, 7, 2**40])
@pytest.mark.parametrize("size", [0, 5000])
def test_an_entry_has_its_fields_in_the_order_of_the_format(kernel: Kernel, term: int, size: int) -> None:
    o = {"_id": 1, "a": "x" * size}
    stamp = (1_700_000_000 << 32) + 3

    entry = kernel.log.entries.build_entry(
        fields(op="i", ns="a.b"), bson.encode(o), fields(o2={"_id": 1}), stamp, term, 1_700_000_000_123,
        fields(prevOpTime={"ts": Timestamp(1, 2), "t": Int64(-1)}),
    )  # fmt: skip

    assert list(bson.decode(entry).items()) == [
        ("op", "i"), ("ns", "a.b"), ("o", o), ("o2", {"_id": 1}), ("ts", Timestamp(1_700_000_000, 3)), ("t", term),
        ("v", 2), ("wall", bson.DatetimeMS(1_700_000_000_123).as_datetime().replace(tzinfo=None)),
        ("prevOpTime", {"ts": Timestamp(1, 2), "t": -1}),
    ]  # fmt: skip


@pytest.mark.parametrize("image", [False, True])
def test_the_entry_of_a_statement_names_its_session_and_the_one_before(kernel: Kernel, image: bool) -> None:
    lsid = bytes(range(48))
    o = bson.encode({"_id": 1, "a": 2})
    more = {"preImageOpTime": {"ts": Timestamp(3, 4), "t": Int64(1)}} if image else {}

    entry = kernel.log.entries.build_statement(
        lsid, 7, fields(op="u", ns="a.b"), o, fields(o2={"_id": 1}), fields(stmtId=3), (5 << 32) + 6, 2,
        1_700_000_000_123, 0, -1, fields(**more),
    )  # fmt: skip

    session = {"id": bson.Binary(lsid[:16], 4), "uid": bson.Binary(lsid[16:], 0)}
    assert entry == bson.encode(
        {
            "lsid": session, "txnNumber": Int64(7), "op": "u", "ns": "a.b", "o": bson.decode(o), "o2": {"_id": 1},
            "stmtId": 3, "ts": Timestamp(5, 6), "t": Int64(2), "v": Int64(2),
            "wall": bson.DatetimeMS(1_700_000_000_123), "prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}, **more,
        }
    )  # fmt: skip
    assert kernel.log.entries.session_head(lsid, 7) == fields(lsid=session, txnNumber=Int64(7))


def test_an_optime_is_a_field(kernel: Kernel) -> None:
    for term in (-1, 3):
        made = kernel.log.entries.optime_field(b"prevOpTime", (5 << 32) + 6, term)
        assert made == fields(prevOpTime={"ts": Timestamp(5, 6), "t": Int64(term)})


@pytest.mark.parametrize("identity", [1, "x", bson.ObjectId(), {"a": [1, {}]}, b"z", None, "y" * 9000])
def test_the_identity_alone_is_a_document(kernel: Kernel, identity: Any) -> None:
    raw = bson.encode({"a": 1, "_id": identity, "b": {"_id": 2}})

    assert kernel.log.entries.id_document(raw) == bson.encode({"_id": identity})
    assert kernel.log.entries.id_document(raw, b"o2") == fields(o2={"_id": identity})


def test_undo_records_say_what_stood_there(kernel: Kernel) -> None:
    entries = kernel.log.entries
    record = entries.undo_record(
        (7, -1, -(2**33)),
        [
            entries.undo_key(Family.RECORDS, b"key", LARGE),
            entries.undo_key(Family.META, b"", b""),
            entries.undo_absent(Family.INDEXES, (b"one", b"another")),
            entries.undo_absent(Family.INDEXES, ()),
            entries.undo_marked(Family.INDEXES, {b"old": b"mark", b"older": b""}.items()),
            entries.undo_key(Family.WIDE, LARGE, None),
            entries.undo_document(Family.RECORDS, b"rid", b"doc", Family.INDEXES, {b"gone": b"m"}, [b"made", b"too"]),
            entries.undo_document(Family.RECORDS, b"new", None, Family.INDEXES, {}, (b"id",)),
        ],
    )

    assert list(undo_counters(record)) == [(7, -1, -(2**33))]
    assert entries.undo_record((0, 0, 0), []) == NOTHING_COUNTED
    assert list(undo_keys(record)) == [
        (Family.RECORDS, b"key", LARGE),
        (Family.META, b"", b""),
        (Family.INDEXES, b"one", None),
        (Family.INDEXES, b"another", None),
        (Family.INDEXES, b"old", b"mark"),
        (Family.INDEXES, b"older", b""),
        (Family.WIDE, LARGE, None),
        (Family.RECORDS, b"rid", b"doc"),
        (Family.INDEXES, b"gone", b"m"),
        (Family.INDEXES, b"made", None),
        (Family.INDEXES, b"too", None),
        (Family.RECORDS, b"new", None),
        (Family.INDEXES, b"id", None),
    ]
