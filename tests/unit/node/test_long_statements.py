"""Statements that are long, or are about large documents, let others run, and lose nothing of what these do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.node.local import LocalNode, loop

_LONG = {"$or": [{"x": number, "y": {"$gte": 0}} for number in range(10_000)]}
"""Takes a while to parse and to plan."""
_LARGE = list(range(50_000))
_CHANGE = {"$push": {"a": -1}, "$inc": {"m": 1}}


async def _beside(node: LocalNode, command: dict[str, Any], other: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """(the reply, how often the other command was run meanwhile)"""
    long = asyncio.create_task(node.run(command))
    turns = 0
    while not long.done():
        await node.run(other)
        turns += 1
        await asyncio.sleep(0)
    return await long, turns


def _find_and_modify(**more: Any) -> dict[str, Any]:
    return {"findAndModify": "c", "fields": {"_id": 1}, **more}


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        {"update": "c", "updates": [{"q": _LONG, "u": {"$inc": {"m": 1}}}]},
        {"update": "c", "updates": [{"q": _LONG, "u": {"$inc": {"m": 1}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": _LONG, "limit": 1}]},
        {"delete": "c", "deletes": [{"q": _LONG, "limit": 0}]},
        _find_and_modify(query=_LONG, update={"$inc": {"m": 1}}),
        _find_and_modify(query=_LONG, remove=True),
        {"count": "c", "query": _LONG},
        {"explain": {"count": "c", "query": _LONG}, "verbosity": "executionStats"},
        {"explain": {"find": "c", "filter": _LONG}, "verbosity": "queryPlanner"},
    ],
)
def test_others_run_while_a_long_filter_is_parsed_and_planned(command: dict[str, Any], indexed: bool) -> None:
    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}] if indexed else [_OTHER]})
        await node.run({"insert": "c", "documents": [{"_id": 1, "x": 1, "y": 0, "n": 0, "m": 0}]})
        other = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
        reply, turns = await _beside(node, command, other)
        assert turns > 3
        if "explain" in command:
            return
        assert reply.get("n", reply.get("lastErrorObject", {}).get("n")) == 1
        found = (await node.run({"find": "c", "filter": {"_id": 1}}))["cursor"]["firstBatch"]
        if "delete" in command or command.get("remove"):
            assert found == []
        else:
            assert found[0]["m"] == ("count" not in command)
            assert found[0]["n"] == turns

    loop(work())


_OTHER = {"key": {"z": 1}, "name": "z_1"}


def test_a_document_that_meets_the_index_of_a_plan_with_its_first_array_is_found() -> None:
    """What others write while a statement is planned may take from the plan what it was made of."""
    between = {"x": {"$gt": 4, "$lt": 6}, "z": {"$in": list(range(50_000))}}

    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]})
        await node.run({"insert": "c", "documents": [{"_id": 1, "x": 5, "z": 1}]})
        long = asyncio.create_task(node.run({"delete": "c", "deletes": [{"q": between, "limit": 0}]}))
        turns = 0
        while not long.done():
            if turns == 2:
                await node.run({"insert": "c", "documents": [{"_id": 2, "x": [0, 10], "z": 1}]})
            turns += 1
            await asyncio.sleep(0)
        assert turns > 3
        assert (await long)["n"] == 2

    loop(work())


@pytest.mark.parametrize(
    ("command", "stays"),
    [
        ({"update": "c", "updates": [{"q": {"_id": 1}, "u": _CHANGE}]}, True),
        ({"update": "c", "updates": [{"q": {"s": "x"}, "u": _CHANGE, "multi": True}]}, True),
        ({"update": "c", "updates": [{"q": {"_id": 2}, "u": _CHANGE}, {"q": {"_id": 1}, "u": _CHANGE}]}, True),
        (_find_and_modify(query={"_id": 1}, update=_CHANGE), True),
        (_find_and_modify(query={"s": "x"}, update=_CHANGE), True),
        ({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, False),
        ({"delete": "c", "deletes": [{"q": {"s": "x"}, "limit": 0}]}, False),
        (_find_and_modify(query={"_id": 1}, remove=True), False),
    ],
)
def test_others_run_while_a_large_document_is_changed_by_a_small_statement(
    command: dict[str, Any], stays: bool
) -> None:
    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]})
        rows = [{"_id": 1, "n": 0, "m": 0, "s": "x", "a": _LARGE}, {"_id": 2, "a": []}]
        await node.run({"insert": "c", "documents": rows})
        other = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
        _, turns = await _beside(node, command, other)
        assert turns > 3
        found = (await node.run({"find": "c", "filter": {"_id": 1}}))["cursor"]["firstBatch"]
        assert [(row["m"], row["n"], len(row["a"])) for row in found] == [(1, turns, len(_LARGE) + 1)] * stays
        checked = await node.run({"validate": "c"})
        assert checked["valid"], checked

    loop(work())


_WORK = {"$reduce": {"input": {"$range": [0, 20_000]}, "initialValue": 0, "in": {"$add": ["$$value", "$y"]}}}
"""Takes tens of milliseconds for a document, and gives 0."""
_ADD = [{"$set": {"m": {"$add": ["$m", 1, _WORK]}}}]
_TEST = {"$expr": {"$eq": [_WORK, 0]}}


@pytest.mark.parametrize(
    "command",
    [
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": _ADD}]},
        {"update": "c", "updates": [{"q": {"x": 1}, "u": _ADD}]},
        {"update": "c", "updates": [{"q": {"x": 1}, "u": _ADD, "multi": True}]},
        {"update": "c", "updates": [{"q": _TEST, "u": {"$inc": {"m": 1}}, "multi": True}]},
        {"delete": "c", "deletes": [{"q": _TEST, "limit": 1}]},
        {"delete": "c", "deletes": [{"q": _TEST, "limit": 0}]},
        _find_and_modify(query={"_id": 1}, update=_ADD),
        _find_and_modify(query=_TEST, update={"$inc": {"m": 1}}),
        _find_and_modify(query=_TEST, remove=True),
    ],
    ids=str,
)
def test_others_run_while_a_small_document_is_worked_on_for_long(command: dict[str, Any]) -> None:
    """They change it meanwhile, and nothing of that is lost."""

    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"insert": "c", "documents": [{"_id": 1, "x": 1, "y": 0, "n": 0, "m": 0}]})
        other = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
        reply, turns = await _beside(node, command, other)
        assert turns > 3
        assert reply.get("n", reply.get("lastErrorObject", {}).get("n")) == 1
        found = (await node.run({"find": "c", "filter": {"_id": 1}}))["cursor"]["firstBatch"]
        if "delete" in command or command.get("remove"):
            assert found == []
        else:
            assert [(row["m"], row["n"]) for row in found] == [(1, turns)]

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": {"$expr": {"$gt": [{"$size": {"$range": [0, 1_000_000]}}, 1]}}},
        {"count": "c", "query": {"$expr": {"$gt": [{"$size": {"$range": [0, 1_000_000]}}, 1]}}},
        {"find": "c", "projection": {"n": {"$size": {"$range": [0, 1_000_000]}}}},
        {"delete": "c", "deletes": [{"q": {"$expr": {"$lt": [{"$size": {"$range": [0, 1_000_000]}}, 1]}}, "limit": 1}]},
    ],
    ids=str,
)
def test_others_run_while_a_short_request_makes_a_long_range(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"insert": "c", "documents": [{"_id": 1}]})
        _, turns = await _beside(node, command, {"ping": 1})
        assert turns > 10

    loop(work())


_HUGE = list(range(150_000))
"""More than half a megabyte."""


@pytest.mark.parametrize(
    ("key", "entries"), [({"a": 1}, 150_000), ({"s": 1, "a": -1}, 150_000), ({"$**": 1}, 150_003)], ids=str
)
def test_others_run_while_an_index_over_a_large_document_is_built(key: dict[str, Any], entries: int) -> None:
    """What they change of it stands."""

    async def work() -> None:
        node = LocalNode(pauses=True)
        rows = [{"_id": 1, "n": 0, "s": "x", "a": _HUGE}, {"_id": 2, "n": 0, "a": []}]
        await node.run({"insert": "c", "documents": rows})
        command = {"createIndexes": "c", "indexes": [{"key": key, "name": "i"}]}
        change = {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}, "$pop": {"a": 1}}}]}
        built, turns = asyncio.create_task(node.run(command)), 0
        await asyncio.sleep(0)
        changed = asyncio.create_task(node.run(change))
        while not built.done():
            await node.run({"ping": 1})
            turns += 1
            await asyncio.sleep(0)
        assert turns > 10
        await asyncio.gather(built, changed)
        checked = await node.run({"validate": "c"})
        assert checked["valid"], checked
        assert checked["keysPerIndex"]["i"] == entries

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": _CHANGE}]},
        {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"a.$[]": 1}}}]},
        _find_and_modify(query={"_id": 1}, update={"$addToSet": {"a": -1}}),
        {"distinct": "c", "key": "a"},
        {"aggregate": "c", "pipeline": [{"$bucket": {"groupBy": "$n", "boundaries": _HUGE}}], "cursor": {}},
    ],
)
def test_others_run_while_a_document_without_indexes_is_changed_or_looked_through(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode(pauses=True)
        await node.run({"insert": "c", "documents": [{"_id": 1, "n": 0, "a": _HUGE}]})
        await node.run({"insert": "o", "documents": [{"_id": 1, "n": 0}]})
        other = {"update": "o", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}
        _, turns = await _beside(node, command, other)
        assert turns > 3

    loop(work())
