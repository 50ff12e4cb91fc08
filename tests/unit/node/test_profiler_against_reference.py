"""What the profiler of a real server writes down of a request, and what is written down here, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.database import Database

from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference

NOT_HERE = frozenset(
    (
        "queryHash", "planCacheKey", "queryFramework", "execStats", "locks", "storage", "flowControl", "keysInserted",
        "keysDeleted", "_id", "appName",
    )
)  # fmt: skip
OF_THE_RUN = frozenset(
    ("client", "ts", "millis", "responseLength", "numYield", "protocol", "user", "cursorid", "errMsg")
)
"""Fields that are compared by their names only."""
OF_DRIVERS = frozenset(("lsid", "$db", "cursor", "ordered", "getMore"))

SET_Q = {"$set": {"q": 1}}
OF_K = {"$match": {"k": 3}}


def _aggregate(*stages: dict[str, Any], size: int | None = None) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {} if size is None else {"batchSize": size}}


def _update(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"update": "c", "updates": list(statements)}


def _delete(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"delete": "c", "deletes": list(statements)}


COMMANDS: list[dict[str, Any]] = [
    {"find": "c", "filter": {"_id": 5}},
    {"find": "c", "filter": {"k": 5}},
    {"find": "c", "filter": {"z": 5}},
    {"find": "c", "filter": {"z": -5}},
    {"find": "c", "filter": {"z": {"$gt": 3}}, "sort": {"z": 1}, "limit": 5},
    {"find": "c", "batchSize": 200},
    {"find": "c", "filter": {"k": {"$in": [5, 6]}}, "projection": {"_id": 0, "k": 1}},
    {"find": "c", "filter": {"$or": [{"k": 5}, {"a": 3}]}},
    {"find": "c", "filter": {"a": {"$gt": 7}, "k": 3}},
    {"find": "c", "filter": {"k": 3}, "limit": 4},
    {"find": "c", "sort": {"_id": -1}, "limit": 2},
    {"find": "none", "filter": {"z": 5}},
    {"find": "c", "filter": {"$nope": 1}},
    _aggregate(OF_K, {"$group": {"_id": "$z"}}),
    _aggregate(OF_K, {"$sort": {"z": 1}}),
    _aggregate({"$group": {"_id": "$k"}}),
    _aggregate(OF_K, {"$group": {"_id": 1, "n": {"$sum": 1}}}),
    _aggregate({"$match": {}}, size=200),
    {"count": "c"},
    {"count": "c", "query": {"k": 3}},
    {"count": "c", "query": {"z": 3}},
    {"distinct": "c", "key": "k"},
    {"distinct": "c", "key": "z", "query": {"z": {"$gt": 100}}},
    _update({"q": {"_id": 3}, "u": SET_Q}),
    _update({"q": {"_id": 3}, "u": SET_Q}),
    _update({"q": {"k": 3}, "u": {"$inc": {"k": 1}}, "multi": True}),
    _update({"q": {"z": 3}, "u": {"$inc": {"k": 1}}, "multi": True}),
    _update({"q": {"_id": 3000}, "u": SET_Q, "upsert": True}),
    _update({"q": {"k": 0}, "u": {"y": 1}}),
    _update({"q": {"_id": 4}, "u": {"$set": {"_id": 1}}}),
    _delete({"q": {"_id": 3}, "limit": 1}),
    _delete({"q": {"k": 8}, "limit": 0}),
    _delete({"q": {"z": 17}, "limit": 0}),
    {"findAndModify": "c", "query": {"_id": 10}, "update": {"$set": {"k": 77}}},
    {"findAndModify": "c", "query": {"k": 7}, "sort": {"z": 1}, "update": SET_Q},
    {"findAndModify": "c", "query": {"_id": 11}, "remove": True},
    {"findAndModify": "c", "query": {"_id": 1100}, "update": SET_Q, "upsert": True},
    {"findAndModify": "c", "query": {"z": -1}, "update": SET_Q},
    {"insert": "c", "documents": [{"_id": "n"}, {"_id": "m"}]},
    {"listIndexes": "c"},
    {**_update({"q": {"_id": 3}, "u": SET_Q}), "comment": "why"},
    {**_delete({"q": {"_id": 20}, "limit": 1}), "comment": {"for": "what"}},
    {"find": "c", "batchSize": 200, "comment": "why"},
]
FILLING: list[dict[str, Any]] = [
    {"insert": "c", "documents": [{"_id": i, "k": i % 10, "a": i, "b": i, "z": i} for i in range(300)]},
    {"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k"}, {"key": {"a": 1, "b": -1}, "name": "ab"}]},
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[dict[str, Any]]]:
    with (
        reference_server(tmp_path_factory.mktemp("reference")) as port,
        pymongo.MongoClient("127.0.0.1", port) as client,
    ):
        yield client["profiled"]


def shown(entry: dict[str, Any]) -> list[tuple[str, Any]]:
    """What is compared of an entry, in order."""
    found: list[tuple[str, Any]] = []
    for name, value in entry.items():
        if name == "ns":
            value = value.partition(".")[2]
        elif name in ("command", "originatingCommand"):
            value = {field: each for field, each in value.items() if field not in OF_DRIVERS}
        elif name in OF_THE_RUN:
            value = None
        if name not in NOT_HERE:
            found.append((name, value))
    return found


def further(reply: dict[str, Any]) -> dict[str, Any] | None:
    """The request for what a cursor has left."""
    cursor = reply.get("cursor", {}).get("id", 0)
    return {"getMore": cursor, "collection": "c"} if cursor else None


def test_the_same_is_written_down(reference: Database[dict[str, Any]]) -> None:
    async def ours() -> list[dict[str, Any]]:
        node = LocalNode()
        for command in (*FILLING, {"profile": 2}):
            await node.run(command)
        for command in COMMANDS:
            more = further(await node.reply(command))
            if more is not None:
                await node.run(more)
        await node.run({"profile": 0})
        return await node.documents("system.profile")

    for command in (*FILLING, {"profile": 2}):
        reference.command(command)
    for command in COMMANDS:
        more = further(reference.command(command, check=False))
        if more is not None:
            reference.command(more)
    reference.command({"profile": 0})
    theirs = [shown(entry) for entry in reference["system.profile"].find()]
    found = [shown(entry) for entry in loop(ours())]
    assert len(found) == len(theirs)
    assert [pair for pair in zip(found, theirs, strict=True) if pair[0] != pair[1]] == []
