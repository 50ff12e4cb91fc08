"""Buckets: what goes in comes out, and what is said of measurements holds of their buckets."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import compare, elements, from_python
from docstore.kernel.series.bucket import BACKWARD, FORWARD, SCHEMA, SIZE, TAKEN
from docstore.kernel.series.filling import Filling, Identities
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.timeseries.buckets import extreme, lane_of, measurement_count, rules_of, time_and_metadata
from docstore.timeseries.conditions import of_begun, of_measured, of_metadata
from docstore.timeseries.definition import TimeseriesDefinition
from docstore.timeseries.index_keys import bucket_key, measured_key
from docstore.timeseries.unpacking import measurements

DEFINITION = TimeseriesDefinition("t", "m", "seconds")
BEGIN = datetime(2024, 5, 6, 7, 8, 9, 123000)


def filled() -> Filling:
    return Filling(rules_of(DEFINITION), Identities(7), lane_of)


def packed(rows: list[dict[str, Any]]) -> list[bytes]:
    """The buckets that rows of one series go into, stored and read again before each."""
    made: list[bytes] = []
    filling = filled()
    for row in rows:
        raw = bson.encode(row)
        time, meta = time_and_metadata(DEFINITION, raw)
        bucket = filling.stored(b"", made[-1], 0) if made else None
        if bucket is None or bucket.take(raw, time) != TAKEN:
            bucket = filling.open_bucket(time, meta)
            made.append(b"")
            assert bucket.take(raw, time) == TAKEN
        made[-1] = bucket.document()
    return made


def taken_apart(bucket: bytes) -> list[bytes]:
    return measurements("t", "m").of(bucket)


VALUES = st.recursive(
    st.one_of(
        st.integers(-5, 5),
        st.floats(-3, 3),
        st.just(float("nan")),
        st.sampled_from(["", "a", "b"]),
        st.booleans(),
        st.none(),
        st.integers(-3, 3).map(lambda hours: BEGIN + timedelta(hours=hours)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["p", "q"]), inner, max_size=2)
    ),
    max_leaves=4,
)
ROWS = st.lists(
    st.builds(
        lambda seconds, fields: {"t": BEGIN + timedelta(seconds=seconds), **fields},
        st.integers(-4000, 4000),
        st.dictionaries(st.sampled_from(["_id", "a", "b"]), VALUES, max_size=3),
    ),
    min_size=1,
    max_size=12,
)
PATHS = st.sampled_from(["a", "b", "a.p", "a.q", "a.0", "_id", "t"])
OPERATORS = st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"])
CONDITIONS = st.dictionaries(PATHS, st.dictionaries(OPERATORS, VALUES, min_size=1, max_size=2), min_size=1, max_size=2)


@given(ROWS)
def test_measurements_come_out_as_they_went_in(rows: list[dict[str, Any]]) -> None:
    buckets = packed(rows)
    found = [row for bucket in buckets for row in taken_apart(bucket)]
    assert sum(measurement_count(bucket, "t") for bucket in buckets) == len(rows)
    for given_row, row in zip(rows, found, strict=True):
        assert sorted(elements(row)) == sorted(elements(bson.encode(given_row)))


@given(ROWS, CONDITIONS)
def test_a_bucket_with_a_measurement_that_is_asked_for_is_found(
    rows: list[dict[str, Any]], condition: dict[str, Any]
) -> None:
    raw = bson.encode(condition)
    said = of_measured(raw, "t", DEFINITION.span_seconds)
    if said is None:
        return
    wanted, of_buckets = compile_filter(parse_filter(raw)), compile_filter(parse_filter(said))
    for bucket in packed(rows):
        if any(wanted.matches(row) for row in taken_apart(bucket)):
            assert of_buckets.matches(bucket), (condition, bson.decode(bucket)["control"])


TIMES = st.one_of(
    st.integers(-4000, 4000).map(lambda seconds: BEGIN + timedelta(seconds=seconds)),
    st.integers(-4000, 4000).map(lambda seconds: datetime(1970, 1, 1) + timedelta(seconds=seconds)),
    st.integers(-4000, 4000).map(lambda seconds: datetime(1970, 1, 1) + timedelta(seconds=(1 << 32) + seconds)),
    st.sampled_from([datetime(1900, 1, 1), datetime(2300, 1, 1)]),
)
BOUNDS = st.one_of(TIMES, st.dictionaries(OPERATORS, TIMES, min_size=1, max_size=3))


@given(TIMES, st.lists(BOUNDS, min_size=1, max_size=2))
def test_a_bucket_is_found_by_when_it_was_begun(time: datetime, bounds: list[Any]) -> None:
    conditions = [bson.encode({"t": bound}) for bound in bounds]
    said = of_begun(conditions, "t", DEFINITION.span_seconds)
    (bucket,) = packed([{"t": time}])
    (row,) = taken_apart(bucket)
    if said is not None and all(compile_filter(parse_filter(each)).matches(row) for each in conditions):
        assert compile_filter(parse_filter(said)).matches(bucket), bson.decode(said)


def test_times_on_both_sides_say_when_a_bucket_was_begun() -> None:
    def least_and_greatest(*bounds: Any) -> tuple[int, int] | None:
        said = of_begun([bson.encode({"t": bound}) for bound in bounds], "t", 3600)
        if said is None:
            return None
        asked = bson.decode(said)["_id"]
        begun = [(each.generation_time.replace(tzinfo=None) - BEGIN).total_seconds() for each in asked.values()]
        return round(begun[0]), round(begun[1])

    assert least_and_greatest(BEGIN) == (-3600, 0)
    assert least_and_greatest({"$gte": BEGIN}, {"$lt": BEGIN + timedelta(hours=1)}) == (-3600, 3600)
    assert least_and_greatest({"$gte": BEGIN}) is least_and_greatest({"$lt": BEGIN}) is None
    assert least_and_greatest({"$gte": datetime(1970, 1, 1), "$lt": BEGIN}) is None


@given(VALUES, VALUES)
def test_extremes_are_not_beyond_either(one: Any, other: Any) -> None:
    left, right = from_python(one), from_python(other)
    least, greatest = extreme(left, right, -1), extreme(left, right, 1)
    if left[0] not in (3, 4) and right[0] not in (3, 4):
        assert compare(least, left) <= 0 <= compare(greatest, left)
        assert compare(least, right) <= 0 <= compare(greatest, right)


def test_a_bucket_is_closed_for_a_reason() -> None:
    def why(first: dict[str, Any], then: dict[str, Any]) -> int:
        (raw,) = packed([{"t": BEGIN, **first}])
        bucket = filled().stored(b"", raw, 100_000 if "large" in first else 100)
        assert bucket is not None
        later = bson.encode({"t": BEGIN, **then})
        return bucket.take(later, time_and_metadata(DEFINITION, later)[0])

    assert why({"a": 1}, {"a": 2.5, "b": None}) == TAKEN
    assert why({"a": 1}, {"a": "x"}) == SCHEMA
    assert why({"a": {"p": 1}}, {"a": {"q": "x"}}) == TAKEN
    assert why({"a": {"p": 1}}, {"a": {"p": "x"}}) == SCHEMA
    assert why({"a": [1, 2]}, {"a": [3]}) == TAKEN
    assert why({}, {"t": BEGIN + timedelta(hours=1)}) == FORWARD
    assert why({}, {"t": BEGIN + timedelta(minutes=59, seconds=50)}) == TAKEN
    assert why({}, {"t": BEGIN - timedelta(seconds=9)}) == TAKEN
    assert why({}, {"t": BEGIN - timedelta(seconds=10)}) == BACKWARD
    assert why({"large": 1}, {"large": 1, "x": "y" * 30_000}) == SIZE


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ({"m": 1}, {"meta": 1}),
        ({"m.x": {"$gt": 1}}, {"meta.x": {"$gt": 1}}),
        ({"$or": [{"m": 1}, {"$and": [{"m.y": 2}]}]}, {"$or": [{"meta": 1}, {"$and": [{"meta.y": 2}]}]}),
        ({"$or": [{"m": 1}, {"a": 1}]}, None),
        ({"mm": 1}, None),
        ({"$expr": True}, None),
    ],
)
def test_metadata_have_another_name_in_buckets(condition: dict[str, Any], said: dict[str, Any] | None) -> None:
    found = of_metadata(bson.encode(condition), "m")
    assert (None if found is None else bson.decode(found)) == said
    assert of_metadata(bson.encode(condition), None) is None


@pytest.mark.parametrize("key", [{"t": 1}, {"t": -1}, {"m": 1, "t": -1}, {"m.x": "hashed"}, {"a.b": -1, "m": 1}])
def test_keys_of_measurements_come_back(key: dict[str, Any]) -> None:
    raw = bson.encode(key)
    made = bucket_key(DEFINITION, raw)
    assert made != raw
    assert measured_key(DEFINITION, made) == raw


@pytest.mark.parametrize("key", [{"control.min.t": 1}, {"control.max.t": 1, "control.min.t": 1}, {"data.t": 1}])
def test_other_keys_of_buckets_are_none_of_measurements(key: dict[str, Any]) -> None:
    assert measured_key(DEFINITION, bson.encode(key)) is None
