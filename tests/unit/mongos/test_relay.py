"""Requests that are relayed: the same answers as those that are routed, whatever they ask and whatever comes back."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstore.commands.context import Context
from docstore.commands.dispatch import Dispatcher
from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from mongos.routing.shards import OutcomeUnknown
from tests.unit.mongos.local import ABSENT, LocalCluster
from tests.unit.node.local import loop

_PLAIN = [3, 12, Int64(4), 7.0, 9.5, 10, -1, 10.0, "x", "", True, ObjectId(bytes(12)), datetime(2020, 1, 1), b"b"]
_SPECIAL = [
    None, float("nan"), float("inf"), Decimal128("5"), [1, 12], [], {}, {"a": 1}, {"$gt": 3}, {"$eq": 4}, {"$eq": None},
    {"$in": [3]}, {"$in": [3, 12]}, {"$ne": 3}, {"$exists": True}, {"$gte": 3, "$lte": 3}, {"$eq": 3, "$lt": 2},
    Regex("^x"), MinKey(), MaxKey(), {"$not": {"$gt": 3}}, {"$eq": [3]}, {"$type": "int"}, {"$unknown": 1},
]  # fmt: skip
_VALUES = st.sampled_from([*_PLAIN, *_PLAIN, *_SPECIAL])
_IDS = st.integers(0, 40)


def _filters() -> st.SearchStrategy[dict[str, Any]]:
    plain = st.fixed_dictionaries({"k": _VALUES}, optional={"_id": _IDS, "x": _VALUES, "k.a": st.just(1)})
    return st.one_of(
        plain,
        st.fixed_dictionaries({}, optional={"_id": _IDS, "x": _VALUES}),
        st.builds(lambda one, other: {"$and": [one, other]}, plain, plain),
        st.builds(lambda one, other: {"$or": [one, other]}, plain, plain),
        st.builds(lambda one, other: {**one, "$or": [other]}, plain, plain),
        st.builds(lambda one: {**one, "$expr": {"$eq": ["$x", 1]}}, plain),
    )


_STAGES: list[dict[str, Any]] = [
    {"$sort": {"_id": 1}}, {"$sort": {"x": 1, "_id": -1}}, {"$limit": 3}, {"$skip": 1}, {"$count": "n"},
    {"$group": {"_id": "$x", "n": {"$sum": 1}, "s": {"$sum": "$k"}, "l": {"$push": "$_id"}}}, {"$project": {"x": 1}},
    {"$group": {"_id": None, "n": {"$sum": 1}}}, {"$sortByCount": "$x"}, {"$addFields": {"now": {"$gt": ["$$NOW", 1]}}},
    {"$unwind": "$k"}, {"$lookup": {"from": "plain", "localField": "x", "foreignField": "_id", "as": "l"}},
    {"$facet": {"page": [{"$sort": {"_id": -1}}, {"$limit": 2}], "n": [{"$count": "n"}]}}, {"$none": 1},
    {"$unionWith": "plain"}, {"$project": {"v": {"$divide": ["$x", 0]}}}, {"$project": {"v": "$$v"}}, {"$limit": -1},
]  # fmt: skip


def _commands() -> st.SearchStrategy[dict[str, Any]]:
    changes = st.sampled_from(
        [{"$set": {"x": 1}}, {"$inc": {"n": 1}}, {"$set": {"k": 3}}, {"$bad": 1}, {"k": 4, "y": 1}]
    )
    options = st.fixed_dictionaries(
        {},
        optional={
            "limit": st.integers(0, 3), "skip": st.integers(0, 2), "batchSize": st.integers(0, 3),
            "singleBatch": st.booleans(), "sort": st.just({"_id": 1}), "projection": st.just({"k": 1}),
            "collation": st.just({"locale": "en", "strength": 2}), "let": st.just({"v": 1}),
            "readConcern": st.just({"level": "local"}), "hint": st.sampled_from(["_id_", "none"]),
        },
    )  # fmt: skip
    counting = st.fixed_dictionaries({}, optional={"limit": st.integers(-2, 2), "skip": st.integers(0, 2)})
    pipelines = st.builds(
        lambda filter_, stages: [*({"$match": each} for each in filter_), *stages],
        st.lists(_filters(), max_size=2), st.lists(st.sampled_from(_STAGES), max_size=3),
    )  # fmt: skip
    given = st.fixed_dictionaries(
        {"cursor": st.sampled_from([{}, {}, *({"batchSize": size} for size in (2, 0, -1)), {"unknown": 1}])},
        optional={
            "collation": st.just({"locale": "en", "strength": 2}), "let": st.just({"v": 1}),
            "allowDiskUse": st.booleans(), "hint": st.sampled_from(["_id_", "none"]),
        },
    )  # fmt: skip
    names = st.sampled_from(["c", "c", "c", "plain"])
    documents = st.fixed_dictionaries({"_id": _IDS}, optional={"k": _VALUES, "x": _VALUES})
    multi = st.booleans()
    return st.one_of(
        st.builds(lambda name, filter_, more: {"find": name, "filter": filter_, **more}, names, _filters(), options),
        st.builds(lambda name, filter_, more: {"count": name, "query": filter_, **more}, names, _filters(), counting),
        st.builds(lambda name, stages, more: {"aggregate": name, "pipeline": stages, **more}, names, pipelines, given),
        st.builds(
            lambda name, key, filter_: {"distinct": name, "key": key, "query": filter_},
            names, st.sampled_from(["k", "x", "_id", "k.a"]), _filters(),
        ),
        st.builds(lambda name: {"listIndexes": name}, st.sampled_from(["c", "plain", "none"])),
        st.builds(lambda name, document: {"insert": name, "documents": [document]}, names, documents),
        st.builds(
            lambda name, filter_, change, many, upsert, number: {
                "update": name,
                "updates": [{"q": {**filter_, "_id": number}, "u": change, "multi": many, "upsert": upsert}],
            },
            names, _filters(), changes, multi, st.booleans(), _IDS,
        ),
        st.builds(
            lambda name, filter_, limit: {"delete": name, "deletes": [{"q": filter_, "limit": limit}]},
            names, _filters(), st.sampled_from([0, 1]),
        ),
        st.builds(
            lambda name, filter_, change, number, more: {
                "findAndModify": name, "query": {**filter_, "_id": number}, "update": change, **more,
            },
            names, _filters(), changes, _IDS,
            st.fixed_dictionaries({}, optional={"new": st.booleans(), "upsert": st.booleans()}),
        ),
    )  # fmt: skip


class Pair:
    """Two clusters that are asked the same, of which one relays what it can."""

    def __init__(self) -> None:
        self.relaying, self.routing = LocalCluster(), LocalCluster()
        self.routing.relays = False

    async def same(self, command: dict[str, Any], **options: Any) -> dict[str, Any]:
        """The reply of both, which must be one, from the same shards; what is refused may be so by a shard."""
        replies, asked = [], []
        for cluster in (self.relaying, self.routing):
            shards = (cluster.a, cluster.b)
            before = [len(shard.asked) for shard in shards]
            replies.append(await cluster.reply(command, **options))
            asked.append([len(shard.asked) > count for shard, count in zip(shards, before, strict=True)])
        one, other = (_without_cursor(reply) for reply in replies)
        assert list(one) == list(other)
        assert repr(one) == repr(other), command
        assert asked[0] == asked[1] or not one["ok"], command
        return one

    @property
    def relayed(self) -> int:
        return self.relaying.a.relayed + self.relaying.b.relayed


def _without_cursor(reply: dict[str, Any]) -> dict[str, Any]:
    if "cursor" in reply:
        reply["cursor"]["id"] = bool(reply["cursor"]["id"])
    return reply


async def filled() -> Pair:
    pair = Pair()
    rows = [{"_id": number, "k": number, "x": number % 3} for number in range(20)]
    for name in ("c", "plain"):
        await pair.same({"insert": name, "documents": rows})
    return pair


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_commands(), min_size=1, max_size=12))
def test_any_requests_are_answered_as_by_routing(commands: list[dict[str, Any]]) -> None:
    async def story() -> None:
        pair = await filled()
        for command in commands:
            # The second time by what the first has prepared.
            await pair.same(command)
            await pair.same(command)
        for name in ("c", "plain"):
            await pair.same({"find": name, "sort": {"_id": 1}, "batchSize": 1000})
        assert pair.relaying.written == pair.routing.written

    loop(story())


ONE: dict[str, dict[str, Any]] = {
    "find": {"find": "c", "filter": {"k": 12}},
    "find with more": {"find": "c", "filter": {"x": {"$in": [0, 1]}, "k": {"$eq": 12}}, "projection": {"x": 1}},
    "find, not sharded": {"find": "plain", "filter": {"x": {"$gt": 1}}, "batchSize": 100},
    "find by null": {"find": "c", "filter": {"k": None}},
    "find by a range of one shard": {"find": "c", "filter": {"k": {"$gt": 12}}},
    "find by several conditions": {"find": "c", "filter": {"k": {"$eq": 12, "$gt": 3}}},
    "find by a branch": {"find": "c", "filter": {"$and": [{"k": 12}]}},
    "count": {"count": "c", "query": {"k": 3}},
    "count of a list": {"count": "c", "query": {"k": {"$in": [1, 2, 3]}}},
    "distinct": {"distinct": "c", "key": "x", "query": {"k": 12}},
    "distinct, not sharded": {"distinct": "plain", "key": "x"},
    "pipeline": {"aggregate": "c", "pipeline": [{"$match": {"k": 12}}, {"$count": "n"}], "cursor": {}},
    "pipeline, not sharded": {"aggregate": "plain", "pipeline": [{"$sortByCount": "$x"}], "cursor": {"batchSize": 9}},
    "listIndexes": {"listIndexes": "plain"},
    "insert": {"insert": "c", "documents": [{"_id": 50, "k": 11}]},
    "update": {"update": "c", "updates": [{"q": {"k": 3}, "u": {"$inc": {"n": 1}}}]},
    "upsert": {"update": "c", "updates": [{"q": {"k": 30, "_id": 30}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
    "delete": {"delete": "c", "deletes": [{"q": {"k": 4}, "limit": 1}]},
    "findAndModify": {"findAndModify": "c", "query": {"k": 5}, "update": {"$inc": {"n": 1}}, "new": True},
    "duplicate": {"insert": "c", "documents": [{"_id": 2, "k": 2}]},
    "a range, changed": {"update": "c", "updates": [{"q": {"k": {"$gt": 12}}, "u": {"$inc": {"n": 1}}, "multi": True}]},
    "a collation": {"find": "c", "filter": {"k": 12}, "collation": {"locale": "en", "strength": 1}},
    "variables": {"find": "c", "filter": {"k": 12}, "let": {"a": 1}},
    "a statement's collation": {
        "update": "c",
        "updates": [{"q": {"k": 1, "_id": 1}, "u": {"$inc": {"n": 1}}, "collation": {"locale": "en"}}],
    },
}


@pytest.mark.parametrize("name", ONE)
def test_what_names_the_shard_key_is_relayed(name: str) -> None:
    async def story() -> int:
        pair = await filled()
        await pair.same(ONE[name])
        return pair.relayed

    assert loop(story()) == 1


ASIDE: dict[str, dict[str, Any]] = {
    "a list, changed": {"update": "c", "updates": [{"q": {"k": [12]}, "u": {"$inc": {"n": 1}}}]},
    "time": {"find": "c", "filter": {"k": 12}, "maxTimeMS": 10000},
    "a secondary": {"find": "c", "filter": {"k": 12}, "$readPreference": {"mode": "secondaryPreferred"}},
    "several": {"insert": "c", "documents": [{"_id": 90, "k": 1}, {"_id": 91, "k": 1}]},
    "no _id": {"insert": "c", "documents": [{"k": 1}]},
    "another collection": {
        "aggregate": "plain",
        "pipeline": [
            {"$facet": {"n": [{"$lookup": {"from": "c", "localField": "x", "foreignField": "k", "as": "l"}}]}}
        ],
        "cursor": {},
    },
    "a script": {
        "aggregate": "plain",
        "pipeline": [{"$project": {"f": {"$function": {"body": "f", "args": [], "lang": "js"}}}}],
        "cursor": {},
    },
    "no database": {"find": "c", "filter": {"k": 12}, "$db": ABSENT},
}


@pytest.mark.parametrize("name", ASIDE)
def test_what_means_more_is_routed(name: str) -> None:
    async def story() -> int:
        pair = await filled()
        command = dict(ASIDE[name])
        await pair.same(command, db=command.pop("$db", "test"))
        return pair.relayed

    assert loop(story()) == 0


def test_a_cursor_that_is_left_open_is_read_on_by_the_router() -> None:
    async def story() -> tuple[int, list[int]]:
        cluster = LocalCluster()
        await cluster.reply({"insert": "plain", "documents": [{"_id": number} for number in range(7)]})
        first = (await cluster.reply({"find": "plain", "batchSize": 3}))["cursor"]
        more = await cluster.reply({"getMore": Int64(first["id"]), "collection": "plain"})
        assert len([request for request in cluster.a.asked if "find" in request]) == 1
        return cluster.a.relayed, [row["_id"] for row in (*first["firstBatch"], *more["cursor"]["nextBatch"])]

    relayed, found = loop(story())
    assert (relayed, found) == (2, list(range(7)))


STALE = {"ok": 0.0, "errmsg": "stale", "code": int(Code.StaleConfig), "codeName": "StaleConfig"}
STEPPED_DOWN = {"ok": 0.0, "errmsg": "no", "code": int(Code.PrimarySteppedDown), "codeName": "PrimarySteppedDown"}
NOT_PRIMARY = {**STEPPED_DOWN, "code": int(Code.NotWritablePrimary), "codeName": "NotWritablePrimary"}
STALE_ROW = {"n": 0, "writeErrors": [{"index": 0, "code": int(Code.StaleConfig), "errmsg": "stale"}], "ok": 1.0}
LOST = NetworkError("a:1", "lost", sent=True)
NOT_SENT = NetworkError("a:1", "not sent", sent=False)
INSERT = {"insert": "plain", "documents": [{"_id": 1}]}
RETRYABLE = {**INSERT, "lsid": {"id": bson.Binary(bytes(16), 4)}, "txnNumber": Int64(1)}
FIND = {"find": "plain", "filter": {"_id": 1}}


@pytest.mark.parametrize("answer", [STALE, NOT_PRIMARY, STEPPED_DOWN, LOST, NOT_SENT], ids=str)
def test_a_read_that_was_not_answered_is_routed(answer: Any) -> None:
    reply, cluster = _after(FIND, answer)
    assert reply["cursor"]["firstBatch"] == []
    assert [bool(cluster.settled), bool(cluster.a.suspected)] == [answer is STALE, answer is not STALE]


@pytest.mark.parametrize("command", [INSERT, RETRYABLE], ids=["once", "retryable"])
@pytest.mark.parametrize("answer", [STALE, STALE_ROW, NOT_PRIMARY, NOT_SENT], ids=str)
def test_a_write_that_was_not_done_is_routed(answer: Any, command: dict[str, Any]) -> None:
    reply, cluster = _after(command, answer)
    assert (reply["n"], reply["ok"]) == (1, 1)
    assert cluster.written == []


@pytest.mark.parametrize("answer", [STEPPED_DOWN, LOST], ids=str)
def test_a_write_of_unknown_outcome_is_sent_again_only_if_it_may_be(answer: Any) -> None:
    refused, cluster = _after(INSERT, answer)
    assert refused["ok"] == 0
    assert cluster.a.asked == []
    assert cluster.a.suspected == 1
    assert refused["code"] == (Code.HostUnreachable if answer is LOST else Code.PrimarySteppedDown)
    done, _ = _after(RETRYABLE, answer)
    assert (done["n"], done["ok"]) == (1, 1)


def test_an_error_of_a_shard_reaches_the_client_as_it_is() -> None:
    refused, cluster = _after(FIND, {"ok": 0.0, "errmsg": "no", "code": 9, "codeName": "FailedToParse", "extra": 1})
    assert (refused["code"], refused["errmsg"], refused["extra"], refused["ok"]) == (9, "no", 1, 0)
    assert cluster.a.asked == []


def _after(command: dict[str, Any], answer: Any) -> tuple[dict[str, Any], LocalCluster]:
    """The reply to a command whose relayed request is answered like that."""

    async def story() -> tuple[dict[str, Any], LocalCluster]:
        cluster = LocalCluster(replicated=True)
        cluster.a.answers.append(answer)
        return await cluster.reply(command), cluster

    return loop(story())


def test_a_chunk_that_is_due_is_looked_at_before_the_reply() -> None:
    async def story() -> list[str]:
        cluster = LocalCluster()
        cluster.due = True
        await cluster.reply({"insert": "c", "documents": [{"_id": 1, "k": 12}]})
        assert cluster.b.relayed == 1
        return cluster.looked_at

    assert loop(story()) == ["b"]


def test_where_no_connection_is_idle_a_request_is_routed() -> None:
    async def story() -> tuple[int, int]:
        cluster = LocalCluster()
        cluster.a.idle = False
        await cluster.reply(INSERT)
        return cluster.a.relayed, len(cluster.a.asked)

    assert loop(story()) == (0, 1)


@pytest.mark.parametrize("turns", [1, 2])
def test_the_cursor_of_an_answer_that_nobody_waits_for_is_closed(turns: int) -> None:
    async def story() -> int:
        cluster = LocalCluster()
        await cluster.reply({"insert": "plain", "documents": [{"_id": number} for number in range(7)]})
        waiting = asyncio.ensure_future(cluster.reply({"find": "plain", "batchSize": 3}))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await cluster.a.task
        while len(cluster.a.node.services.cursors):
            await asyncio.sleep(0)
        return cluster.a.relayed

    assert loop(story()) == 1


def test_an_unknown_outcome_is_told_as_such() -> None:
    """Who asks on behalf of others must know."""

    async def story() -> BaseException:
        cluster = LocalCluster()
        cluster.a.answers.append(LOST)
        caught: list[BaseException] = []

        class Noting(Dispatcher):
            def refuse(self, error: CommandError, context: Context | None) -> bytes:
                caught.append(error)
                return super().refuse(error, context)

        cluster.dispatcher = Noting(cluster.services)
        await cluster.reply(INSERT)
        return caught[0]

    error = loop(story())
    assert isinstance(error, OutcomeUnknown)
    assert isinstance(error, CommandError)
