"""A validator that takes long holds nobody up: others run meanwhile, killOp ends the write, and its verdict counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

FIELDS = {f"f{number}": 1 for number in range(5_000)}
MANY_BRANCHES = {"$or": [*({f"g{number}": 1} for number in range(2_000)), {"good": 1}]}
"""Slow on a document of many fields."""
_NUMBERS = {"$range": [0, {"$multiply": ["$good", 200_000]}]}
EXPENSIVE = {"$and": [{"good": 1}, {"$expr": {"$gte": [{"$sum": _NUMBERS}, 0]}}]}
"""Slow on any document that is good."""
VALIDATORS = {"many branches": MANY_BRANCHES, "expensive": EXPENSIVE}
GOOD, BAD = {**FIELDS, "good": 1}, {**FIELDS, "good": 0}


async def guarded(validator: dict[str, Any], **options: Any) -> LocalNode:
    """A node with a collection of one good document and a counter in another collection."""
    node = LocalNode(pauses=True, replicated=True)
    await node.run({"create": "c"})
    await node.run({"insert": "c", "documents": [{"_id": 1, **GOOD}]})
    await node.run({"collMod": "c", "validator": validator, **options})
    await node.run({"insert": "other", "documents": [{"_id": 1, "n": 0}]})
    return node


async def beside(node: LocalNode, command: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """(the reply, how often another command was run meanwhile)"""
    long = asyncio.create_task(node.reply(command))
    turns = 0
    while not long.done():
        await node.run({"update": "other", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]})
        turns += 1
        await asyncio.sleep(0)
    return await long, turns


def insert(*documents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"insert": "c", "documents": list(documents), **more}


def update(condition: dict[str, Any], change: dict[str, Any] | list[Any], **more: Any) -> dict[str, Any]:
    return {"update": "c", "updates": [{"q": condition, "u": change, **more}]}


def change(**more: Any) -> dict[str, Any]:
    return {"findAndModify": "c", "fields": {"_id": 1}, **more}


WRITES: dict[str, dict[str, Any]] = {
    "insert": insert({"_id": 2, **GOOD}),
    "insert of several": insert(*({"_id": number, **GOOD} for number in range(2, 6))),
    "update": update({"_id": 1}, {"$set": {"x": 1}}),
    "update by a scan": update({"good": 1}, {"$set": {"x": 1}}),
    "update of many": update({"good": 1}, {"$set": {"x": 1}}, multi=True),
    "update by a pipeline": update({"_id": 1}, [{"$set": {"x": 1}}]),
    "replacement": update({"_id": 1}, {**GOOD, "x": 1}),
    "upsert": update({"_id": 2}, {"$set": GOOD}, upsert=True),
    "statements together": {
        "update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 1}}} for _ in range(3)],
    },
    "findAndModify": change(query={"_id": 1}, update={"$set": {"x": 1}}),
    "findAndModify by a scan": change(query={"good": 1}, update={"$set": {"x": 1}}),
    "findAndModify that inserts": change(query={"_id": 2}, update={"$set": GOOD}, upsert=True),
}  # fmt: skip


@pytest.mark.parametrize("validator", VALIDATORS)
@pytest.mark.parametrize("write", WRITES)
def test_others_run_while_a_document_is_validated(write: str, validator: str) -> None:
    async def work() -> None:
        node = await guarded(VALIDATORS[validator])
        reply, turns = await beside(node, WRITES[write])
        assert reply["ok"] == 1, reply
        assert "writeErrors" not in reply, reply
        assert turns > 3
        assert (await node.documents("other"))[0]["n"] == turns
        found = await node.documents("c")
        if write == "insert of several":
            assert [row["_id"] for row in found] == [1, 2, 3, 4, 5]
        elif write == "statements together":
            assert (reply["n"], found[0]["x"]) == (3, 3)
        elif write in ("insert", "upsert", "findAndModify that inserts"):
            assert len(found) == 2
        else:
            assert found[0]["x"] == 1
        assert (await node.run({"validate": "c"}))["valid"]

    loop(work())


REFUSED: dict[str, dict[str, Any]] = {
    "insert": insert({"_id": 2, **BAD}),
    "update": update({"_id": 1}, {"$set": {"good": 0}}),
    "update by a scan": update({"good": 1}, {"$set": {"good": 0}}, multi=True),
    "upsert": update({"_id": 2}, {"$set": BAD}, upsert=True),
    "findAndModify": change(query={"_id": 1}, update={"$set": {"good": 0}}),
    "findAndModify that inserts": change(query={"_id": 2}, update={"$set": BAD}, upsert=True),
}


@pytest.mark.parametrize("write", REFUSED)
def test_what_is_not_valid_is_refused_however_long_it_takes(write: str) -> None:
    async def work() -> None:
        node = await guarded(MANY_BRANCHES)
        before = await node.documents("c")
        reply, turns = await beside(node, REFUSED[write])
        code = reply["writeErrors"][0]["code"] if reply["ok"] else reply["code"]
        assert code == Code.DocumentValidationFailure
        assert turns > 3
        assert await node.documents("c") == before

    loop(work())


@pytest.mark.parametrize(("ordered", "stored"), [(True, [1, 2]), (False, [1, 2, 4])])
def test_of_several_documents_those_that_are_valid_are_inserted(ordered: bool, stored: list[int]) -> None:
    async def work() -> None:
        node = await guarded(MANY_BRANCHES)
        documents = [{"_id": 2, **GOOD}, {"_id": 3, **BAD}, {"_id": 4, **GOOD}]
        reply, _ = await beside(node, insert(*documents, ordered=ordered))
        assert (reply["n"], [row["index"] for row in reply["writeErrors"]]) == (len(stored) - 1, [1])
        assert [row["_id"] for row in await node.documents("c")] == stored

    loop(work())


def test_what_was_not_valid_before_may_stay_so_where_the_level_is_moderate() -> None:
    async def work() -> None:
        node = await guarded({"$or": [{f"g{number}": 1} for number in range(2_000)]}, validationLevel="moderate")
        reply, turns = await beside(node, update({"_id": 1}, {"$set": {"x": 1}}))
        assert (reply["ok"], reply["nModified"]) == (1, 1)
        assert turns > 3

    loop(work())


def test_a_validator_that_is_replaced_meanwhile_counts() -> None:
    async def work() -> None:
        node = await guarded(MANY_BRANCHES)
        long = asyncio.create_task(node.reply(insert(*({"_id": number, **GOOD} for number in range(2, 8)))))
        turns = 0
        while not long.done():
            if turns == 2:
                await node.run({"collMod": "c", "validator": {"good": 2}})
            turns += 1
            await asyncio.sleep(0)
        assert turns > 2
        reply = await long
        assert reply["writeErrors"][0]["code"] == Code.DocumentValidationFailure

    loop(work())


@pytest.mark.parametrize("write", ["insert", "update", "findAndModify"])
def test_a_write_is_killed_while_a_document_is_validated(write: str) -> None:
    async def work() -> None:
        node = await guarded({"$or": [*MANY_BRANCHES["$or"][:-1]] * 30 + [{"good": 1}]})
        before = await node.documents("c")
        long = asyncio.create_task(node.reply(WRITES[write] | {"comment": "slow"}))
        killed = 0
        while not long.done():
            if not killed:
                running = (await node.run({"currentOp": 1, "command.comment": "slow"}, "admin"))["inprog"]
                for operation in running:
                    await node.run({"killOp": 1, "op": operation["opid"]}, "admin")
                    killed += 1
            await asyncio.sleep(0)
        reply = await long
        code = reply["writeErrors"][0]["code"] if reply["ok"] else reply["code"]
        assert code == Code.Interrupted
        assert await node.documents("c") == before

    loop(work())
