"""What requests that are answered in one step may be, and both ways to have them answered."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.aggregation.stage import WILL_BE_MERGED
from docstore.node.commands import aggregate as aggregate_command
from docstore.node.commands import count, find
from docstore.node.commands import distinct as distinct_command
from docstore.node.read import at_once
from tests.unit.node.local import LocalNode

INDEXES: tuple[dict[str, Any], ...] = (
    {"key": {"a": 1}, "name": "a"}, {"key": {"a": -1, "b": 1}, "name": "a_b"},
    {"key": {"b": 1, "c": -1}, "name": "b_c"}, {"key": {"c": 1}, "name": "c", "sparse": True},
    {"key": {"x.y": 1, "a": 1}, "name": "xy"},
    {"key": {"b": 1}, "name": "part", "partialFilterExpression": {"a": {"$gt": 1}}}, {"key": {"d": -1}, "name": "d"},
    {"key": {"t": "text"}, "name": "t"}, {"key": {"a": 1, "g": "2dsphere"}, "name": "g"},
    {"key": {"e": 1}, "name": "e", "partialFilterExpression": {"a": {"$gt": 1}}},
    {"key": {"c": "hashed"}, "name": "ch"}, {"key": {"d": "hashed", "a": -1}, "name": "da"},
)  # fmt: skip
WILDCARDS: tuple[dict[str, Any], ...] = (
    {"key": {"$**": 1}, "name": "all"}, {"key": {"x.$**": 1}, "name": "x"},
    {"key": {"$**": 1}, "name": "some", "wildcardProjection": {"a": 1, "x": 1}},
    {"key": {"$**": 1}, "name": "part", "partialFilterExpression": {"a": {"$gt": 1}}},
)  # fmt: skip
LOOSE, STRICT = {"locale": "en", "strength": 2}, {"locale": "en"}
COLLATED: tuple[dict[str, Any], ...] = (
    *({"key": {"a": 1}, "name": f"a{rules}", "collation": rules} for rules in (LOOSE, STRICT, {"locale": "simple"})),
    {"key": {"a": -1, "b": 1}, "name": "a_b", "collation": LOOSE}, {"key": {"b": 1, "a": 1}, "name": "b_a"},
    {"key": {"c": 1}, "name": "c", "sparse": True, "collation": LOOSE},
    {"key": {"b": 1}, "name": "part", "collation": LOOSE, "partialFilterExpression": {"a": {"$gt": "a"}}},
    {"key": {"c": "hashed"}, "name": "ch", "collation": LOOSE}, {"key": {"$**": 1}, "name": "all", "collation": LOOSE},
    {"key": {"x.y": 1}, "name": "xy", "collation": LOOSE}, {"key": {"d": -1}, "name": "d", "collation": STRICT},
)  # fmt: skip
KINDS: dict[str, tuple[dict[str, Any], ...]] = {
    "standalone": INDEXES, "shard": INDEXES, "clustered": INDEXES, "wildcard": (*WILDCARDS, *WILDCARDS, *INDEXES[:4]),
    "collated": COLLATED, "collated by default": COLLATED, "earlier": INDEXES,
}  # fmt: skip
"""The indexes that there may be in a collection of a kind."""
SCALARS: tuple[Any, ...] = (
    0, 1, 2, 3, -1, 2.0, 2.5, Int64(1), float("nan"), float("inf"), "", "a", "A", "b", "ab", "bA", True, False, None,
    ObjectId(b"a" * 12), b"x", bson.Decimal128("2"), bson.MinKey(), bson.Timestamp(1, 1),
)  # fmt: skip
PATTERNS: tuple[Any, ...] = (
    bson.Regex("^a"), bson.Regex("^b"), bson.Regex("^ab"), bson.Regex("a"), bson.Regex("B", "i"), bson.Regex("^a|b"),
    bson.Regex("^a", "s"), bson.Regex("("),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *SCALARS, *PATTERNS, [], ["a", "b"], [1, 2], [2, "a"], {"y": 1}, {"y": [1, 2]}, [{"y": 1}, {"y": 3}],
)  # fmt: skip
PATHS = ("a", "b", "c", "d", "x.y", "_id")
OTHERS: tuple[Any, ...] = (
    {"$in": [1, "a"]}, {"$ne": 1}, {"$exists": True}, {"$exists": False}, {"$gt": 0, "$ne": 2}, {"$not": {"$gt": 1}},
    {"$type": "int"}, {"$nin": [None, 2]}, {"$gte": None}, {"$regex": "^a"}, {"$all": [1, 2]}, {"$size": 2},
    {"$regex": "a", "$options": "i"}, {"$regex": PATTERNS[0]}, {"$all": ["a"]}, {"$all": [2, "a", 1]}, {"$mod": [2, 1]},
    {"$elemMatch": {"y": 1}}, {"$elemMatch": {"y": {"$gt": 1}}}, {"$elemMatch": {"$gt": 0, "$lt": 2}},
    {"$elemMatch": {"$eq": "a"}}, {"$elemMatch": {"y": 1, "z": None}},
)  # fmt: skip


def document(rng: random.Random, identity: Any, *, arrays: bool) -> dict[str, Any]:
    values = VALUES if arrays else SCALARS
    fields = {name: rng.choice(values) for name in rng.sample("abcd", rng.randrange(4))}
    if rng.random() < 0.5:
        fields["x"] = {"y": rng.choice(values)}
    return {"_id": identity, **fields}


def condition(rng: random.Random) -> Any:
    kind = rng.randrange(4)
    if kind < 2:
        return rng.choice(VALUES)
    if kind == 2:
        return rng.choice(OTHERS)
    return {
        name: rng.choice(SCALARS) for name in rng.sample(["$eq", "$gt", "$gte", "$lt", "$lte"], rng.randrange(1, 3))
    }


def conditions(rng: random.Random, most: int) -> dict[str, Any]:
    return {path: condition(rng) for path in rng.sample(PATHS, rng.randrange(most))}


def disjunction(rng: random.Random) -> list[dict[str, Any]]:
    """Branches that indexes serve, mostly."""
    path = rng.choice(PATHS)
    if rng.random() < 0.3:
        return [{path: condition(rng)} for _ in range(rng.randrange(1, 4))]
    return [{rng.choice("abc"): condition(rng), **conditions(rng, 2)} for _ in range(rng.randrange(1, 4))]


EXPRESSIONS: tuple[Any, ...] = (
    {"$gt": ["$a", "$b"]}, {"$lt": ["$a", 2]}, {"$eq": ["$a", "$x.y"]}, {"$gt": ["$$NOW", "$a"]},
    {"$lt": [{"$rand": {}}, 2]}, {"$in": ["$a", [1, "a"]]}, True,
)  # fmt: skip


def request(rng: random.Random) -> dict[str, Any]:
    """A find over few documents."""
    made: dict[str, Any] = {"find": "c", "filter": conditions(rng, 3)}
    if rng.random() < 0.3:
        made["filter"] = {**(made["filter"] if rng.random() < 0.4 else {}), "$or": disjunction(rng)}
    if rng.random() < 0.2:
        made["filter"]["$and"] = [conditions(rng, 3) or {"a": 1} for _ in range(rng.randrange(1, 3))]
    if rng.random() < 0.1:
        made["filter"]["$nor"] = [{"b": 1}, {"c": {"$gt": 2}}]
    if rng.random() < 0.2:
        made["filter"]["$expr"] = rng.choice(EXPRESSIONS)
    if rng.random() < 0.4:
        made["sort"] = {path: rng.choice((1, -1)) for path in rng.sample(PATHS, rng.randrange(1, 3))}
    for name, values in (
        ("skip", (0, 1, 3)), ("limit", (0, 1, 2, 5, 200)), ("batchSize", (0, 1, 4, 200)),
        ("singleBatch", (True, False)),
        ("projection", PROJECTIONS), ("hint", ("a", "b_c", {"a": -1, "b": 1}, {"_id": 1}, {"$natural": 1}, "none")),
    ):  # fmt: skip
        if rng.random() < 0.3:
            made[name] = rng.choice(values)
    return made


PROJECTIONS: tuple[Any, ...] = (
    {"a": 1}, {"x.y": 1, "_id": 0}, {"b": 0}, {"b": {"$slice": 1}}, {"z": "$a"}, {}, {"b": {"$elemMatch": {"$gt": 1}}},
    {"a": 1, "t": {"$type": "$b"}}, {"r": {"$divide": ["$a", 0]}}, {"n": {"$gt": ["$$NOW", 1]}}, {"b.$": 1},
    {"m": {"$meta": "recordId"}}, {"$nonsense": 1},
)  # fmt: skip
STAGES: tuple[Any, ...] = (
    {"$group": {"_id": "$b", "n": {"$sum": 1}, "all": {"$push": "$_id"}}}, {"$group": {"_id": 1, "n": {"$sum": 1}}},
    {"$group": {"_id": None, "m": {"$max": "$a"}, "s": {"$sum": "$x.y"}}}, {"$count": "n"}, {"$sort": {"_id": -1}},
    {"$sort": {"b": 1, "_id": 1}}, {"$limit": 3}, {"$limit": 3}, {"$skip": 1}, {"$skip": 2},
    {"$project": {"a": 1, "t": {"$type": "$b"}}},
    {"$addFields": {"z": {"$ifNull": ["$a", "none"]}}}, {"$unset": "a"}, {"$match": {"b": {"$gt": 0}}},
    {"$unwind": "$b"},
    {"$replaceRoot": {"newRoot": {"v": "$a"}}}, {"$sortByCount": "$a"}, {"$project": {"r": {"$divide": ["$a", 0]}}},
    {"$addFields": {"now": {"$gt": ["$$NOW", 1]}}},
    {"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "l"}},
    {"$match": {"$expr": {"$eq": ["$a", "$b"]}}}, {"$nonsense": 1},
    {"$facet": {"page": [{"$sort": {"a": -1, "_id": 1}}, {"$limit": 2}], "n": [{"$match": {"a": 1}}, {"$count": "n"}]}},
    {"$facet": {"joined": [{"$lookup": {"from": "c", "localField": "a", "foreignField": "b", "as": "l"}}]}},
    {"$facet": {"two": [{"$facet": {"n": [{"$count": "n"}]}}]}},
    {"$bucket": {"groupBy": "$_id", "boundaries": [0, 5, 20], "default": "more"}},
    {"$redact": {"$cond": [{"$eq": ["$a", 1]}, "$$PRUNE", "$$KEEP"]}},
    {"$setWindowFields": {"sortBy": {"_id": 1}, "output": {"r": {"$sum": "$a", "window": {"documents": [-1, 1]}}}}},
)  # fmt: skip


def pipeline(rng: random.Random, wanted: dict[str, Any], *, partly: bool = False) -> dict[str, Any]:
    """An aggregate of a few stages behind a filter; one that gives an order where it cuts. `partly`: what routers ask
    shards for may stand in it.
    """
    stages = rng.sample(STAGES, rng.randrange(4))
    if partly and stages and "$group" in stages[-1]:
        stages[-1] = {"$group": {**stages[-1]["$group"], WILL_BE_MERGED: True}}
    if any("$limit" in each or "$skip" in each for each in stages):
        stages.insert(0, rng.choice(({"$sort": {"_id": 1}}, {"$sort": {"a": 1, "_id": -1}})))
    cursor = rng.choice(({}, {}, {"batchSize": 2}, {"batchSize": 0}))
    return {"aggregate": "c", "pipeline": [{"$match": wanted}, *stages], "cursor": cursor}


def identity(kind: str, number: int) -> Any:
    """Those of clustered collections are of several types: their documents are in that order."""
    return (number, f"{number:x}", number + 0.5, b"%x" % number)[number % 4] if kind == "clustered" else number


async def everything(node: LocalNode, command: dict[str, Any]) -> tuple[list[Any], bool]:
    """(what a find gives, whether its first batch is all); the code of an error."""
    reply = await node.reply(command)
    if not reply["ok"]:
        return [{"_id": reply["code"]}], True
    cursor = reply["cursor"]
    documents, first = cursor["firstBatch"], not cursor["id"]
    while cursor["id"]:
        reply = await node.reply({"getMore": cursor["id"], "collection": "c"})
        if not reply["ok"]:
            return [{"_id": reply["code"]}], first
        cursor = reply["cursor"]
        documents += cursor["nextBatch"]
    return documents, first


def patched(patch: pytest.MonkeyPatch) -> None:
    """Have everything done the general way."""
    patch.setattr(find, "find_at_once", lambda *_: None)
    patch.setattr(count, "count_at_once", lambda *_: None)
    patch.setattr(distinct_command, "distinct_at_once", lambda *_: None)
    patch.setattr(aggregate_command, "aggregate_at_once", lambda *_: None)


class Calls:
    """How often what is prepared has been asked for, and has done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.served = 0
        bound = at_once.bound_scan

        def counted(*arguments: Any, **named: Any) -> Any:
            found = bound(*arguments, **named)
            self.served += found is not None
            return found

        monkeypatch.setattr(at_once, "bound_scan", counted)
