"""Replacement and upsert."""

from __future__ import annotations

from typing import Any

import pytest
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.update.parse import parse_update
from tests.unit.query.raw import decoded, raw, value

NEW_ID = ObjectId("5f0000000000000000000001")


def replaced(document: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    result = parse_update(raw(document)).apply(raw(stored), matched_index=None, now=0, timestamp=(9 << 32) | 1)
    return decoded(result)


def upserted(condition: dict[str, Any], specification: dict[str, Any]) -> dict[str, Any]:
    tree = parse_filter(raw(condition))
    return decoded(parse_update(raw(specification)).upsert(tree, value(NEW_ID), now=0, timestamp=0))


def upsert_code(condition: dict[str, Any], specification: dict[str, Any]) -> int:
    with pytest.raises(CommandError) as refused:
        upserted(condition, specification)
    return refused.value.code


def test_a_replacement_keeps_the_id_and_puts_it_first() -> None:
    assert list(replaced({"b": 1, "a": 2}, {"_id": 1, "z": 1}).items()) == [("_id", 1), ("b", 1), ("a", 2)]
    assert list(replaced({"b": 1, "_id": 1.0}, {"_id": 1}).items()) == [("_id", 1.0), ("b", 1)]


def test_a_replacement_with_another_id_is_refused() -> None:
    with pytest.raises(CommandError) as refused:
        replaced({"_id": 2}, {"_id": 1})
    assert refused.value.code == Code.ImmutableField


def test_a_replacement_fills_empty_timestamps_at_its_top() -> None:
    document = {"a": Timestamp(0, 0), "b": {"c": Timestamp(0, 0)}}

    assert replaced(document, {"_id": 1}) == {"_id": 1, "a": Timestamp(9, 1), "b": {"c": Timestamp(0, 0)}}


def test_an_operator_behind_plain_fields_replaces_nothing_and_may_be_inserted() -> None:
    for document in ({"_id": 1}, {"_id": 1, "b": 1, "$set": {"a": 1}}):
        with pytest.raises(CommandError) as refused:
            replaced({"b": 1, "$set": {"a": 1}}, document)
        assert refused.value.code == Code.DollarPrefixedFieldName
    assert upserted({"_id": 7}, {"b": 1, "$set": {"a": 1}}) == {"_id": 7, "b": 1, "$set": {"a": 1}}


@pytest.mark.parametrize(
    ("condition", "specification", "expected"),
    [
        ({"a": 1}, {"$set": {"b": 2}}, {"_id": NEW_ID, "a": 1, "b": 2}),
        ({"_id": 5}, {"$set": {"b": 2}}, {"_id": 5, "b": 2}),
        ({"a.b": 1, "c": {"$gt": 1}}, {"$inc": {"d": 2}}, {"_id": NEW_ID, "a": {"b": 1}, "d": 2}),
        ({"a": 1}, {"$inc": {"a": 2}}, {"_id": NEW_ID, "a": 3}),
        ({"$and": [{"a": 1}, {"$or": [{"b": 2}]}]}, {"$set": {"c": 1}}, {"_id": NEW_ID, "a": 1, "b": 2, "c": 1}),
        ({"$or": [{"a": 1}, {"b": 1}]}, {"$set": {"c": 1}}, {"_id": NEW_ID, "c": 1}),
        ({"a": {"$in": [1, 1.0]}}, {"$set": {"c": 1}}, {"_id": NEW_ID, "a": 1, "c": 1}),
        ({"a": Regex("x"), "b": {"$elemMatch": {"c": 1}}}, {"$set": {"c": 1}}, {"_id": NEW_ID, "c": 1}),
        ({"_id": 1}, {"$setOnInsert": {"_id": 1, "x": 3}}, {"_id": 1, "x": 3}),
        ({}, {"$set": {"a": 1, "_id": 7}}, {"_id": 7, "a": 1}),
        ({"_id.x": 1, "_id.y": 2}, {"$set": {"a": 1}}, {"_id": {"x": 1, "y": 2}, "a": 1}),
        ({"a": [1]}, {"$set": {"a.0": 5}}, {"_id": NEW_ID, "a": [5]}),
        ({"z": 1, "a": 2, "_id": 9}, {"$set": {"c": 1}}, {"_id": 9, "a": 2, "z": 1, "c": 1}),
        ({"_id": 3}, {"x": 1}, {"_id": 3, "x": 1}),
        ({"a": 3}, {"x": 1, "_id": 4}, {"_id": 4, "x": 1}),
        ({"_id": {"$gt": 3}}, {"x": 1}, {"_id": NEW_ID, "x": 1}),
    ],
)
def test_upserts(condition: dict[str, Any], specification: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(upserted(condition, specification).items()) == list(expected.items())


@pytest.mark.parametrize(
    ("condition", "specification", "code"),
    [
        ({"a": 1, "a.b": 2}, {"$set": {"c": 1}}, Code.NotSingleValueField),
        ({"a": {"$all": [1, 2]}}, {"$set": {"c": 1}}, Code.NotSingleValueField),
        ({"_id": 1}, {"$set": {"_id": 2}}, Code.ImmutableField),
        ({"_id": 3}, {"x": 1, "_id": 4}, Code.ImmutableField),
        ({"_id.a": 3}, {"x": 1}, Code.NotExactValueField),
        ({"_id": [1]}, {"$set": {"b": 1}}, Code.InvalidIdField),
        ({}, {"$set": {"_id": [1]}}, Code.InvalidIdField),
        ({}, {"_id": [1]}, Code.NotSingleValueField),
        ({}, {"_id": Regex("x")}, Code.InvalidIdField),
        ({"a": 1}, {"$set": {"a.$": 1}}, Code.BadValue),
    ],
)
def test_upserts_that_are_refused(condition: dict[str, Any], specification: dict[str, Any], code: int) -> None:
    assert upsert_code(condition, specification) == code
