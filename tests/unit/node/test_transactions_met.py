"""Who meets a transaction from outside: what it writes makes others wait, or fail, or go first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop, session
from tests.unit.node.transactional import TRANSIENT, Client, change, node_with


def test_of_two_that_write_one_document_the_second_fails() -> None:
    async def work() -> None:
        node = await node_with()
        first, second = Client(node, 1), Client(node, 2)
        assert (await first.first(change(1)))["ok"] == 1
        refused = await second.first(change(1))
        assert (refused["code"], refused["errorLabels"]) == (Code.WriteConflict, [TRANSIENT])
        await first.commit()
        assert (await second.first(change(1)))["ok"] == 1
        await second.commit()
        assert (await node.documents("c"))[0]["n"] == 2

    loop(work())


_MEETING: tuple[dict[str, Any], ...] = (
    change(1),
    {"update": "c", "updates": [{"q": {"_id": {"$lt": 3}}, "u": {"$inc": {"n": 1}}, "multi": True}]},
    {"update": "c", "updates": [{"q": {"k": 9}, "u": {"$inc": {"n": 1}}, "upsert": True}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    {"delete": "c", "deletes": [{"q": {"_id": {"$lt": 3}}, "limit": 0}]},
    {"findAndModify": "c", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": True},
    {"findAndModify": "c", "query": {"_id": 1}, "remove": True},
    {"insert": "c", "documents": [{"_id": 7}, {"_id": 3}, {"_id": 8}], "ordered": False},
    {"insert": "c", "documents": [{"_id": 3}]},
    {"insert": "c", "documents": [{"_id": 9, "k": 9}]},
    {"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}, {"$set": {"n": 5}}, {"$merge": "c"}], "cursor": {}},
    {"dropIndexes": "c", "index": "k"},
    {"createIndexes": "c", "indexes": [{"key": {"z": 1}, "name": "z"}]},
    {"drop": "c"},
    {"renameCollection": "test.c", "to": "test.d"},
    {"dropDatabase": 1},
    {"collMod": "c", "validator": {}},
    {"create": "made"},
    {"insert": "made", "documents": [{"_id": 1}]},
)


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("request_", _MEETING, ids=lambda request: next(iter(request)))
def test_whoever_meets_it_outside_waits_for_its_end(request_: dict[str, Any], commits: bool) -> None:
    """And then does what it would have done if it had come later."""

    async def prepared() -> LocalNode:
        node = await node_with({"_id": 1, "n": 0}, {"_id": 2, "n": 0})
        key = {"key": {"k": 1}, "name": "k", "unique": True, "sparse": True}
        await node.run({"createIndexes": "c", "indexes": [key]})
        return node

    async def transaction(node: LocalNode) -> Client:
        client = Client(node)
        await client.first(change(1, n=3))
        await client.then({"insert": "c", "documents": [{"_id": 3, "n": 0, "k": 9}]})
        assert (await client.then({"insert": "made", "documents": [{"_id": 1}]}))["ok"] == 1
        return client

    async def work() -> None:
        database = "admin" if "renameCollection" in request_ else "test"
        node, expected = await prepared(), await prepared()
        client, other = await transaction(node), await transaction(expected)
        waiting = asyncio.ensure_future(node.reply(request_, database))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done(), await waiting
        ended = await (client.commit() if commits else client.abort())
        assert ended["ok"] == 1
        await (other.commit() if commits else other.abort())
        reply, wanted = await waiting, await expected.reply(request_, database)
        for each in (reply, wanted):
            for name in ("opTime", "electionId", "operationTime", "$clusterTime", "upserted"):
                each.pop(name, None)
        assert reply == wanted
        for collection in ("c", "d", "made"):
            assert [{**each, "_id": str(each["_id"])[:1]} for each in await node.documents(collection)] == [
                {**each, "_id": str(each["_id"])[:1]} for each in await expected.documents(collection)
            ]
        assert node.node.store.claims.keys == {}

    loop(work())


@pytest.mark.parametrize(
    "statement",
    [
        {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 5}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    ],
    ids=["update", "delete"],
)
def test_a_statement_over_many_that_meets_it_in_its_midst_passes_over_none(statement: dict[str, Any]) -> None:
    """What it had found before it waited is looked at again, in as many slices as that takes."""

    async def work() -> None:
        node = await node_with(*({"_id": number, "n": 0} for number in range(40)))
        client = Client(node)
        await client.first(change(39))
        waiting = asyncio.ensure_future(node.reply(statement))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting.done()
        node.hurry()
        await client.abort()
        assert (await waiting)["n"] == 40
        assert {each["n"] for each in await node.documents("c")} <= {5}

    loop(work())


@pytest.mark.parametrize(
    ("request_", "left"),
    [
        (change(1), [1, 0]),
        ({"update": "c", "updates": [{"q": {"n": {"$lt": 5}}, "u": {"$inc": {"n": 5}}}]}, [5, 0]),
        ({"delete": "c", "deletes": [{"q": {"n": 0}, "limit": 1}]}, [0]),
        ({"findAndModify": "c", "query": {"n": {"$lt": 5}}, "update": {"$inc": {"n": 5}}, "new": True}, [5, 0]),
        ({"findAndModify": "c", "query": {"n": 0}, "remove": True}, [0]),
        ({"insert": "c", "documents": [{"_id": 3, "n": 7}]}, [0, 0, 7]),
    ],
)
def test_a_retryable_write_that_waits_for_it_twice_is_carried_out_once(
    request_: dict[str, Any], left: list[int]
) -> None:
    """Whoever has no answer sends it again, while the first try still waits."""

    async def work() -> None:
        node = await node_with()
        client = Client(node, 2)
        await client.first(change(1, n=3))
        await client.then({"insert": "c", "documents": [{"_id": 3, "n": 0}]})
        tries = [asyncio.ensure_future(node.reply({**request_, **session(1, 1)})) for _ in range(2)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(each.done() for each in tries)
        await client.abort()
        replies = [await each for each in tries]
        assert [each["n"] for each in await node.documents("c")] == left
        assert sum("retriedStmtIds" in reply or "retriedStmtId" in reply for reply in replies) == 1
        assert replies[0].get("value") == replies[1].get("value")

    loop(work())


def test_who_waits_for_it_can_be_out_of_time() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        waiting = asyncio.ensure_future(node.reply(change(1)))
        for _ in range(5):
            await asyncio.sleep(0)
        (operation,) = [each for each in node.services.operations if each.context.command.name == "update"]
        assert operation is not None
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await client.commit()
        assert (await node.documents("c"))[0]["n"] == 1

    loop(work())


def test_one_that_has_not_used_a_collection_lets_who_wants_to_change_it_go_first() -> None:
    async def work() -> None:
        node = await node_with()
        first, second = Client(node, 1), Client(node, 2)
        await first.first(change(1))
        waiting = asyncio.ensure_future(node.reply({"drop": "c"}))
        await asyncio.sleep(0)
        refused = await second.first({"find": "c"})
        assert (refused["code"], refused["errorLabels"]) == (Code.LockTimeout, [TRANSIENT])
        assert (await first.then(change(2)))["ok"] == 1
        await first.commit()
        assert (await waiting)["ok"] == 1
        assert (await second.first({"find": "c"}))["cursor"]["firstBatch"] == []

    loop(work())
