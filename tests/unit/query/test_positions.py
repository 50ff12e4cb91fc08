from __future__ import annotations

import bson
import pytest

from docstore.query.filter.parse import parse_filter
from docstore.query.projection.positions import Positions


def test_a_projection_takes_the_conditions_as_they_are_written() -> None:
    document = bson.encode({"a": [1, 2, 3], "b": [5, 6]})
    tree = parse_filter(bson.encode({"b": 6, "a": 1}))
    assert Positions(tree, as_written=True).of(document) == "0"
    tree = parse_filter(bson.encode({"a": 1, "b": 6}))
    assert Positions(tree, as_written=True).of(document) == "1"


def position(condition: dict[str, object], document: dict[str, object]) -> str | None:
    return Positions(parse_filter(bson.encode(condition))).of(bson.encode(document))


@pytest.mark.parametrize(
    ("condition", "document", "expected"),
    [
        ({"a": 3}, {"a": [1, 3, 3]}, "1"),
        ({"a": {"$gt": 5}}, {"a": [1, 9, 7]}, "1"),
        ({"a.b": 2}, {"a": [{"b": 1}, {"b": 2}]}, "1"),
        ({"a": {"$elemMatch": {"b": 2, "c": 1}}}, {"a": [{"b": 2}, {"b": 2, "c": 1}]}, "1"),
        ({"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}}, {"a": [0, 2]}, "1"),
        ({"a": {"$in": [7, 8]}}, {"a": [1, 8]}, "1"),
        ({"x": 1, "a": 3}, {"x": 1, "a": [3]}, "0"),
        ({"n.a": 3}, {"n": {"a": [1, 2, 3]}}, "2"),
        ({"b": 5, "a": 2}, {"a": [1, 2], "b": [5, 6]}, "0"),
        ({"a": {"$exists": True}}, {"a": [1, 2]}, "0"),
        ({"b": {"$gt": 5}, "a": {"$mod": [3, 0]}}, {"a": [1, 2, 3], "b": [5, 6]}, "2"),
        ({"a": {"$elemMatch": {"$gt": 1}, "$eq": 3}}, {"a": [1, 2, 3]}, "2"),
        ({"a": {"$in": [3], "$gt": 1}}, {"a": [1, 2, 3]}, "1"),
        ({"a": {"$all": [3, 2]}}, {"a": [1, 2, 3]}, "1"),
        ({"$or": [{"a": 2}, {"a": 3}]}, {"a": [1, 2, 3]}, "1"),
        ({"a.1": 2}, {"a": [1, 2]}, None),
        ({"a.0.m.x": 2}, {"a": [{"m": [{"x": 1}, {"x": 2}]}]}, "1"),
        ({"$or": [{"a": 2}, {"b": 5}]}, {"a": [1, 2], "b": [5, 6]}, None),
        ({"a": 3}, {"a": 3}, None),
        ({"x": 1}, {"x": 1, "a": [3]}, None),
        ({"a": {"$not": {"$eq": 3}}}, {"a": [1]}, None),
    ],
)
def test_the_first_element_that_satisfies_the_condition_is_meant(
    condition: dict[str, object], document: dict[str, object], expected: str | None
) -> None:
    assert position(condition, document) == expected
