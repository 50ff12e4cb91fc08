"""Pipelines under a collation give what the real server gives: expressions, stages, accumulators, joins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

EN2 = {"locale": "en", "strength": 2}
RULES = [EN2, {"locale": "en", "strength": 1}, {"locale": "de"}, {"locale": "en", "numericOrdering": True}]
TEXTS = ["a", "A", "á", "b", "B", "ab", "AB", "", "a-b", "item 10", "Item 9", "ß", "ss"]
VALUES: list[Any] = [*TEXTS, 1, 2, None, ["a", "C"], ["A", "b", "a"], {"x": "A"}, {"x": "a"}, [{"x": "a"}, {"x": "B"}]]
FIELDS = ["$t", "$u", "$s", "$n", "$g"]
BY_ID: dict[str, Any] = {"$sort": {"_id": 1}}


def document(dice: Random, number: int) -> dict[str, Any]:
    identity = number if dice.random() < 0.8 else f"{dice.choice('aAbB')}{number % 7}-{number}"
    lists = {name: [dice.choice(TEXTS) for _ in range(dice.randrange(4))] for name in ("l", "m")}
    texts = {"s": dice.choice(TEXTS), "g": dice.choice("aAb")}
    return {
        "_id": identity,
        "t": dice.choice(VALUES),
        "u": dice.choice(VALUES),
        **texts,
        "n": dice.randrange(5),
        **lists,
    }


def value(dice: Random) -> Any:
    made = [{"$literal": dice.choice(VALUES)}, {"$arrayElemAt": ["$l", 0]}, {"a": "$s"}]
    return dice.choice([*FIELDS, "$l", "$missing", *made])


def array(dice: Random) -> Any:
    return dice.choice(["$l", "$m", {"$literal": dice.choices(TEXTS, k=3)}])


def expression(dice: Random) -> Any:
    comparing = dice.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp"])
    sets = ["$setUnion", "$setIntersection", "$setDifference", "$setEquals", "$setIsSubset"]
    branches = [{"case": {"$eq": [value(dice), value(dice)]}, "then": 1}]
    return dice.choice(
        [
            {comparing: [value(dice), value(dice)]},
            {"$in": [value(dice), array(dice)]},
            {"$indexOfArray": [array(dice), value(dice)]},
            {dice.choice(sets): [array(dice), array(dice)]},
            {dice.choice(["$min", "$max"]): dice.choice([[value(dice), value(dice)], array(dice)])},
            {"$sortArray": {"input": array(dice), "sortBy": dice.choice([1, -1])}},
            {dice.choice(["$minN", "$maxN"]): {"n": 2, "input": array(dice)}},
            {"$switch": {"branches": branches, "default": 3}},
            {"$strcasecmp": ["$s", "$g"]},
            {"$filter": {"input": array(dice), "as": "x", "cond": {comparing: ["$$x", "$g"]}}},
        ]
    )


def accumulated(dice: Random) -> dict[str, Any]:
    given = dice.choice(FIELDS)
    order = {"s": dice.choice([1, -1]), "n": 1, "_id": 1}
    plain = dice.choice(["$addToSet", "$min", "$max", "$first", "$push", "$sum"])
    return dice.choice(
        [
            {plain: given},
            {plain: given},
            {dice.choice(["$minN", "$maxN"]): {"n": 3, "input": given}},
            {dice.choice(["$top", "$bottom"]): {"output": "$_id", "sortBy": order}},
            {dice.choice(["$topN", "$bottomN"]): {"n": 2, "output": ["$s", "$_id"], "sortBy": order}},
        ]
    )


def key(dice: Random) -> Any:
    return dice.choice([*FIELDS, "$l", {"x": "$s"}, {"x": "$s", "y": "$g"}, None, {"$concat": ["$s", "$g"]}])


def bucket(dice: Random) -> dict[str, Any]:
    boundaries = sorted({"", "a", "b", dice.choice(["aa", "item 2", "z"])})
    default = {"default": dice.choice(["other", "zz", "A"])} if dice.random() < 0.9 else {}
    return {
        "groupBy": dice.choice(["$s", "$g"]),
        "boundaries": boundaries,
        **default,
        "output": {"a": accumulated(dice)},
    }


def joined(dice: Random) -> list[dict[str, Any]]:
    paths = ["s", "t", "l", "n", "t.x"]
    equality = {"from": "o", "localField": dice.choice(paths), "foreignField": dice.choice(paths), "as": "j"}
    test = {"$expr": {dice.choice(["$eq", "$gt"]): ["$s", "$$v"]}, "u": {"$ne": dice.choice(TEXTS)}}
    correlated = {"let": {"v": "$s"}, "pipeline": [{"$match": test}, {"$sort": {"s": 1, "_id": 1}}, {"$limit": 5}]}
    graph = {"startWith": "$s", "connectFromField": dice.choice("gu"), "connectToField": dice.choice("sg")}
    return dice.choice(
        [
            [{"$lookup": equality}, {"$project": {"j._id": 1}}],
            [{"$lookup": {**equality, "pipeline": [BY_ID, {"$project": {"s": 1}}]}}],
            [{"$lookup": {"from": "o", "as": "j", **correlated}}],
            [
                {"$graphLookup": {"from": "o", "as": "j", "maxDepth": dice.randrange(3), **graph}},
                {"$project": {"j": {"$sortArray": {"input": "$j._id", "sortBy": 1}}}},
            ],
            [{"$unionWith": {"coll": "o", "pipeline": [{"$match": {"s": dice.choice(TEXTS)}}]}}, BY_ID],
        ]
    )


def windowed(dice: Random) -> list[dict[str, Any]]:
    window: dict[str, Any] = dice.choice([{}, {"documents": ["unbounded", "current"]}, {"documents": [-1, 1]}])
    function = {**accumulated(dice), **({"window": window} if window else {})}
    order = {"s": dice.choice([1, -1])}
    ranked = {"w": {dice.choice(["$rank", "$denseRank"]): {}}}
    by = {"partitionBy": dice.choice(["$g", "$s", None])}
    return dice.choice(
        [
            [{"$setWindowFields": {**by, "sortBy": {**order, "_id": 1}, "output": {"w": function}}}, BY_ID],
            [{"$setWindowFields": {**by, "sortBy": order, "output": ranked}}, {"$project": {"w": 1}}, BY_ID],
        ]
    )


def stages(dice: Random) -> list[dict[str, Any]]:
    counted = [{"$group": {"_id": key(dice), "c": {"$sum": 1}}}, {"$group": {"_id": None, "c": {"$sum": "$c"}}}]
    grouped = {"$group": {"_id": key(dice), "a": accumulated(dice), "b": accumulated(dice)}}
    return dice.choice(
        [
            [{"$project": {"r": expression(dice), "q": expression(dice)}}],
            [{"$match": {"$expr": expression(dice)}}],
            [BY_ID, grouped],
            [BY_ID, {"$project": {"l": 0}}, grouped],
            [BY_ID, {"$sortByCount": dice.choice(["$s", "$g", "$t"])}],
            [BY_ID, {"$bucket": bucket(dice)}],
            [BY_ID, {"$bucketAuto": {"groupBy": "$s", "buckets": dice.randrange(1, 5)}}],
            [{"$facet": {"a": [BY_ID, {"$match": {"s": dice.choice(TEXTS)}}], "b": counted}}],
            [{"$redact": {"$cond": [{"$eq": ["$s", dice.choice(TEXTS)]}, "$$KEEP", "$$PRUNE"]}}],
            joined(dice),
            joined(dice),
            windowed(dice),
        ]
    )


def pipeline(dice: Random) -> list[dict[str, Any]]:
    made = []
    if dice.random() < 0.4:
        made.append({"$match": {dice.choice("tus"): {dice.choice(["$gt", "$eq", "$ne"]): dice.choice(TEXTS)}}})
    if dice.random() < 0.2:
        made.append({"$unwind": "$l"})
    return [*made, *stages(dice), *([{"$match": {"s": {"$gte": "a"}}}] if dice.random() < 0.2 else [])]


def shape(given: list[dict[str, Any]], reply: dict[str, Any]) -> Any:
    """The documents, without the order of what has none: groups, and sets that were gathered."""
    if "cursor" not in reply:
        return reply["code"]
    found = reply["cursor"]["firstBatch"]
    if "$addToSet" in str(given):
        found = [
            {name: sorted(part, key=text) if isinstance(part, list) else part for name, part in raw.items()}
            for raw in found
        ]
    is_grouped = any(name in stage for stage in given for name in ("$group", "$sortByCount", "$bucket"))
    return sorted(found, key=text) if is_grouped else found


def text(given: Any) -> str:
    return json.dumps(given, sort_keys=True)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port)
        with client:
            yield client["collations"]


@pytest.mark.reference
@pytest.mark.parametrize("seed", range(3))
def test_random_pipelines_under_a_collation_agree_with_the_reference(database: Database[Any], seed: int) -> None:
    dice = Random(seed)
    stored = {name: [document(dice, number) for number in range(count)] for name, count in (("c", 40), ("o", 25))}
    requests = [
        {"aggregate": "c", "pipeline": pipeline(dice), "cursor": {"batchSize": 1000}, "collation": dice.choice(RULES)}
        for _ in range(150)
    ]
    for name, documents in stored.items():
        database.drop_collection(name)
        database[name].insert_many(documents)
    expected = [shape(request["pipeline"], database.command(request, check=False)) for request in requests]

    async def work() -> None:
        node = LocalNode()
        for name, documents in stored.items():
            await node.run({"insert": name, "documents": documents})
        for index in (None, {"key": {"s": 1}, "name": "plain"}, {"key": {"s": 1}, "name": "folded", "collation": EN2}):
            if index is not None:
                await node.run({"createIndexes": "o", "indexes": [index]})
            for request, found in zip(requests, expected, strict=True):
                assert shape(request["pipeline"], await node.reply(request)) == found, (index, request)

    loop(work())
