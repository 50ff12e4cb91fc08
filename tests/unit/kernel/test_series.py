"""Buckets of time series: filled from measurements, and taken apart again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import bson
import pytest

from docstore.collection.oplog.diff import apply_update
from docstore.timeseries.buckets import extreme, lane_of
from tests.unit.kernel.kernels import Kernel

BEGIN = datetime(2024, 5, 6, 7, 8, 9, 123000)
HOUR = 3_600_000
MINUTE = 60_000
MOST, MOST_BYTES = 7, 400
VALUES: tuple[Callable[[Random], Any], ...] = (
    lambda rng: rng.randrange(-5, 5),
    lambda rng: rng.uniform(-3, 3),
    lambda rng: float("nan"),
    lambda rng: rng.choice(["", "a", "b" * 70]),
    lambda rng: None,
    lambda rng: {"p": rng.randrange(3), "q": rng.choice([1, 2.5])},
    lambda rng: [rng.randrange(3) for _ in range(rng.randrange(3))],
)
METADATA = (None, 1, "x", {"a": 1, "b": {"c": 2}}, {"b": {"c": 2}, "a": 1}, {"b": {"d": 2}}, [{"b": 1, "a": 2}])


def measurement(rng: Random) -> bytes:
    at = BEGIN + timedelta(seconds=rng.choice([0, 1, 2, 3, 59, 3600, -7200]))
    fields: dict[str, Any] = {"t": at} if rng.random() < 0.95 else {"t": 5}
    if rng.random() < 0.8:
        fields["m"] = rng.choice(METADATA)
    for name in "abc":
        if rng.random() < 0.7:
            fields[name] = rng.choice(VALUES if rng.random() < 0.2 else VALUES[:2])(rng)
    names = list(fields)
    rng.shuffle(names)
    raw = bson.encode({name: fields[name] for name in names})
    return raw if rng.random() < 0.98 else raw[:-1]


def filling_of(kernel: Kernel) -> Any:
    series = kernel.series.filling

    def made(meta: Any) -> Any:
        lane = lane_of(meta)
        return series.Lane(lane.key, lane.meta)

    rules = kernel.series.bucket.Rules(b"t", b"m", (HOUR, MINUTE), (MOST, MOST_BYTES), _alike, extreme)
    return series.Filling(rules, series.Identities((1 << 64) - 2), made)


def _alike(one: Any, other: Any) -> bool:
    return bool(one[0] == other[0])


def filled(kernel: Kernel, documents: list[bytes]) -> tuple[list[Any], list[int]]:
    """The buckets, and the places of documents that are left to others."""
    filling, at, left = filling_of(kernel), 0, list[int]()
    while at < len(documents):
        end = min(at + 16, len(documents))
        for lane in filling.read(documents, at, end, 1 << 24, [[b"a", b"p"]]):
            lane.opened = True
        at = filling.fill(documents, at, 1 << 30, 1 << 30)
        if at < end:
            left.append(at)
            at += 1
    return filling.drafts, left


@pytest.mark.parametrize("seed", range(12))
def test_buckets_hold_what_was_put_into_them(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    documents = [measurement(rng) for _ in range(120)]
    drafts, left = filled(kernel, documents)
    assert sorted([*left, *[place for draft in drafts for place in draft.positions]]) == list(range(120))
    for place in left:
        raw = documents[place]
        whole = len(raw) == int.from_bytes(raw[:4], "little")
        assert not whole or not isinstance(bson.decode(raw)["t"], datetime) or "a" in bson.decode(raw)
    unpacking = kernel.series.unpacking.Unpacking(b"t", b"m", None)
    for draft in drafts:
        bucket = draft.document()
        assert kernel.series.unpacking.is_plain(bucket)
        rows = [bson.decode(row) for row in unpacking.rows(bucket)]
        assert unpacking.count(bucket) == len(rows) == len(draft.positions) <= MOST
        for row, place in zip(rows, draft.positions, strict=True):
            given = bson.decode(documents[place])
            assert _in_order(row.pop("m", "none")) == _in_order(given.pop("m", "none"))
            assert repr(sorted(row.items())) == repr(sorted(given.items()))
        decoded = bson.decode(bucket)
        control, times = decoded["control"], [row["t"] for row in rows]
        assert control["min"]["t"] <= min(times) <= max(times) == control["max"]["t"]
        assert max(times) - control["min"]["t"] < timedelta(hours=1)
        assert decoded["_id"].generation_time.replace(tzinfo=None) == control["min"]["t"]
        for name in {name for row in rows for name in row} - {"m", "t"}:
            values = [row[name] for row in rows if name in row]
            if all(isinstance(value, int) for value in values):
                assert (control["min"][name], control["max"][name]) == (min(values), max(values))


@pytest.mark.parametrize("seed", range(12))
def test_a_bucket_that_was_stored_goes_on_as_it_would_have(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    documents = [measurement(rng) for _ in range(200)]
    for draft in filled(kernel, documents)[0]:
        filling = filling_of(kernel)
        first = documents[draft.positions[0]]
        time = int.from_bytes(kernel.bson.walk.get_field(first, "t")[1], "little", signed=True)
        bucket = filling.open_bucket(time, draft.meta)
        size = 0
        for place in draft.positions:
            raw = documents[place]
            at = int.from_bytes(kernel.bson.walk.get_field(raw, "t")[1], "little", signed=True)
            assert bucket.take(raw, at) == 0
            size += len(raw)
            made = bucket.document()
            if bucket.stored is not None:
                assert apply_update(bucket.stored, bucket.update()) == made
            bucket = filling.stored(b"rid", made, size)
        assert bucket.document()[17 + 4 :] == draft.document()[17 + 4 :]
        assert (bucket.size, bucket.count) == (draft.size, draft.count)


@pytest.mark.parametrize("other", [{"control": {"closed": True}}, {"more": 1}, {"control": {"version": bson.Int64(1)}}])
def test_what_the_log_says_is_known_of_buckets_as_they_are_written_here_alone(
    kernel: Kernel, other: dict[str, Any]
) -> None:
    filling = filling_of(kernel)
    raw = bson.encode({"t": BEGIN, "a": 1})
    time = int.from_bytes(kernel.bson.walk.get_field(raw, "t")[1], "little", signed=True)
    bucket = filling.open_bucket(time, None)
    bucket.take(raw, time)
    made = bson.decode(bucket.document())
    for stored, known in (
        (made, True),
        ({**made, **other, "control": made["control"] | other.get("control", {})}, False),
    ):
        bucket = filling.stored(b"rid", bson.encode(stored), len(raw))
        assert bucket.take(raw, time) == 0
        assert bool(bucket.update()) == known


@pytest.mark.parametrize("seed", range(20))
def test_what_is_asked_of_columns_is_what_is_asked_of_documents(kernel: Kernel, seed: int) -> None:
    rng = Random(seed)
    documents = [measurement(rng) for _ in range(150)]
    buckets = [draft.document() for draft in filled(kernel, documents)[0]]
    whole = kernel.series.unpacking.Unpacking(b"t", b"m", None)
    compare, value_of = kernel.match.path_predicates.Compare, _encoded
    for _ in range(10):
        tests = [
            compare(rng.choice(["a", "b", "c", "t", "a.p", "c.0", "x"]), rng.choice(["eq", "gt", "lte"]), value)
            for value in [value_of(rng) for _ in range(rng.randrange(1, 3))]
        ]
        predicate = compare("b", "gte", value_of(rng)) if rng.random() < 0.3 else None
        wanted = rng.choice([None, {b"t"}, {b"a", b"b"}])
        if predicate is not None and wanted is not None:
            wanted |= {b"b"}
        plain = kernel.series.unpacking.Unpacking(b"t", b"m", wanted)
        asked = kernel.series.unpacking.Unpacking(b"t", b"m", wanted, tests, predicate)
        conditions = [*tests, *([] if predicate is None else [predicate])]
        for bucket in buckets:
            expected = [
                row
                for row, full in zip(plain.rows(bucket), whole.rows(bucket), strict=True)
                if all(condition.matches(full) for condition in conditions)
            ]
            assert asked.rows(bucket) == expected
            assert asked.count(bucket) == len(expected)


def _in_order(value: Any) -> str:
    """Metadata whose fields stand in the order of their names."""
    if isinstance(value, dict):
        return repr([(name, _in_order(value[name])) for name in sorted(value)])
    return repr([_in_order(member) for member in value]) if isinstance(value, list) else repr(value)


def _encoded(rng: Random) -> tuple[int, bytes]:
    raw = bson.encode({"": rng.choice([*VALUES, lambda rng: BEGIN + timedelta(seconds=rng.randrange(4))])(rng)})
    return raw[4], raw[6:-1]
