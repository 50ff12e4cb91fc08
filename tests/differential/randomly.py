"""Random documents, filters, updates and stages, wider than users write them. All take a generator."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from bson.binary import Binary
from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

Case = dict[str, Any]

PATHS = ["a", "b", "c", "a.b", "a.c", "b.a", "b.c", "a.0", "b.1", "a.b.c", "a.0.b", "c.a.b", "a.1.c", "c.0.0"]
COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
COLLATIONS: list[Case] = [
    {"locale": "en", "strength": 1},
    {"locale": "en", "strength": 2},
    {"locale": "en"},
    {"locale": "fr", "backwards": True},
    {"locale": "en", "numericOrdering": True},
    {"locale": "sv", "caseLevel": True, "strength": 1},
    {"locale": "de", "caseFirst": "upper"},
    {"locale": "en", "alternate": "shifted", "strength": 3},
]
WORDS = [
    "",
    "a",
    "A",
    "ab",
    "aB",
    "b",
    "a1",
    "a10",
    "a2",
    "\u00e9",
    "e",
    "E",
    "\u00c9",
    "cote",
    "cot\u00e9",
    "c-o",
    "co",
    "\u00df",
    "ss",
]
TYPES = [
    "double",
    "string",
    "object",
    "array",
    "null",
    "bool",
    "int",
    "long",
    "decimal",
    "date",
    "number",
    "regex",
    7,
    17,
]


def number(rng: Random) -> Any:
    small = rng.randint(-3, 6)
    return rng.choice(
        [
            small,
            small,
            float(small),
            Int64(small),
            Decimal128(str(small)),
            small + 0.5,
            Decimal128(f"{small}.50"),
            rng.choice([-0.0, float("nan"), float("inf"), Decimal128("NaN"), 2**31 - 1, Int64(2**53 + 1), 1e300]),
        ]
    )


def scalar(rng: Random) -> Any:
    kind = rng.random()
    if kind < 0.45:
        return number(rng)
    if kind < 0.65:
        return rng.choice(WORDS)
    if kind < 0.75:
        return None
    return rng.choice(
        [
            True,
            False,
            datetime(2020, 1, 1) + timedelta(hours=rng.randint(0, 3)),
            Timestamp(rng.randint(1, 3), 1),
            ObjectId(b"%012d" % rng.randint(0, 3)),
            Binary(b"ab"[: rng.randint(0, 2)], rng.choice([0, 5])),
            Regex("^a", rng.choice(["", "i"])),
            Code("x"),
            MinKey(),
            MaxKey(),
        ]
    )


def value(rng: Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.2 and depth < 3:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind < 0.4 and depth < 3:
        return fields(rng, depth + 1)
    return scalar(rng)


def fields(rng: Random, depth: int = 0) -> Case:
    return {name: value(rng, depth) for name in rng.sample("abc", rng.randint(0, 3))}


def documents(rng: Random, count: int) -> list[Case]:
    return [{"_id": position, **fields(rng)} for position in range(count)]


def operand(rng: Random) -> Any:
    """A value that a comparison takes: no regular expression."""
    found = value(rng, 1)
    return 1 if isinstance(found, Regex) else found


def condition(rng: Random, depth: int = 0) -> Any:
    """What stands on a path."""
    match rng.randint(0, 15):
        case 0 | 1:
            return value(rng, 1)
        case 2 | 3 | 4:
            return {rng.choice(COMPARISONS): operand(rng)}
        case 5:
            return {rng.choice(["$in", "$nin"]): [value(rng, 2) for _ in range(rng.randint(0, 3))]}
        case 6:
            return {"$all": [value(rng, 2) for _ in range(rng.randint(0, 2))]}
        case 7:
            return {"$exists": rng.random() < 0.5}
        case 8:
            return {"$type": rng.choice([rng.choice(TYPES), rng.sample(TYPES, 2)])}
        case 9:
            return {"$size": rng.randint(0, 3)}
        case 10:
            return {"$mod": [rng.choice([2, 3, 2.5, Int64(4)]), rng.randint(-1, 2)]}
        case 11:
            return {rng.choice(["$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"]): rng.randint(0, 7)}
        case 12:
            return {"$regex": rng.choice(["^a", "b$", "", "^A", "1"]), "$options": rng.choice(["", "i"])}
        case 13:
            return {rng.choice(["$gt", "$gte"]): rng.randint(-3, 2), rng.choice(["$lt", "$lte"]): rng.randint(1, 6)}
        case 14 if depth < 2:
            inner = condition(rng, depth + 1)
            return {"$not": inner if operators(inner) else {"$gt": 1}}
        case _ if depth < 2:
            inner = condition(rng, depth + 1)
            return {"$elemMatch": inner if operators(inner) else tree(rng, depth + 2)}
        case _:
            return {"$gte": rng.randint(-3, 3)}


def operators(found: Any) -> bool:
    return isinstance(found, dict) and bool(found) and next(iter(found)).startswith("$")


def tree(rng: Random, depth: int = 0) -> Case:
    """A filter."""
    kind = rng.random()
    if kind < 0.2 and depth < 2:
        return {rng.choice(["$and", "$or", "$nor"]): [tree(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    if kind < 0.25 and depth == 0:
        path = rng.choice(PATHS[:7])
        return {"$expr": {rng.choice(COMPARISONS): [f"${path}", {"$literal": value(rng, 1)}]}}
    return {path: condition(rng) for path in rng.sample(PATHS, rng.choice([1, 1, 2]))}


def projection(rng: Random) -> Case:
    if rng.random() < 0.2:
        return {"_id": 1}
    names = rng.sample(["a", "b", "c", "a.b", "b.a", "a.c", "c.a.b"], rng.randint(1, 3))
    return dict.fromkeys(names, rng.randint(0, 1)) | rng.choice([{}, {}, {"_id": 0}])


def sort(rng: Random) -> Case:
    return {path: rng.choice([1, -1]) for path in rng.sample(PATHS, rng.randint(0, 2))} | {"_id": 1}


def index(rng: Random, number: int) -> Case:
    """The specification of an index of any kind."""
    key: Case = {path: rng.choice([1, -1]) for path in rng.sample(PATHS, rng.randint(1, 3))}
    if rng.random() < 0.4:
        key["_id"] = 1
    options: Case = {}
    match rng.randint(0, 8):
        case 0:
            key[rng.choice(list(key))] = "hashed"
        case 1:
            key = {"$**": 1}
        case 2:
            key = {rng.choice(PATHS) + ".$**": 1}
        case 3:
            key, options = {"$**": 1}, {"wildcardProjection": {rng.choice(["a", "b", "a.b"]): rng.choice([0, 1])}}
        case 4:
            options["partialFilterExpression"] = {rng.choice(PATHS): rng.choice([{"$exists": True}, {"$gt": 1}, 1])}
        case 5:
            options["sparse"] = True
        case 6:
            options["collation"] = rng.choice(COLLATIONS)
    return {"key": key, "name": f"i{number}", **options}


UPDATE_PATHS = [*PATHS, "a.$[]", "a.$[e]", "b.$[].c", "a.$[e].b", "_id", "a.$", "d", "d.e"]


def change(rng: Random) -> Case:
    """The update of one statement: operators, a replacement or a pipeline."""
    kind = rng.random()
    if kind < 0.08:
        return fields(rng)
    found: Case = {}
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        operator, argument = _operation(rng)
        found.setdefault(operator, {})[rng.choice(UPDATE_PATHS)] = argument
    return found


_OPERATORS = [
    *("$set", "$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$push", "$addToSet", "$pull", "$pullAll"),
    *("$pop", "$rename", "$bit", "$setOnInsert"),
]


def _operation(rng: Random) -> tuple[str, Any]:
    operator = rng.choice(_OPERATORS)
    match operator:
        case "$inc" | "$mul":
            return operator, number(rng) if rng.random() < 0.95 else scalar(rng)
        case "$push":
            return operator, _pushed(rng)
        case "$addToSet":
            return operator, rng.choice([value(rng, 1), {"$each": [value(rng, 2) for _ in range(2)]}])
        case "$pull":
            return operator, rng.choice([value(rng, 2), condition(rng), {"b": condition(rng)}])
        case "$pullAll":
            return operator, [value(rng, 2) for _ in range(rng.randint(0, 3))]
        case "$pop":
            return operator, rng.choice([1, -1, 1, -1, 2])
        case "$rename":
            return operator, rng.choice(["a", "b", "d", "d.e", "b.c", "_id", "a.0"])
        case "$bit":
            operation = rng.choice(["and", "or", "xor"])
            return operator, {operation: rng.choice([rng.randint(0, 7), Int64(rng.randint(0, 7)), 1.5])}
        case _:
            return operator, value(rng, 1)


def _pushed(rng: Random) -> Any:
    if rng.random() < 0.4:
        return value(rng, 1)
    found: Case = {"$each": [value(rng, 2) for _ in range(rng.randint(0, 3))]}
    if rng.random() < 0.4:
        found["$position"] = rng.randint(-3, 3)
    if rng.random() < 0.4:
        found["$slice"] = rng.randint(-3, 3)
    if rng.random() < 0.4:
        found["$sort"] = rng.choice([1, -1, {"a": 1}, {"b.c": -1, "a": 1}])
    return found


def statement(rng: Random) -> Case:
    """One statement of an update command."""
    query = rng.choice([{"_id": rng.randint(0, 12)}, tree(rng), {"a": value(rng, 1)}])
    found: Case = {"q": query, "u": change(rng)}
    named = "$[e]" in str(found["u"])
    if named or rng.random() < 0.03:
        found["arrayFilters"] = [{rng.choice(["e", "e.b"]): condition(rng, 1)}]
    replaces = not any(name.startswith("$") for name in found["u"])
    if not replaces:
        found["multi"] = rng.random() < 0.4 and query.get("_id") is None
    if rng.random() < 0.2:
        found["upsert"] = True
    if rng.random() < 0.1:
        found["collation"] = rng.choice(COLLATIONS)
    return found
