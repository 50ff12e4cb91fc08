"""The details of a refused document, in the shapes that MongoDB 6.0 gives them."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.query.schema.validator_details import failure_details


def details(validator: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = bson.decode(failure_details(bson.encode(validator), bson.encode(document)))
    return found


def leaf(operator: str, specified: dict[str, Any], reason: str, **considered: Any) -> dict[str, Any]:
    return {"operatorName": operator, "specifiedAs": specified, "reason": reason, **considered}


GT = {"a": {"$gt": 1}}
EQUAL = leaf("$eq", {"b": 1}, "field was missing")


@pytest.mark.parametrize(
    ("validator", "document", "expected"),
    [
        (GT, {"a": 1}, leaf("$gt", GT, "comparison failed", consideredValue=1)),
        (GT, {}, leaf("$gt", GT, "field was missing")),
        (GT, {"a": [0, 1]}, leaf("$gt", GT, "comparison failed", consideredValues=[0, 1])),
        (GT, {"a": []}, leaf("$gt", GT, "comparison failed", consideredValues=[])),
        (
            {"a.b": 1},
            {"a": [{"b": 2}, {"b": 3}]},
            leaf("$eq", {"a.b": 1}, "comparison failed", consideredValues=[2, 3]),
        ),
        ({"a": {"$ne": 1}}, {"a": 1}, leaf("$ne", {"a": {"$ne": 1}}, "comparison succeeded", consideredValue=1)),
        ({"a": {"$exists": False}}, {"a": 1}, leaf("$exists", {"a": {"$exists": False}}, "path does exist")),
        (
            {"a": {"$type": "string"}},
            {"a": [1, 2.5]},
            leaf(
                "$type", {"a": {"$type": "string"}}, "type did not match",
                consideredValues=[1, 2.5], consideredTypes=["double", "int"],
            ),
        ),
        (
            {"a": {"$size": 2}},
            {"a": 1},
            leaf(
                "$size", {"a": {"$size": 2}}, "type did not match",
                consideredType="int", expectedType="array", consideredValue=1,
            ),
        ),
        (
            {"a": {"$mod": [3, 0]}},
            {"a": "x"},
            leaf(
                "$mod", {"a": {"$mod": [3, 0]}}, "type did not match",
                consideredType="string", expectedTypes=["decimal", "double", "int", "long"], consideredValue="x",
            ),
        ),
        (
            {"a": {"$regex": "^x", "$options": "i"}},
            {"a": "y"},
            leaf(
                "$regex", {"a": {"$regex": "^x", "$options": "i"}}, "regular expression did not match",
                consideredValue="y",
            ),
        ),
        ({"a": {"$all": []}}, {"a": 1}, leaf("$all", {"a": {"$all": []}}, "expression always evaluates to false")),
        (
            {"a": {"$gt": 1, "$lt": 5}, "b": 1},
            {"a": 9},
            {
                "operatorName": "$and",
                "clausesNotSatisfied": [
                    {
                        "index": 1,
                        "details": leaf("$lt", {"a": {"$lt": 5}}, "comparison failed", consideredValue=9),
                    },
                    {"index": 2, "details": EQUAL},
                ],
            },
        ),
        ({"$or": [{"b": 1}]}, {}, {"operatorName": "$or", "clausesNotSatisfied": [{"index": 0, "details": EQUAL}]}),
        (
            {"$nor": [{"b": 1}, GT]},
            {"a": 3},
            {
                "operatorName": "$nor",
                "clausesSatisfied": [
                    {"index": 1, "details": leaf("$gt", GT, "comparison succeeded", consideredValue=3)}
                ],
            },
        ),
        (
            {"a": {"$not": {"$gt": 1}}},
            {"a": 3},
            {"operatorName": "$not", "details": leaf("$gt", GT, "comparison succeeded", consideredValue=3)},
        ),
    ],
)  # fmt: skip
def test_the_details_name_what_was_asked_and_what_was_found(
    validator: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = details(validator, document)
    assert found == expected
    assert list(found) == list(expected)
