"""How commands enter the ownership: versions, waiting, and changes in the middle of a batch."""

from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.scripted_shard_filter import ScriptedShardFilter

VERSION = {"v": Timestamp(2, 1), "e": ObjectId()}
STALE = CommandError(Code.StaleConfig, "stale", extra={"ns": "test.c"})


async def owned_node(count: int) -> tuple[LocalNode, ScriptedShardFilter]:
    """A node with documents {_id: n}, of which it owns the even ones below 100."""
    node = LocalNode()
    await node.insert("c", *({"_id": n} for n in range(count)))
    owner = ScriptedShardFilter()
    owner.owned = compile_filter(parse_filter(bson.encode({"_id": {"$mod": [2, 0], "$lt": 100}})))
    node.node.shard_filter = owner
    return node, owner


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c"},
        {"find": "c", "filter": {"_id": 1}},
        {"count": "c"},
        {"distinct": "c", "key": "_id"},
        {"aggregate": "c", "pipeline": [], "cursor": {}},
        {"explain": {"find": "c"}},
    ],
)
def test_reads_enter_with_the_version_they_carry(command: dict[str, Any]) -> None:
    async def work() -> None:
        node, owner = await owned_node(5)
        await node.run({**command, "shardVersion": VERSION})
        # What is not found in a step enters once more.
        assert set(owner.entered) == {("test.c", True, False)}
        owner.answer = lambda _count: STALE
        reply = await node.reply({**command, "shardVersion": VERSION})
        assert (reply["code"], reply["ns"]) == (Code.StaleConfig, "test.c")

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "c", "documents": [{"_id": 1000}]},
        {"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"x": 1}}}]},
        {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]},
        {"findAndModify": "c", "query": {"_id": 2}, "remove": True},
        {"drop": "c"},
        {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
    ],
)
def test_writes_enter_even_without_a_version_and_wait_for_a_critical_section(command: dict[str, Any]) -> None:
    async def work() -> None:
        node, owner = await owned_node(5)
        owner.held = asyncio.Event()
        running = asyncio.ensure_future(node.run(command))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not running.done()
        owner.held.set()
        await running
        assert ("test.c", False, True) in owner.entered

    loop(work())


@pytest.mark.parametrize("update", [{"$set": {"x": 1}}, {"$push": {"a.b": 1}}, {"x": 1}])
def test_statements_side_by_side_meet_only_what_is_owned(update: dict[str, Any]) -> None:
    async def work() -> None:
        node, owner = await owned_node(10)
        updates = [{"q": {"_id": number}, "u": update} for number in range(10)]
        reply = await node.run({"update": "c", "updates": updates})
        assert (reply["n"], reply["nModified"]) == (5, 5)
        deletes = [{"q": {"_id": number}, "limit": 1} for number in (0, 1, 2, 3, 11)]
        assert (await node.run({"delete": "c", "deletes": deletes}))["n"] == 2
        owner.owned = None
        rows = await node.documents("c")
        assert [row["_id"] for row in rows] == [1, 3, 4, 5, 6, 7, 8, 9]
        assert [row["_id"] for row in rows if len(row) > 1] == [4, 6, 8]

    loop(work())


def test_what_is_not_owned_is_neither_seen_nor_changed() -> None:
    async def work() -> None:
        node, _ = await owned_node(10)
        assert [row["_id"] for row in await node.documents("c")] == [0, 2, 4, 6, 8]
        assert await node.documents("c", {"_id": 3}) == []
        assert (await node.run({"count": "c"}))["n"] == 5
        assert (await node.run({"distinct": "c", "key": "_id"}))["values"] == [0, 2, 4, 6, 8]
        pipeline = [{"$group": {"_id": None, "n": {"$sum": 1}}}]
        found = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}})
        assert found["cursor"]["firstBatch"] == [{"_id": None, "n": 5}]
        statement = {"q": {}, "u": {"$set": {"x": 1}}, "multi": True}
        assert (await node.run({"update": "c", "updates": [statement]}))["n"] == 5
        assert (await node.run({"delete": "c", "deletes": [{"q": {"_id": 3}, "limit": 1}]}))["n"] == 0
        assert (await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]}))["n"] == 5

    loop(work())


def test_statements_not_yet_done_fail_as_stale_when_the_ownership_changes_between_slices() -> None:
    async def work() -> None:
        node, owner = await owned_node(1)
        owner.answer = lambda count: STALE if count > 1 else None
        rows = [{"_id": n} for n in range(1, 2000)]
        node.hurry()
        reply = await node.run({"insert": "c", "documents": rows, "ordered": False, "shardVersion": VERSION})
        done = reply["n"]
        assert 0 < done < len(rows)
        assert [error["index"] for error in reply["writeErrors"]] == list(range(done, len(rows)))
        assert {error["code"] for error in reply["writeErrors"]} == {Code.StaleConfig}

    loop(work())


def test_an_ordered_batch_reports_only_the_first_statement_that_was_cut_off() -> None:
    async def work() -> None:
        node, owner = await owned_node(1)
        owner.answer = lambda count: STALE if count > 1 else None
        rows = [{"_id": n} for n in range(1, 2000)]
        node.hurry()
        reply = await node.run({"insert": "c", "documents": rows, "shardVersion": VERSION})
        assert [error["index"] for error in reply["writeErrors"]] == [reply["n"]]

    loop(work())


def test_an_update_of_many_documents_that_was_begun_is_not_called_stale() -> None:
    """A router would send it again, and the documents done already would be updated twice."""

    async def work() -> None:
        node, owner = await owned_node(1000)
        owner.owned = None
        node.hurry()
        owner.answer = lambda count: STALE if count > 1 else None
        statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
        reply = await node.run({"update": "c", "updates": [statement], "shardVersion": VERSION})
        assert 0 < reply["n"] < 1000
        assert [error["code"] for error in reply["writeErrors"]] == [Code.OperationFailed]

    loop(work())


def test_what_is_done_is_not_called_stale_when_the_waiting_between_slices_ends_so() -> None:
    """A router takes the error of a whole command to mean that nothing was done, and sends all of it again."""

    async def work() -> None:
        node, owner = await owned_node(1000)
        owner.owned = None
        node.hurry()

        def answer(count: int) -> None:
            if count == 2:
                owner.held = asyncio.Event()
                asyncio.get_running_loop().call_soon(owner.held.set)

        def over() -> None:
            raise STALE

        owner.answer, owner.over = answer, over
        statements = [{"q": {"_id": n}, "u": {"$inc": {"x": 1}}} for n in range(1000)]
        reply = await node.run({"update": "c", "updates": statements, "ordered": False, "shardVersion": VERSION})
        assert 0 < reply["n"] < 1000
        assert [error["index"] for error in reply["writeErrors"]] == list(range(reply["n"], 1000))
        assert {error["code"] for error in reply["writeErrors"]} == {Code.StaleConfig}

    loop(work())


@pytest.mark.parametrize("command", ["update", "delete"])
def test_a_statement_over_many_documents_ends_where_a_version_rose_that_leaves_it_its_documents(command: str) -> None:
    async def work() -> None:
        node, owner = await owned_node(1000)
        node.hurry()
        owner.keeps = True
        owner.answer = lambda count: STALE if count > 1 else None
        if command == "update":
            statements: list[Any] = [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}] * 2
            request = {"update": "c", "updates": statements, "ordered": False, "shardVersion": VERSION}
        else:
            request = {"delete": "c", "deletes": [{"q": {}, "limit": 0}] * 2, "ordered": False, "shardVersion": VERSION}
        reply = await node.run(request)
        assert reply["n"] == 50, "the even ones below 100"
        assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(1, Code.StaleConfig)]
        assert [hold.open for hold in owner.holds] == [False]

    loop(work())


def test_a_statement_over_many_documents_waits_where_it_is_not_known_whether_they_are_still_the_nodes() -> None:
    async def work() -> None:
        node, owner = await owned_node(1000)
        node.hurry()
        owner.keeps = True
        owner.unknown = asyncio.Event()
        owner.answer = lambda count: STALE if count > 1 else None
        statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
        request = {"update": "c", "updates": [statement], "shardVersion": VERSION}
        updating = asyncio.ensure_future(node.run(request))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not updating.done()
        owner.held = asyncio.Event()
        owner.unknown.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert not updating.done(), "somebody has the collection to himself now"
        owner.held.set()
        assert (await updating)["n"] == 50, "the even ones below 100"

    loop(work())


def test_a_shard_says_of_each_statement_how_many_documents_it_concerned() -> None:
    async def work() -> None:
        node, owner = await owned_node(10)
        owner.owned = None
        updates: list[Any] = [
            {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}},
            {"q": {"_id": 99}, "u": {"$inc": {"x": 1}}},
            {"q": {"_id": 2}, "u": {"$inc": {"_id": 1}}},
            {"q": {"_id": {"$lt": 3}}, "u": {"$inc": {"x": 1}}, "multi": True},
        ]
        request = {"update": "c", "ordered": False, "shardVersion": VERSION, "statementCounts": True}
        assert (await node.run({**request, "updates": updates}))["counts"] == [1, 0, 0, 3]
        request = {"delete": "c", "ordered": False, "shardVersion": VERSION, "statementCounts": True}
        deletes = [{"q": {"_id": 1}, "limit": 1}, {"q": {"_id": 1}, "limit": 1}]
        assert (await node.run({**request, "deletes": deletes}))["counts"] == [1, 0]

    loop(work())
