"""`$jsonSchema`: what each keyword says, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.unit.query.raw import raw


def holds(schema: Any, document: dict[str, Any]) -> bool:
    return compile_filter(parse_filter(raw({"$jsonSchema": schema}))).matches(raw(document))


def of_a(schema: dict[str, Any], value: Any) -> bool:
    return holds({"properties": {"a": schema}}, {"a": value})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"bsonType": "long"}, Int64(1), 1),
        ({"bsonType": ["int", "null"]}, None, "x"),
        ({"bsonType": "array"}, [1], 1),
        ({"type": "number"}, Decimal128("1"), "1"),
        ({"type": "boolean"}, True, 1),
        ({"minimum": 2}, 2.0, 1),
        ({"minimum": 2, "exclusiveMinimum": True}, 3, 2),
        ({"maximum": 2}, 2, 2.5),
        ({"maximum": 2, "exclusiveMaximum": True}, 1, 2),
        ({"multipleOf": 0.1}, 0.3, 0.35),
        ({"minLength": 2}, "\u00e4\U0001f600", "\U0001f600"),
        ({"maxLength": 1}, "\U0001f600", "ab"),
        ({"pattern": "^a"}, "ab", "ba"),
        ({"minItems": 1}, [1], []),
        ({"maxItems": 1}, [1], [1, 2]),
        ({"uniqueItems": True}, [1, 2], [1, 1.0]),
        ({"uniqueItems": True}, [{"x": 1}], [{"x": 1, "y": 2}, {"y": 2, "x": 1}]),
        ({"items": {"type": "number"}}, [1, 2.5], [1, "x"]),
        ({"items": [{"type": "number"}], "additionalItems": False}, [1], [1, 2]),
        ({"items": [{"type": "number"}], "additionalItems": {"type": "string"}}, [1, "x"], [1, 2]),
        ({"enum": [1, {"x": 1, "y": 2}]}, {"y": 2, "x": 1.0}, 2),
        ({"minProperties": 1}, {"x": 1}, {}),
        ({"maxProperties": 1}, {"x": 1}, {"x": 1, "y": 1}),
        ({"required": ["x"]}, {"x": None}, {"y": 1}),
        ({"properties": {"x": {"type": "string"}}}, {"y": 1}, {"x": 1}),
        ({"patternProperties": {"^x": {"type": "string"}}}, {"xa": "", "y": 1}, {"xa": 1}),
        ({"properties": {"x": {}}, "additionalProperties": False}, {"x": 1}, {"y": 1}),
        ({"patternProperties": {"x": {}}, "additionalProperties": {"type": "null"}}, {"x": 1, "y": None}, {"y": 1}),
        ({"dependencies": {"x": ["y"]}}, {"x": 1, "y": 1}, {"x": 1}),
        ({"dependencies": {"x": {"required": ["y"]}}}, {"z": 1}, {"x": 1}),
        ({"allOf": [{"minimum": 1}, {"maximum": 3}]}, 2, 4),
        ({"anyOf": [{"maximum": 1}, {"minimum": 3}]}, 4, 2),
        ({"oneOf": [{"minimum": 1}, {"minimum": 3}]}, 2, 4),
        ({"not": {"type": "string"}}, 1, "x"),
    ],
)
def test_a_keyword_holds_for_the_good_value_only(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert of_a(schema, good)
    assert not of_a(schema, bad)


def test_a_keyword_says_nothing_about_values_of_other_types() -> None:
    assert of_a({"minimum": 5, "minLength": 5, "minItems": 5, "minProperties": 5}, True)


def test_a_missing_property_is_judged_by_required_alone() -> None:
    assert holds({"properties": {"a": {"type": "string"}}}, {})
    assert not holds({"required": ["a"]}, {})


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        (5, Code.TypeMismatch),
        ({"foo": 1}, Code.FailedToParse),
        ({"$ref": "x"}, Code.FailedToParse),
        ({"type": "integer"}, Code.FailedToParse),
        ({"type": "int"}, Code.BadValue),
        ({"type": "string", "bsonType": "string"}, Code.FailedToParse),
        ({"required": []}, Code.FailedToParse),
        ({"required": ["a", "a"]}, Code.FailedToParse),
        ({"exclusiveMinimum": True}, Code.FailedToParse),
        ({"multipleOf": 0}, Code.FailedToParse),
        ({"minItems": -1}, Code.FailedToParse),
        ({"enum": [1, 1.0]}, Code.FailedToParse),
        ({"allOf": []}, Code.BadValue),
        ({"properties": {"a": {"pattern": "("}}}, 51091),
        ({"title": 5}, Code.TypeMismatch),
        ({"encrypt": {}}, Code.NotImplemented),
    ],
)
def test_refusals(schema: Any, code: int) -> None:
    with pytest.raises(CommandError) as refused:
        holds(schema, {})
    assert refused.value.code == code
