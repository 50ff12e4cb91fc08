"""Random documents and random `$jsonSchema` schemas, good ones and a few that are refused."""

from __future__ import annotations

from random import Random
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

NAMES = ("a", "b", "c", "ab")
_TEXTS = ("", "a", "ab", "äö", "x\U0001f600", "abc")
_NUMBERS = (0, 1, 2, 3, -1, 4.5, 0.3, 6.0, Int64(9), Decimal128("0.3"), Decimal128("6"), float("nan"), float("inf"))
_BSON_TYPES = (
    "int",
    "long",
    "double",
    "decimal",
    "number",
    "string",
    "object",
    "array",
    "bool",
    "null",
    "date",
    "regex",
)
_JSON_TYPES = ("number", "string", "object", "array", "boolean", "null")


def scalar(rnd: Random) -> Any:
    return rnd.choice([rnd.choice(_NUMBERS), rnd.choice(_NUMBERS), rnd.choice(_TEXTS), None, rnd.random() < 0.5])


def value(rnd: Random, depth: int = 2) -> Any:
    kind = rnd.random()
    if depth == 0 or kind < 0.5:
        return scalar(rnd)
    if kind < 0.75:
        return [value(rnd, depth - 1) for _ in range(rnd.randrange(4))]
    return document(rnd, depth - 1)


def document(rnd: Random, depth: int = 2) -> dict[str, Any]:
    return {name: value(rnd, depth) for name in rnd.sample(NAMES, rnd.randrange(4))}


def schema(rnd: Random, depth: int = 2) -> Any:
    if rnd.random() < 0.01:
        return rnd.choice([5, {"foo": 1}, {"$ref": "x"}, {"type": "integer"}, []])
    return dict(keyword for _ in range(rnd.randrange(1, 4)) for keyword in _keywords(rnd, depth))


def _keywords(rnd: Random, depth: int) -> list[tuple[str, Any]]:
    choice = rnd.randrange(16 if depth else 9)
    if choice < 9:
        return _leaf(rnd, choice)
    inner = depth - 1
    if choice == 9:
        keyword = rnd.choice(["allOf", "anyOf", "oneOf"])
        return [(keyword, [schema(rnd, inner) for _ in range(rnd.randrange(1, 4))])]
    if choice == 10:
        return [("not", schema(rnd, inner))]
    if choice == 11:
        needed = schema(rnd, inner) if rnd.random() < 0.5 else rnd.sample(NAMES, 2)
        return [("dependencies", {rnd.choice(NAMES): needed})]
    if choice == 12:
        items = schema(rnd, inner) if rnd.random() < 0.5 else [schema(rnd, inner) for _ in range(rnd.randrange(3))]
        return [("items", items), ("additionalItems", rnd.choice([True, False, schema(rnd, inner)]))]
    found: list[tuple[str, Any]] = [("properties", {name: schema(rnd, inner) for name in rnd.sample(NAMES, 2)})]
    if rnd.random() < 0.4:
        found.append(("patternProperties", {rnd.choice(["^a", "b$", "."]): schema(rnd, inner)}))
    if rnd.random() < 0.4:
        found.append(("additionalProperties", rnd.choice([True, False, schema(rnd, inner)])))
    return found


def _leaf(rnd: Random, choice: int) -> list[tuple[str, Any]]:
    match choice:
        case 0:
            types = rnd.sample(_BSON_TYPES, rnd.randrange(1, 4))
            return [("bsonType", types if rnd.random() < 0.5 else types[0])]
        case 1:
            return [("type", rnd.choice(_JSON_TYPES))]
        case 2:
            return [("required", rnd.sample(NAMES, rnd.randrange(1, 3)))]
        case 3:
            side = rnd.choice(["minimum", "maximum"])
            strict = [(f"exclusive{side.title()}", rnd.random() < 0.5)] if rnd.random() < 0.5 else []
            return [(side, rnd.choice(_NUMBERS)), *strict]
        case 4:
            size = rnd.choice(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"])
            return [(size, rnd.choice([0, 1, 2, 2.0, -1, 1.5]))]
        case 5:
            return [("enum", [value(rnd, 1) for _ in range(rnd.randrange(1, 4))])]
        case 6:
            return [("multipleOf", rnd.choice([1, 2, 0.1, 1.5, Decimal128("0.3"), 3, 0]))]
        case 7:
            return [("pattern", rnd.choice(["^a", "b", "^.$", "("]))]
        case _:
            return [("uniqueItems", rnd.random() < 0.8)]
