"""`$bucket` through a router: shards are handed the stage itself, and the answer is that of a node."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import LocalNode, loop

Stage = dict[str, Any]

ROWS = [{"_id": number, "k": number % 20, "n": number, "s": "abcd"[number % 4]} for number in range(60)]
BY_NUMBER = {"groupBy": "$n", "boundaries": [0, 7, {"$add": [10, 10]}, 61]}
BY_TEXT = {"groupBy": "$s", "boundaries": ["a", "c", "d"], "default": "z"}
ALL = {"count": {"$sum": 1}, "mean": {"$avg": "$n"}, "least": {"$min": "$n"}, "sorted": {"$addToSet": "$s"}}
HUGE = {"groupBy": {"$add": ["$n", *[0] * 20]}, "boundaries": list(range(30_000)), "default": -1}
"""Written as a `$switch` it has more than 16 MB."""

CASES: dict[str, list[Stage]] = {
    "on all shards": [{"$bucket": BY_NUMBER}],
    "with a default": [{"$bucket": BY_TEXT}],
    "with outputs": [{"$bucket": {**BY_NUMBER, "output": ALL}}, {"$project": {"sorted": 0}}],
    "a filter behind it": [{"$bucket": BY_NUMBER}, {"$match": {"_id": {"$gt": 5}}}],
    "another order behind it": [{"$bucket": BY_NUMBER}, {"$sort": {"count": -1, "_id": -1}}, {"$limit": 2}],
    "on one shard": [{"$match": {"k": 3}}, {"$bucket": BY_NUMBER}],
    "behind a filter": [{"$match": {"n": {"$gt": 30}}}, {"$bucket": BY_TEXT}],
    "behind a group": [{"$group": {"_id": "$n", "n": {"$sum": "$n"}}}, {"$bucket": BY_NUMBER}],
    "behind another one": [{"$bucket": {"groupBy": "$n", "boundaries": [0, 7, 61]}},
                           {"$bucket": {"groupBy": "$count", "boundaries": [0, 10, 100]}}],
    "within a facet": [{"$facet": {"x": [{"$bucket": BY_NUMBER}], "y": [{"$bucket": BY_TEXT}]}}],
    "no interval": [{"$bucket": {"groupBy": "$n", "boundaries": [0, 7]}}],
    "no interval on one shard": [{"$match": {"k": 3}}, {"$bucket": {"groupBy": "$n", "boundaries": [0, 3]}}],
    "no interval for a computed value": [{"$bucket": {"groupBy": {"$add": ["$n", 1]}, "boundaries": [0, 7]}}],
    "many intervals": [{"$bucket": HUGE}],
    "many intervals behind a group": [{"$group": {"_id": "$n", "n": {"$sum": "$n"}}}, {"$bucket": HUGE}],
    "behind what another shard has": [{"$unionWith": "other"}, {"$bucket": BY_NUMBER}],
}  # fmt: skip


ON_THE_ROUTER = {"behind a group", "within a facet", "many intervals behind a group", "behind what another shard has"}
"""Cases whose stage runs behind what shards have merged."""


def aggregate(stages: list[Stage], **options: Any) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": stages, "cursor": {}, **options}


@pytest.mark.parametrize("relays", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_router_answers_as_a_node_does(case: str, relays: bool) -> None:
    async def story() -> None:
        cluster, node = LocalCluster(), LocalNode()
        cluster.relays = relays
        for server in (cluster, node):
            await server.reply({"insert": "c", "documents": ROWS})
            await server.reply({"insert": "other", "documents": [{"_id": -1, "n": 3}]})
        for options in ({}, {"collation": {"locale": "en", "strength": 1}}):
            routed, alone = [await server.reply(aggregate(CASES[case], **options)) for server in (cluster, node)]
            assert (routed["ok"], routed.get("code")) == (alone["ok"], alone.get("code")), (routed, alone)
            if alone["ok"]:
                assert routed["cursor"]["firstBatch"] == alone["cursor"]["firstBatch"]
        asked = str([each.get("pipeline") for shard in (cluster.a, cluster.b) for each in shard.asked])
        assert "$switch" not in asked
        assert ("$bucket" in asked) == (case not in ON_THE_ROUTER)

    loop(story())


def test_shards_have_the_intervals_of_the_router() -> None:
    now = {"groupBy": "$n", "boundaries": [datetime(1990, 1, 1), {"$subtract": ["$$NOW", 10]}], "default": "$$NOW"}

    async def story() -> None:
        cluster = LocalCluster()
        await cluster.reply({"insert": "c", "documents": ROWS})
        reply = await cluster.reply(aggregate([{"$bucket": now}]))
        (group,) = reply["cursor"]["firstBatch"]
        for shard in (cluster.a, cluster.b):
            (bucket,) = (each["pipeline"][0]["$bucket"] for each in shard.asked if "pipeline" in each)
            assert bucket["default"] == {"$literal": group["_id"]}
            low, high = bucket["boundaries"]
            assert (low, high) == (datetime(1990, 1, 1), {"$literal": group["_id"] - timedelta(milliseconds=10)})

    loop(story())


def test_explain_shows_a_bucket_as_what_it_is_carried_out_as() -> None:
    async def story() -> None:
        cluster = LocalCluster()
        await cluster.reply({"insert": "c", "documents": ROWS})
        reply = await cluster.reply({"explain": aggregate([{"$bucket": BY_TEXT}])})
        split = reply["splitPipeline"]
        (group,) = split["shardsPart"]
        assert list(group["$group"]) == ["_id", "count", "$willBeMerged"]
        assert len(group["$group"]["_id"]["$switch"]["branches"]) == 2
        assert split["mergerPart"][0]["$group"]["_id"] == "$_id"
        assert split["mergerPart"][1] == {"$sort": {"_id": 1}}

    loop(story())
