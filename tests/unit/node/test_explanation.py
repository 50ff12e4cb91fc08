"""What explain shows, without a collection behind it."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.node.filter_text import filter_document
from docstore.node.interval_text import field_intervals
from docstore.query.bounds import field_bounds
from docstore.query.filter import parse_filter


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"x": 3}, ["[3, 3]"]),
        ({"x": {"$gt": 3}}, ["(3, inf.0]"]),
        ({"x": {"$gte": 3, "$lt": 10}}, ["[3, 10)"]),
        ({"x": {"$lte": -2}}, ["[-inf.0, -2]"]),
        ({"x": "ab"}, ['["ab", "ab"]']),
        ({"x": {"$gte": "ab"}}, ['["ab", {})']),
        ({"x": {"$in": [1, 5]}}, ["[1, 1]", "[5, 5]"]),
        ({"x": True}, ["[true, true]"]),
        ({"y": 1}, ["[MinKey, MaxKey]"]),
    ],
)
def test_bounds_are_shown_as_intervals_of_values(condition: dict[str, Any], expected: list[str]) -> None:
    tree = parse_filter(bson.encode(condition))
    fields = (("x", 1),)
    assert field_intervals(fields, field_bounds(tree, fields, multikey=False)) == {"x": expected}


def test_bounds_of_a_descending_field_run_downwards() -> None:
    tree = parse_filter(bson.encode({"x": {"$gte": 3, "$lt": 10}}))
    fields = (("x", -1),)
    assert field_intervals(fields, field_bounds(tree, fields, multikey=False)) == {"x": ["(10, 3]"]}


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ({"x": 3}, {"x": {"$eq": 3}}),
        ({}, {}),
        ({"x": 1, "y": {"$gt": 2}}, {"$and": [{"x": {"$eq": 1}}, {"y": {"$gt": 2}}]}),
        ({"x": {"$ne": 1}}, {"x": {"$not": {"$eq": 1}}}),
        ({"$or": [{"x": 1}, {"x": {"$exists": True}}]}, {"$or": [{"x": {"$eq": 1}}, {"x": {"$exists": True}}]}),
        ({"x": {"$in": [1, 2]}}, {"x": {"$in": [1, 2]}}),
        ({"x": {"$elemMatch": {"$gt": 1}}}, {"x": {"$elemMatch": {"$gt": 1}}}),
        ({"x": {"$regex": "^a"}}, {"x": {"$regex": "^a"}}),
    ],
)
def test_filters_are_shown_in_their_normal_form(condition: dict[str, Any], shown: dict[str, Any]) -> None:
    assert filter_document(parse_filter(bson.encode(condition))) == shown
