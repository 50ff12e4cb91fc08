"""Clustered collections: their documents are in the order of `_id`, wherever they are read, and may expire by it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from docstore.errors import Code
from docstore.node.upkeep.ttl import TtlMonitor
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.transactional import Client

KEY = {"key": {"_id": 1}, "unique": True}
NOW = datetime.datetime(2030, 1, 1)


async def made(*identities: Any, replicated: bool = False, **options: Any) -> LocalNode:
    node = LocalNode(replicated=replicated)
    node.node.wall_clock = lambda: NOW.replace(tzinfo=datetime.UTC).timestamp()
    await node.run({"create": "c", "clusteredIndex": KEY, **options})
    await node.run({"insert": "c", "documents": [{"_id": each, "n": n} for n, each in enumerate(identities)]})
    return node


async def found(node: LocalNode, **asked: Any) -> list[Any]:
    reply = await node.run({"find": "c", **asked})
    return [document["_id"] for document in reply["cursor"]["firstBatch"]]


def test_the_natural_order_is_that_of_the_identity() -> None:
    async def work() -> None:
        node = await made(5, 1, 4, 2, 3)
        assert await found(node) == [1, 2, 3, 4, 5]
        assert await found(node, sort={"$natural": -1}) == [5, 4, 3, 2, 1]
        assert await found(node, filter={"n": {"$gt": 1}}, limit=2) == [2, 3]
        assert await found(node, filter={"_id": {"$in": [4, 1, 3]}}) == [1, 3, 4]
        await node.run({"delete": "c", "deletes": [{"q": {"n": {"$lt": 3}}, "limit": 1}]})
        assert await found(node) == [2, 3, 4, 5]

    loop(work())


def test_an_empty_list_of_identities_finds_nothing() -> None:
    async def work() -> None:
        node = await made(1, 2)
        assert await found(node, filter={"_id": {"$in": []}}) == []
        assert await found(node, filter={"_id": {"$in": []}, "n": 1}, sort={"_id": -1}) == []
        assert await found(node, filter={"_id": {"$elemMatch": {"$gt": 2, "$lt": 1}}}) == []

    loop(work())


def test_a_sort_by_the_identity_among_those_of_an_index_is_chosen_by_trial() -> None:
    async def work() -> None:
        node = await made(*range(300))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n"}]})
        assert await found(node, filter={"n": {"$gte": 7}}, sort={"_id": 1}, limit=2) == [7, 8]
        asked = {"find": "c", "filter": {"n": {"$gte": 7}}, "sort": {"_id": 1}, "limit": 2}
        planner = (await node.run({"explain": asked}))["queryPlanner"]
        assert len(planner["rejectedPlans"]) == 1

    loop(work())


def test_what_is_written_in_a_transaction_is_in_order_in_it() -> None:
    async def work() -> None:
        node = await made(5, 1, replicated=True)
        client = Client(node)
        await client.first({"insert": "c", "documents": [{"_id": 3}, {"_id": 0}]})
        reply = await client.then({"find": "c"})
        assert [document["_id"] for document in reply["cursor"]["firstBatch"]] == [0, 1, 3, 5]
        await client.commit()
        assert await found(node, filter={"_id": {"$gte": 1}}) == [1, 3, 5]

    loop(work())


@pytest.mark.parametrize("replicated", [False, True])
def test_documents_expire_by_their_identity(replicated: bool) -> None:
    async def work() -> None:
        old, young = NOW - datetime.timedelta(seconds=61), NOW - datetime.timedelta(seconds=59)
        node = await made(old, young, "x", 5, replicated=replicated, expireAfterSeconds=60)
        await TtlMonitor(node.node).run_pass()
        assert await found(node) == [5, "x", young]
        await node.run({"collMod": "c", "expireAfterSeconds": "off"})
        node.node.wall_clock = lambda: NOW.replace(tzinfo=datetime.UTC).timestamp() + 100
        await TtlMonitor(node.node).run_pass()
        assert await found(node) == [5, "x", young]
        await node.run({"collMod": "c", "expireAfterSeconds": 60})
        await TtlMonitor(node.node).run_pass()
        assert await found(node) == [5, "x"]

    loop(work())


def test_its_order_is_no_index() -> None:
    async def work() -> None:
        node = await made(1)
        assert (await node.run({"listIndexes": "c"}))["cursor"]["firstBatch"] == [
            {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True, "clustered": True}
        ]
        assert (await node.run({"collStats": "c"}))["nindexes"] == 0
        assert (await node.run({"validate": "c"}))["keysPerIndex"] == {}
        refused = await node.reply({"insert": "c", "documents": [{"_id": 1}]})
        assert refused["writeErrors"][0]["errmsg"] == (
            "E11000 duplicate key error collection: test.c dup key: { _id: 1 }"
        )
        assert (await node.reply({"dropIndexes": "c", "index": "_id_"}))["code"] == 5979800
        assert (await node.reply({"create": "c", "clusteredIndex": KEY}))["code"] == Code.NamespaceExists

    loop(work())
