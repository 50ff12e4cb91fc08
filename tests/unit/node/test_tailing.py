"""Tailing cursors on capped collections, on a node in memory."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from docstore.errors import Code
from tests.harness.undoing import roll_back
from tests.unit.node.local import LocalNode, loop

TAIL = {"find": "c", "tailable": True}


async def capped(*documents: dict[str, Any], maximum: int = 4) -> LocalNode:
    node = LocalNode()
    await node.run({"create": "c", "capped": True, "size": 4096, "max": maximum})
    if documents:
        await node.insert("c", *documents)
    return node


def get_more(opened: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"getMore": opened["id"], "collection": "c", **options}


async def open_tail(node: LocalNode, **options: Any) -> dict[str, Any]:
    cursor: dict[str, Any] = (await node.run(TAIL | options))["cursor"]
    return cursor


def test_a_tail_gives_what_stands_and_then_what_comes() -> None:
    async def work() -> None:
        node = await capped({"_id": 1}, {"_id": 2})
        opened = await open_tail(node)
        assert opened["firstBatch"] == [{"_id": 1}, {"_id": 2}]
        assert (await node.run(get_more(opened)))["cursor"]["nextBatch"] == []
        await node.insert("c", {"_id": 3})
        again = (await node.run(get_more(opened)))["cursor"]
        assert (again["nextBatch"], again["id"]) == ([{"_id": 3}], opened["id"])

    loop(work())


def test_a_tail_on_an_empty_collection_is_dead_but_one_that_matches_nothing_waits() -> None:
    async def work() -> None:
        node = await capped()
        assert (await open_tail(node))["id"] == 0
        await node.insert("c", {"_id": 1})
        assert (await open_tail(node, filter={"_id": 9}))["id"] != 0

    loop(work())


def test_skip_and_limit_count_over_batches() -> None:
    async def work() -> None:
        node = await capped({"_id": 1}, {"_id": 2}, {"_id": 3})
        opened = await open_tail(node, skip=1, limit=2, batchSize=1)
        assert opened["firstBatch"] == [{"_id": 2}]
        again = (await node.run(get_more(opened)))["cursor"]
        assert again["nextBatch"] == [{"_id": 3}]
        await node.insert("c", {"_id": 4})
        assert (await node.run(get_more(opened)))["cursor"]["nextBatch"] == []

    loop(work())


def test_an_awaiting_tail_wakes_with_the_insert() -> None:
    async def work() -> None:
        node = await capped({"_id": 1})
        opened = await open_tail(node, awaitData=True)
        waiting = asyncio.ensure_future(node.run(get_more(opened, maxTimeMS=30_000)))
        while not node.node.store.has_listeners:
            await asyncio.sleep(0)
        await node.insert("c", {"_id": 2})
        assert (await waiting)["cursor"]["nextBatch"] == [{"_id": 2}]
        assert not node.node.store.has_listeners

    loop(work())


def test_an_awaiting_tail_answers_when_its_time_is_up() -> None:
    async def work() -> None:
        node = await capped({"_id": 1})
        opened = await open_tail(node, awaitData=True)
        for limit in (0, 1):
            again = (await node.run(get_more(opened, maxTimeMS=limit)))["cursor"]
            assert (again["nextBatch"], again["id"]) == ([], opened["id"])

    loop(work())


@pytest.mark.parametrize("limit", [0, 1])
def test_a_cursor_that_awaits_no_data_takes_no_time_limit_and_stays_open(limit: int) -> None:
    async def work() -> None:
        node = await capped({"_id": 1}, {"_id": 2})
        for options in ({"tailable": False}, {"awaitData": False}):
            opened = await open_tail(node, batchSize=1, **options)
            assert (await node.reply(get_more(opened, maxTimeMS=limit)))["code"] == Code.BadValue
            assert (await node.run(get_more(opened)))["cursor"]["nextBatch"] == [{"_id": 2}]

    loop(work())


def test_a_tail_whose_place_was_overwritten_ends() -> None:
    async def work() -> None:
        node = await capped({"_id": 1}, {"_id": 2})
        opened = await open_tail(node, batchSize=1)
        await node.insert("c", *({"_id": number} for number in range(3, 9)))
        assert (await node.reply(get_more(opened)))["code"] == Code.CappedPositionLost
        assert (await node.reply(get_more(opened)))["code"] == Code.CursorNotFound

    loop(work())


def test_a_tail_ends_with_its_collection() -> None:
    async def work() -> None:
        node = await capped({"_id": 1})
        opened = await open_tail(node, awaitData=True)
        waiting = asyncio.ensure_future(node.reply(get_more(opened, maxTimeMS=30_000)))
        while not node.node.store.has_listeners:
            await asyncio.sleep(0)
        await node.run({"drop": "c"})
        assert (await waiting)["code"] == Code.QueryPlanKilled

    loop(work())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"sort": {"_id": 1}}, 2),
        ({"sort": {"$natural": -1}}, 2),
        ({"singleBatch": True}, 2),
        ({"tailable": False, "awaitData": True}, 9),
        ({"find": "plain"}, 2),
    ],
)
def test_what_cannot_be_tailed_is_refused(options: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = await capped({"_id": 1})
        await node.run({"create": "plain"})
        assert (await node.reply(TAIL | options))["code"] == code
        assert (await node.run(TAIL | {"find": "nosuch"}))["cursor"]["id"] == 0

    loop(work())


def test_a_tail_answers_however_slowly_it_is_read() -> None:
    """Each look at the end of the log may take longer than a slice."""

    async def work() -> None:
        node = await capped({"_id": 1}, {"_id": 2})
        ticks = itertools.count(1000)
        node.node.clock = lambda: float(next(ticks))
        opened = await open_tail(node)
        assert opened["firstBatch"] == [{"_id": 1}, {"_id": 2}]
        assert (await node.run(get_more(opened)))["cursor"]["nextBatch"] == []

    loop(work())


def test_a_tail_on_the_oplog_ends_when_entries_are_undone() -> None:
    """What comes instead may have lower timestamps than the tail has seen: it would skip them."""

    async def work() -> None:
        node = LocalNode(replicated=True)
        await node.insert("c", {"_id": 1})
        store = node.node.store
        common = store.last_optime
        await node.insert("c", {"_id": 2}, {"_id": 3})
        tail = {"find": "oplog.rs", "tailable": True, "batchSize": 100}
        opened = (await node.run(tail, "local"))["cursor"]
        roll_back(store, common)
        await node.insert("c", {"_id": 4})
        lost = await node.reply({"getMore": opened["id"], "collection": "oplog.rs"}, "local")
        assert lost["code"] == Code.CappedPositionLost

    loop(work())
