"""Reads answered in one step by prepared scans, against the general way."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.objectid import ObjectId

from docstore.collection.read import prepared
from docstore.node.commands import aggregate as aggregate_command
from docstore.node.commands import count, find
from docstore.node.commands import distinct as distinct_command
from docstore.node.pipeline import at_once as pipelines_at_once
from docstore.node.read import at_once
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.test_fast_path import VERSION, own_a_part

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
    "collated": COLLATED, "collated by default": COLLATED,
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


def pipeline(rng: random.Random, wanted: dict[str, Any]) -> dict[str, Any]:
    """An aggregate of a few stages behind a filter; one that gives an order where it cuts."""
    stages = rng.sample(STAGES, rng.randrange(4))
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


def sorted_out(found: tuple[list[Any], bool]) -> tuple[list[str], bool]:
    """Documents without their order, and what is gathered in them without its own."""
    documents, first = found
    plain = [
        {name: sorted(map(repr, value)) if name in ("all", "l") else value for name, value in each.items()}
        for each in documents
    ]
    return sorted(map(repr, plain)), first


async def compare(
    node: LocalNode, command: dict[str, Any], monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    found, first = await everything(node, command)
    version = {name: value for name, value in command.items() if name in ("shardVersion", "collation")}
    with monkeypatch.context() as patch:
        patched(patch)
        expected, first_of_expected = await everything(node, command)
        named = {name: value for name, value in command.items() if name not in ("projection", "limit", "skip")}
        matching = {each["_id"] for each in (await everything(node, named | {"batchSize": 1000}))[0]}
    assert (len(found), first) == (len(expected), first_of_expected), command
    plain = "projection" not in command or command["projection"] == {}
    if plain and (command.get("sort") == {"_id": 1} or ("sort" not in command and list(command["filter"]) == ["$or"])):
        assert repr(found) == repr(expected), command
    if not {"limit", "skip"} & command.keys():
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), command
    if plain:
        assert {each["_id"] for each in found} <= matching, command
        assert len({each["_id"] for each in found}) == len(found), command
    for aggregate in (pipeline(rng, command["filter"]) | version for _ in range(2)):
        given = await everything(node, aggregate)
        with monkeypatch.context() as patch:
            patched(patch)
            assert sorted_out(given) == sorted_out(await everything(node, aggregate)), aggregate
    if "hint" in command:
        return
    distinct = {"distinct": "c", "key": rng.choice(PATHS), "query": command["filter"], **version}
    values = [outcome(await node.reply(distinct), "values")]
    with monkeypatch.context() as patch:
        patched(patch)
        values.append(outcome(await node.reply(distinct), "values"))
    assert repr(values[0]) == repr(values[1]) or distinct["key"] != "_id", distinct
    assert len(values[0]) == len(values[1]), distinct
    counted = {"count": "c", "query": command["filter"], **version}
    counted |= {name: command[name] for name in ("skip", "limit") if name in command}
    counts = [outcome(await node.reply(counted), "n")]
    with monkeypatch.context() as patch:
        patched(patch)
        counts.append(outcome(await node.reply(counted), "n"))
    assert counts[0] == counts[1], counted


def outcome(reply: dict[str, Any], name: str) -> Any:
    """What a reply says, or the name of its error."""
    return reply[name] if reply["ok"] else reply["codeName"]


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_found_at_once_is_what_the_general_way_finds(
    seed: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        rng = random.Random(seed)
        node = LocalNode(replicated=kind == "shard")
        clustered = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}} if kind == "clustered" else {}
        collated = {"collation": LOOSE} if kind == "collated by default" else {}
        await node.run({"create": "c", **clustered, **collated})
        await node.run({"createIndexes": "c", "indexes": _several(rng, kind)})
        # Arrays are met only later, when plans have been kept.
        await node.insert("c", *(document(rng, identity(kind, number), arrays=False) for number in range(60)))
        if kind == "shard":
            own_a_part(node)
        requests = [request(rng) for _ in range(25)]
        if kind.startswith("collated"):
            requests = [
                each | rng.choice(({}, *({"collation": rules} for rules in (LOOSE, STRICT)))) for each in requests
            ]
        for _turn in range(3):
            for command in requests:
                asked = {name: each for name, each in command["filter"].items() if name not in ("$expr", "$nor")}
                sent = command | {
                    "filter": command["filter"] | {path: _other(rng, each) for path, each in asked.items()}
                }
                await compare(node, sent | ({"shardVersion": VERSION} if kind == "shard" else {}), monkeypatch, rng)
            await _change(node, kind, rng)

    loop(work())


def _several(rng: random.Random, kind: str) -> list[dict[str, Any]]:
    """A few indexes."""
    return list({each["name"]: each for each in rng.sample(KINDS[kind], 3)}.values())


def _other(rng: random.Random, asked: Any) -> Any:
    """Another condition of the form, mostly."""
    if isinstance(asked, list) and all(isinstance(each, dict) and each for each in asked):
        return [{path: _other(rng, each) for path, each in branch.items()} for branch in asked]
    if isinstance(asked, bson.Regex):
        return rng.choice(PATTERNS)
    if not isinstance(asked, dict):
        return rng.choice([each for each in SCALARS if type(each) is type(asked)] or [asked])
    if "$in" in asked:
        return {"$in": rng.choices(SCALARS, k=rng.randrange(5))}
    if "$all" in asked:
        return {"$all": [_other(rng, each) for each in asked["$all"]]}
    if "$elemMatch" in asked:
        return {"$elemMatch": {name: _other(rng, each) for name, each in asked["$elemMatch"].items()}}
    if "$regex" in asked:
        pattern = rng.choice(PATTERNS)
        return asked | {"$regex": pattern.pattern if isinstance(asked["$regex"], str) else pattern}
    return {name: rng.choice(SCALARS) if name in ("$gt", "$lt", "$eq") else value for name, value in asked.items()}


async def _change(node: LocalNode, kind: str, rng: random.Random) -> None:
    kept, node.node.shard_filter = node.node.shard_filter, None
    more = (document(rng, identity(kind, rng.randrange(1000, 10**9)), arrays=True) for _ in range(20))
    await node.insert("c", *more)
    names = [each["name"] for each in (await node.run({"listIndexes": "c"}))["cursor"]["firstBatch"]]
    await node.run({"dropIndexes": "c", "index": rng.choice([name for name in names if name != "_id_"])})
    await node.reply({"createIndexes": "c", "indexes": [rng.choice(KINDS[kind])]})
    node.node.shard_filter = kept


def test_a_sorted_find_gives_the_documents_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        rng = random.Random(3)
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"b": 1, "e": -1}, "name": "be"}]})
        rows = [{"_id": number, "a": number % 4, "b": number % 3, "e": rng.random()} for number in range(90)]
        await node.insert("c", *rows)
        for wanted in ({"a": 1}, {"b": 2}, {"a": {"$gte": 1, "$lt": 3}}, {"a": 9}):
            for sort in ({"e": 1}, {"e": -1}, {"b": 1, "e": 1}):
                command = {"find": "c", "filter": wanted, "sort": sort, "limit": 7, "skip": 2}
                found, _ = await everything(node, command)
                with monkeypatch.context() as patch:
                    patched(patch)
                    assert found == (await everything(node, command))[0], command

    loop(work())


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


def test_common_requests_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        beside = [each for each in INDEXES if each["name"] in ("t", "g", "e")]
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"b": 1, "c": -1}, "name": "bc"}]})
        await node.run({"createIndexes": "c", "indexes": [*beside, {"key": {"h": "hashed"}, "name": "h"}]})
        await node.insert("c", *({"_id": number, "a": number, "b": number % 5, "c": number} for number in range(50)))
        commands: list[dict[str, Any]] = [
            {"find": "c", "filter": {"a": 1}},
            {"find": "c", "filter": {"a": {"$gte": 1, "$lt": 4}}, "projection": {"a": 1}},
            {"find": "c", "filter": {"b": 1}, "sort": {"c": -1}, "limit": 3}, {"find": "c", "filter": {"b": 1, "a": 6}},
            {"find": "c", "filter": {"b": 1, "d": None}}, {"find": "c", "filter": {}, "sort": {"a": -1}, "limit": 2},
            {"find": "c", "filter": {"b": 2}, "sort": {"a": 1}}, {"find": "c", "sort": {"_id": -1}, "limit": 1},
            {"find": "c", "filter": {"_id": {"$gt": 5, "$lt": 9}}},
            {"find": "c", "filter": {"_id": {"$in": [3, 1, 3]}}},
            {"find": "c", "filter": {"b": {"$in": [1, 4, "x"]}}},
            {"find": "c", "filter": {"_id": 7, "b": 2, "z": None}},
            {"find": "c", "filter": {"b": 1, "c": {"$in": [1, 6]}}},
            {"find": "c", "filter": {"a": 6, "b": {"$in": [1]}}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"b": 1, "c": 6}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"a": 9}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"a": {"$gt": 47}}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"_id": 7}, {"b": 2, "z": 4}]}, "sort": {"c": 1}, "limit": 2},
            {"find": "c", "filter": {"b": 1, "$or": [{"c": 3}, {"z": {"$gt": 1}}]}},
            {"count": "c", "query": {"$or": [{"a": 3}, {"a": {"$gt": 47}}]}},
            {"count": "c", "query": {"b": 3}}, {"distinct": "c", "key": "c", "query": {"b": 3}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, STAGES[0]], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, {"$sort": {"c": -1}}, {"$limit": 2}], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, STAGES[1]], "cursor": {}},
            {"find": "c", "filter": {"b": 1}, "projection": {"c": {"$slice": 1}}, "skip": 2},
            {"find": "c", "filter": {"b": 1}, "projection": {"c": {"$add": ["$a", "$b"]}}, "sort": {"c": -1}},
            {"find": "c", "filter": {"b": 2, "a": {"$lt": 40}}}, {"find": "c", "filter": {"b": 2, "a": {"$gt": 30}}},
            {"count": "c", "query": {"b": 2, "a": {"$gt": 40}}},
            {"find": "c", "filter": {"b": 1, "$expr": {"$gt": ["$a", "$c"]}}},
            {"find": "c", "filter": {"$and": [{"b": 1}, {"$or": [{"c": 3}, {"z": {"$gt": 1}}]}]}},
            {"find": "c", "filter": {"b": 3, "$nor": [{"a": 1}, {"z": 2}]}},
            {"find": "c", "filter": {"h": 3}}, {"find": "c", "filter": {"h": 3, "z": {"$gt": 1}}},
            {"find": "c", "filter": {"_id": {"$in": [7]}}}, {"find": "c", "filter": {"_id": {"$in": [8]}, "b": 3}},
        ]  # fmt: skip
        for command in commands:
            before = calls.served
            await node.run(command)
            assert calls.served == before + 1, command

    loop(work())


PREPARED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "clustered": ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, [
        {"find": "c", "filter": {"_id": {"$gte": 7, "$lt": 9}}}, {"find": "c", "filter": {"_id": {"$gt": 7}}},
        {"find": "c", "sort": {"_id": -1}, "limit": 2}, {"find": "c", "limit": 2},
        {"find": "c", "filter": {"_id": {"$in": [3, 1, 3]}}}, {"find": "c", "filter": {"_id": {"$in": [3]}, "c": 3}},
        {"find": "c", "filter": {"_id": {"$in": [3, 1]}}, "sort": {"_id": -1}},
        {"find": "c", "filter": {"_id": {"$in": [3, 1]}}, "sort": {"c": -1}, "limit": 1},
        {"find": "c", "filter": {"_id": {"$lt": 20}, "c": {"$gt": 4}}, "sort": {"_id": -1}, "skip": 2},
        {"find": "c", "filter": {"c": {"$gt": 4}}, "sort": {"c": 1}}, {"count": "c", "query": {"_id": {"$gt": 40}}},
        {"find": "c", "filter": {"$or": [{"_id": 3}, {"_id": 5}]}},
        {"distinct": "c", "key": "c", "query": {"_id": {"$lt": 5}}},
        {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$lt": 5}}}, STAGES[1]], "cursor": {}},
    ]),
    "wildcard": ({}, [
        {"find": "c", "filter": {"x.y": 7}}, {"find": "c", "filter": {"x.y": {"$gte": 7, "$lt": 9}}},
        {"find": "c", "filter": {"x.y": {"$in": [3, 5]}}}, {"find": "c", "filter": {"x.t": "T5", "x.y": 5}},
        {"find": "c", "filter": {"x.y": {"$gt": 30}}, "sort": {"x.y": -1}, "limit": 2},
        {"find": "c", "filter": {"x.t": bson.Regex("^T1")}}, {"find": "c", "filter": {"x.y": {"$gt": 3, "$ne": 5}}},
        {"find": "c", "filter": {"x.y": {"$lt": 30}}, "sort": {"c": -1}, "limit": 2},
        {"find": "c", "filter": {"$or": [{"x.y": 7}, {"x.t": "T3"}]}}, {"count": "c", "query": {"x.y": {"$gt": 40}}},
        {"aggregate": "c", "pipeline": [{"$match": {"x.y": {"$lt": 5}}}, STAGES[1]], "cursor": {}},
    ]),
    "collated": ({}, [
        {"find": "c", "filter": {"t": "t7"}, "collation": LOOSE}, {"find": "c", "filter": {"n": 7}, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3", "$lt": "t5"}}, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3"}}, "sort": {"t": -1}, "limit": 3, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3"}}, "sort": {"u": 1}, "collation": LOOSE},
        {"find": "c", "filter": {"t": "t3", "u": {"$in": ["U3", "u4"]}}, "collation": LOOSE},
        {"find": "c", "filter": {"n": 7, "t": "t7"}, "collation": STRICT, "projection": {"t": 1}},
        {"find": "c", "filter": {"_id": 7, "t": "t7"}, "collation": STRICT}, {"find": "c", "filter": {"t": "T7"}},
        {"find": "c", "filter": {"t": "t7"}, "collation": STRICT}, {"find": "c", "filter": {"t": 7}},
        {"find": "c", "filter": {"$or": [{"t": "t7"}, {"n": 3}]}, "collation": LOOSE},
        {"count": "c", "query": {"t": "t7"}, "collation": LOOSE},
        {"distinct": "c", "key": "c", "query": {"t": {"$gt": "t7"}}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": "t7"}}, STAGES[1]], "cursor": {}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": {"$gt": "t7"}}}, {"$sort": {"u": -1}}, {"$limit": 3}],
         "cursor": {}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": {"$lt": "t3"}}}, {"$group": {"_id": "$u"}}],
         "cursor": {}, "collation": LOOSE},
    ]),
    "collated by default": ({"collation": LOOSE}, [
        {"find": "c", "filter": {"t": "t7"}}, {"find": "c", "filter": {"t": "t7"}, "collation": {"locale": "simple"}},
        {"find": "c", "filter": {"_id": 7, "t": "t7"}}, {"find": "c", "sort": {"t": -1}, "limit": 2},
        {"find": "c", "filter": {"n": 4}, "sort": {"t": 1}}, {"count": "c", "query": {"n": {"$gt": 4}, "u": "u7"}},
        {"aggregate": "c", "pipeline": [{"$match": {"t": "t7"}}, STAGES[1]], "cursor": {}},
    ]),
}  # fmt: skip
"""How a collection is made, and requests that are prepared in it."""


@pytest.mark.parametrize("kind", PREPARED)
def test_requests_are_prepared_in_collections_of_a_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        options, commands = PREPARED[kind]
        await node.run({"create": "c", **options})
        await node.run({"createIndexes": "c", "indexes": [
            {"key": {"x.$**": 1}, "name": "x"}, {"key": {"t": 1, "u": 1}, "name": "t", "collation": LOOSE},
            {"key": {"n": 1}, "name": "n"},
        ]})  # fmt: skip
        documents = (
            {"_id": n, "c": n % 7, "n": n, "t": f"T{n}", "u": f"u{n}", "x": {"y": n, "t": f"T{n}"}} for n in range(50)
        )
        await node.insert("c", *documents)
        for command in commands:
            before = calls.served
            found = await node.run(command)
            assert calls.served == before + 1, command
            with monkeypatch.context() as patch:
                patched(patch)
                assert found == await node.run(command), command

    loop(work())


def test_a_contradiction_says_nothing_of_other_filters_of_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.run({"create": "d", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        for name, path in (("c", "a"), ("d", "_id")):
            await node.insert(name, *({"_id": number, "a": number} for number in range(9)))
            assert await node.documents(name, {path: {"$gt": 5, "$lt": 3}}) == []
            assert calls.served == 0
            assert len(await node.documents(name, {path: {"$gt": 3, "$lt": 5}})) == 1
            assert calls.served == 1
            calls.served = 0

    loop(work())


JOINS: tuple[list[dict[str, Any]], ...] = (
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "y", "as": "b"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "_id", "as": "a.l"}}],
    [{"$lookup": {"from": "d", "localField": "v.w", "foreignField": "m", "as": "l"}}, {"$unwind": "$l"}],
    [{"$sort": {"_id": -1}}, {"$lookup": {"from": "d", "localField": "v.w", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "l"}}, {"$match": {"l.v": 3}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l"}}, {"$unwind": "$l"},
     {"$lookup": {"from": "d", "localField": "l.m", "foreignField": "m", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "nothing", "as": "l"}}],
    [{"$lookup": {"from": "missing", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "seen", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "folded", "localField": "v", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [{"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "let": {"z": "$a"},
                  "pipeline": [{"$match": {"$expr": {"$gt": ["$z", "$$z"]}}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$project": {"y": 1, "w": "$$w"}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$y", "$$w"]}}}]}}, {"$unwind": "$l"}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [{"$unset": "m"}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [
        {"$lookup": {"from": "c", "localField": "z", "foreignField": "a", "as": "k"}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$addFields": {"r": {"$rand": {}}}},
                               {"$unset": "r"}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l", "pipeline": [
        {"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$sort": {"z": 1, "_id": 1}}, {"$limit": 2}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a", "v": "$v"}, "as": "l", "pipeline": [
        {"$match": {"y": {"$ne": 2}, "$expr": {"$and": [{"$eq": ["$$w", "$x"]}, {"$gt": ["$z", "$$v"]}]}}},
        {"$sort": {"_id": -1}}, {"$project": {"z": {"$add": ["$z", "$$w"]}}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l", "pipeline": [
        {"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l",
                  "pipeline": [{"$match": {"x": 3, "m": "a"}}, {"$limit": 2}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l",
                  "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "localField": "v", "foreignField": "x", "as": "l",
                  "pipeline": [{"$match": {"z": {"$gt": 3}}}]}}],
    [{"$match": {"v": {"$ne": 1}}}, {"$match": {"a": {"$lt": 4}}}, {"$sort": {"_id": -1}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}]}}],
    [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$unionWith": {"pipeline": [
        {"$match": {"x": {"$gt": 7}}}, {"$sort": {"_id": -1}}, {"$limit": 2}, {"$project": {"z": 1}}], "coll": "d"}},
     {"$sort": {"z": 1, "_id": 1}}, {"$limit": 4}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$count": "n"}]}},
     {"$unionWith": {"coll": "c", "pipeline": [{"$match": {"a": 2}}, {"$group": {"_id": "$v"}}, {"$sort": {"_id": 1}}]}
     }, {"$addFields": {"seen": True}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$unionWith": "c"}]}}],
    [{"$unionWith": {"coll": "seen", "pipeline": [{"$match": {"x": 4}}]}}], [{"$unionWith": "d"}, {"$count": "n"}],
    [{"$unionWith": {"coll": "missing", "pipeline": [{"$match": {"x": 4}}]}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$nonsense": 1}]}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}], "more": 1}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}]}, "$limit": 1}],
)  # fmt: skip


def test_partners_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rng = random.Random(7)
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        keys = ({"x": 1}, {"y": 1}, {"m": 1}, {"y": 1, "_id": -1})
        await node.run({"createIndexes": "d", "indexes": [{"key": key, "name": repr(key)} for key in keys]})
        await node.run({"create": "folded", "collation": {"locale": "en", "strength": 2}})
        await node.run({"create": "seen", "viewOn": "d", "pipeline": [{"$match": {"x": {"$gt": 3}}}]})
        await node.run({"createIndexes": "folded", "indexes": [{"key": {"x": 1}, "name": "x"}]})
        await node.insert("folded", {"_id": 1, "x": "A"}, {"_id": 2, "x": "a"})
        kinds: tuple[Any, ...] = (1, 2, 3, "a", "A", None, [1, 2], [], {"w": 2}, [{"w": 1}, {"w": [2, 3]}], 2.0)
        for number in range(40):
            some = {"v": rng.choice(kinds)} if rng.random() < 0.9 else {}
            await node.insert("c", {"_id": number, "a": number // 4, **some})
            plain = rng.choice((1, 2, 3, "a", "A", None, 2.0))
            row = {"_id": number, "x": number % 10, "y": plain, "m": rng.choice(kinds[:7]), "z": rng.randrange(9)}
            await node.insert("d", row if rng.random() < 0.9 else {"_id": number})
        served = 0
        whole = pipelines_at_once.aggregate_at_once

        def counted(*arguments: Any) -> bytes | None:
            nonlocal served
            found = whole(*arguments)
            served += found is not None
            return found

        for stages in JOINS:
            for number in range(11):
                wanted = rng.choice(({"a": number}, {"a": {"$gte": number, "$lt": number + 3}}))
                command = {"aggregate": "c", "pipeline": [{"$match": wanted}, *stages], "cursor": {}}
                with monkeypatch.context() as patch:
                    patch.setattr(aggregate_command, "aggregate_at_once", counted)
                    given = await everything(node, command)
                with monkeypatch.context() as patch:
                    patched(patch)
                    assert repr(given) == repr(await everything(node, command)), command
        assert served > 40

    loop(work())


def test_what_takes_long_is_left_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", *({"_id": number, "a": 1, "z": number} for number in range(prepared.MOST_LOOKS + 5)))
        collection = node.node.store.collection("test.c")
        assert collection is not None
        bound = prepared.bound_scan(collection, bson.encode({"a": 1, "z": prepared.MOST_LOOKS + 2}), node.node.engine)
        assert bound is not None
        assert bound.documents(node.node.engine, 1, None) is None
        found = await node.documents("c", {"a": 1, "z": prepared.MOST_LOOKS + 2})
        assert [each["_id"] for each in found] == [prepared.MOST_LOOKS + 2]

    loop(work())


def test_uses_of_indexes_are_counted() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", {"_id": 1, "a": 1})
        for _ in range(3):
            await node.run({"find": "c", "filter": {"a": 1}})
        await node.run({"count": "c", "query": {"a": 1}})
        await node.run({"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"z": 1}}}]})
        stats = await node.run({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}})
        uses = {each["name"]: each["accesses"]["ops"] for each in stats["cursor"]["firstBatch"]}
        assert uses["a"] == 5

    loop(work())


@pytest.mark.parametrize("walk", [
    {"filter": {"a": {"$gte": 3}}}, {"filter": {"a": {"$gte": 3}}, "sort": {"a": -1}},
    {"filter": {"_id": {"$lt": 900}}}, {"filter": {"_id": {"$lt": 900}}, "sort": {"_id": -1}},
    {"filter": {"g": {"$gt": 1}}},
    {"filter": {"g": {"$gt": 1}}, "sort": {"g": -1}}, {"filter": {"a": {"$gte": 3}, "z": 1}, "projection": {"a": 1}},
    {"filter": {"a": {"$gte": 3}}, "limit": 300}, {"filter": {"a": {"$gte": 3}}, "skip": 30, "batchSize": 70},
])  # fmt: skip
def test_what_is_behind_a_first_batch_is_of_the_same_state(
    walk: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"g": 1}, "name": "g"}]})
        rows = [
            {"_id": number, "a": number // 3, "g": [number % 7, number % 5], "z": number % 2} for number in range(990)
        ]
        await node.insert("c", *rows)
        found: list[list[Any]] = []
        for general in (False, True):
            with monkeypatch.context() as patch:
                calls = Calls(patch)
                if general:
                    patched(patch)
                reply = await node.run({"find": "c", "batchSize": 120, **walk})
                assert calls.served == (not general)
                batches = [reply["cursor"]["firstBatch"]]
                # What is written now is not seen, whatever it is.
                await node.run({"delete": "c", "deletes": [{"q": {"_id": {"$gt": 400, "$lt": 480}}, "limit": 0}]})
                await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"a": 1}}, "multi": True}]})
                await node.insert("c", {"_id": 10000, "a": 300, "g": [3], "z": 1})
                while reply["cursor"]["id"]:
                    more = {"getMore": reply["cursor"]["id"], "collection": "c", "batchSize": 130}
                    reply = await node.run(more)
                    batches.append(reply["cursor"]["nextBatch"])
                found.append(batches)
                await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
                await node.insert("c", *rows)
        assert found[0] == found[1]

    loop(work())
