"""A statement has one time on all shards: `$$NOW` and `$$CLUSTER_TIME` are what the router says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import loop

TIMES = {"now": "$$NOW", "time": "$$CLUSTER_TIME"}
DOCUMENTS = [{"_id": number, "k": number} for number in range(20)]
ALWAYS = {"$expr": {"$gt": ["$$NOW", 0]}}


async def filled() -> LocalCluster:
    """A cluster whose clocks are hours apart."""
    cluster = LocalCluster()
    cluster.a.node.node.wall_clock = lambda: 1_000_000_000.0
    cluster.b.node.node.wall_clock = lambda: 1_500_000_000.0
    assert (await cluster.reply({"insert": "c", "documents": DOCUMENTS}))["n"] == 20
    return cluster


def aggregate(*stages: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {"batchSize": 1000}, **options}


READS: dict[str, dict[str, Any]] = {
    "projection": {"find": "c", "projection": TIMES, "batchSize": 1000},
    "sorted projection": {"find": "c", "projection": TIMES, "sort": {"k": -1}, "batchSize": 1000},
    "let": {"find": "c", "let": {"n": "$$NOW"}, "projection": {"now": "$$n"}, "batchSize": 1000},
    "stage": aggregate({"$project": TIMES}),
    "stage behind a filter": aggregate({"$match": {"k": {"$gte": 0}}}, {"$set": TIMES}),
    "group": aggregate({"$group": {"_id": {"now": "$$NOW", "time": "$$CLUSTER_TIME"}}}, {"$replaceWith": "$_id"}),
    "let of a pipeline": aggregate({"$project": {"now": "$$n"}}, let={"n": "$$NOW"}),
    "foreign documents": aggregate(
        {"$lookup": {"from": "c", "pipeline": [{"$project": TIMES}], "as": "found"}}, {"$unwind": "$found"},
        {"$replaceWith": "$found"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_a_read_has_one_time(name: str) -> None:
    async def story() -> None:
        cluster = await filled()
        reply = await cluster.reply(READS[name])
        assert reply["ok"], reply
        documents = reply["cursor"]["firstBatch"]
        assert documents
        assert len({(each["now"], each.get("time")) for each in documents}) == 1, documents

    loop(story())


CHANGES: dict[str, dict[str, Any]] = {
    "update of many": {"update": "c", "updates": [{"q": {}, "u": [{"$set": TIMES}], "multi": True}]},
    "updates of single documents": {
        "update": "c", "updates": [{"q": {"k": number}, "u": [{"$set": TIMES}]} for number in range(20)],
    },
    "bulk write": {
        "bulkWrite": 1,
        "ops": [{"update": 0, "filter": {}, "updateMods": [{"$set": TIMES}], "multi": True}],
        "nsInfo": [{"ns": "test.c"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_write_has_one_time(name: str) -> None:
    async def story() -> None:
        cluster = await filled()
        reply = await cluster.reply(CHANGES[name], "admin" if "bulkWrite" in CHANGES[name] else "test")
        assert reply["ok"], reply
        found = (await cluster.reply({"find": "c", "batchSize": 1000}))["cursor"]["firstBatch"]
        assert len(found) == 20
        assert len({(each["now"], each["time"]) for each in found}) == 1, found

    loop(story())


BEHIND = {"$expr": {"$lt": ["$$NOW", {"$toDate": 1_200_000_000_000}]}}
"""True by the clock of one shard, and false by that of the other and by the router's."""


def test_a_condition_on_the_time_holds_on_all_shards_or_on_none() -> None:
    async def story() -> None:
        cluster = await filled()
        assert (await cluster.reply({"count": "c", "query": BEHIND}))["n"] == 0
        assert (await cluster.reply({"distinct": "c", "key": "k", "query": BEHIND}))["values"] == []
        assert (await cluster.reply({"find": "c", "filter": BEHIND}))["cursor"]["firstBatch"] == []
        assert (await cluster.reply(aggregate({"$match": BEHIND})))["cursor"]["firstBatch"] == []
        assert (await cluster.reply(aggregate({"$match": BEHIND}, {"$count": "n"})))["cursor"]["firstBatch"] == []
        one = {"findAndModify": "c", "query": {"k": 1, **BEHIND}, "update": {"$set": {"x": 1}}}
        assert (await cluster.reply(one))["value"] is None
        for deleted in ({}, {"k": 3}):
            assert (await cluster.reply({"delete": "c", "deletes": [{"q": deleted | BEHIND, "limit": 0}]}))["n"] == 0

    loop(story())
