"""The profiler on a node in memory: what is written down, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.node.local import LocalNode, loop

OFF = {"was": 0, "slowms": 100, "sampleRate": 1.0, "ok": 1.0}


def test_everything_is_written_down_at_level_two_and_nothing_at_level_zero() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        assert await node.run({"profile": 2}) == OFF
        await node.insert("c", {"_id": 1, "a": 1}, {"_id": 2, "a": 2})
        await node.run({"find": "c", "filter": {"a": 1}, "comment": "why"})
        await node.run({"update": "c", "updates": [{"q": {}, "u": {"$set": {"b": 1}}, "multi": True}]})
        await node.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
        await node.run({"count": "c"})
        await node.reply({"find": "c", "filter": {"$bogus": 1}})
        await node.run({"ping": 1})
        assert (await node.run({"profile": 0}))["was"] == 2
        await node.run({"count": "c"})
        entries = await node.documents("system.profile")
        assert [entry["op"] for entry in entries] == ["insert", "query", "update", "remove", "command", "query"]
        assert entries[0]["ninserted"] == 2
        assert "documents" not in entries[0]["command"]
        assert (entries[1]["ns"], entries[1]["command"]["comment"], entries[1]["nreturned"]) == ("test.c", "why", 1)
        assert entries[1]["cursorExhausted"] is True
        assert (entries[2]["nMatched"], entries[2]["nModified"]) == (2, 2)
        assert (entries[5]["errCode"], entries[5]["errName"], entries[5]["ok"]) == (2, "BadValue", 0.0)
        assert node.services.observers == []

    loop(work())


def test_at_level_one_only_what_is_slow_or_matches_the_filter() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"profile": 1, "slowms": 60_000})
        await node.insert("c", {"_id": 1})
        assert await node.documents("system.profile") == []
        await node.run({"profile": 1, "filter": {"op": "query", "ns": "test.c"}})
        await node.run({"count": "c"})
        await node.documents("c")
        (entry,) = await node.documents("system.profile")
        assert entry["op"] == "query"
        shown = await node.run({"profile": -1})
        assert (shown["was"], shown["slowms"], shown["filter"]) == (1, 60_000, {"op": "query", "ns": "test.c"})
        await node.run({"profile": -1, "filter": "unset"})
        assert "filter" not in await node.run({"profile": -1})

    loop(work())


def test_the_collection_is_capped_does_not_replicate_and_is_nobodys_to_write() -> None:
    async def work() -> None:
        node = LocalNode(replicated=True)
        before = node.node.store.last_optime
        await node.run({"profile": 2})
        assert node.node.store.last_optime == before
        (listed,) = (await node.run({"listCollections": 1}))["cursor"]["firstBatch"]
        assert (listed["name"], listed["options"]) == ("system.profile", {"capped": True, "size": 1048576})
        assert (await node.reply({"insert": "system.profile", "documents": [{}]}))["code"] == 73
        assert (await node.reply({"drop": "system.profile"}))["code"] == 20
        await node.run({"profile": 0})
        await node.run({"drop": "system.profile"})

    loop(work())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"profile": "x"}, 14),
        ({"profile": 0, "slowms": "x"}, 14),
        ({"profile": 0, "sampleRate": 2}, 2),
        ({"profile": 1, "filter": {"$bogus": 1}}, 2),
        ({"profile": 1, "filter": "x"}, 2),
    ],
)
def test_what_means_nothing_is_refused(command: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.reply(command))["code"] == code
        assert await node.run({"profile": -1}) == OFF

    loop(work())
