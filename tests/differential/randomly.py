"""Random documents, filters, updates and stages, wider than users write them. All take the dice they throw."""

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


def number(dice: Random) -> Any:
    small = dice.randint(-3, 6)
    return dice.choice(
        [
            small,
            small,
            float(small),
            Int64(small),
            Decimal128(str(small)),
            small + 0.5,
            Decimal128(f"{small}.50"),
            dice.choice([-0.0, float("nan"), float("inf"), Decimal128("NaN"), 2**31 - 1, Int64(2**53 + 1), 1e300]),
        ]
    )


def scalar(dice: Random) -> Any:
    kind = dice.random()
    if kind < 0.45:
        return number(dice)
    if kind < 0.65:
        return dice.choice(WORDS)
    if kind < 0.75:
        return None
    return dice.choice(
        [
            True,
            False,
            datetime(2020, 1, 1) + timedelta(hours=dice.randint(0, 3)),
            Timestamp(dice.randint(1, 3), 1),
            ObjectId(b"%012d" % dice.randint(0, 3)),
            Binary(b"ab"[: dice.randint(0, 2)], dice.choice([0, 5])),
            Regex("^a", dice.choice(["", "i"])),
            Code("x"),
            MinKey(),
            MaxKey(),
        ]
    )


def value(dice: Random, depth: int = 0) -> Any:
    kind = dice.random()
    if kind < 0.2 and depth < 3:
        return [value(dice, depth + 1) for _ in range(dice.randint(0, 3))]
    if kind < 0.4 and depth < 3:
        return fields(dice, depth + 1)
    return scalar(dice)


def fields(dice: Random, depth: int = 0) -> Case:
    return {name: value(dice, depth) for name in dice.sample("abc", dice.randint(0, 3))}


def documents(dice: Random, count: int) -> list[Case]:
    return [{"_id": position, **fields(dice)} for position in range(count)]


def operand(dice: Random) -> Any:
    """A value that a comparison takes: no regular expression."""
    found = value(dice, 1)
    return 1 if isinstance(found, Regex) else found


def condition(dice: Random, depth: int = 0) -> Any:
    """What stands on a path."""
    match dice.randint(0, 15):
        case 0 | 1:
            return value(dice, 1)
        case 2 | 3 | 4:
            return {dice.choice(COMPARISONS): operand(dice)}
        case 5:
            return {dice.choice(["$in", "$nin"]): [value(dice, 2) for _ in range(dice.randint(0, 3))]}
        case 6:
            return {"$all": [value(dice, 2) for _ in range(dice.randint(0, 2))]}
        case 7:
            return {"$exists": dice.random() < 0.5}
        case 8:
            return {"$type": dice.choice([dice.choice(TYPES), dice.sample(TYPES, 2)])}
        case 9:
            return {"$size": dice.randint(0, 3)}
        case 10:
            return {"$mod": [dice.choice([2, 3, 2.5, Int64(4)]), dice.randint(-1, 2)]}
        case 11:
            return {dice.choice(["$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"]): dice.randint(0, 7)}
        case 12:
            return {"$regex": dice.choice(["^a", "b$", "", "^A", "1"]), "$options": dice.choice(["", "i"])}
        case 13:
            return {dice.choice(["$gt", "$gte"]): dice.randint(-3, 2), dice.choice(["$lt", "$lte"]): dice.randint(1, 6)}
        case 14 if depth < 2:
            inner = condition(dice, depth + 1)
            return {"$not": inner if operators(inner) else {"$gt": 1}}
        case _ if depth < 2:
            inner = condition(dice, depth + 1)
            return {"$elemMatch": inner if operators(inner) else tree(dice, depth + 2)}
        case _:
            return {"$gte": dice.randint(-3, 3)}


def operators(found: Any) -> bool:
    return isinstance(found, dict) and bool(found) and next(iter(found)).startswith("$")


def tree(dice: Random, depth: int = 0) -> Case:
    """A filter."""
    kind = dice.random()
    if kind < 0.2 and depth < 2:
        return {dice.choice(["$and", "$or", "$nor"]): [tree(dice, depth + 1) for _ in range(dice.randint(1, 3))]}
    if kind < 0.25 and depth == 0:
        path = dice.choice(PATHS[:7])
        return {"$expr": {dice.choice(COMPARISONS): [f"${path}", {"$literal": value(dice, 1)}]}}
    return {path: condition(dice) for path in dice.sample(PATHS, dice.choice([1, 1, 2]))}


def projection(dice: Random) -> Case:
    if dice.random() < 0.2:
        return {"_id": 1}
    names = dice.sample(["a", "b", "c", "a.b", "b.a", "a.c", "c.a.b"], dice.randint(1, 3))
    return dict.fromkeys(names, dice.randint(0, 1)) | dice.choice([{}, {}, {"_id": 0}])


def sort(dice: Random) -> Case:
    return {path: dice.choice([1, -1]) for path in dice.sample(PATHS, dice.randint(0, 2))} | {"_id": 1}


def index(dice: Random, number: int) -> Case:
    """The specification of an index of any kind."""
    key: Case = {path: dice.choice([1, -1]) for path in dice.sample(PATHS, dice.randint(1, 3))}
    if dice.random() < 0.4:
        key["_id"] = 1
    options: Case = {}
    match dice.randint(0, 8):
        case 0:
            key[dice.choice(list(key))] = "hashed"
        case 1:
            key = {"$**": 1}
        case 2:
            key = {dice.choice(PATHS) + ".$**": 1}
        case 3:
            key, options = {"$**": 1}, {"wildcardProjection": {dice.choice(["a", "b", "a.b"]): dice.choice([0, 1])}}
        case 4:
            options["partialFilterExpression"] = {dice.choice(PATHS): dice.choice([{"$exists": True}, {"$gt": 1}, 1])}
        case 5:
            options["sparse"] = True
        case 6:
            options["collation"] = dice.choice(COLLATIONS)
    return {"key": key, "name": f"i{number}", **options}


UPDATE_PATHS = [*PATHS, "a.$[]", "a.$[e]", "b.$[].c", "a.$[e].b", "_id", "a.$", "d", "d.e"]


def change(dice: Random) -> Case:
    """The update of one statement: operators, a replacement or a pipeline."""
    kind = dice.random()
    if kind < 0.08:
        return fields(dice)
    found: Case = {}
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        operator, argument = _operation(dice)
        found.setdefault(operator, {})[dice.choice(UPDATE_PATHS)] = argument
    return found


_OPERATORS = [
    *("$set", "$set", "$unset", "$inc", "$mul", "$min", "$max", "$push", "$push", "$addToSet", "$pull", "$pullAll"),
    *("$pop", "$rename", "$bit", "$setOnInsert"),
]


def _operation(dice: Random) -> tuple[str, Any]:
    operator = dice.choice(_OPERATORS)
    match operator:
        case "$inc" | "$mul":
            return operator, number(dice) if dice.random() < 0.95 else scalar(dice)
        case "$push":
            return operator, _pushed(dice)
        case "$addToSet":
            return operator, dice.choice([value(dice, 1), {"$each": [value(dice, 2) for _ in range(2)]}])
        case "$pull":
            return operator, dice.choice([value(dice, 2), condition(dice), {"b": condition(dice)}])
        case "$pullAll":
            return operator, [value(dice, 2) for _ in range(dice.randint(0, 3))]
        case "$pop":
            return operator, dice.choice([1, -1, 1, -1, 2])
        case "$rename":
            return operator, dice.choice(["a", "b", "d", "d.e", "b.c", "_id", "a.0"])
        case "$bit":
            operation = dice.choice(["and", "or", "xor"])
            return operator, {operation: dice.choice([dice.randint(0, 7), Int64(dice.randint(0, 7)), 1.5])}
        case _:
            return operator, value(dice, 1)


def _pushed(dice: Random) -> Any:
    if dice.random() < 0.4:
        return value(dice, 1)
    found: Case = {"$each": [value(dice, 2) for _ in range(dice.randint(0, 3))]}
    if dice.random() < 0.4:
        found["$position"] = dice.randint(-3, 3)
    if dice.random() < 0.4:
        found["$slice"] = dice.randint(-3, 3)
    if dice.random() < 0.4:
        found["$sort"] = dice.choice([1, -1, {"a": 1}, {"b.c": -1, "a": 1}])
    return found


def statement(dice: Random) -> Case:
    """One statement of an update command."""
    query = dice.choice([{"_id": dice.randint(0, 12)}, tree(dice), {"a": value(dice, 1)}])
    found: Case = {"q": query, "u": change(dice)}
    named = "$[e]" in str(found["u"])
    if named or dice.random() < 0.03:
        found["arrayFilters"] = [{dice.choice(["e", "e.b"]): condition(dice, 1)}]
    replaces = not any(name.startswith("$") for name in found["u"])
    if not replaces:
        found["multi"] = dice.random() < 0.4 and query.get("_id") is None
    if dice.random() < 0.2:
        found["upsert"] = True
    if dice.random() < 0.1:
        found["collation"] = dice.choice(COLLATIONS)
    return found
