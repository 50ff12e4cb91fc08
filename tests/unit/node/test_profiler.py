"""The profiler on a node in memory: what is written down, and what is said about it."""

from __future__ import annotations

import json
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from docstore import log
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
        assert entries[2]["command"] == {"q": {}, "u": {"$set": {"b": 1}}, "multi": True, "upsert": False}
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


FIGURES = ("planSummary", "keysExamined", "docsExamined", "nreturned", "hasSortStage", "fromMultiPlanner")


def test_reads_say_what_their_plan_is_and_what_it_has_looked_at() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": i, "k": i % 10, "a": i, "z": i} for i in range(300)))
        indexes = [{"key": {"k": 1}, "name": "k_1"}, {"key": {"a": 1, "b": -1}, "name": "ab"}]
        await node.run({"createIndexes": "c", "indexes": indexes})
        # Kept plans are prepared before.
        await node.run({"find": "c", "filter": {"k": 5}})
        await node.run({"profile": 2})
        of_k = [{"$match": {"k": 3}}]
        expected: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
            ({"find": "c", "filter": {"_id": 5}}, ("IDHACK", 1, 1, 1)),
            ({"find": "c", "filter": {"k": 5}}, ("IXSCAN { k: 1 }", 30, 30, 30)),
            ({"find": "c", "filter": {"z": 5}}, ("COLLSCAN", 0, 300, 1)),
            ({"find": "c", "filter": {"z": {"$gt": 3}}, "sort": {"z": 1}, "limit": 5}, ("COLLSCAN", 0, 300, 5, True)),
            ({"find": "c", "filter": {"k": {"$in": [5, 6]}}, "projection": {"_id": 0, "k": 1}},
             ("IXSCAN { k: 1 }", 61, 0, 60)),
            ({"find": "c", "filter": {"$or": [{"k": 5}, {"a": 3}]}},
             ("IXSCAN { k: 1 }, IXSCAN { a: 1, b: -1 }", 31, 31, 31)),
            ({"find": "c", "filter": {"a": {"$gt": 7}, "k": 3}}, ("IXSCAN { k: 1 }", 30, 30, 29, None, True)),
            ({"find": "c", "sort": {"_id": -1}, "limit": 2}, ("IXSCAN { _id: 1 }", 2, 2, 2)),
            ({"find": "none", "filter": {"z": 5}}, ("EOF", 0, 0, 0)),
            ({"aggregate": "c", "pipeline": [*of_k, {"$group": {"_id": "$z"}}], "cursor": {}},
             ("IXSCAN { k: 1 }", 30, 30, 30)),
            ({"aggregate": "c", "pipeline": [*of_k, {"$sort": {"z": 1}}], "cursor": {}},
             ("IXSCAN { k: 1 }", 30, 30, 30, True)),
            ({"aggregate": "c", "pipeline": [{"$group": {"_id": "$k"}}], "cursor": {}},
             ("DISTINCT_SCAN { k: 1 }", 10, 0, 10)),
            ({"aggregate": "c", "pipeline": [*of_k, {"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}},
             ("COUNT_SCAN { k: 1 }", 31, 0, 1)),
            ({"count": "c", "query": {"k": 3}}, ("COUNT_SCAN { k: 1 }", 31, 0)),
            ({"count": "c", "query": {"z": 3}}, ("COLLSCAN", 0, 300)),
            ({"count": "c"}, ("RECORD_STORE_FAST_COUNT", 0, 0)),
            ({"distinct": "c", "key": "k"}, ("DISTINCT_SCAN { k: 1 }", 10, 0)),
            ({"distinct": "c", "key": "z", "query": {"z": {"$gt": 100}}}, ("COLLSCAN", 0, 300)),
        ]  # fmt: skip
        for command, _ in expected:
            await node.run(command)
        await node.run({"profile": 0})
        entries = await node.documents("system.profile")
        for entry, (command, figures) in zip(entries, expected, strict=True):
            wanted = figures + (None,) * (len(FIGURES) - len(figures))
            assert tuple(map(entry.get, FIGURES)) == wanted, command

    loop(work())


def test_a_batch_says_what_it_has_looked_at_itself_and_what_opened_its_cursor() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": i} for i in range(30)))
        await node.run({"profile": 2})
        batches = ({"find": "c", "batchSize": 20}, {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 20}})
        for command in batches:
            cursor = (await node.run(command))["cursor"]["id"]
            await node.run({"getMore": cursor, "collection": "c"})
            first, second = (await node.documents("system.profile"))[-2:]
            assert [each["planSummary"] for each in (first, second)] == ["COLLSCAN", "COLLSCAN"]
            assert [each["docsExamined"] for each in (first, second)] == [20, 10]
            assert [each["nreturned"] for each in (first, second)] == [20, 10]
            assert [each["cursorid"] for each in (first, second)] == [cursor, cursor]
            assert ("cursorExhausted" in first, second["cursorExhausted"]) == (False, True)
            assert command.items() <= second["originatingCommand"].items()
        await node.run({"profile": 0})

    loop(work())


def test_entries_have_the_comment_of_the_request_or_of_what_opened_its_cursor() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": i} for i in range(30)))
        await node.run({"profile": 2})
        await node.run({**_update({"q": {"_id": 3}, "u": {"$set": {"q": 1}}}), "comment": "a"})
        await node.run({**_delete({"q": {"_id": 3}, "limit": 1}), "comment": "b"})
        cursor = (await node.run({"find": "c", "batchSize": 2, "comment": "c"}))["cursor"]["id"]
        await node.run({"getMore": cursor, "collection": "c", "batchSize": 2})
        await node.run({"getMore": cursor, "collection": "c", "batchSize": 2, "comment": "d"})
        await node.run({"profile": 0})
        entries = await node.documents("system.profile")
        assert [entry["command"]["comment"] for entry in entries] == ["a", "b", "c", "c", "d"]

    loop(work())


WRITTEN = (
    "planSummary", "keysExamined", "docsExamined", "nMatched", "nModified", "nUpserted", "ndeleted", "hasSortStage",
)  # fmt: skip


def _update(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"update": "c", "updates": list(statements)}


def _delete(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"delete": "c", "deletes": list(statements)}


def test_writes_say_what_their_search_has_looked_at() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": i, "k": i % 10, "z": i} for i in range(300)))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k_1"}]})
        await node.run({"profile": 2})
        of_k = "IXSCAN { k: 1 }"
        set_q = {"$set": {"q": 1}}
        expected: list[tuple[dict[str, Any], tuple[Any, ...]]] = [
            (_update({"q": {"_id": 3}, "u": set_q}), ("IDHACK", 1, 1, 1, 1, 0)),
            (_update({"q": {"_id": 3}, "u": set_q}), ("IDHACK", 1, 1, 1, 0, 0)),
            (_update({"q": {"k": 3}, "u": {"$inc": {"k": 1}}, "multi": True}), (of_k, 30, 30, 30, 30, 0)),
            (_update({"q": {"z": 3}, "u": {"$inc": {"k": 1}}, "multi": True}), ("COLLSCAN", 0, 300, 1, 1, 0)),
            (_update({"q": {"_id": 3000}, "u": set_q, "upsert": True}), ("IDHACK", 0, 0, 0, 0, 1)),
            (_update({"q": {"k": 0}, "u": {"y": 1}}), (of_k, 1, 1, 1, 1, 0)),
            (_update({"q": {"_id": 5}, "u": set_q}, {"q": {"k": 1}, "u": set_q, "multi": True}),
             ("IDHACK", 31, 31, 31, 31, 0)),
            (_delete({"q": {"_id": 3}, "limit": 1}), ("IDHACK", 1, 1, None, None, None, 1)),
            (_delete({"q": {"k": 8}, "limit": 0}), (of_k, 30, 30, None, None, None, 30)),
            (_delete({"q": {"z": 17}, "limit": 0}), ("COLLSCAN", 0, 270, None, None, None, 1)),
            ({"findAndModify": "c", "query": {"_id": 10}, "update": set_q}, ("IDHACK", 1, 1, 1, 1, 0)),
            ({"findAndModify": "c", "query": {"k": 7}, "sort": {"z": 1}, "update": set_q},
             (of_k, 29, 29, 1, 1, 0, None, True)),
            ({"findAndModify": "c", "query": {"_id": 11}, "remove": True}, ("IDHACK", 1, 1, None, None, None, 1)),
            ({"findAndModify": "c", "query": {"_id": 1100}, "update": set_q, "upsert": True},
             ("IDHACK", 0, 0, 0, 0, 1)),
            ({"findAndModify": "c", "query": {"z": -1}, "update": set_q}, ("COLLSCAN", 0, 269, 0, 0, 0)),
        ]  # fmt: skip
        for command, _ in expected:
            await node.run(command)
        await node.run({"profile": 0})
        entries = await node.documents("system.profile")
        for entry, (command, figures) in zip(entries, expected, strict=True):
            wanted = figures + (None,) * (len(WRITTEN) - len(figures))
            assert tuple(map(entry.get, WRITTEN)) == wanted, command

    loop(work())


def test_a_statement_that_fails_is_written_down_with_its_error() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        await node.run({"profile": 2})
        await node.reply(_update({"q": {"_id": 1}, "u": {"$set": {"_id": 2}}}))
        await node.reply(_update({"q": 5, "u": {}}))
        await node.run({"profile": 0})
        refused, unread = await node.documents("system.profile")
        assert (refused["ok"], refused["errCode"], refused["errName"]) == (0.0, 66, "ImmutableField")
        assert refused["planSummary"] == "IDHACK"
        assert "nMatched" not in refused
        assert (unread["errName"], unread["command"]["update"]) == ("TypeMismatch", "c")

    loop(work())


def test_a_slow_request_is_logged_with_what_its_plan_has_looked_at() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *({"_id": i, "k": i} for i in range(30)))
        await node.run({"createIndexes": "c", "indexes": [{"key": {"k": 1}, "name": "k_1"}]})
        node.dispatcher.services.switches.slow_ms = 0
        # Of what a prepared scan answers no plan is logged; with variables none does.
        planned = {"find": "c", "let": {"a": 1}}
        await node.run({**planned, "filter": {"k": {"$gte": 20}}, "hint": "k_1"})
        await node.run({**planned, "hint": {"$natural": 1}})
        more = (await node.run({**planned, "hint": "k_1", "batchSize": 9}))["cursor"]["id"]
        await node.run({"getMore": more, "collection": "c"})
        await node.run(_update({"q": {"k": {"$lt": 4}}, "u": {"$set": {"q": 1}}, "multi": True, "hint": "k_1"}))
        await node.run(_delete({"q": {"k": {"$lt": 4}}, "limit": 0, "hint": "k_1"}))

    shown = slow_lines(work())
    by_index, whole, _, rest, updated, deleted = shown
    assert [by_index[name] for name in FIGURES[:4]] == ["IXSCAN { k: 1 }", 10, 10, 10]
    # What is scanned as a whole is counted only where it is profiled.
    assert (whole["planSummary"], "docsExamined" in whole) == ("COLLSCAN", False)
    # What was read ahead for the batch before is not looked at again.
    assert (rest["planSummary"], rest["nreturned"]) == ("IXSCAN { k: 1 }", 21)
    assert [updated[name] for name in ("planSummary", "nMatched", "nModified", "nUpserted")] == [
        "IXSCAN { k: 1 }", 4, 4, 0,
    ]  # fmt: skip
    assert (deleted["planSummary"], deleted["ndeleted"]) == ("IXSCAN { k: 1 }", 4)


def test_the_threshold_of_the_command_holds_for_the_log_too() -> None:
    async def find(threshold: int) -> None:
        node = LocalNode()
        await node.run({"profile": 0, "slowms": threshold})
        await node.run({"find": "c", "filter": {"a": 1}})
        assert (await node.run({"profile": -1}))["slowms"] == threshold

    assert [line["ns"] for line in slow_lines(find(0))] == ["test.$cmd", "test.c", "test.$cmd"]
    assert slow_lines(find(60_000)) == []


def slow_lines(work: Coroutine[Any, Any, None]) -> list[dict[str, Any]]:
    """Run `work`, and return the attributes of the lines "Slow query" that it logs."""
    lines = log.RecentLines()
    logger = logging.getLogger("docstore")
    level = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    try:
        loop(work)
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
    return [json.loads(line)["attr"] for line in lines.lines if '"Slow query"' in line]
