"""Transactions as clients ask for them: their requests, in order, and what these see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop, session
from tests.unit.node.transactional import TRANSIENT, Client, change, node_with


def test_a_transfer_is_seen_whole() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        assert (await client.first(change(1, n=-5)))["ok"] == 1
        assert (await client.then(change(2, n=5)))["nModified"] == 1
        found = await client.then({"find": "c", "sort": {"_id": 1}})
        assert [each["n"] for each in found["cursor"]["firstBatch"]] == [-5, 5]
        counted = await client.then(
            {"aggregate": "c", "pipeline": [{"$match": {"n": 5}}, {"$count": "n"}], "cursor": {}}
        )
        assert counted["cursor"]["firstBatch"] == [{"n": 1}]
        assert [each["n"] for each in await node.documents("c")] == [0, 0]
        assert await client.commit() == {"ok": 1}
        assert [each["n"] for each in await node.documents("c")] == [-5, 5]
        assert (await client.commit())["ok"] == 1, "a second time it is told that it is done"
        assert (await client.then({"find": "c"}))["code"] == Code.TransactionCommitted
        assert (await client.abort())["code"] == Code.TransactionCommitted

    loop(work())


def test_a_request_that_fails_ends_it() -> None:
    requests = (
        ({"find": "c", "filter": {"$bad": 1}}, "ok"),
        ({"insert": "c", "documents": [{"_id": 1}]}, "writeErrors"),
        ({"update": "c", "updates": [{"q": {}, "u": {"$bad": 1}}]}, "writeErrors"),
        ({"aggregate": "c", "pipeline": [{"$out": "o"}], "cursor": {}}, "ok"),
        ({"create": "c"}, "ok"),
        ({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x"}]}, "ok"),
        ({"insert": "system.users", "documents": [{}]}, "ok"),
        ({"find": "c", "tailable": True}, "ok"),
        ({"getMore": Int64(7), "collection": "c"}, "ok"),
    )

    async def work() -> None:
        node = await node_with()
        client = Client(node)
        for request, where in requests:
            assert (await client.first(change(1)))["ok"] == 1
            reply = await client.then(request)
            assert reply.get("writeErrors") if where == "writeErrors" else reply["ok"] == 0, request
            after = await client.then({"find": "c"})
            assert (after.get("code"), after.get("errorLabels")) == (Code.NoSuchTransaction, [TRANSIENT]), request
            assert (await client.commit())["code"] == Code.NoSuchTransaction
        assert [each["n"] for each in await node.documents("c")] == [0, 0]
        assert node.node.store.claims.keys == {}

    loop(work())


def test_operations_of_several_collections_are_part_of_it_until_one_fails() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        namespaces = [{"ns": "test.c"}, {"ns": "other.d"}]
        operations = [
            {"insert": 1, "document": {"_id": 1}},
            {"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}},
        ]
        bulk = {"bulkWrite": 1, "ops": operations, "nsInfo": namespaces}
        reply = await node.reply({**bulk, **client.begin()}, "admin")
        assert (reply["nInserted"], reply["nModified"]) == (1, 1)
        assert [row["n"] for row in await node.documents("c")] == [0, 0]
        more = await node.reply({**bulk, "ops": operations[1:], "cursor": {"batchSize": 0}, **client.fields}, "admin")
        rest = {"getMore": more["cursor"]["id"], "collection": "$cmd.bulkWrite", **client.fields}
        assert (await node.reply(rest, "admin"))["cursor"]["nextBatch"][0]["nModified"] == 1
        assert (await client.commit())["ok"] == 1
        assert [row["n"] for row in await node.documents("c")] == [2, 0]
        operations = [{"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}}, operations[0], operations[1]]
        failed = await node.reply({**bulk, "ops": operations, "ordered": False, **client.begin()}, "admin")
        assert [(row["idx"], row["ok"]) for row in failed["cursor"]["firstBatch"]] == [(0, 1), (1, 0)]
        assert (await client.commit())["code"] == Code.NoSuchTransaction
        assert [row["n"] for row in await node.documents("c")] == [2, 0]
        for refused in ("local.c", "config.c", "test.system.js"):
            reply = await node.reply({**bulk, "nsInfo": [{"ns": refused}] * 2, **client.begin()}, "admin")
            assert reply["code"] in (Code.OperationNotSupportedInTransaction, 50791)

    loop(work())


def test_a_batch_in_it_ends_at_its_first_error() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        documents = [{"_id": 3}, {"_id": 1}, {"_id": 4}, {"_id": 2}]
        reply = await client.first({"insert": "c", "documents": documents, "ordered": False})
        assert [(each["index"], each["code"]) for each in reply["writeErrors"]] == [(1, Code.DuplicateKey)]

    loop(work())


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"count": "c"}, Code.OperationNotSupportedInTransaction),
        ({"drop": "c"}, Code.OperationNotSupportedInTransaction),
        ({"ping": 1}, Code.OperationNotSupportedInTransaction),
        ({"killCursors": "c", "cursors": [Int64(1)]}, Code.OperationNotSupportedInTransaction),
        ({"find": "c", "readConcern": {"level": "linearizable"}}, Code.InvalidOptions),
        ({"insert": "c", "documents": [{}], "writeConcern": {"w": 1}}, Code.InvalidOptions),
    ],
)
def test_what_cannot_be_part_of_one_does_not_begin_it(request_: dict[str, Any], code: Code) -> None:
    async def work() -> None:
        client = Client(await node_with())
        assert (await client.first(request_))["code"] == code
        assert "active transaction number is -1" in (await client.abort())["errmsg"]

    loop(work())


def test_numbers_are_counted_with_those_of_retryable_writes() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await node.run({"insert": "c", "documents": [{}], **session(1, 3)})
        assert (await node.reply({"find": "c", **client.begin(2)}))["code"] == Code.TransactionTooOld
        used = await node.reply({"find": "c", **client.begin(3)})
        assert used["code"] == Code.ConflictingOperationInProgress
        assert (await client.first(change(1)))["ok"] == 1
        taken = await node.reply({"insert": "c", "documents": [{}], **session(1, 4)})
        assert taken["code"] == Code.IncompleteTransactionHistory
        assert (await node.reply({"find": "c", **client.begin(4)}))["code"] == Code.ConflictingOperationInProgress
        await client.commit()
        assert (await node.reply({"insert": "c", "documents": [{}], **session(1, 4)}))["code"] == 217
        assert (await client.first(change(2)))["ok"] == 1
        assert (await node.reply({"insert": "c", "documents": [{}], **session(1, 6)}))["ok"] == 1
        assert (await client.then({"find": "c"}))["code"] == Code.TransactionTooOld
        assert node.node.store.claims.keys == {}
        assert (await client.first(change(2)))["code"] == Code.ConflictingOperationInProgress

    loop(work())


def test_a_newer_transaction_ends_an_open_one() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        assert (await client.first(change(1)))["ok"] == 1
        assert (await client.first(change(1, n=7)))["ok"] == 1
        await client.commit()
        assert [each["n"] for each in await node.documents("c")] == [7, 0]

    loop(work())


def test_its_cursors_are_its_own_and_end_with_it() -> None:
    async def work() -> None:
        node = await node_with(*({"_id": number} for number in range(10)))
        client = Client(node)
        opened = await client.first({"find": "c", "batchSize": 2})
        cursor = opened["cursor"]["id"]
        more = {"getMore": cursor, "collection": "c", "batchSize": 2}
        assert (await node.reply({**more, "lsid": client.lsid}))["code"] == 50740
        await client.then({"insert": "c", "documents": [{"_id": 100}]})
        rest = await client.then({"getMore": cursor, "collection": "c", "batchSize": 100})
        assert len(rest["cursor"]["nextBatch"]) == 8
        again = await client.then({"find": "c", "batchSize": 2})
        assert len(node.services.cursors) == 1
        await client.commit()
        assert len(node.services.cursors) == 0
        assert (await client.then({**more, "getMore": again["cursor"]["id"]}))["code"] == Code.TransactionCommitted
        outside = await node.run({"find": "c", "batchSize": 2, "lsid": client.lsid})
        inside = await client.first({"getMore": outside["cursor"]["id"], "collection": "c"})
        assert inside["code"] == 50739

    loop(work())


def test_it_reads_one_snapshot_whatever_others_do() -> None:
    async def work() -> None:
        node = await node_with(*({"_id": number, "k": number} for number in range(5)))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k"}]})
        client = Client(node)
        find = {"find": "c", "filter": {"k": {"$gte": 1}}, "sort": {"k": 1}}
        before = (await client.first(find))["cursor"]["firstBatch"]
        await node.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
        await node.run({"update": "c", "updates": [{"q": {"_id": 2}, "u": {"$set": {"k": 100}}}]})
        await node.insert("c", {"_id": 50, "k": 3})
        for _ in range(2):
            assert (await client.then(find))["cursor"]["firstBatch"] == before
        values = await client.then({"distinct": "c", "key": "k"})
        assert values["values"] == [0, 1, 2, 3, 4]
        stages: list[dict[str, Any]] = [
            {"$lookup": {"from": "c", "localField": "k", "foreignField": "k", "as": "same"}},
            {"$project": {"n": {"$size": "$same"}}},
        ]
        joined = await client.then({"aggregate": "c", "pipeline": stages, "cursor": {}})
        assert [each["n"] for each in joined["cursor"]["firstBatch"]] == [1] * 5
        assert (await client.then({"update": "c", "updates": [{"q": {"k": 2}, "u": {"$set": {"z": 1}}}]}))[
            "code"
        ] == 112

    loop(work())


def test_all_documents_are_counted_as_it_sees_them() -> None:
    async def work() -> None:
        node = await node_with(*({"_id": number} for number in range(5)))
        client = Client(node)
        count = {"aggregate": "c", "pipeline": [{"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}}

        async def counted() -> int:
            n: int = (await client.then(count))["cursor"]["firstBatch"][0]["n"]
            return n

        assert (await client.first({"insert": "c", "documents": [{"_id": 10}, {"_id": 11}]}))["ok"] == 1
        await node.insert("c", *({"_id": 100 + number} for number in range(50)))
        assert await counted() == 7
        assert (await client.then({"delete": "c", "deletes": [{"q": {"_id": {"$lt": 3}}, "limit": 0}]}))["n"] == 3
        assert await counted() == 4
        assert (await client.commit())["ok"] == 1
        assert (await node.run(count))["cursor"]["firstBatch"] == [{"_id": 1, "n": 54}]

    loop(work())


def test_a_view_is_read_in_it() -> None:
    async def work() -> None:
        node = await node_with()
        await node.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"n": {"$gt": 0}}}]})
        client = Client(node)
        await client.first(change(2))
        assert len((await client.then({"find": "v"}))["cursor"]["firstBatch"]) == 1
        assert await node.documents("v") == []
        refused = await client.then({"create": "w", "viewOn": "c", "pipeline": []})
        assert refused["code"] == Code.OperationNotSupportedInTransaction

    loop(work())


def test_collections_and_indexes_are_made_in_it() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        assert (await client.first({"create": "new"}))["ok"] == 1
        index = {"key": {"x": 1}, "name": "x", "unique": True}
        made = await client.then({"createIndexes": "new", "indexes": [index]})
        assert made["numIndexesAfter"] == 2
        assert (await client.then({"insert": "new", "documents": [{"_id": 1, "x": 1}]}))["n"] == 1
        assert (await client.then({"insert": "auto", "documents": [{"_id": 1}]}))["n"] == 1
        listed = await node.run({"listCollections": 1, "nameOnly": True})
        assert [each["name"] for each in listed["cursor"]["firstBatch"]] == ["c"]
        await client.commit()
        listed = await node.run({"listCollections": 1, "nameOnly": True})
        assert {each["name"] for each in listed["cursor"]["firstBatch"]} == {"c", "new", "auto"}
        taken = await node.reply({"insert": "new", "documents": [{"_id": 2, "x": 1}]})
        assert taken["writeErrors"][0]["code"] == Code.DuplicateKey
        await client.first({"insert": "late", "documents": [{"_id": 1}]})
        refused = await client.then({"createIndexes": "late", "indexes": [index]})
        assert "non-empty" in refused["errmsg"]
        assert await node.documents("late") == []

    loop(work())


def test_requests_of_one_are_carried_out_one_after_the_other() -> None:
    async def work() -> None:
        node = await node_with(*({"_id": number, "n": 0} for number in range(2000)))
        node.hurry()
        client = Client(node)
        await client.first({"find": "c", "limit": 1})
        everything = {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]}
        replies = await asyncio.gather(*(client.then(everything) for _ in range(3)))
        assert [reply["n"] for reply in replies] == [2000] * 3
        await client.commit()
        assert {each["n"] for each in await node.documents("c")} == {3}

    loop(work())


def test_outside_of_a_set_there_are_none() -> None:
    async def work() -> None:
        node = LocalNode()
        client = Client(node)
        refused = await client.first({"find": "c"})
        assert (refused["code"], refused["codeName"]) == (20, "IllegalOperation")
        alone = await node.reply({"commitTransaction": 1}, "admin")
        assert alone["code"] == Code.CommandFailed

    loop(work())


def test_fields_that_contradict_each_other_are_refused() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        begin = client.begin()
        for wrong, code in (
            ({"autocommit": True}, 72), ({"startTransaction": False}, 72), ({"txnNumber": Int64(-1)}, 72),
        ):  # fmt: skip
            assert (await node.reply({"find": "c", **begin, **wrong}))["code"] == code
        without = {name: value for name, value in begin.items() if name != "autocommit"}
        assert (await node.reply({"find": "c", **without}))["code"] == 72
        number = {"lsid": client.lsid, "txnNumber": Int64(1)}
        assert (await node.reply({"find": "c", **number}))["codeName"] == "NotARetryableWriteCommand"

    loop(work())


def test_another_connection_may_go_on_with_it() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        node.peer = ClientConnection(2, "127.0.0.1:10")
        await client.then(change(2))
        await client.commit()
        assert [each["n"] for each in await node.documents("c")] == [1, 1]

    loop(work())
