"""Commands that are sent again with other values, of the same types and of others: what was prepared for the first must
serve the second.
"""

from __future__ import annotations

from random import Random
from typing import Any

from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.regex import Regex

from tests.differential import randomly
from tests.differential.pair import Command

Case = dict[str, Any]

KEYS = ["a", "b", "c", "a.b", "d.k", "e", "_id"]
_KEPT = frozenset(("$limit", "$slice", "$sort", "batchSize", "collation", "limit", "projection", "skip", "sort"))
"""Fields of a command whose values stay."""

_OTHERS: list[Any] = [
    *(None, float("nan"), -0.0, [], {}, [[]], [1, [2]], {"b": 1}, [{"b": 1}, {"b": 2}], [None], "", True, 1, 1.0, "a"),
    *(Int64(1), Decimal128("1"), MinKey(), MaxKey(), Regex("^a"), Code("x"), 2**31 - 1, Int64(2**62), 1e300, "$a"),
]


def value(rng: Random) -> Any:
    return rng.choice(
        [rng.randint(-3, 8), rng.choice(randomly.WORDS), float(rng.randint(-3, 8)), Int64(rng.randint(0, 8))]
    )


def document(rng: Random, number: int) -> Case:
    """Fields that have the same types in most documents."""
    found = {"_id": number, "a": value(rng), "b": rng.randint(-3, 8), "c": rng.choice(randomly.WORDS)}
    if rng.random() < 0.3:
        found["a"] = {"b": value(rng), "c": value(rng)}
    if rng.random() < 0.3:
        found["d"] = [{"k": rng.randint(0, 4), "v": value(rng)} for _ in range(rng.randint(0, 3))]
        found["e"] = [value(rng) for _ in range(rng.randint(0, 3))]
    return found


def _condition(rng: Random) -> Any:
    match rng.randint(0, 6):
        case 0 | 1:
            return value(rng)
        case 2:
            return {rng.choice(randomly.COMPARISONS): value(rng)}
        case 3:
            return {"$gte": value(rng), "$lt": value(rng)}
        case 4:
            return {rng.choice(["$in", "$nin", "$all"]): [value(rng) for _ in range(rng.randint(1, 4))]}
        case 5:
            return {"$elemMatch": rng.choice([{"$gt": 0, "$lt": 5}, {"k": 1, "v": value(rng)}])}
        case _:
            return {"$not": {"$gt": value(rng)}}


def condition(rng: Random) -> Case:
    found: Case = {path: _condition(rng) for path in rng.sample(KEYS, rng.choice([1, 1, 2]))}
    if rng.random() < 0.15:
        found["$or"] = [{rng.choice(KEYS): _condition(rng)} for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.15:
        found["$and"] = [{rng.choice(KEYS): _condition(rng)} for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.1:
        found["$nor"] = [{rng.choice(KEYS): _condition(rng)} for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.1:
        operands = ["$a", rng.choice(["$b", "$c", "$a.b", 2])]
        found["$expr"] = {rng.choice(["$gt", "$eq", "$lte"]): operands}
    return found


KINDS: dict[str, Case] = {
    "plain": {}, "clustered": {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, "wildcard": {}, "collated": {},
    "collated by default": {"collation": {"locale": "en", "strength": 2}},
}  # fmt: skip
"""How a collection of a kind is made."""
_RULES = ({"locale": "en", "strength": 2}, {"locale": "en"}, {"locale": "simple"})


def index_in(rng: Random, kind: str) -> Case:
    """An index of a collection of a kind, without a name."""
    if kind == "wildcard" and rng.random() < 0.7:
        return {"key": {rng.choice(["$**", "$**", "a.$**", "d.$**"]): 1}}
    return index(rng) | (
        {"collation": rng.choice(_RULES)} if kind.startswith("collated") and rng.random() < 0.8 else {}
    )


def command_in(rng: Random, kind: str) -> Command:
    """A command on a collection of a kind."""
    found = command(rng)
    if kind.startswith("collated") and rng.random() < 0.7:
        for each in found.get("updates", [found]):
            each["collation"] = rng.choice(_RULES)
    return found


def _change_of_many(rng: Random) -> Any:
    """A change that does not fail, whatever it is applied to before another."""
    operator = rng.choice(["$push", "$addToSet", "$pull"])
    return rng.choice(
        [{"$set": {"w": value(rng), "a": value(rng)}}, {operator: {"v": value(rng)}}, {"$unset": {"w": 1}}]
    )


def index(rng: Random) -> Case:
    """An index, without a name."""
    path, other = rng.sample(KEYS[:-1], 2)
    match rng.randint(0, 5):
        case 0:
            return {"key": {path: "hashed"}}
        case 1:
            return {
                "key": {path: 1},
                "partialFilterExpression": {rng.choice([path, other]): {"$gt": rng.randint(-2, 5)}},
            }
        case 2:
            return {"key": {path: 1, other: -1}}
        case 3:
            return {"key": {path: rng.choice([1, -1])}, "hidden": True}
        case _:
            return {"key": {path: rng.choice([1, -1])}}


def _change(rng: Random) -> Any:
    path = rng.choice(["a", "b", "c", "x", "a.b", "e", "y.z", "e.0", "d.1.v"])
    return rng.choice(
        [
            {"$set": {path: value(rng)}},
            {"$set": {path: value(rng), "w": value(rng)}, "$setOnInsert": {"s": value(rng)}},
            {rng.choice(["$inc", "$mul"]): {path: rng.choice([1, 0.5, Int64(3)])}},
            {rng.choice(["$min", "$max"]): {path: value(rng)}},
            {"$push": {"e": {"$each": [value(rng), value(rng)], "$slice": rng.randint(-4, 4)}}},
            {rng.choice(["$push", "$addToSet", "$pull"]): {"e": value(rng)}},
            {"$pull": {"d": {"k": rng.randint(0, 4)}}},
            {"$unset": {path: 1}},
            {"a": value(rng), "b": rng.randint(0, 5)},
            [{"$set": {"x": {"$literal": value(rng)}}}, {"$unset": "y"}],
        ]
    )


def command(rng: Random) -> Command:
    """A command on the collection `c`, whose answer does not depend on which index serves it."""
    match rng.randint(0, 7):
        case 0 | 1:
            found: Command = {"find": "c", "filter": condition(rng), "sort": randomly.sort(rng), "batchSize": 1000}
            if rng.random() < 0.3:
                found["projection"] = randomly.projection(rng)
            if rng.random() < 0.3:
                found |= {"limit": rng.randint(1, 5), "skip": rng.randint(0, 3)}
            return found
        case 2:
            return {"count": "c", "query": condition(rng)}
        case 3:
            stages = rng.choice(
                [
                    [{"$limit": 4}],
                    [{"$skip": 2}, {"$limit": 3}],
                    [{"$match": condition(rng)}],
                    [{"$group": {"_id": "$b", "n": {"$sum": 1}, "m": {"$max": "$c"}}}],
                    [{"$unionWith": {"coll": "c", "pipeline": [{"$match": condition(rng)}, {"$project": {"b": 1}}]}}],
                    [{"$lookup": {"from": "c", "let": {"v": "$b"}, "as": "l", "pipeline": [
                        {"$match": {"$expr": {"$eq": ["$b", "$$v"]}}}, {"$sort": {"_id": -1}}, {"$limit": 2}]}}],
                ]
            )  # fmt: skip
            last = {"$sort": {"_id": 1, "b": 1, "n": 1, "m": 1}}
            pipeline = [{"$match": condition(rng)}, {"$sort": {"_id": 1}}, *stages, last]
            return {"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 1000}}
        case 4:
            fields = {"sort": randomly.sort(rng), "update": _change(rng), "new": rng.random() < 0.5}
            return {"findAndModify": "c", "query": condition(rng), **fields}
        case 5:
            return {"update": "c", "updates": [{"q": condition(rng), "u": _change_of_many(rng), "multi": True}]}
        case _:
            statements = [{"q": {"_id": rng.randint(0, 30)}, "u": _change(rng)} for _ in range(rng.choice([1, 1, 3]))]
            return {"update": "c", "updates": statements, "ordered": rng.random() < 0.5}


def again(rng: Random, sent: Any, *, others: float, rare: bool = True) -> Any:
    """The command with other values; `others` is the share of those that are of another type, `rare`: among them may be
    those that a real server shows as others where it groups under a collation.
    """
    if isinstance(sent, dict):
        return {
            name: member if name in _KEPT else again(rng, member, others=others, rare=rare)
            for name, member in sent.items()
        }
    if isinstance(sent, list):
        return [again(rng, member, others=others, rare=rare) for member in sent]
    if isinstance(sent, bool) or (isinstance(sent, str) and (sent.startswith("$") or sent == "c")):
        return sent
    if rng.random() < others:
        chosen = rng.choice(_OTHERS)
        return chosen if rare or not isinstance(chosen, MinKey | MaxKey | Code) else None
    match sent:
        case Int64():
            return Int64(rng.randint(-3, 8))
        case int():
            return rng.randint(-3, 8)
        case float():
            return rng.choice([rng.randint(-3, 8) / 2, -0.0, 0.0])
        case str():
            return rng.choice(randomly.WORDS)
        case _:
            return sent
