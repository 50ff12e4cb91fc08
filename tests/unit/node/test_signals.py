"""Change streams that wait for news: answered by a call, without a task, where there is nothing else to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import bson
import pytest

from docstore.commands.dispatch import Pending
from docstore.errors import CommandError
from docstore.wire.message import Message
from tests.unit.node.local import LocalNode, LonePrimary, loop
from tests.unit.node.streaming import Stream, kinds, member
from tests.unit.node.transactional import change


class Waiting:
    """A getMore that has begun, as a connection begins it."""

    def __init__(self, node: LocalNode, stream: Stream, **options: Any) -> None:
        command = {"getMore": bson.Int64(stream.cursor["id"]), "collection": "c", **options, "$db": "test"}
        outcome = node.dispatcher.handle(Message(1, 0, bson.encode(command), {}), node.peer)
        assert isinstance(outcome, Pending)
        self.pending = outcome
        self.told: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        assert outcome.relay is not None
        self.relay = outcome.relay
        assert self.relay.start(self.told.set_result)

    async def events(self) -> list[dict[str, Any]]:
        """What it is answered with, by a call."""
        result = await asyncio.wait_for(self.told, 5)
        assert result is not None, "it wants a task"
        raw = self.pending.answered(result)
        assert isinstance(raw, bytes)
        found: list[dict[str, Any]] = bson.decode(raw)["cursor"]["nextBatch"]
        return found


def of_a_node(work: Callable[[LocalNode, Stream], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        node = member()
        await node.insert("c", {"_id": 0})
        await work(node, await Stream(node).open(**options))
        assert not len(node.services.operations)
        assert not list(node.node.store.claims.keys)

    loop(run())


def test_a_change_is_told_by_a_call() -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        waiting = Waiting(node, stream)
        await node.insert("d", {"_id": 1})
        await asyncio.sleep(0.01)
        assert not waiting.told.done()
        await node.insert("c", {"_id": 1})
        assert kinds(await waiting.events()) == ["insert"]
        assert await stream.events() == []

    of_a_node(work)


def test_that_time_is_up_is_told_by_a_call_and_not_early() -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        began = node.node.clock()
        waiting = [Waiting(node, each, maxTimeMS=30) for each in (stream, await Stream(node).open())]
        assert [await each.events() for each in waiting] == [[], []]
        assert node.node.clock() >= began + 0.03

    of_a_node(work)


def test_what_has_to_be_looked_up_is_left_to_a_task() -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        waiting = Waiting(node, stream)
        await node.run(change(0))
        assert await waiting.told is None
        raw = await waiting.pending.finish()
        assert isinstance(raw, bytes)
        (event,) = bson.decode(raw)["cursor"]["nextBatch"]
        assert event["fullDocument"] == {"_id": 0, "n": 1}

    of_a_node(work, fullDocument="updateLookup")


def test_what_fails_is_told_by_the_task() -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        waiting = Waiting(node, stream)
        await node.run(change(0))
        assert await waiting.told is None
        raw = await waiting.pending.finish()
        assert isinstance(raw, bytes)
        assert bson.decode(raw)["code"] == 47
        assert (await stream.more())["code"] == 43, "the cursor has ended with it"

    of_a_node(work, fullDocument="required")


def test_one_that_is_killed_ends_its_cursor() -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        waiting = Waiting(node, stream)
        waiting.pending.operation.kill(CommandError(11601, "killed"))
        waiting.relay.cancel()
        waiting.pending.given_up()
        await node.insert("c", {"_id": 1})
        await asyncio.sleep(0.01)
        assert not waiting.told.done()
        assert (await stream.more())["code"] == 43

    of_a_node(work)


@pytest.mark.parametrize("ends", ["an event", "time"])
def test_what_is_written_is_committed_soon_while_a_stream_waits(ends: str) -> None:
    async def work(node: LocalNode, stream: Stream) -> None:
        assert isinstance(node.replication, LonePrimary)
        (awaits,) = node.replication.awaiting
        assert not awaits()
        waiting = Waiting(node, stream, maxTimeMS=20 if ends == "time" else 60_000)
        assert awaits()
        if ends == "an event":
            await node.insert("c", {"_id": 1})
        await waiting.events()
        assert not awaits()

    of_a_node(work)
