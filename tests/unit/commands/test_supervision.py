"""What a request costs is looked at while it is worked on."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.commands import supervision
from docstore.net.memory.allocator import give_back, resident_bytes
from tests.unit.node.local import LocalNode

HUGE = {"$range": [0, {"$multiply": ["$a", 2_000_000]}]}
"""A range whose length is known only when it is evaluated."""


async def _filled() -> LocalNode:
    node = LocalNode()
    await node.reply({"insert": "c", "documents": [{"_id": 1, "a": 1}]})
    return node


def _sized(expression: Any) -> dict[str, Any]:
    return {"aggregate": "c", "pipeline": [{"$project": {"n": {"$size": expression}}}], "cursor": {}}


def test_a_range_that_is_too_long_is_refused_before_it_is_made() -> None:
    async def scenario() -> None:
        node = await _filled()
        began = monotonic()
        reply = await node.reply(_sized({"$range": [0, {"$multiply": ["$a", 100_000_000]}]}))
        assert (reply["code"], monotonic() - began < 1) == (146, True)
        assert "$range would use too much memory (1600000040 bytes)" in reply["errmsg"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "start", "code"), [("$concat", "0123456789", 16493), ("$concatArrays", [1] * 1000, 146)]
)
def test_what_doubles_again_and_again_is_refused(name: str, start: Any, code: int) -> None:
    async def scenario() -> None:
        node = await _filled()
        both = {name: ["$$value", "$$value"]}
        doubled = {"$reduce": {"input": {"$range": ["$a", 40]}, "initialValue": start, "in": both}}
        reply = await node.reply({"aggregate": "c", "pipeline": [{"$project": {"r": doubled}}], "cursor": {}})
        assert reply["code"] == code

    asyncio.run(scenario())


def test_a_time_limit_ends_an_expression_within_one_document() -> None:
    async def scenario() -> None:
        node = await _filled()
        began = monotonic()
        endless = {"$map": {"input": HUGE, "in": {"$size": HUGE}}}
        reply = await node.reply({**_sized(endless), "maxTimeMS": 200})
        assert reply["code"] == 50
        assert monotonic() - began < 5
        reply = await node.reply({"find": "c", "filter": {"$expr": {"$eq": [{"$size": endless}, 1]}}, "maxTimeMS": 200})
        assert reply["code"] == 50

    asyncio.run(scenario())


_ENDLESS = {"$eq": [{"$size": {"$map": {"input": HUGE, "in": {"$size": HUGE}}}}, 1]}
_ASKED = {"a": 1, "$expr": _ENDLESS}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": _ASKED},
        {"find": "c", "filter": _ASKED, "sort": {"b": 1}},
        {"find": "c", "filter": {"a": 1}, "limit": 1, "projection": {"r": _ENDLESS}},
        {"count": "c", "query": _ASKED},
        {"distinct": "c", "key": "a", "query": _ASKED},
        {"aggregate": "c", "pipeline": [{"$match": _ASKED}, {"$group": {"_id": "$a"}}], "cursor": {}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$group": {"_id": _ENDLESS}}], "cursor": {}},
        {"update": "c", "updates": [{"q": _ASKED, "u": {"$set": {"b": 1}}}]},
        {"update": "c", "updates": [{"q": _ASKED, "u": {"$set": {"b": 1}}, "multi": True}]},
        {"update": "c", "updates": [{"q": {"a": 2}, "u": {"$set": {"b": 1}}}, {"q": _ASKED, "u": {"$set": {"b": 1}}}]},
        {"delete": "c", "deletes": [{"q": _ASKED, "limit": 1}]},
        {"findAndModify": "c", "query": _ASKED, "update": {"$set": {"b": 1}}},
        {"findAndModify": "c", "query": _ASKED, "remove": True},
    ],
)
def test_an_expression_is_ended_by_the_time_limit_whatever_asks_for_it(command: dict[str, Any], indexed: bool) -> None:
    """What is mostly answered in one step, too."""

    async def scenario() -> None:
        node = await _filled()
        if indexed:
            await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]})
        began = monotonic()
        reply = await node.reply({**command, "maxTimeMS": 200})
        assert (reply.get("code") or reply["writeErrors"][0]["code"]) == 50
        assert monotonic() - began < 5
        assert (await node.reply({"find": "c"}))["cursor"]["firstBatch"] == [{"_id": 1, "a": 1}]

    asyncio.run(scenario())


def test_an_update_is_ended_by_its_time_limit_and_leaves_the_document() -> None:
    async def scenario() -> None:
        node = await _filled()
        endless = {"$size": {"$map": {"input": HUGE, "in": {"$size": HUGE}}}}
        update = {"q": {"_id": 1}, "u": [{"$set": {"r": endless}}]}
        reply = await node.reply({"update": "c", "updates": [update], "maxTimeMS": 200})
        assert reply["writeErrors"][0]["code"] == 50
        assert (await node.reply({"find": "c"}))["cursor"]["firstBatch"] == [{"_id": 1, "a": 1}]

    asyncio.run(scenario())


def test_the_memory_of_an_evaluation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "MEMORY_BYTES", 50 * 1024 * 1024)

    async def scenario() -> None:
        node = await _filled()
        # What earlier tests have freed would be used again, and nothing grow.
        give_back()
        object.__setattr__(node.services, "memory", resident_bytes)
        held = {f"v{number}": {"$range": [0, {"$multiply": ["$a", 1_000_000]}]} for number in range(20)}
        reply = await node.reply(_sized({"$let": {"vars": held, "in": ["$$v1"]}}))
        assert reply["code"] == 146

    asyncio.run(scenario())


def test_others_run_while_a_later_batch_is_evaluated() -> None:
    async def scenario() -> None:
        node = LocalNode(pauses=True)
        await node.run({"insert": "c", "documents": [{"_id": number, "a": 1} for number in range(3)]})
        doubled = {
            "$size": {"$map": {"input": {"$range": [0, {"$multiply": ["$a", 300_000]}]}, "in": {"$add": [1, "$a"]}}}
        }
        pipeline = [{"$project": {"n": doubled}}]
        opened = await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 0}})
        cursor = opened["cursor"]
        assert cursor["firstBatch"] == []
        later = asyncio.create_task(node.run({"getMore": Int64(cursor["id"]), "collection": "c"}))
        turns = 0
        while not later.done():
            await asyncio.sleep(0)
            turns += 1
        assert (await later)["cursor"]["nextBatch"] == [{"_id": number, "n": 300_000} for number in range(3)]
        assert turns > 10

    asyncio.run(scenario())


def test_what_is_copied_out_of_a_document_counts_before_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "MEMORY_BYTES", 50 * 1024 * 1024)

    async def scenario() -> None:
        node = await _filled()
        await node.reply({"insert": "c", "documents": [{"_id": 2, "a": 1, "s": "x" * 10_000_000}]})
        seen: list[int] = []

        def none() -> int:
            seen.append(0)
            return 0

        object.__setattr__(node.services, "memory", none)
        sized = _sized([["$s"] * 4])
        sized["pipeline"].insert(0, {"$match": {"_id": 2}})
        assert (await node.reply(sized))["cursor"]["firstBatch"] == [{"_id": 2, "n": 4}]
        assert len(seen) >= 4
        monkeypatch.setattr(supervision, "MEMORY_BYTES", 9_000_000)
        assert (await node.reply(sized))["code"] == 146

    asyncio.run(scenario())
