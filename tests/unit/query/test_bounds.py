"""What filters say about keys."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex

from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.filter.parse import parse_filter
from docstore.query.plan.bounds import equalities, fixed_values, key_ranges
from docstore.query.plan.intervals import Range, intersection, prefix_end, union
from tests.unit.query.raw import raw, value


def bounds(condition: dict[str, Any], *fields: tuple[str, int]) -> list[tuple[bytes, bytes]] | None:
    return key_ranges(parse_filter(raw(condition)), list(fields))


def holds(ranges: list[tuple[bytes, bytes]], key: bytes) -> bool:
    return any(lo <= key < hi for lo, hi in ranges)


def test_an_equality_is_one_point() -> None:
    key = encode_key(value(5))

    assert bounds({"a": 5}, ("a", 1)) == [(key, prefix_end(key))]


def test_conditions_on_one_path_are_intersected_for_a_shard_key() -> None:
    found = bounds({"a": {"$gt": 5, "$lte": 9}}, ("a", 1))

    assert found is not None
    assert not holds(found, encode_key(value(5)))
    assert holds(found, encode_key(value(9.0)))
    assert not holds(found, encode_key(value("6")))


def test_a_descending_field_has_the_same_values() -> None:
    pattern = KeyPattern([("a", -1)])
    found = bounds({"a": {"$gte": 5, "$lt": 9}}, ("a", -1))

    assert found is not None
    inside = [number for number in range(12) if holds(found, pattern.shard_key(raw({"a": number})))]
    assert inside == [5, 6, 7, 8]


@pytest.mark.parametrize(
    "number", [-2, -2.0, -3, -32, -0.5, 0, 1, 2.5, Int64(-(2**62)), Decimal128("-2"), "", "a", None]
)
def test_a_point_of_a_descending_field_is_one_value(number: Any) -> None:
    close = [-2.0000000000000004, -2.5, -3, -3.001, -4, -33, -0.75, 0, 1, 2.5, Int64(-(2**62) - 1024)]
    pattern = KeyPattern([("a", -1), ("b", 1)])
    found = bounds({"a": number, "b": 1}, ("a", -1), ("b", 1))

    assert found is not None
    assert holds(found, pattern.shard_key(raw({"a": number, "b": 1})))
    for other in [*close, "", "a", "aa", None]:
        inside = holds(found, pattern.shard_key(raw({"a": other, "b": 1})))
        assert inside == (encode_key(value(other)) == encode_key(value(number)))


def test_points_of_leading_fields_are_multiplied_out() -> None:
    found = bounds({"a": {"$in": [1, 2]}, "b": {"$gt": 3}}, ("a", 1), ("b", 1))

    assert found is not None
    assert len(found) == 2
    assert found == sorted(found)


def test_a_range_ends_the_bounds_of_a_compound_key() -> None:
    assert bounds({"a": {"$gt": 1}, "b": 2}, ("a", 1), ("b", 1)) == bounds({"a": {"$gt": 1}}, ("a", 1))


def test_too_many_points_become_one_range() -> None:
    found = bounds({"a": {"$in": list(range(10_000))}}, ("a", 1))

    assert found is not None
    assert len(found) == 1
    assert holds(found, encode_key(value(5000)))


def test_a_filter_without_the_leading_field_is_unbounded() -> None:
    assert bounds({"b": 1}, ("a", 1), ("b", 1)) is None


def test_a_contradiction_has_no_ranges() -> None:
    assert bounds({"a": {"$gt": 9, "$lt": 5}}, ("a", 1)) == []


def test_a_disjunction_is_bounded_when_every_branch_is() -> None:
    found = bounds({"$or": [{"a": 1}, {"a": {"$gt": 10}}]}, ("a", 1))

    assert found is not None
    assert holds(found, encode_key(value(1)))
    assert not holds(found, encode_key(value(5)))
    assert bounds({"$or": [{"a": 1}, {"b": 1}]}, ("a", 1)) is None


def test_null_stands_for_missing_values_too() -> None:
    found = bounds({"a": None}, ("a", 1))

    assert found is not None
    assert holds(found, KeyPattern([("a", 1)]).shard_key(raw({})))


def test_an_anchored_pattern_is_bounded_by_its_beginning() -> None:
    found = bounds({"a": Regex("^ab")}, ("a", 1))

    assert found is not None
    assert holds(found, encode_key(value("abz")))
    assert not holds(found, encode_key(value("ac")))


def test_equalities_are_those_of_the_conjunction_at_the_top() -> None:
    tree = parse_filter(raw({"a": 1, "b": {"$in": [2]}, "c": {"$gt": 1}, "$and": [{"d": "x"}], "$or": [{"e": 1}, {}]}))

    assert equalities(tree) == {"a": value(1), "b": value(2), "d": value("x")}


def test_every_equality_is_listed_for_an_upsert() -> None:
    assert fixed_values(parse_filter(raw({"a": 1, "$and": [{"a": 2}]}))) == [("a", value(1)), ("a", value(2))]


def test_ranges_that_touch_are_one_and_points_stay_points() -> None:
    joined = union([Range(b"bb", b"dd"), Range(b"aa", b"bb"), Range(b"cc", b"ee")])
    false, true = Range(b"\x68", b"\x69", True), Range(b"\x69", b"\x6a", True)

    assert joined == (Range(b"aa", b"ee"),)
    assert union([true, false, true]) == (false, true)


def test_an_intersection_keeps_what_both_hold() -> None:
    assert intersection((Range(b"a", b"c"), Range(b"e", b"g")), (Range(b"b", b"f"),)) == (
        Range(b"b", b"c"),
        Range(b"e", b"f"),
    )
