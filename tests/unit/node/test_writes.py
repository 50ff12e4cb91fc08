"""insert, update, delete and findAndModify on a node in memory."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.errors import Code
from tests.unit.node.local import LocalNode, LonePrimary, loop, session


async def entries(node: LocalNode) -> list[dict[str, Any]]:
    """The oplog."""
    oplog = node.node.store.oplog
    assert oplog is not None
    return [bson.decode(raw) for raw in oplog.scan(node.node.engine, 0)]


def test_a_first_insert_makes_the_collection_and_logs_both() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        assert (await node.run({"insert": "c", "documents": [{"_id": 1}]}))["n"] == 1
        assert [entry["op"] for entry in await entries(node)] == ["c", "i"]

    loop(work())


def test_a_document_refused_before_it_is_stored_makes_no_collection() -> None:
    async def work() -> None:
        node = LocalNode()
        reply = await node.run({"insert": "c", "documents": [{"_id": [1]}]})
        assert (reply["n"], reply["writeErrors"][0]["code"]) == (0, Code.InvalidIdField)
        assert node.node.store.collection("test.c") is None

    loop(work())


@pytest.mark.parametrize(("ordered", "failed", "left"), [(True, [1], [1, 2]), (False, [1, 2], [1, 2, 3])])
def test_errors_stop_an_ordered_batch_only(ordered: bool, failed: list[int], left: list[int]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 2})
        rows = [{"_id": 1}, {"_id": 1}, {"_id": 2}, {"_id": 3}]
        reply = await node.run({"insert": "c", "documents": rows, "ordered": ordered})
        assert [error["index"] for error in reply["writeErrors"]] == failed
        assert sorted(row["_id"] for row in await node.documents("c")) == left

    loop(work())


def test_a_large_batch_is_cut_into_units_and_loses_nothing() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        reply = await node.run({"insert": "c", "documents": [{"_id": n} for n in range(5000)]})
        assert reply["n"] == 5000
        assert [row["_id"] for row in await node.documents("c")] == list(range(5000))

    loop(work())


def test_a_write_error_tells_key_pattern_and_value() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        reply = await node.run({"insert": "c", "documents": [{"_id": 1}]})
        error = reply["writeErrors"][0]
        assert list(error) == ["index", "code", "errmsg", "keyPattern", "keyValue"]
        assert (error["code"], error["keyPattern"], error["keyValue"]) == (11000, {"_id": 1}, {"_id": 1})

    loop(work())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"insert": "c", "documents": []}, Code.InvalidLength),
        ({"insert": "c", "documents": [{}], "nosuch": 1}, 40415),
        ({"insert": "c"}, 40414),
        ({"insert": "system.foo", "documents": [{}]}, Code.InvalidNamespace),
        ({"insert": "c", "documents": [{}], "writeConcern": {"w": 2}}, Code.BadValue),
        ({"insert": "c", "documents": [{}], **session()}, Code.IllegalOperation),
        ({"update": "c", "updates": [{"q": {}, "u": {}, "nosuch": 1}]}, 40415),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 2}]}, Code.FailedToParse),
        ({"findAndModify": "c", "query": {}}, Code.FailedToParse),
        ({"findAndModify": "c", "query": {}, "remove": True, "new": True}, Code.FailedToParse),
        ({"findAndModify": "c", "query": {}, "update": {"$nosuch": {"a": 1}}}, Code.FailedToParse),
    ],
)
def test_what_a_standalone_refuses_it_refuses_whole(command: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.reply(command))["code"] == code
        assert node.node.store.namespaces() == []

    loop(work())


def test_an_update_that_changes_nothing_writes_nothing() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1, "x": 1})
        before = node.node.store.last_optime
        reply = await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]})
        assert (reply["n"], reply["nModified"]) == (1, 0)
        assert node.node.store.last_optime == before

    loop(work())


@pytest.mark.parametrize("index", [None, {"b": 1}])
@pytest.mark.parametrize(
    ("filter_", "sort", "changed"),
    [
        ({"a": {"$gt": 0}}, {"b": 1}, 3),
        ({"a": {"$gt": 0}}, {"b": -1}, 2),
        ({"a": 1}, {"b": -1}, 2),
        ({"_id": 1}, {"b": -1}, 1),
        ({}, {"$natural": -1}, 3),
        ({}, {}, 1),
    ],
)
def test_an_update_of_one_document_takes_the_first_of_its_sort(
    index: dict[str, int] | None, filter_: dict[str, Any], sort: dict[str, int], changed: int
) -> None:
    async def work(update: dict[str, Any]) -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "a": 1, "b": 2}, {"_id": 2, "a": 1, "b": 3}, {"_id": 3, "a": 2, "b": 1})
        if index is not None:
            await node.run({"createIndexes": "c", "indexes": [{"key": index, "name": "i"}]})
        reply = await node.run({"update": "c", "updates": [{"q": filter_, "u": update, "sort": sort}]})
        assert (reply["n"], reply["nModified"]) == (1, 1)
        assert [row["_id"] for row in await node.documents("c") if row.get("x")] == [changed]

    loop(work({"$set": {"x": 1}}))
    loop(work({"x": 1}))


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ({"multi": True, "sort": {"a": 1}}, Code.FailedToParse),
        ({"sort": 1}, Code.TypeMismatch),
        ({"sort": {"a": 2}}, 15975),
    ],
)
def test_a_sort_of_many_documents_or_none_is_refused(statement: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"a": 1})
        reply = await node.reply({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, **statement}]})
        assert reply.get("code", reply.get("writeErrors", [{}])[0].get("code")) == code, reply

    loop(work())


def test_an_error_in_one_statement_leaves_the_others_to_an_unordered_batch() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "x": "text"}, {"_id": 2, "x": 1})
        statements = [
            {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}},
            {"q": {"_id": 2}, "u": {"$inc": {"x": 1}}},
            {"q": {}, "u": {"y": 1}, "multi": True},
        ]
        reply = await node.run({"update": "c", "updates": statements, "ordered": False})
        assert (reply["n"], reply["nModified"]) == (1, 1)
        assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(0, 14), (2, 9)]

    loop(work())


def test_a_multi_update_goes_over_more_documents_than_one_unit_holds() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", *({"_id": n, "x": 0} for n in range(1000)))
        reply = await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}]})
        assert (reply["n"], reply["nModified"]) == (1000, 1000)
        assert {row["x"] for row in await node.documents("c")} == {1}

    loop(work())


def test_an_upsert_reports_what_it_made() -> None:
    async def work() -> None:
        node = LocalNode()
        statements = [
            {"q": {"_id": 1}, "u": {"$set": {"x": 1}}, "upsert": True},
            {"q": {"x": 9}, "u": {"x": 9, "y": 1}, "upsert": True},
        ]
        reply = await node.run({"update": "c", "updates": statements})
        assert reply["n"] == 2
        assert reply["nModified"] == 0
        assert reply["upserted"][0] == {"index": 0, "_id": 1}
        assert isinstance(reply["upserted"][1]["_id"], ObjectId)
        assert [row.get("y") for row in await node.documents("c")] == [None, 1]

    loop(work())


def test_a_retried_insert_is_done_once_and_says_so() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        command = {"insert": "c", "documents": [{"x": 1}, {"x": 2}], **session()}
        assert "retriedStmtIds" not in await node.run(command)
        reply = await node.run(command)
        assert (reply["n"], reply["retriedStmtIds"]) == (2, [0, 1])
        assert len(await node.documents("c")) == 2

    loop(work())


def test_a_retried_update_and_upsert_give_the_first_result_again() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1, "x": 0})
        statements = [
            {"q": {"_id": 1}, "u": {"$inc": {"x": 1}}},
            {"q": {"_id": 2}, "u": {"$inc": {"x": 1}}, "upsert": True},
            {"q": {"_id": 3}, "u": {"$inc": {"x": 1}}},
        ]
        command = {"update": "c", "updates": statements, **session()}
        first = await node.run(command)
        again = await node.run(command)
        assert again.pop("retriedStmtIds") == [0, 1]
        for reply in (first, again):
            assert (reply["n"], reply["nModified"], reply["upserted"]) == (2, 1, [{"index": 1, "_id": 2}])
        assert await node.documents("c") == [{"_id": 1, "x": 1}, {"_id": 2, "x": 1}]

    loop(work())


def test_a_retried_delete_deletes_no_second_document() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1}, {"_id": 2})
        command = {"delete": "c", "deletes": [{"q": {}, "limit": 1}], **session()}
        assert (await node.run(command))["n"] == 1
        assert (await node.run(command))["retriedStmtIds"] == [0]
        assert await node.documents("c") == [{"_id": 2}]

    loop(work())


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ({"query": {"_id": 1}, "update": {"$inc": {"x": 1}}}, {"_id": 1, "x": 0}),
        ({"query": {"_id": 1}, "update": {"$inc": {"x": 1}}, "new": True}, {"_id": 1, "x": 1}),
        ({"query": {"_id": 1}, "remove": True}, {"_id": 1, "x": 0}),
        ({"query": {"_id": 5}, "update": {"$inc": {"x": 1}}, "upsert": True}, None),
        ({"query": {"_id": 5}, "update": {"$inc": {"x": 1}}, "upsert": True, "new": True}, {"_id": 5, "x": 1}),
    ],
)
def test_a_retried_find_and_modify_gives_the_same_document_again(command: dict[str, Any], value: Any) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1, "x": 0})
        first = await node.run({"findAndModify": "c", **command, **session()})
        await node.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 99}}, "multi": True}]})
        again = await node.run({"findAndModify": "c", **command, **session()})
        assert first["value"] == value
        assert again.pop("retriedStmtId") == 0
        assert again == first

    loop(work())


def test_a_retry_under_an_older_number_is_refused() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.run({"insert": "c", "documents": [{}], **session(1, 5)})
        reply = await node.reply({"insert": "c", "documents": [{}], **session(1, 4)})
        assert reply["code"] == Code.TransactionTooOld

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    ],
)
def test_statements_over_many_documents_cannot_be_retryable(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        reply = await node.run({**command, **session()})
        assert reply["writeErrors"][0]["code"] == Code.InvalidOptions

    loop(work())


def test_a_member_waits_for_a_majority_by_default_and_reports_a_failed_concern() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        reply = await node.run({"insert": "c", "documents": [{}]})
        assert "writeConcernError" not in reply
        assert reply["electionId"] == ObjectId("7fffffff0000000000000001")
        assert set(reply["opTime"]) == {"ts", "t"}
        failed = await node.run({"insert": "c", "documents": [{}], "writeConcern": {"w": 3, "wtimeout": 1}})
        assert (failed["n"], failed["writeConcernError"]["code"]) == (1, 64)

    loop(work())


def test_a_node_that_is_not_primary_refuses_writes_except_to_local() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        assert isinstance(node.replication, LonePrimary)
        node.replication.primary = False
        assert (await node.reply({"insert": "c", "documents": [{}]}))["code"] == Code.NotWritablePrimary
        assert (await node.reply({"insert": "c", "documents": [{}]}, "local"))["n"] == 1

    loop(work())


def test_a_batch_ends_when_the_node_stops_being_primary_in_the_middle() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        assert isinstance(node.replication, LonePrimary)
        primary = node.replication

        async def lose() -> None:
            primary.primary = False

        node.node.scheduler.pause = lose
        rows = [{"_id": n} for n in range(2000)]
        node.hurry()
        reply = await node.reply({"insert": "c", "documents": rows})
        assert reply["code"] == Code.InterruptedDueToReplStateChange
        collection = node.node.store.collection("test.c")
        assert collection is not None
        assert 0 < collection.count < 2000
        reply = await node.reply({"insert": "c", "documents": rows})
        assert reply["code"] == Code.NotWritablePrimary

    loop(work())


def test_databases_that_differ_in_case_only_are_refused() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {})
        refused = await node.reply({"insert": "c", "documents": [{}]}, "Test")
        assert refused["writeErrors"][0]["code"] == Code.DatabaseDifferCase
        assert (await node.reply({"create": "c"}, "TEST"))["code"] == Code.DatabaseDifferCase

    loop(work())


def test_an_upsert_finds_a_document_that_came_while_it_searched() -> None:
    """Two upserts with the same filter must not both insert, however long their searches take."""

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n} for n in range(1100)))
        node.hurry()
        original = node.node.scheduler.pause

        async def meanwhile() -> None:
            node.node.scheduler.pause = original
            await node.insert("c", {"_id": "new", "key": 7})

        node.node.scheduler.pause = meanwhile
        statement = {"q": {"key": 7}, "u": {"$inc": {"n": 1}}, "upsert": True}
        reply = await node.run({"update": "c", "updates": [statement]})
        assert "upserted" not in reply
        assert await node.documents("c", {"key": 7}) == [{"_id": "new", "key": 7, "n": 1}]

    loop(work())


def test_a_document_that_stops_matching_during_the_search_is_left_alone() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n} for n in range(1000)), {"_id": "last", "key": 7})
        node.hurry()
        original = node.node.scheduler.pause

        async def meanwhile() -> None:
            node.node.scheduler.pause = original
            await node.run({"update": "c", "updates": [{"q": {"_id": "last"}, "u": {"$set": {"key": 8}}}]})

        node.node.scheduler.pause = meanwhile
        reply = await node.run({"delete": "c", "deletes": [{"q": {"key": 7}, "limit": 1}]})
        assert reply["n"] == 0
        assert await node.documents("c", {"_id": "last"}) == [{"_id": "last", "key": 8}]

    loop(work())


def test_a_long_update_changes_each_document_once_also_when_others_write_in_its_pauses() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n, "n": 0} for n in range(1500)))
        original = node.node.scheduler.pause
        pauses = 0

        async def meanwhile() -> None:
            nonlocal pauses
            pauses += 1
            if pauses == 3:
                node.node.scheduler.pause = original
                await node.run({"delete": "c", "deletes": [{"q": {"_id": 1499}, "limit": 1}]})
                await node.run({"update": "c", "updates": [{"q": {"_id": 1498}, "u": {"$set": {"n": 10}}}]})
                node.node.scheduler.pause = meanwhile

        node.node.scheduler.pause = meanwhile
        node.hurry()
        reply = await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]})
        assert pauses > 3
        assert (reply["n"], reply["nModified"]) == (1499, 1499)
        node.node.scheduler.pause = original
        found = await node.documents("c", {})
        assert {row["_id"]: row["n"] for row in found} == {n: 11 if n == 1498 else 1 for n in range(1499)}

    loop(work())


def test_empty_timestamps_of_one_document_become_different_ones() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1, "a": Timestamp(0, 0), "b": Timestamp(0, 0)}, {"_id": 2, "a": Timestamp(0, 0)})
        first, second = await node.documents("c")
        assert Timestamp(0, 0) < first["a"] < first["b"] < second["a"]

    loop(work())


def test_a_statement_that_fails_counts_none_of_the_documents_it_has_changed() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": n} for n in range(500)), {"_id": 500, "a": "x"})
        updates = [
            {"q": {}, "u": {"$set": {"a.b": 1}}, "multi": True},
            {"q": {"_id": 1}, "u": {"$set": {"z": 1}}},
        ]
        found = await node.run({"update": "c", "updates": updates, "ordered": False})
        assert (found["n"], found["nModified"], found["writeErrors"][0]["code"]) == (1, 1, 28)
        assert (await node.run({"count": "c", "query": {"a.b": 1}}))["n"] == 500

    loop(work())
