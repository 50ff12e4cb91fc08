"""How transactions end: committed, aborted, killed, expired, with their session or their primary."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.node.transactions.registry import transactions_of
from tests.unit.node.local import loop
from tests.unit.node.transactional import TRANSIENT, Client, change, node_with


def test_one_stays_open_for_a_minute_at_most() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        transactions_of(node.node).expire()
        assert (await client.then({"find": "c"}))["ok"] == 1
        now = node.node.clock()
        node.node.clock = lambda: now + 61
        transactions_of(node.node).expire()
        assert (await client.then({"find": "c"}))["code"] == Code.NoSuchTransaction
        assert node.node.store.claims.keys == {}
        status = (await node.run({"serverStatus": 1}))["transactions"]
        assert (status["totalStarted"], status["totalAborted"], status["currentOpen"]) == (1, 1, 0)

    loop(work())


def test_current_operations_show_a_transaction_that_does_nothing() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first({**change(1), "readConcern": {"level": "majority"}})
        stage = {"aggregate": 1, "pipeline": [{"$currentOp": {}}, {"$match": {"type": "idleSession"}}], "cursor": {}}
        (idle,) = (await node.reply(stage, "admin"))["cursor"]["firstBatch"]
        assert (idle["desc"], idle["active"], idle["lsid"]["id"]) == ("inactive transaction", False, client.lsid["id"])
        shown = idle["transaction"]
        assert shown["parameters"] == {
            "txnNumber": 1,
            "txnRetryCounter": 0,
            "autocommit": False,
            "readConcern": {"level": "majority", "provenance": "clientSupplied"},
        }
        assert shown["readTimestamp"] == Timestamp(0, 0)
        assert shown["timeOpenMicros"] >= shown["timeActiveMicros"] > 0
        assert shown["startWallClockTime"] < shown["expiryTime"]
        (listed,) = (await node.reply({"currentOp": 1, "desc": "inactive transaction"}, "admin"))["inprog"]
        assert listed["lsid"] == idle["lsid"]
        stage["pipeline"] = [{"$currentOp": {"idleSessions": False}}, {"$match": {"type": "idleSession"}}]
        assert (await node.reply(stage, "admin"))["cursor"]["firstBatch"] == []
        await client.commit()
        assert (await node.reply({"currentOp": 1, "type": "idleSession"}, "admin"))["inprog"] == []

    loop(work())


def test_current_operations_show_a_prepared_transaction() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        registry = transactions_of(node.node)
        (transaction,) = registry.sessions.open
        registry.sessions.prepare(transaction)
        (idle,) = (await node.reply({"currentOp": 1, "type": "idleSession"}, "admin"))["inprog"]
        assert idle["transaction"]["timePreparedMicros"] >= 0
        assert "expiryTime" not in idle["transaction"]
        registry.sessions.decide(transaction, None)
        assert (await node.reply({"currentOp": 1, "type": "idleSession"}, "admin"))["inprog"] == []

    loop(work())


@pytest.mark.parametrize("end", ["endSessions", "killSessions", "killAllSessions"])
def test_the_end_of_a_session_ends_it(end: str) -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        await node.run({end: [] if end == "killAllSessions" else [client.lsid]})
        assert (await client.commit())["code"] == Code.NoSuchTransaction
        assert (await node.documents("c"))[0]["n"] == 0

    loop(work())


def test_a_node_that_steps_down_has_none() -> None:
    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        error = CommandError(Code.InterruptedDueToReplStateChange, "stepped down")
        transactions_of(node.node).sessions.end_all(error)
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
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        await client.commit()
        transactions_of(node.node).sessions.end_all(CommandError(Code.InterruptedAtShutdown, "another primary"))
        node.node.store.sessions.forget()
        assert (await client.commit())["ok"] == 1
        assert (await client.then({"find": "c"}))["code"] == Code.TransactionCommitted
        assert (await client.first({"find": "c"}))["ok"] == 1

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
            node = await node_with(*({"_id": number, "n": 0} for number in range(1100)))
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
                transactions_of(node.node).expire()
            else:
                error = CommandError(Code.InterruptedDueToReplStateChange, "stepped down")
                transactions_of(node.node).sessions.end_all(error)
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
        node = await node_with()
        transactions_of(node.node).settings.patience_ms = 60_000
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
        node = await node_with()
        client = Client(node)
        await client.first(change(1))
        reply = await client.commit(writeConcern={"w": 5})
        assert (reply["ok"], reply["writeConcernError"]["code"]) == (1, 64)
        assert (await node.documents("c"))[0]["n"] == 1

    loop(work())


def test_one_that_has_only_read_leaves_an_entry_too() -> None:
    """By which it is known that no deposed primary has answered."""

    async def work() -> None:
        node = await node_with()
        client = Client(node)
        await client.first({"find": "c"})
        before = node.node.store.last_optime
        await client.commit()
        assert node.node.store.last_optime > before

    loop(work())


@pytest.mark.parametrize("end", ["commitTransaction", "abortTransaction"])
def test_that_there_is_none_is_certain_only_once_it_is_as_safe_as_its_commit_should_have_been(end: str) -> None:
    async def work() -> None:
        node = await node_with()
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


def test_a_coordinator_is_told_of_a_newer_transaction_by_who_is_certainly_primary() -> None:
    """By others that stands for a decision that has been carried out."""

    async def work() -> None:
        node = await node_with()
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


def test_a_time_of_commit_is_refused_for_what_is_not_prepared() -> None:
    async def work() -> None:
        client = Client(await node_with())
        await client.first(change(1))
        refused = await client.commit(commitTimestamp=Timestamp(5, 1))
        assert (refused["code"], refused["codeName"]) == (72, "InvalidOptions")
        assert (await client.commit())["code"] == 251

    loop(work())
