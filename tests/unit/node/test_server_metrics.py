"""What a node tells of itself: serverStatus, top, compact, currentOp, latencies."""

from __future__ import annotations

import asyncio

import pytest

from docstore.bson import walk
from docstore.commands.client_connection import ClientConnection
from tests.unit.node.local import LocalNode


def test_requests_show_in_top_and_in_the_latencies_of_their_collection() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        await node.documents("c")
        top = (await node.run({"top": 1}, "admin"))["totals"]["test.c"]
        assert (top["insert"]["count"], top["queries"]["count"]) == (1, 1)
        stats = {"aggregate": "c", "pipeline": [{"$collStats": {"latencyStats": {}}}], "cursor": {}}
        (found,) = (await node.run(stats))["cursor"]["firstBatch"]
        assert (found["latencyStats"]["reads"]["ops"], found["latencyStats"]["writes"]["ops"]) == (1, 1)

    asyncio.run(story())


def test_sections_of_the_status_can_be_left_out() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.reply({"unheardOf": 1})
        status = await node.run({"serverStatus": 1, "mem": 0})
        assert "mem" not in status
        assert status["asserts"]["user"] == status["metrics"]["commands"]["<UNKNOWN>"] == 1
        assert status["opLatencies"]["commands"]["ops"] == 0

    asyncio.run(story())


def test_the_ends_of_the_oplog_are_told_to_who_asks() -> None:
    async def story() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        await node.insert("c", {"_id": 2})
        assert "oplog" not in await node.run({"serverStatus": 1})
        told = (await node.run({"serverStatus": 1, "oplog": 1}))["oplog"]
        entries = (await node.run({"find": "oplog.rs"}, "local"))["cursor"]["firstBatch"]
        assert told == {"latestOptime": entries[-1]["ts"], "earliestOptime": entries[0]["ts"]}
        assert "oplog" not in await LocalNode().run({"serverStatus": 1, "oplog": 1})

    asyncio.run(story())


def test_compact_frees_nothing_and_needs_a_collection() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        assert (await node.run({"compact": "c"}))["bytesFreed"] == 0
        assert (await node.reply({"compact": "none"}))["code"] == 26
        assert (await node.reply({"compact": 1}))["code"] == 73
        assert "code" not in await node.reply({"compact": "system.js"})

    asyncio.run(story())


def test_the_uses_of_indexes_are_counted() -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": number, "a": number, "b": number} for number in range(9)))
        indexes = [{"name": name, "key": {name: 1}} for name in ("a", "b")]
        await node.run({"createIndexes": "c", "indexes": indexes})

        async def uses() -> list[int]:
            asked = {"aggregate": "c", "pipeline": [{"$indexStats": {}}, {"$sort": {"name": 1}}], "cursor": {}}
            return [row["accesses"]["ops"] for row in (await node.run(asked))["cursor"]["firstBatch"]]

        assert await uses() == [0, 0, 0]
        await node.run({"find": "c", "filter": {"a": 1}, "batchSize": 1})
        await node.run({"count": "c", "query": {"a": {"$gt": 3}}})
        await node.run({"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"x": 1}}, "multi": True}]})
        assert await uses() == [0, 3, 0]
        await node.run({"find": "c", "filter": {"_id": 1}, "limit": 1, "singleBatch": True})
        await node.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 2}}}]})
        await node.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
        assert await uses() == [3, 3, 0]
        await node.run({"find": "c", "filter": {"$or": [{"a": 2}, {"b": 3}]}})
        await node.run({"explain": {"find": "c", "filter": {"a": 2}}, "verbosity": "queryPlanner"})
        assert await uses() == [3, 4, 1]

    asyncio.run(story())


def test_idle_connections_and_cursors_are_shown_when_asked_for() -> None:
    async def story() -> None:
        node = LocalNode()
        node.services.peers.update((node.peer, ClientConnection(2, "127.0.0.1:8")))
        await node.insert("c", {"_id": 1}, {"_id": 2})
        await node.run({"find": "c", "batchSize": 1})
        shown = (await node.run({"currentOp": 1, "$all": True}, "admin"))["inprog"]
        assert [(entry["desc"], entry["active"]) for entry in shown] == [("conn1", True), ("conn2", False)]
        assert len((await node.run({"currentOp": 1}, "admin"))["inprog"]) == 1
        asked = {"aggregate": 1, "pipeline": [{"$currentOp": {"idleCursors": True}}], "cursor": {}}
        idle = (await node.run(asked, "admin"))["cursor"]["firstBatch"][-1]
        assert (idle["type"], idle["ns"], idle["cursor"]["nDocsReturned"]) == ("idleCursor", "test.c", 1)

    asyncio.run(story())


def test_long_commands_are_shortened_by_the_command_and_where_the_stage_is_asked_to() -> None:
    async def story() -> None:
        node = LocalNode()
        long = {"currentOp": 1, "x": {"$ne": "y" * 2000}, "comment": "mine"}
        (shown,) = (await node.run(long, "admin"))["inprog"]
        assert set(shown["command"]) == {"$truncated", "comment"}
        assert shown["command"]["$truncated"].startswith('{ currentOp: 1, x: { $ne: "yyyy')
        assert shown["command"]["comment"] == "mine"
        assert len(str(shown)) < 2000
        for options, fields in (
            ({}, {"aggregate", "pipeline", "cursor", "comment", "$db"}),
            ({"truncateOps": True}, {"$truncated"}),
        ):
            pipeline = [{"$currentOp": options}, {"$match": {"x": {"$ne": "y" * 2000}}}]
            asked = {"aggregate": 1, "pipeline": pipeline, "cursor": {}, **({"comment": 1} if not options else {})}
            (found,) = (await node.run(asked, "admin"))["cursor"]["firstBatch"]
            assert set(found["command"]) == fields

    asyncio.run(story())


def test_the_build_says_in_which_form_the_kernel_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(form: str) -> None:
        assert (await LocalNode().run({"buildInfo": 1}, "admin"))["docstore"]["kernel"] == form

    asyncio.run(story("compiled" if walk.__file__.endswith(".so") else "interpreted"))
    monkeypatch.setattr(walk, "__file__", "walk.py")
    asyncio.run(story("interpreted"))
