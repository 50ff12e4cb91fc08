"""Entries and tokens as the kernel reads and makes them, beside what makes them value by value, on both kernels."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.aggregation.change_stream.token import EventToken
from docstore.bson import elements
from docstore.bson.walk import OBJECT
from tests.unit.kernel.kernels import Kernel

UUID = bytes(range(16))
TIME = 0x6B065DD7 << 32
ENTRY = {
    "lsid": {"id": Binary(UUID, 4)}, "txnNumber": Int64(1), "op": "i", "ns": "a.b", "ui": Binary(UUID, 4),
    "o": {"_id": 1, "x": "y"}, "o2": {"_id": 1}, "stmtId": 0, "ts": Timestamp(5, 6), "t": Int64(1), "v": Int64(2),
    "wall": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
}  # fmt: skip


def random_value(rng: Random, depth: int = 0) -> Any:
    kind = rng.randrange(12 if depth < 3 else 11)
    return (
        lambda: rng.choice((0, 1, -1, 127, 128, 255, 256, 2**31 - 1, -(2**31), rng.randrange(-(2**31), 2**31))),
        lambda: Int64(rng.choice((0, 1, -1, 2**40, -(2**40), 2**61, 2**62, 2**63 - 1, -(2**63)))),
        lambda: "".join(rng.choice("a\0é") for _ in range(rng.randrange(4))),
        lambda: ObjectId(rng.randbytes(12)),
        lambda: bool(rng.randrange(2)),
        lambda: None,
        lambda: Binary(rng.randbytes(rng.randrange(5)), rng.choice((0, 4, 128))),
        lambda: datetime.datetime(1960 + rng.randrange(80), 1, 1, 0, 0, 0, 1000 * rng.randrange(1000)),
        lambda: Timestamp(rng.randrange(2**32), rng.randrange(2**32)),
        lambda: rng.choice((1.5, -2.0, Decimal128("1.5"))),
        lambda: Binary(bytes(rng.choice((253, 254, 255, 300)))),
        lambda: {name: random_value(rng, depth + 1) for name in rng.sample("abc", rng.randrange(4))},
    )[kind]()


def test_a_token_is_the_one_that_is_made_value_by_value(kernel: Kernel) -> None:
    made = 0
    for seed in range(600):
        rng = Random(seed)
        key = bson.encode({"_id": random_value(rng), **({"k": random_value(rng)} if rng.random() < 0.4 else {})})
        index = rng.choice((0, 0, 1, 127, 128, 70000))
        token = kernel.compute.change_events.event_token(TIME + seed, index, UUID, key)
        if token is not None:
            made += 1
            assert token == EventToken(TIME + seed, index, UUID, (OBJECT, key)).raw, f"seed {seed}"
    assert made > 300


@pytest.mark.parametrize("identity", [{"_id": 1.5}, {"_id": Decimal128("1")}, {"_id": Int64(2**62)}, {"_id": [1]}])
def test_a_key_of_rarer_values_is_left_to_others(kernel: Kernel, identity: dict[str, Any]) -> None:
    assert kernel.compute.change_events.event_token(TIME, 0, UUID, bson.encode(identity)) is None


@pytest.mark.parametrize("op", ["i", "u", "d"])
def test_an_entry_of_a_document_is_taken_apart(kernel: Kernel, op: str) -> None:
    module = kernel.compute.change_events
    entry = bson.encode({**ENTRY, "op": op})
    fields = {name: value for name, _, value in elements(entry)}
    told = module.document_entry(entry)
    assert told == (ord(op), b"a.b", fields["o"], fields["o2"], UUID, 5 << 32 | 6, fields["wall"])
    bare = {name: value for name, value in ENTRY.items() if name not in ("o2", "ui", "ts", "wall")}
    assert module.document_entry(bson.encode(bare)) == (ord("i"), b"a.b", fields["o"], None, None, 0, b"")


@pytest.mark.parametrize("change", [{"op": "c"}, {"op": "n"}, {"op": "xx"}, {"op": ""}, {"fromMigrate": True}], ids=str)
def test_other_entries_are_left_to_others(kernel: Kernel, change: dict[str, Any]) -> None:
    assert kernel.compute.change_events.document_entry(bson.encode({**ENTRY, **change})) is None
