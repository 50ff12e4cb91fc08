"""Which index a real server reads, within which bounds and how far: explain there and here, stage by stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference

Plan = list[dict[str, Any]]
COMPARED = (
    "stage", "indexName", "direction", "indexBounds", "isMultiKey", "multiKeyPaths", "sortPattern", "limitAmount",
    "nReturned", "keysExamined", "docsExamined", "seeks", "dupsTested", "dupsDropped",
)  # fmt: skip

FLAT = [{"_id": number, "a": number % 10, "b": number % 7} for number in range(100)]
FLAT += [{"_id": 100, "b": 1}, {"_id": 101, "a": None}, {"_id": 102, "a": "x"}]
ARRAYS = [
    {
        "_id": number,
        "a": number % 10,
        "b": number % 7,
        "c": [number % 3, number % 5],
        "d": {"e": number % 4, "f": number % 6},
        "g": [{"h": number % 3, "i": number % 4}, {"h": number % 5, "i": number % 2}],
    }
    for number in range(200)
]
COLLECTIONS: dict[str, tuple[list[dict[str, Any]], list[dict[str, int]]]] = {
    "flat": (FLAT, [{"a": 1, "b": 1}]),
    "arrays": (ARRAYS, [{"a": 1, "c": 1}, {"c": 1, "b": 1}, {"g.h": 1, "g.i": 1}, {"d.e": 1, "g.h": 1}]),
    "choice": (
        [{"_id": number, "a": number % 10, "b": number % 7, "c": number % 50} for number in range(1000)],
        [{"a": 1}, {"b": 1}, {"c": 1}, {"a": 1, "b": 1}, {"b": 1, "a": 1}],
    ),
}

FLAT_FILTERS: list[dict[str, Any]] = [
    {"a": {"$ne": 3}}, {"a": {"$ne": None}}, {"a": {"$ne": 3}, "b": {"$ne": 4}}, {"a": {"$nin": [3, 5]}},
    {"a": {"$nin": [3, None]}}, {"a": {"$exists": True}}, {"a": {"$exists": False}}, {"a": {"$exists": True}, "b": 3},
    {"a": {"$not": {"$in": [1, 2]}}}, {"a": {"$gt": 2, "$ne": 5}}, {"a": {"$gt": 2, "$ne": 5}, "b": {"$in": [1, 2]}},
    {"$nor": [{"a": 3}]}, {"a": {"$type": "number"}}, {"a": {"$type": "null"}}, {"a": {"$gte": None}}, {"a": None},
    {"a": {"$in": [None, 1]}}, {"a": {"$in": ["x", 3]}}, {"a": {"$regex": "^x"}}, {"a": {"$gte": 2, "$lt": 6}, "b": 4},
    {"$expr": {"$eq": ["$a", 3]}}, {"$expr": {"$gt": ["$a", 3]}}, {"$expr": {"$lte": ["$a", 3]}},
    {"$expr": {"$lt": [3, "$a"]}}, {"$expr": {"$and": [{"$eq": ["$a", 3]}, {"$gt": ["$b", 2]}]}},
    {"$expr": {"$eq": ["$a", None]}}, {"$expr": {"$gt": ["$a", None]}}, {"$expr": {"$lt": ["$a", "x"]}},
    {"$expr": {"$in": ["$a", [3, 4]]}}, {"$expr": {"$ne": ["$a", 3]}}, {"a": 3, "$expr": {"$eq": ["$b", 3]}},
    {"$or": [{"a": 3}, {"a": {"$gt": 7}}]},
]  # fmt: skip
COMMANDS: list[dict[str, Any]] = [
    *({"find": "flat", "filter": each} for each in FLAT_FILTERS),
    {"find": "flat", "filter": {"a": {"$in": [3, 4, 5]}}, "sort": {"b": 1}},
    {"find": "flat", "filter": {"a": {"$in": [3, 4, 5]}}, "sort": {"b": -1}},
    {"find": "flat", "filter": {"a": {"$in": [3, 4, 5]}, "b": {"$gt": 2}}, "sort": {"b": 1}, "limit": 4},
    {"find": "arrays", "filter": {"a": {"$gt": 3, "$lt": 6}, "c": 2}},
    {"find": "arrays", "filter": {"c": 2, "b": {"$gt": 1, "$lt": 4}}},
    {"find": "arrays", "filter": {"g.h": 2, "g.i": 1}},
    {"find": "arrays", "filter": {"g": {"$elemMatch": {"h": 2, "i": 1}}}},
    {"find": "arrays", "filter": {"a": 3}, "projection": {"a": 1, "_id": 0}},
    {"find": "arrays", "filter": {"d.e": 3}, "projection": {"d.e": 1, "_id": 0}},
    {"find": "arrays", "filter": {"a": 3}, "sort": {"c": 1}},
    {"find": "arrays", "filter": {"a": 3, "c": 2}, "sort": {"c": 1}},
    {"find": "arrays", "filter": {"c": 2}, "sort": {"b": 1}},
    {"find": "arrays", "filter": {"c": {"$gt": 2}}, "sort": {"c": 1}},
    {"find": "arrays", "filter": {"g.h": 2}, "sort": {"g.i": 1}},
    {"find": "arrays", "filter": {}, "sort": {"a": 1}},
    {"count": "arrays", "query": {"c": 2}},
    {"count": "arrays", "query": {"c": {"$gt": 2}}},
    {"count": "flat", "query": {"a": {"$ne": 3}}},
    {"count": "flat", "query": {"a": {"$in": [1, 3]}}},
    {"distinct": "flat", "key": "a", "query": {"a": {"$gt": 3}}},
    {"distinct": "flat", "key": "b", "query": {"a": 3}},
    {"distinct": "flat", "key": "b", "query": {"a": 3, "b": {"$gt": 3}}},
    {"distinct": "flat", "key": "_id"},
    {"find": "choice", "filter": {"a": 3, "b": 4}},
    {"find": "choice", "filter": {"a": 3}},
    {"find": "choice", "filter": {"a": {"$gt": 3}, "b": 4}},
    {"find": "choice", "filter": {"a": 3, "c": 13}},
    {"find": "choice", "filter": {"a": 3}, "sort": {"b": 1}},
    {"find": "choice", "filter": {"b": 3}, "sort": {"c": 1}, "limit": 3},
    {"find": "choice", "filter": {"c": 99999, "a": 5}},
    {"find": "choice", "filter": {"$or": [{"a": 3}, {"b": 4}]}},
    {"find": "choice", "filter": {"$or": [{"a": 3}, {"b": 4}], "c": 4}},
    {"find": "choice", "filter": {"_id": {"$gt": 5, "$lt": 10}, "a": 3}},
    {"count": "choice", "query": {"a": 3, "b": 2}},
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port) as client,
    ):
        database = client["plans"]
        for name in COLLECTIONS:
            for command in filling(name):
                database.command(command)
        yield database


def filling(name: str) -> Iterator[dict[str, Any]]:
    """The commands that make a collection."""
    documents, keys = COLLECTIONS[name]
    specs = [{"key": key, "name": "_".join(f"{path}_1" for path in key)} for key in keys]
    yield {"insert": name, "documents": documents}
    yield {"createIndexes": name, "indexes": specs}


def shown(stage: dict[str, Any]) -> dict[str, Any]:
    """What is compared of a stage and those below it."""
    found = {name: stage[name] for name in COMPARED if name in stage}
    below = [stage["inputStage"]] if "inputStage" in stage else stage.get("inputStages", [])
    return found | {"inputs": [shown(each) for each in below]}


def plan_of(reply: dict[str, Any]) -> dict[str, Any]:
    return shown(reply["executionStats"]["executionStages"])


def test_the_same_plans_are_run(reference: Database[dict[str, Any]]) -> None:
    async def ours() -> list[dict[str, Any]]:
        node = LocalNode()
        for name in COLLECTIONS:
            for command in filling(name):
                await node.reply(command)
        return [await node.reply({"explain": command, "verbosity": "executionStats"}) for command in COMMANDS]

    differing = []
    for command, reply in zip(COMMANDS, loop(ours()), strict=True):
        theirs = plan_of(reference.command("explain", command, verbosity="executionStats"))
        if plan_of(reply) != theirs:
            differing.append((command, plan_of(reply), theirs))
    assert differing == []
