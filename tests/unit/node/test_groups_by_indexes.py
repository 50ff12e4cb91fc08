"""Groups of what stands in an index: read from it alone, each key once where nothing but keys is asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.node.local import LocalNode

DOCUMENTS = [{"_id": n, "a": n % 3, "b": n} for n in range(30)] + [{"_id": 30, "b": 5}, {"_id": 31, "a": None, "b": 5}]


@pytest.mark.parametrize(
    ("stages", "plan", "keys", "documents"),
    [
        ([{"$group": {"_id": "$a"}}], "DISTINCT_SCAN", 5, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$b"}}], "DISTINCT_SCAN", 11, 0),
        ([{"$match": {"a": {"$gt": 0}}}, {"$group": {"_id": "$a", "s": {"$sum": "$b"}}}], "IXSCAN", 20, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": None, "s": {"$sum": {"$add": ["$b", 1]}}}}], "IXSCAN", 10, 0),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$c"}}], "FETCH", 10, 10),
        ([{"$match": {"a": 1}}, {"$group": {"_id": "$a", "all": {"$push": "$$ROOT"}}}], "FETCH", 10, 10),
        ([{"$limit": 4}, {"$group": {"_id": "$a"}}], "LIMIT", 0, 4),
    ],
)
def test_groups_and_how_they_are_read(stages: list[dict[str, Any]], plan: str, keys: int, documents: int) -> None:
    async def story() -> None:
        node = LocalNode()
        for name in ("c", "plain"):
            await node.insert(name, *DOCUMENTS)
        await node.run({"createIndexes": "c", "indexes": [{"name": "ab", "key": {"a": 1, "b": 1}}]})
        found: dict[str, list[Any]] = {}
        for name in ("c", "plain"):
            reply = await node.run({"aggregate": name, "pipeline": [*stages, {"$sort": {"_id": 1}}], "cursor": {}})
            found[name] = reply["cursor"]["firstBatch"]
        assert found["c"] == found["plain"]
        asked = {"explain": {"aggregate": "c", "pipeline": stages, "cursor": {}}, "verbosity": "executionStats"}
        cursor = (await node.run(asked))["stages"][0]["$cursor"]
        metrics = cursor["executionStats"]
        assert cursor["queryPlanner"]["winningPlan"]["stage"] == plan
        assert (metrics["totalKeysExamined"], metrics["totalDocsExamined"]) == (keys, documents)

    asyncio.run(story())


def test_a_sparse_index_does_not_know_all_groups() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "a": 1}, {"_id": 2})
        await node.run({"createIndexes": "c", "indexes": [{"name": "a", "key": {"a": 1}, "sparse": True}]})
        asked = {"aggregate": "c", "pipeline": [{"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}], "cursor": {}}
        assert (await node.run(asked))["cursor"]["firstBatch"] == [{"_id": None}, {"_id": 1}]

    asyncio.run(story())
