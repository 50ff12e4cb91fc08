"""Reads of all shards that are put together at once: which they are, and what becomes of them where that cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest

from docstore.commands.dispatch import Pending
from docstore.errors import Code
from docstore.net import NetworkError
from docstore.wire.message import Message
from mongos.merge import opened
from mongos.relay.relay import RoutedRequest
from tests.unit.mongos.local import LocalCluster
from tests.unit.mongos.test_relay import Pair, filled
from tests.unit.node.local import loop

_COUNT = {"$count": "n"}
_GROUP = {"$group": {"_id": "$x", "n": {"$sum": 1}, "most": {"$max": "$_id"}}}


def _pipeline(*stages: dict[str, Any]) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": list(stages), "cursor": {}}


GATHERED: dict[str, dict[str, Any]] = {
    "all": {"find": "c"},
    "by another field": {"find": "c", "filter": {"x": 1}},
    "by _id": {"find": "c", "filter": {"_id": 3}, "limit": 1, "singleBatch": True},
    "sorted": {"find": "c", "filter": {"x": {"$gt": 0}}, "sort": {"x": 1, "_id": -1}, "limit": 4, "skip": 3},
    "sorted and projected": {"find": "c", "sort": {"x": -1}, "limit": 4, "projection": {"_id": 1}},
    "a page": {"find": "c", "sort": {"_id": -1}, "limit": 5, "batchSize": 5},
    "count": {"count": "c", "query": {"x": 1}, "skip": 1, "limit": 4},
    "distinct": {"distinct": "c", "key": "x", "query": {"x": {"$lt": 2}}},
    "a range of the key": {"find": "c", "filter": {"k": {"$gt": 3}}},
    "the key in a branch": {"count": "c", "query": {"$or": [{"k": 3}, {"x": 1}]}},
    "below the key": {"distinct": "c", "key": "x", "query": {"k.a": 3}},
    "a $match by the key": _pipeline({"$match": {"k": {"$gt": 3}}}, _COUNT),
    "$match": _pipeline({"$match": {"x": {"$gt": 0}}}),
    "$match twice, apart": _pipeline({"$match": {"x": 1}}, {"$limit": 9}, {"$match": {"_id": {"$gt": 3}}}, _COUNT),
    "no stages": _pipeline(),
    "$group": _pipeline({"$match": {"x": {"$gt": 0}}}, _GROUP, {"$sort": {"n": -1, "_id": 1}}),
    "$group of all": _pipeline(_GROUP, {"$match": {"n": {"$gt": 1}}}, _COUNT),
    "$group that fails": _pipeline({"$group": {"_id": None, "n": {"$push": {"$divide": [1, "$x"]}}}}),
    "$sort, $skip, $limit": _pipeline({"$sort": {"x": -1, "_id": 1}}, {"$skip": 3}, {"$limit": 5}),
    "$sort behind $project": _pipeline({"$project": {"y": {"$add": ["$x", 1]}}}, {"$sort": {"y": -1, "_id": 1}}),
    "$facet": _pipeline(
        {"$match": {"x": 1}}, {"$facet": {"n": [_COUNT], "one": [{"$sort": {"_id": 1}}, {"$limit": 1}]}}
    ),
    "no batch": {"find": "c", "batchSize": 0},
    "a place in an array": {"find": "c", "filter": {"x": 1}, "sort": {"x": 1}, "projection": {"x.$": 1}},
    "a request's variable": {"find": "c", "sort": {"x": 1}, "projection": {"now": "$$NOW"}},
    "a collation": {"find": "c", "collation": {"locale": "en", "strength": 1}},
    "a string under a collation": {"find": "c", "filter": {"k": "x"}, "collation": {"locale": "en", "strength": 1}},
    "no first batch": {**_pipeline({"$match": {"x": 1}}), "cursor": {"batchSize": 0}},
}
OTHERS: dict[str, dict[str, Any]] = {
    "a range of one shard": {"find": "c", "filter": {"k": {"$gt": 30}}},
    "a range of one shard, counted": _pipeline({"$match": {"k": {"$gt": 30}}}, _COUNT),
    "time": {"find": "c", "maxTimeMS": 10000},
    "a $match that moves forward": _pipeline({"$match": {"x": 1}}, {"$set": {"y": 1}}, {"$match": {"k": 3}}),
    "another collection": _pipeline({"$match": {"x": 1}}, {"$unionWith": "d"}, _COUNT),
    "the time": _pipeline({"$match": {"x": 1}}, {"$project": {"later": {"$gt": ["$$NOW", "$x"]}}}),
    "a stage that is none": _pipeline({"$match": {"x": 1}}, {"$nosuch": 1}),
}
FIND: dict[str, Any] = {"find": "c", "filter": {"x": {"$gte": 0}}, "sort": {"_id": 1}}


async def _is_gathered(cluster: LocalCluster, command: dict[str, Any]) -> bool:
    message = Message(1, 0, bson.encode({**command, "$db": "test"}), {})
    answered = cluster.dispatcher.handle(message, cluster.peer)
    assert isinstance(answered, Pending)
    await answered.finish()
    return isinstance(answered.relay, RoutedRequest) and len(answered.relay.shards) > 1


@pytest.mark.parametrize("name", [*GATHERED, *OTHERS])
def test_what_does_not_fix_the_shard_key_is_gathered(name: str) -> None:
    async def story() -> bool:
        pair = await filled()
        command = {**GATHERED, **OTHERS}[name]
        found = await _is_gathered(pair.relaying, command)
        if name != "a request's variable":
            await pair.same(command)
        return found

    assert loop(story()) is (name in GATHERED)


STALE = {"ok": 0.0, "errmsg": "stale", "code": int(Code.StaleConfig), "codeName": "StaleConfig"}
NOT_PRIMARY = {**STALE, "code": int(Code.NotWritablePrimary), "codeName": "NotWritablePrimary"}


@pytest.mark.parametrize("answer", [STALE, NOT_PRIMARY, NetworkError("b:1", "lost", sent=True)], ids=str)
def test_where_a_shard_does_not_succeed_it_alone_is_asked_again_unless_it_is_stale(answer: Any) -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        cluster.b.answers.append(answer)
        before = len(cluster.a.asked)
        reply = await cluster.reply(FIND)
        assert [row["_id"] for row in reply["cursor"]["firstBatch"]] == list(range(20))
        assert bool(cluster.settled) is (answer is STALE)
        assert len(cluster.a.asked) == before + (2 if answer is STALE else 1)
        await _none_left(cluster)

    loop(story())


INTERRUPTED = {**STALE, "code": int(Code.Interrupted), "codeName": "Interrupted", "errmsg": "killed"}


@pytest.mark.parametrize("others", [[], [STALE]], ids=["one", "another is stale"])
@pytest.mark.parametrize(
    "command", [FIND, {"count": "c", "query": {"x": 1}}, GATHERED["$group"]], ids=lambda it: next(iter(it))
)
def test_a_read_that_a_shard_has_ended_is_not_begun_again(command: dict[str, Any], others: list[Any]) -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        cluster.b.answers.append(INTERRUPTED)
        cluster.a.answers += others
        before = len(cluster.a.asked), len(cluster.b.asked)
        reply = await cluster.reply(command)
        assert (reply["ok"], reply["code"], reply["errmsg"]) == (0.0, int(Code.Interrupted), "killed")
        assert (len(cluster.a.asked), len(cluster.b.asked)) == (before[0] + (not others), before[1])
        await _none_left(cluster)

    loop(story())


@pytest.mark.parametrize("idle", [True, False])
def test_where_a_shard_has_no_idle_connection_the_other_is_asked_once(idle: bool) -> None:
    async def story() -> None:
        cluster = (await filled()).relaying
        cluster.b.idle = idle
        before = len(cluster.a.asked), len(cluster.b.asked)
        reply = await cluster.reply(FIND)
        assert [row["_id"] for row in reply["cursor"]["firstBatch"]] == list(range(20))
        assert (len(cluster.a.asked), len(cluster.b.asked)) == (before[0] + 1, before[1] + 1)
        await _none_left(cluster)

    loop(story())


@pytest.mark.parametrize("batch", [4, 100])
def test_what_is_more_than_a_batch_or_much_is_read_on_by_the_router(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if batch == 100:
        monkeypatch.setattr(opened, "MAX_JOINED_BYTES", 100)

    async def story() -> None:
        pair = await filled()
        assert await _is_gathered(pair.relaying, FIND)
        before = sum("find" in request for request in pair.relaying.a.asked)
        first = (await pair.relaying.reply({**FIND, "batchSize": batch}))["cursor"]
        assert sum("find" in request for request in pair.relaying.a.asked) == before + 1
        found = first["firstBatch"]
        while first["id"]:
            first = (await pair.relaying.reply({"getMore": first["id"], "collection": "c"}))["cursor"]
            found += first["nextBatch"]
        assert [row["_id"] for row in found] == list(range(20))
        await _none_left(pair.relaying)

    loop(story())


@pytest.mark.parametrize("hindrance", ["a batch", "bytes", "time"])
def test_results_of_a_pipeline_are_read_on_where_they_are_many(hindrance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the shards have answered: they are not asked again."""
    if hindrance == "bytes":
        monkeypatch.setattr(opened, "MAX_JOINED_BYTES", 100)
    if hindrance == "time":
        monkeypatch.setattr(opened, "FIRST_STEP_SECONDS", -1.0)
    command = _pipeline({"$group": {"_id": "$_id", "x": {"$first": "$x"}}}, {"$sort": {"_id": -1}}, {"$skip": 2})

    async def story() -> None:
        pair = await filled()
        cluster = pair.relaying
        asked = {**command, "cursor": {"batchSize": 4} if hindrance == "a batch" else {}}
        assert await _is_gathered(cluster, asked)
        before = [len(shard.asked) for shard in (cluster.a, cluster.b)]
        reply = (await cluster.reply(asked))["cursor"]
        assert [len(shard.asked) for shard in (cluster.a, cluster.b)] == [number + 1 for number in before]
        found = reply["firstBatch"]
        while reply["id"]:
            reply = (await cluster.reply({"getMore": reply["id"], "collection": "c"}))["cursor"]
            found += reply["nextBatch"]
        assert [row["_id"] for row in found] == list(range(17, -1, -1))

    loop(story())


@pytest.mark.parametrize("turns", [1, 2])
def test_cursors_are_closed_when_the_client_has_gone(turns: int) -> None:
    async def story() -> None:
        pair: Pair = await filled()
        waiting = asyncio.ensure_future(pair.relaying.reply({**FIND, "batchSize": 4}))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert waiting.cancel(), "it is read still"
        await asyncio.gather(waiting, return_exceptions=True)
        await _none_left(pair.relaying)

    loop(story())


async def _none_left(cluster: LocalCluster) -> None:
    async with asyncio.timeout(20):
        for shard in (cluster.a, cluster.b):
            if hasattr(shard, "task"):
                await asyncio.gather(shard.task, return_exceptions=True)
            while len(shard.node.services.cursors):
                await asyncio.sleep(0)
