"""Random pipelines over several collections on a real server and on this one: same results, or the same code."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode

pytestmark = pytest.mark.reference

CASES = 60
Pipeline = list[dict[str, Any]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pymongo.MongoClient[dict[str, Any]]]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory) as port, pymongo.MongoClient("127.0.0.1", port) as client:
        yield client


VALUES: list[Any] = [
    None, 0, 1, 2, 3, 2.0, Int64(1), "a", "b", [], [1], [1, 2], [None], [[1, 2]], {"x": 1}, {"x": [1, 2]},
    [{"x": 1}, {"x": 2}], True, Decimal128("2"), 1.5,
]  # fmt: skip


def document(rng: random.Random, number: int) -> dict[str, Any]:
    fields = {name: rng.choice(VALUES) for name in ("a", "b", "o") if rng.random() < 0.8}
    return {"_id": number, **fields, "n": rng.randint(0, 20)}


def collections(rng: random.Random) -> dict[str, list[dict[str, Any]]]:
    return {name: [document(rng, number) for number in range(rng.randint(0, 14))] for name in ("c", "k")}


def lookup(rng: random.Random) -> Pipeline:
    path = lambda: rng.choice(["a", "b", "n", "_id", "o.x", "o"])  # noqa: E731
    stage: dict[str, Any] = {"from": rng.choice(["k", "k", "k", "c", "nosuch"]), "as": rng.choice(["j", "o", "o.j"])}
    if rng.random() < 0.7:
        stage |= {"localField": path(), "foreignField": path()}
        if stage["foreignField"] == "_id":
            # A real server looks up the ids of an array in an order that differs from one process to the next.
            stage["localField"] = "n"
    if "localField" not in stage or rng.random() < 0.3:
        stage["let"] = {"v": "$" + path(), "w": 2}
        stage["pipeline"] = rng.choice(
            [
                [{"$match": {"$expr": {rng.choice(["$eq", "$lt", "$gte"]): ["$" + path(), "$$v"]}}}],
                [{"$match": {"n": {"$lt": 10}}}, {"$set": {"v": "$$v"}}, {"$project": {"v": 1}}],
                [{"$group": {"_id": "$a", "c": {"$sum": "$$w"}}}, {"$sort": {"_id": 1}}],
                [{"$sort": {"n": -1, "_id": 1}}, {"$limit": 2}],
                [{"$lookup": {"from": "c", "let": {"u": "$n"}, "as": "i", "pipeline": [
                    {"$match": {"$expr": {"$and": [{"$eq": ["$n", "$$u"]}, {"$ne": ["$a", "$$v"]}]}}},
                    {"$project": {"s": {"$concat": [{"$toString": "$$u"}, "!"]}}},
                ]}}, {"$project": {"i": 1}}],
            ]
        )  # fmt: skip
    before = [{"$sort": {"_id": 1}}] + ([{"$set": {"q": 1}}] if rng.random() < 0.5 else [])
    unwind = [{"$unwind": {"path": "$" + stage["as"], "preserveNullAndEmptyArrays": rng.random() < 0.5}}]
    return [*before, {"$lookup": stage}, *(unwind if rng.random() < 0.3 else [])]


def graph(rng: random.Random) -> Pipeline:
    stage: dict[str, Any] = {
        "from": "k",
        "startWith": rng.choice(["$a", "$b", "$n", "$o.x", 1]),
        "connectFromField": rng.choice(["a", "b", "n", "o.x"]),
        "connectToField": rng.choice(["a", "b", "n", "_id", "o.x"]),
        "as": "g",
    }
    if rng.random() < 0.4:
        stage["maxDepth"] = rng.randint(0, 2)
    if rng.random() < 0.4:
        stage["depthField"] = "d"
    if rng.random() < 0.3:
        stage["restrictSearchWithMatch"] = {"n": {"$lt": 12}}
    return [{"$sort": {"_id": 1}}, {"$graphLookup": stage}, {"$unwind": "$g"}, {"$sort": {"_id": 1, "g._id": 1}}]


GRANULARITIES = ["R5", "R10", "R20", "R40", "R80", "1-2-5", "E6", "E12", "E24", "E48", "E96", "E192", "POWERSOF2"]


def buckets(rng: random.Random) -> Pipeline:
    if rng.random() < 0.3:
        bounds = sorted(rng.sample(range(-1, 22), rng.randint(2, 5)))
        stage: dict[str, Any] = {"groupBy": rng.choice(["$n", "$_id", "$a"]), "boundaries": bounds}
        if rng.random() < 0.7:
            stage["default"] = rng.choice(["other", 99, None])
        if rng.random() < 0.5:
            stage["output"] = {"s": {"$sum": "$n"}, "m": {"$max": "$a"}}
        return [{"$bucket": stage}]
    number = rng.choice(["$n", {"$multiply": ["$n", 1.37]}, {"$divide": ["$n", 1000]}, {"$multiply": ["$n", 977]}])
    stage = {"groupBy": rng.choice([number, number, "$a", "$_id"]), "buckets": rng.randint(1, 8)}
    if rng.random() < 0.6:
        stage |= {"granularity": rng.choice(GRANULARITIES), "groupBy": rng.choice([number, "$_id"])}
    if rng.random() < 0.4:
        stage["output"] = {"s": {"$sum": "$n"}, "all": {"$push": "$_id"}}
    return [{"$sort": {"_id": 1}}, {"$bucketAuto": stage}]


def others(rng: random.Random) -> Pipeline:
    redact = {"$redact": {"$cond": [rng.choice([{"$gt": ["$n", 5]}, {"$eq": ["$x", 1]}, {"$isArray": "$a"}]),
                                    rng.choice(["$$DESCEND", "$$KEEP"]), rng.choice(["$$PRUNE", "$$DESCEND", "$$KEEP"])]}}  # fmt: skip  # noqa: E501
    union = {"$unionWith": rng.choice(["k", {"coll": "k", "pipeline": [{"$match": {"n": {"$gt": 5}}}]}])}
    facet = {"$facet": {"x": [redact], "y": [{"$sort": {"n": 1, "_id": 1}}, {"$limit": 2}], "z": lookup(rng)}}
    return rng.choice(
        [[redact], [union, {"$sort": {"n": 1, "_id": 1, "a": 1, "b": 1}}], [{"$sort": {"_id": 1}}, facet]]
    )


def merge(rng: random.Random) -> Pipeline:
    update = [
        [{"$set": {"x": "$$new.a", "y": "$n"}}],
        [{"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new"]}}],
        [{"$set": {"x": "$$v"}}],
        [{"$unset": "b"}],
    ]
    stage: dict[str, Any] = {"into": "out"}
    stage["whenMatched"] = rng.choice(["replace", "merge", "keepExisting", "fail", rng.choice(update)])
    stage["whenNotMatched"] = rng.choice(["insert", "insert", "discard", "fail"])
    if isinstance(stage["whenMatched"], list):
        stage["let"] = {"v": "$n", "new": "$$ROOT"}
    if rng.random() < 0.4:
        stage["on"] = rng.choice(["n", ["n"], ["_id"], "a"])
    shape = rng.choice([{"$match": {}}, {"$project": {"_id": 0}}, {"$project": {"n": 1}}, {"$unset": "n"}])
    first = {"$group": {"_id": "$n", "d": {"$first": "$$ROOT"}}}
    return [first, {"$sort": {"_id": 1}}, {"$replaceWith": "$d"}, shape, {"$merge": stage}]


async def ours(node: LocalNode, pipeline: Pipeline) -> Any:
    reply = await node.reply({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 1000}})
    return reply["cursor"]["firstBatch"] if reply["ok"] else reply["code"]


def theirs(database: Any, pipeline: Pipeline) -> Any:
    try:
        reply = database.command({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 1000}})
    except OperationFailure as error:
        return error.code
    return reply["cursor"]["firstBatch"]


async def fill(node: LocalNode, database: Any, contents: dict[str, list[dict[str, Any]]], *, index: bool) -> None:
    database.client.drop_database(database.name)
    await node.run({"dropDatabase": 1})
    for name, documents in contents.items():
        if documents:
            database[name].insert_many(documents)
            await node.run({"insert": name, "documents": documents})
            if index:
                indexes = [{"key": {"a": 1}, "name": "a"}, {"key": {"n": -1, "b": 1}, "name": "n"}]
                database.command({"createIndexes": name, "indexes": indexes})
                await node.run({"createIndexes": name, "indexes": indexes})


def compare(
    reference: pymongo.MongoClient[dict[str, Any]],
    make: Callable[[random.Random], Pipeline],
    *,
    seed: int,
    into: bool = False,
) -> None:
    rng = random.Random(seed)

    async def work() -> None:
        node = LocalNode()
        database = reference.get_database("test")
        for case in range(CASES):
            if into or case % 10 == 0:
                contents = collections(rng)
                await fill(node, database, contents, index=case % 20 == 0)
            if into:
                unique = [{"key": {"n": 1}, "name": "n", "unique": True}]
                targets = [document(rng, number) | {"n": number} for number in range(0, 16, 2)]
                database["out"].insert_many(targets)
                await node.run({"insert": "out", "documents": targets})
                database.command({"createIndexes": "out", "indexes": unique})
                await node.run({"createIndexes": "out", "indexes": unique})
            pipeline = make(rng)
            expected, found = theirs(database, pipeline), await ours(node, pipeline)
            if into:
                drop_ids = {"$project": {"_id": {"$cond": [{"$isNumber": "$_id"}, "$_id", "new"]}, "d": "$$ROOT"}}
                dump = [{"$set": {"o": None}}, drop_ids, {"$unset": "d._id"}, {"$sort": {"d.n": 1, "_id": 1}}]
                expected = (expected, list(database["out"].aggregate(dump)))
                reply = await node.run({"aggregate": "out", "pipeline": dump, "cursor": {"batchSize": 1000}})
                found = (found, reply["cursor"]["firstBatch"])
            assert repr(found) == repr(expected), (pipeline, contents)

    asyncio.run(work())


@pytest.mark.parametrize("make", [lookup, graph, buckets, others])
def test_stages_give_what_a_real_server_gives(
    make: Callable[[random.Random], Pipeline], reference: pymongo.MongoClient[dict[str, Any]]
) -> None:
    compare(reference, make, seed=1)


def test_merges_leave_what_a_real_server_leaves(reference: pymongo.MongoClient[dict[str, Any]]) -> None:
    compare(reference, merge, seed=2, into=True)
