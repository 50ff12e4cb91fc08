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


def document(rng: Random, number: int) -> dict[str, Any]:
    identity = number if rng.random() < 0.8 else f"{rng.choice('aAbB')}{number % 7}-{number}"
    lists = {name: [rng.choice(TEXTS) for _ in range(rng.randrange(4))] for name in ("l", "m")}
    texts = {"s": rng.choice(TEXTS), "g": rng.choice("aAb")}
    return {
        "_id": identity,
        "t": rng.choice(VALUES),
        "u": rng.choice(VALUES),
        **texts,
        "n": rng.randrange(5),
        **lists,
    }


def value(rng: Random) -> Any:
    made = [{"$literal": rng.choice(VALUES)}, {"$arrayElemAt": ["$l", 0]}, {"a": "$s"}]
    return rng.choice([*FIELDS, "$l", "$missing", *made])


def array(rng: Random) -> Any:
    return rng.choice(["$l", "$m", {"$literal": rng.choices(TEXTS, k=3)}])


def expression(rng: Random) -> Any:
    comparing = rng.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp"])
    sets = ["$setUnion", "$setIntersection", "$setDifference", "$setEquals", "$setIsSubset"]
    branches = [{"case": {"$eq": [value(rng), value(rng)]}, "then": 1}]
    return rng.choice(
        [
            {comparing: [value(rng), value(rng)]},
            {"$in": [value(rng), array(rng)]},
            {"$indexOfArray": [array(rng), value(rng)]},
            {rng.choice(sets): [array(rng), array(rng)]},
            {rng.choice(["$min", "$max"]): rng.choice([[value(rng), value(rng)], array(rng)])},
            {"$sortArray": {"input": array(rng), "sortBy": rng.choice([1, -1])}},
            {rng.choice(["$minN", "$maxN"]): {"n": 2, "input": array(rng)}},
            {"$switch": {"branches": branches, "default": 3}},
            {"$strcasecmp": ["$s", "$g"]},
            {"$filter": {"input": array(rng), "as": "x", "cond": {comparing: ["$$x", "$g"]}}},
        ]
    )


def accumulated(rng: Random) -> dict[str, Any]:
    given = rng.choice(FIELDS)
    order = {"s": rng.choice([1, -1]), "n": 1, "_id": 1}
    plain = rng.choice(["$addToSet", "$min", "$max", "$first", "$push", "$sum"])
    return rng.choice(
        [
            {plain: given},
            {plain: given},
            {rng.choice(["$minN", "$maxN"]): {"n": 3, "input": given}},
            {rng.choice(["$top", "$bottom"]): {"output": "$_id", "sortBy": order}},
            {rng.choice(["$topN", "$bottomN"]): {"n": 2, "output": ["$s", "$_id"], "sortBy": order}},
        ]
    )


def key(rng: Random) -> Any:
    return rng.choice([*FIELDS, "$l", {"x": "$s"}, {"x": "$s", "y": "$g"}, None, {"$concat": ["$s", "$g"]}])


def bucket(rng: Random) -> dict[str, Any]:
    boundaries = sorted({"", "a", "b", rng.choice(["aa", "item 2", "z"])})
    default = {"default": rng.choice(["other", "zz", "A"])} if rng.random() < 0.9 else {}
    return {
        "groupBy": rng.choice(["$s", "$g"]),
        "boundaries": boundaries,
        **default,
        "output": {"a": accumulated(rng)},
    }


def joined(rng: Random) -> list[dict[str, Any]]:
    paths = ["s", "t", "l", "n", "t.x"]
    equality = {"from": "o", "localField": rng.choice(paths), "foreignField": rng.choice(paths), "as": "j"}
    test = {"$expr": {rng.choice(["$eq", "$gt"]): ["$s", "$$v"]}, "u": {"$ne": rng.choice(TEXTS)}}
    correlated = {"let": {"v": "$s"}, "pipeline": [{"$match": test}, {"$sort": {"s": 1, "_id": 1}}, {"$limit": 5}]}
    graph = {"startWith": "$s", "connectFromField": rng.choice("gu"), "connectToField": rng.choice("sg")}
    return rng.choice(
        [
            [{"$lookup": equality}, {"$project": {"j._id": 1}}],
            [{"$lookup": {**equality, "pipeline": [BY_ID, {"$project": {"s": 1}}]}}],
            [{"$lookup": {"from": "o", "as": "j", **correlated}}],
            [
                {"$graphLookup": {"from": "o", "as": "j", "maxDepth": rng.randrange(3), **graph}},
                {"$project": {"j": {"$sortArray": {"input": "$j._id", "sortBy": 1}}}},
            ],
            [{"$unionWith": {"coll": "o", "pipeline": [{"$match": {"s": rng.choice(TEXTS)}}]}}, BY_ID],
        ]
    )


def windowed(rng: Random) -> list[dict[str, Any]]:
    window: dict[str, Any] = rng.choice([{}, {"documents": ["unbounded", "current"]}, {"documents": [-1, 1]}])
    function = {**accumulated(rng), **({"window": window} if window else {})}
    order = {"s": rng.choice([1, -1])}
    ranked = {"w": {rng.choice(["$rank", "$denseRank"]): {}}}
    by = {"partitionBy": rng.choice(["$g", "$s", None])}
    return rng.choice(
        [
            [{"$setWindowFields": {**by, "sortBy": {**order, "_id": 1}, "output": {"w": function}}}, BY_ID],
            [{"$setWindowFields": {**by, "sortBy": order, "output": ranked}}, {"$project": {"w": 1}}, BY_ID],
        ]
    )


def stages(rng: Random) -> list[dict[str, Any]]:
    counted = [{"$group": {"_id": key(rng), "c": {"$sum": 1}}}, {"$group": {"_id": None, "c": {"$sum": "$c"}}}]
    grouped = {"$group": {"_id": key(rng), "a": accumulated(rng), "b": accumulated(rng)}}
    return rng.choice(
        [
            [{"$project": {"r": expression(rng), "q": expression(rng)}}],
            [{"$match": {"$expr": expression(rng)}}],
            [BY_ID, grouped],
            [BY_ID, {"$project": {"l": 0}}, grouped],
            [BY_ID, {"$sortByCount": rng.choice(["$s", "$g", "$t"])}],
            [BY_ID, {"$bucket": bucket(rng)}],
            [BY_ID, {"$bucketAuto": {"groupBy": "$s", "buckets": rng.randrange(1, 5)}}],
            [{"$facet": {"a": [BY_ID, {"$match": {"s": rng.choice(TEXTS)}}], "b": counted}}],
            [{"$redact": {"$cond": [{"$eq": ["$s", rng.choice(TEXTS)]}, "$$KEEP", "$$PRUNE"]}}],
            joined(rng),
            joined(rng),
            windowed(rng),
        ]
    )


def pipeline(rng: Random) -> list[dict[str, Any]]:
    made = []
    if rng.random() < 0.4:
        made.append({"$match": {rng.choice("tus"): {rng.choice(["$gt", "$eq", "$ne"]): rng.choice(TEXTS)}}})
    if rng.random() < 0.2:
        made.append({"$unwind": "$l"})
    return [*made, *stages(rng), *([{"$match": {"s": {"$gte": "a"}}}] if rng.random() < 0.2 else [])]


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
    rng = Random(seed)
    stored = {name: [document(rng, number) for number in range(count)] for name, count in (("c", 40), ("o", 25))}
    requests = [
        {"aggregate": "c", "pipeline": pipeline(rng), "cursor": {"batchSize": 1000}, "collation": rng.choice(RULES)}
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
