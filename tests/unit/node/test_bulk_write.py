"""bulkWrite on a node in memory: what each operation does, the reply, retries, transactions, and who may do it."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop, session

NAMESPACES = [{"ns": "test.c"}, {"ns": "other.d"}]


def bulk(*operations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"bulkWrite": 1, "ops": list(operations), "nsInfo": NAMESPACES, **fields}


def counts(reply: dict[str, Any]) -> list[int]:
    """nErrors, nInserted, nMatched, nModified, nUpserted, nDeleted."""
    return [reply[name] for name in ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")]


def insert(place: int, identity: Any, **fields: Any) -> dict[str, Any]:
    return {"insert": place, "document": {"_id": identity, **fields}}


def update(place: int, filter_: dict[str, Any], change: Any, **fields: Any) -> dict[str, Any]:
    return {"update": place, "filter": filter_, "updateMods": change, **fields}


def delete(place: int, filter_: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"delete": place, "filter": filter_, **fields}


def test_operations_of_all_kinds_and_collections_in_one_request() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        reply = await node.run(
            bulk(
                insert(0, 1, x=1),
                insert(0, 2, x=2),
                insert(1, 1),
                update(0, {"x": {"$gt": 0}}, {"$inc": {"x": 1}}, multi=True),
                update(0, {"_id": 2}, {"$set": {"x": 3}}),
                update(1, {"_id": 9}, {"y": 1}, upsert=True),
                update(0, {}, [{"$set": {"z": "$$v"}}], sort={"x": -1}),
                delete(1, {"_id": 1}),
                delete(0, {}, multi=True),
                let={"v": 7},
            ),
            db="admin",
        )
        assert reply["cursor"] == {
            "firstBatch": [
                {"ok": 1.0, "idx": 0, "n": 1},
                {"ok": 1.0, "idx": 1, "n": 1},
                {"ok": 1.0, "idx": 2, "n": 1},
                {"ok": 1.0, "idx": 3, "n": 2, "nModified": 2},
                {"ok": 1.0, "idx": 4, "n": 1, "nModified": 0},
                {"ok": 1.0, "idx": 5, "n": 1, "nModified": 0, "upserted": {"_id": 9}},
                {"ok": 1.0, "idx": 6, "n": 1, "nModified": 1},
                {"ok": 1.0, "idx": 7, "n": 1},
                {"ok": 1.0, "idx": 8, "n": 2},
            ],
            "id": 0,
            "ns": "admin.$cmd.bulkWrite",
        }
        assert counts(reply) == [0, 3, 4, 3, 1, 3]
        assert await node.documents("c") == []
        found = await node.run({"find": "d"}, db="other")
        assert found["cursor"]["firstBatch"] == [{"_id": 9, "y": 1}]

    loop(work())


@pytest.mark.parametrize(
    ("ordered", "failed", "counted", "left"),
    [(True, [1], [1, 1, 0, 0, 0, 0], [1]), (False, [1, 2], [2, 2, 1, 0, 0, 0], [1, 3])],
)
def test_errors_stop_an_ordered_request_only(
    ordered: bool, failed: list[int], counted: list[int], left: list[int]
) -> None:
    async def work() -> None:
        node = LocalNode()
        operations = [
            insert(0, 1), insert(0, 1), update(0, {"_id": 1}, {"$inc": {"_id": 1}}), insert(0, 3),
            update(0, {"_id": 3}, {"_id": 3}),
        ]  # fmt: skip
        reply = await node.run(bulk(*operations, ordered=ordered), db="admin")
        assert [row["idx"] for row in reply["cursor"]["firstBatch"] if not row["ok"]] == failed
        assert counts(reply) == counted
        assert [row["_id"] for row in await node.documents("c")] == left
        assert reply["cursor"]["firstBatch"][1] == {
            "ok": 0.0, "idx": 1, "code": 11000, "errmsg": reply["cursor"]["firstBatch"][1]["errmsg"],
            "keyPattern": {"_id": 1}, "keyValue": {"_id": 1}, "n": 0,
        }  # fmt: skip
        listed = await node.run(bulk(*operations[1:], ordered=ordered, errorsOnly=True), db="admin")
        assert all(row["ok"] == 0.0 for row in listed["cursor"]["firstBatch"])
        assert len(listed["cursor"]["firstBatch"]) == listed["nErrors"] > 0

    loop(work())


def test_results_that_a_batch_does_not_hold_stay_with_the_cursor() -> None:
    async def work() -> None:
        node = LocalNode()
        reply = await node.run(bulk(*(insert(0, n) for n in range(5)), cursor={"batchSize": 2}), db="admin")
        assert [row["idx"] for row in reply["cursor"]["firstBatch"]] == [0, 1]
        more = {"getMore": reply["cursor"]["id"], "collection": "$cmd.bulkWrite"}
        rest = await node.run(more, db="admin")
        assert [row["idx"] for row in rest["cursor"]["nextBatch"]] == [2, 3, 4]
        assert rest["cursor"]["id"] == 0

    loop(work())


@pytest.mark.parametrize(
    ("command", "db", "code"),
    [
        (bulk(insert(0, 1)), "test", Code.Unauthorized),
        (bulk(), "admin", Code.InvalidLength),
        (bulk(insert(2, 1)), "admin", Code.BadValue),
        (bulk({"find": 0}), "admin", Code.FailedToParse),
        (bulk({"insert": 0}), "admin", 40414),
        (bulk(insert(0, 1) | {"multi": True}), "admin", 40415),
        (bulk(update(0, {}, {"x": 1}, multi=True, sort={"x": 1})), "admin", Code.FailedToParse),
        (bulk(delete(0, {}, multi=1)), "admin", Code.TypeMismatch),
        ({"bulkWrite": 1, "ops": [insert(0, 1)], "nsInfo": [{"ns": "none"}]}, "admin", Code.InvalidNamespace),
        ({"bulkWrite": 1, "ops": [insert(0, 1)], "nsInfo": [{"ns": "a.system.views"}]}, "admin", Code.InvalidNamespace),
    ],
)
def test_what_cannot_be_read_is_refused_whole(command: dict[str, Any], db: str, code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        if command["ops"] and "nsInfo" in command:
            command["ops"].insert(0, insert(0, "first"))
        reply = await node.reply(command, db)
        assert (reply["ok"], reply["code"]) == (0, code), reply
        assert node.node.store.collection("test.c") is None

    loop(work())


def test_a_retried_request_is_done_once_and_says_so() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 9, "x": 1})
        operations = [
            insert(0, 1), update(0, {"_id": 9}, {"$inc": {"x": 1}}), insert(1, 1), delete(0, {"_id": 9}),
            update(1, {"_id": 2}, {"$set": {"x": 1}}, upsert=True),
        ]  # fmt: skip
        command = bulk(*operations, **session())
        first = await node.run(command, db="admin")
        again = await node.run(command, db="admin")
        assert again["retriedStmtIds"] == [0, 1, 2, 3, 4]
        assert "retriedStmtIds" not in first
        assert counts(first) == counts(again) == [0, 2, 1, 1, 1, 1]
        assert first["cursor"] == again["cursor"]
        # The rest of one that was done in part.
        longer = bulk(*operations, insert(0, 2), **session())
        assert (await node.run(longer, db="admin"))["retriedStmtIds"] == [0, 1, 2, 3, 4]
        assert [row["_id"] for row in await node.documents("c")] == [1, 2]
        many = bulk(insert(0, 3), delete(0, {}, multi=True), **session(txn=2))
        assert (await node.reply(many, "admin"))["code"] == Code.InvalidOptions
        assert [row["_id"] for row in await node.documents("c")] == [1, 2]

    loop(work())
