"""Transactions as clients ask for them: requests, their order, their ends, and what others meet meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code, CommandError
from tests.unit.node.local import LocalNode, loop, session

TRANSIENT = "TransientTransactionError"


class Client:
    """One session of a client of the node."""

    def __init__(self, node: LocalNode, number: int = 1) -> None:
        self.node = node
        self.lsid = {"id": Binary(bytes([number]) * 16, 4)}
        self.number = 0

    def begin(self, number: int | None = None) -> dict[str, Any]:
        """The fields of a first request."""
        self.number = self.number + 1 if number is None else number
        return {**self.fields, "startTransaction": True}

    @property
    def fields(self) -> dict[str, Any]:
        """Those of any further one."""
        return {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False}

    async def first(self, command: dict[str, Any]) -> dict[str, Any]:
        return await self.node.reply({**command, **self.begin()})

    async def then(self, command: dict[str, Any]) -> dict[str, Any]:
        return await self.node.reply({**command, **self.fields})

    async def commit(self, **options: Any) -> dict[str, Any]:
        return await self.node.reply({"commitTransaction": 1, **self.fields, **options}, "admin")

    async def abort(self) -> dict[str, Any]:
        return await self.node.reply({"abortTransaction": 1, **self.fields}, "admin")


def change(identity: int, **fields: Any) -> dict[str, Any]:
    return {"update": "c", "updates": [{"q": {"_id": identity}, "u": {"$inc": fields or {"n": 1}}, "upsert": True}]}


async def _node(*documents: dict[str, Any]) -> LocalNode:
    node = LocalNode(replicated=True)
    await node.insert("c", *(documents or ({"_id": 1, "n": 0}, {"_id": 2, "n": 0})))
    return node


def test_a_transfer_is_seen_whole() -> None:
    async def work() -> None:
        node = await _node()
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
        node = await _node()
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
        node = await _node()
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
        node = await _node()
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
        client = Client(await _node())
        assert (await client.first(request_))["code"] == code
        assert "active transaction number is -1" in (await client.abort())["errmsg"]

    loop(work())


def test_numbers_are_counted_with_those_of_retryable_writes() -> None:
    async def work() -> None:
        node = await _node()
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
        node = await _node()
        client = Client(node)
        assert (await client.first(change(1)))["ok"] == 1
        assert (await client.first(change(1, n=7)))["ok"] == 1
        await client.commit()
        assert [each["n"] for each in await node.documents("c")] == [7, 0]

    loop(work())


def test_of_two_that_write_one_document_the_second_fails() -> None:
    async def work() -> None:
        node = await _node()
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
        node = await _node({"_id": 1, "n": 0}, {"_id": 2, "n": 0})
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
        node = await _node(*({"_id": number, "n": 0} for number in range(40)))
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
        node = await _node()
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
        node = await _node()
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
        node = await _node()
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


def test_its_cursors_are_its_own_and_end_with_it() -> None:
    async def work() -> None:
        node = await _node(*({"_id": number} for number in range(10)))
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
        node = await _node(*({"_id": number, "k": number} for number in range(5)))
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
        node = await _node(*({"_id": number} for number in range(5)))
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
        node = await _node()
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
        node = await _node()
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


def test_one_stays_open_for_a_minute_at_most() -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        node.node.transactions.expire()
        assert (await client.then({"find": "c"}))["ok"] == 1
        now = node.node.clock()
        node.node.clock = lambda: now + 61
        node.node.transactions.expire()
        assert (await client.then({"find": "c"}))["code"] == Code.NoSuchTransaction
        assert node.node.store.claims.keys == {}
        status = (await node.run({"serverStatus": 1}))["transactions"]
        assert (status["totalStarted"], status["totalAborted"], status["currentOpen"]) == (1, 1, 0)

    loop(work())


@pytest.mark.parametrize("end", ["endSessions", "killSessions", "killAllSessions"])
def test_the_end_of_a_session_ends_it(end: str) -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        await node.run({end: [] if end == "killAllSessions" else [client.lsid]})
        assert (await client.commit())["code"] == Code.NoSuchTransaction
        assert (await node.documents("c"))[0]["n"] == 0

    loop(work())


def test_a_node_that_steps_down_has_none() -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        error = CommandError(Code.InterruptedDueToReplStateChange, "stepped down")
        node.node.transactions.sessions.end_all(error)
        node.replication.primary = False  # type: ignore[attr-defined]
        refused = await client.then({"find": "c"})
        assert (refused["code"], refused["errorLabels"]) == (Code.NotWritablePrimary, [TRANSIENT])
        ended = await client.commit()
        assert (ended["code"], ended["errorLabels"]) == (Code.NotWritablePrimary, ["RetryableWriteError"])
        node.replication.primary = True  # type: ignore[attr-defined]
        assert (await client.commit())["errorLabels"] == [TRANSIENT]

    loop(work())


def test_a_committed_one_is_known_after_the_memory_of_it_is_gone() -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        await client.commit()
        node.node.transactions.sessions.end_all(CommandError(Code.InterruptedAtShutdown, "another primary"))
        node.node.store.sessions.forget()
        assert (await client.commit())["ok"] == 1
        assert (await client.then({"find": "c"}))["code"] == Code.TransactionCommitted
        assert (await client.first({"find": "c"}))["ok"] == 1

    loop(work())


def test_requests_of_one_are_carried_out_one_after_the_other() -> None:
    async def work() -> None:
        node = await _node(*({"_id": number, "n": 0} for number in range(2000)))
        node.hurry()
        client = Client(node)
        await client.first({"find": "c", "limit": 1})
        everything = {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]}
        replies = await asyncio.gather(*(client.then(everything) for _ in range(3)))
        assert [reply["n"] for reply in replies] == [2000] * 3
        await client.commit()
        assert {each["n"] for each in await node.documents("c")} == {3}

    loop(work())


_LONG: tuple[dict[str, Any], ...] = (
    {"update": "c", "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}]},
    {"update": "c", "updates": [{"q": {"_id": n % 1000}, "u": {"$inc": {"n": 1}}} for n in range(3000)]},
    {"update": "c", "updates": [{"q": {"_id": n, "n": 0}, "u": {"$inc": {"n": 1}}} for n in range(500)]},
    {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
    {"insert": "c", "documents": [{"_id": 10_000 + n} for n in range(2000)]},
    {"aggregate": "c", "pipeline": [{"$group": {"_id": "$n", "all": {"$push": "$_id"}}}], "cursor": {}},
    {"distinct": "c", "key": "_id"},
    {"findAndModify": "c", "query": {"n": 7}, "update": {"$inc": {"n": 1}}, "upsert": True},
)


@pytest.mark.parametrize("how", ["killed", "expired", "stepped down"])
@pytest.mark.parametrize("request_", _LONG, ids=lambda request: next(iter(request)))
def test_a_request_that_is_carried_out_when_it_is_ended_by_others_fails(request_: dict[str, Any], how: str) -> None:
    """At whatever step it is."""

    async def work() -> None:
        for steps in range(12):
            node = await _node(*({"_id": number, "n": 0} for number in range(1000)))
            node.hurry()
            client = Client(node)
            await client.first(change(1))
            running = asyncio.ensure_future(client.then(request_))
            for _ in range(steps):
                await asyncio.sleep(0)
            if how == "killed":
                await node.run({"killSessions": [client.lsid]})
            elif how == "expired":
                now = node.node.clock()
                node.node.clock = lambda now=now: now + 61
                node.node.transactions.expire()
            else:
                error = CommandError(Code.InterruptedDueToReplStateChange, "stepped down")
                node.node.transactions.sessions.end_all(error)
            reply = await running
            if steps and reply["ok"]:
                break
            assert reply["ok"] == 0
            assert TRANSIENT in reply["errorLabels"]
            assert node.node.store.claims.keys == {}
            assert len(node.services.cursors) == 0
        assert steps > 1
        assert sorted({each["n"] for each in await node.documents("c")}) == [0]

    loop(work())


def test_one_that_is_ended_while_it_lets_others_go_first_is_not_carried_out() -> None:
    async def work() -> None:
        node = await _node()
        node.node.transactions.settings.patience_ms = 60_000
        first, second = Client(node, 1), Client(node, 2)
        await node.insert("d", {"_id": 1})
        await first.first(change(1))
        await second.first({"find": "d"})
        dropping = asyncio.ensure_future(node.reply({"drop": "c"}))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(second.then({"find": "c"}))
        await asyncio.sleep(0)
        await node.run({"killSessions": [second.lsid]})
        await first.commit()
        reply = await waiting
        assert (reply["code"], reply["errorLabels"]) == (Code.NoSuchTransaction, [TRANSIENT])
        assert (await dropping)["ok"] == 1

    loop(work())


def test_commits_wait_for_their_write_concern() -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        reply = await client.commit(writeConcern={"w": 5})
        assert (reply["ok"], reply["writeConcernError"]["code"]) == (1, 64)
        assert (await node.documents("c"))[0]["n"] == 1

    loop(work())


def test_one_that_has_only_read_leaves_an_entry_too() -> None:
    """By which it is known that no deposed primary has answered."""

    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first({"find": "c"})
        before = node.node.store.last_optime
        await client.commit()
        assert node.node.store.last_optime > before

    loop(work())


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
def test_that_there_is_none_is_certain_only_once_it_is_as_safe_as_its_commit_should_have_been(end: str) -> None:
    async def work() -> None:
        node = await _node()
        client = Client(node)
        before = node.node.store.last_optime
        gone = {end: 1, **client.fields, "txnNumber": Int64(5)}
        reply = await node.reply(gone, "admin")
        assert (reply["code"], reply["errorLabels"]) == (Code.NoSuchTransaction, [TRANSIENT])
        assert node.node.store.last_optime > before
        reply = await node.reply({**gone, "writeConcern": {"w": 5}}, "admin")
        assert (reply["code"], reply["writeConcernError"]["code"]) == (Code.NoSuchTransaction, 64)
        assert "errorLabels" not in reply

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
        node = await _node()
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
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        node.peer = ClientConnection(2, "127.0.0.1:10")
        await client.then(change(2))
        await client.commit()
        assert [each["n"] for each in await node.documents("c")] == [1, 1]

    loop(work())


def test_a_coordinator_is_told_of_a_newer_transaction_by_who_is_certainly_primary() -> None:
    """By others that stands for a decision that has been carried out."""

    async def work() -> None:
        node = await _node()
        client = Client(node)
        await client.first(change(1))
        await client.then({"abortTransaction": 1})
        await client.first(change(1))
        client.number = 1
        before = node.node.store.last_optime
        asked = {"commitTimestamp": Timestamp(1, 1), "writeConcern": {"w": 2, "wtimeout": 1}}
        reply = await client.commit(**asked)
        assert (reply["codeName"], node.node.store.last_optime > before) == ("TransactionTooOld", True)
        assert reply["writeConcernError"]["codeName"] == "WriteConcernFailed"
        assert "writeConcernError" not in await client.commit(writeConcern=asked["writeConcern"])

    loop(work())
