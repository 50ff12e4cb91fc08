"""Cursors on shards end with the request that opened them, however it ends."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from docstore.errors import Code, CommandError
from mongos.routing.cache import MAX_ATTEMPTS
from mongos.routing.scatter import Scatter
from tests.unit.mongos.local import LocalCluster, LocalShard
from tests.unit.node.local import loop

READS: list[dict[str, Any]] = [
    {"find": "c", "batchSize": 2},
    {"find": "c", "batchSize": 2, "sort": {"_id": -1}},
    {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$gte": 0}}}], "cursor": {"batchSize": 2}},
    {"find": "c", "batchSize": 2, "skip": 1, "limit": 100},
]


class Disturbed:
    """In the place of a shard's `command`: reads wait for `go`, then fail with `error`, or go on."""

    def __init__(self, shard: LocalShard, error: CommandError | None = None) -> None:
        shard.idle = False
        self._whole = shard.command
        self._error = error
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        shard.command = self.command  # type: ignore[method-assign]

    async def command(self, db: str, body: Any, **options: Any) -> Any:
        self.begun.set()
        await self.go.wait()
        if self._error is not None:
            raise self._error
        return await self._whole(db, body, **options)


async def filled() -> LocalCluster:
    cluster = LocalCluster()
    rows = [{"_id": number, "k": number % 20} for number in range(400)]
    assert (await cluster.reply({"insert": "c", "documents": rows}))["n"] == 400
    return cluster


async def none_left(*shards: LocalShard) -> None:
    async with asyncio.timeout(20):
        while any(len(shard.node.services.cursors) for shard in shards):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("read", READS)
def test_the_cursors_of_shards_that_answered_end_where_another_fails(read: dict[str, Any]) -> None:
    async def work() -> None:
        cluster = await filled()
        disturbed = Disturbed(cluster.b, CommandError(Code.StaleConfig, "stale"))
        asking = asyncio.ensure_future(cluster.reply(read))
        async with asyncio.timeout(20):
            while not len(cluster.a.node.services.cursors):
                await asyncio.sleep(0.01)
        disturbed.go.set()
        assert (await asking)["code"] == Code.StaleConfig
        await none_left(cluster.a)

    loop(work())


@pytest.mark.parametrize("read", READS)
def test_cursors_end_that_are_opened_after_the_client_has_gone(read: dict[str, Any]) -> None:
    async def work() -> None:
        cluster = await filled()
        disturbed = Disturbed(cluster.b)
        asking = asyncio.ensure_future(cluster.reply(read))
        await disturbed.begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        disturbed.go.set()
        await asyncio.sleep(0.05)
        await none_left(cluster.a, cluster.b)
        assert cluster.b.node.services.cursors.opened == 1

    loop(work())


class Held:
    """In the place of a shard's `send`: the answers to requests come when they are let go."""

    def __init__(self, shard: LocalShard) -> None:
        self._whole = shard.send
        self.go = asyncio.Event()
        self.begun = asyncio.Event()
        shard.send = self.send  # type: ignore[method-assign]

    def send(self, body: bytes, answered: Any, **options: Any) -> Any:
        async def later(reply: Any) -> None:
            await self.go.wait()
            answered(reply)

        self.begun.set()
        return self._whole(body, lambda reply: asyncio.ensure_future(later(reply)), **options)


@pytest.mark.parametrize("read", READS)
def test_the_cursors_of_shards_end_where_one_refuses_what_was_sent_to_all_at_once(read: dict[str, Any]) -> None:
    async def work() -> None:
        cluster = await filled()
        held = Held(cluster.a)
        cluster.b.answers = [{"ok": 0.0, "code": int(Code.StaleConfig), "errmsg": "stale"}] * MAX_ATTEMPTS
        asking = asyncio.ensure_future(cluster.reply(read))
        await held.begun.wait()
        async with asyncio.timeout(20):
            while not cluster.b.relayed:
                await asyncio.sleep(0)
        held.go.set()
        assert (await asking)["code"] == Code.StaleConfig
        await none_left(cluster.a)
        assert cluster.a.node.services.cursors.opened

    loop(work())


@pytest.mark.parametrize("read", READS)
def test_cursors_end_whose_answers_come_after_the_client_has_gone(read: dict[str, Any]) -> None:
    async def work() -> None:
        cluster = await filled()
        held = Held(cluster.b)
        asking = asyncio.ensure_future(cluster.reply(read))
        await held.begun.wait()
        async with asyncio.timeout(20):
            while not len(cluster.a.node.services.cursors):
                await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        held.go.set()
        async with asyncio.timeout(20):
            while not cluster.b.node.services.cursors.opened:
                await asyncio.sleep(0)
        await none_left(cluster.a, cluster.b)

    loop(work())


def test_a_connection_is_closed_over_which_nothing_comes_after_the_client_has_gone() -> None:
    async def work() -> None:
        closed = asyncio.Event()

        class Silent:
            name = "a"

            def send(self, _body: bytes, _answered: Any, **_: Any) -> Any:
                return "a:1", SimpleNamespace(close=closed.set)

        scatter = Scatter(lambda _: None, late_seconds=0.01)
        assert scatter.send(Silent(), b"")  # type: ignore[arg-type]
        scatter.give_up()
        async with asyncio.timeout(20):
            await closed.wait()

    loop(work())


def test_a_cursor_ends_at_once_while_its_next_batch_is_under_way() -> None:
    async def work() -> None:
        cluster = await filled()
        reply = await cluster.reply({"find": "c", "batchSize": 2})
        disturbed = Disturbed(cluster.b)
        disturbed.go.set()
        assert reply["cursor"]["id"] != 0
        await cluster.reply({"getMore": reply["cursor"]["id"], "collection": "c", "batchSize": 2})
        await cluster.reply({"killCursors": "c", "cursors": [reply["cursor"]["id"]]})
        await none_left(cluster.a, cluster.b)

    loop(work())
