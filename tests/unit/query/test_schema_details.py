"""The rules of a schema that a refused document does not satisfy, as MongoDB 6.0 names them."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.query.schema.failure_details import schema_details
from docstore.query.schema.validator_details import failure_details

NO_INT = {
    "operatorName": "bsonType", "specifiedAs": {"bsonType": "int"}, "reason": "type did not match",
    "consideredValue": "x", "consideredType": "string",
}  # fmt: skip
NO_A = {"operatorName": "required", "specifiedAs": {"required": ["a"]}, "missingProperties": ["a"]}
INT = {"bsonType": "int"}


def rules(schema: dict[str, Any], document: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, Any] = bson.decode(schema_details(bson.encode(schema), bson.encode(document), False))
    assert found["operatorName"] == "$jsonSchema"
    failures: list[dict[str, Any]] = found["schemaRulesNotSatisfied"]
    return failures


def of_value(schema: dict[str, Any], value: Any) -> list[dict[str, Any]]:
    (rule,) = rules({"properties": {"v": schema}}, {"v": value})
    details: list[dict[str, Any]] = rule["propertiesNotSatisfied"][0]["details"]
    return details


@pytest.mark.parametrize(
    ("schema", "document", "expected"),
    [
        ({"required": ["a"]}, {}, NO_A),
        (
            {"properties": {"a": {"title": "T", **INT}}},
            {"a": "x"},
            {
                "operatorName": "properties",
                "propertiesNotSatisfied": [{"propertyName": "a", "title": "T", "details": [NO_INT]}],
            },
        ),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b": 1, "c": 2},
            {
                "operatorName": "additionalProperties",
                "specifiedAs": {"additionalProperties": False}, "additionalProperties": ["b", "c"],
            },
        ),
        (
            {"additionalProperties": INT},
            {"b": "x"},
            {
                "operatorName": "additionalProperties",
                "reason": "at least one additional property did not match the subschema",
                "failingProperty": "b", "details": [NO_INT],
            },
        ),
        (
            {"patternProperties": {"^x": INT}},
            {"xa": "x", "xb": "x"},
            {
                "operatorName": "patternProperties",
                "details": [{"propertyName": "xa", "regexMatched": "^x", "details": [NO_INT]}],
            },
        ),
        (
            {"dependencies": {"b": ["a"], "c": {"required": ["a"]}}},
            {"b": 1, "c": 1},
            {
                "operatorName": "dependencies",
                "failingDependencies": [
                    {"conditionalProperty": "b", "missingProperties": ["a"]},
                    {"conditionalProperty": "c", "details": [NO_A]},
                ],
            },
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"title": "T", "properties": {"b": INT}}]},
            {"b": "x"},
            {
                "operatorName": "anyOf",
                "schemasNotSatisfied": [
                    {"index": 0, "details": [NO_A]},
                    {
                        "index": 1, "title": "T",
                        "details": [
                            {
                                "operatorName": "properties",
                                "propertiesNotSatisfied": [{"propertyName": "b", "details": [NO_INT]}],
                            }
                        ],
                    },
                ],
            },
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            {"operatorName": "oneOf", "reason": "more than one subschema matched", "matchingSchemaIndexes": [0, 1]},
        ),
        ({"not": {"required": ["a"]}}, {"a": 1}, {"operatorName": "not", "reason": "child expression matched"}),
        (
            {"minProperties": 3},
            {"a": 1},
            {
                "operatorName": "minProperties", "specifiedAs": {"minProperties": 3},
                "reason": "specified number of properties was not satisfied", "numberOfProperties": 1,
            },
        ),
    ],
)  # fmt: skip
def test_a_rule_names_what_it_misses(
    schema: dict[str, Any], document: dict[str, Any], expected: dict[str, Any]
) -> None:
    (found,) = rules(schema, document)
    assert found == expected
    assert list(found) == list(expected)


@pytest.mark.parametrize(
    ("schema", "value", "names"),
    [
        ({"enum": [8], "maximum": 1, "minimum": 10, "multipleOf": 4}, 5, ["multipleOf", "maximum", "minimum", "enum"]),
        ({"minLength": 9, "maxLength": 1, "pattern": "^y"}, "xxx", ["pattern", "maxLength", "minLength"]),
        ({"uniqueItems": True, "items": INT, "minItems": 9}, ["x", "x"], ["minItems", "uniqueItems", "items"]),
        ({"items": [INT], "additionalItems": False}, ["x", 1], ["items", "additionalItems"]),
        ({"bsonType": "string", "minimum": 9, "enum": ["a"]}, 5, ["enum", "bsonType"]),
        ({"minimum": 5, "exclusiveMinimum": True}, 5, ["minimum"]),
    ],
)
def test_rules_are_told_in_order_and_only_where_the_type_is_right(
    schema: dict[str, Any], value: Any, names: list[str]
) -> None:
    assert [rule["operatorName"] for rule in of_value(schema, value)] == names


def test_items_are_named_by_their_place() -> None:
    (found,) = of_value({"items": {"items": INT}}, [[1], [1, "x"]])
    assert found["itemIndex"] == 1
    assert found["details"][0]["itemIndex"] == 1
    assert found["details"][0]["details"] == [NO_INT]
    (found,) = of_value({"items": [{}], "additionalItems": INT}, [1, 2, "x"])
    assert (found["itemIndex"], found["details"]) == (2, [NO_INT])


def test_a_schema_inside_a_filter_is_told_as_a_clause() -> None:
    validator = {"$nor": [{"$jsonSchema": {"title": "T", "required": ["a"]}}]}
    found = bson.decode(failure_details(bson.encode(validator), bson.encode({"a": 1})))
    matched = {"operatorName": "$jsonSchema", "reason": "schema matched"}
    assert found["clausesSatisfied"] == [{"index": 0, "title": "T", "details": matched}]


@pytest.mark.parametrize(
    ("wanted", "rule", "value", "told"),
    [
        ("int", {"minimum": 9}, 1.5, ["minimum", "bsonType"]),
        ("int", {"minimum": 9}, "a", ["bsonType"]),
        ("string", {"minimum": 9}, 5, ["bsonType"]),
        (["string", "array"], {"minimum": 9}, 5, ["minimum", "bsonType"]),
        (["int", "string"], {"minItems": 9}, [1], ["minItems", "bsonType"]),
        ("number", {"maxLength": 0}, "abc", ["bsonType"]),
        (["bool", "number"], {"maxLength": 0}, "abc", ["maxLength", "bsonType"]),
        ("array", {"required": ["z"]}, {"x": 1}, ["bsonType"]),
        (["long", "double"], {"required": ["z"]}, {"x": 1}, ["required", "bsonType"]),
        ("int", {"dependencies": {"x": ["y"]}}, {"x": 1}, ["dependencies", "bsonType"]),
        ("int", {"enum": [1]}, "a", ["enum", "bsonType"]),
    ],
)
def test_rules_of_other_types_are_told_where_several_types_are_wanted(
    wanted: Any, rule: dict[str, Any], value: Any, told: list[str]
) -> None:
    assert [each["operatorName"] for each in of_value({"bsonType": wanted, **rule}, value)] == told
