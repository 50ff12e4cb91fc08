"""Requests that another process answers by a call: order, kills, clients that leave, and what is left for a task."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any

import bson
import pytest

from docstore.commands.operations.relay import Answered, Relay
from docstore.errors import Code, CommandError
from docstore.net import NetworkError, Pool
from docstore.wire.message import MORE_TO_COME, Message
from tests.harness.dispatching import command
from tests.harness.serving import LOOPBACK, BareClient, hello, run, serving, until
from tests.unit.net.test_connection import NUMBER, PING
from tests.unit.net.test_pool import ECHO, Slow


class Elsewhere(Relay):
    """Answers when the test says so. `begins`: whether it can be started without waiting."""

    def __init__(self, *, begins: bool = True) -> None:
        self.begins = begins
        self.answered: list[Answered] = []
        self.cancelled = 0
        self.awaited = 0

    def start(self, answered: Answered) -> bool:
        if self.begins:
            self.answered.append(answered)
        return self.begins

    def cancel(self) -> None:
        self.cancelled += 1

    def __await__(self) -> Generator[Any, Any, dict[str, Any]]:
        self.awaited += 1
        yield from asyncio.sleep(0).__await__()
        return {"by": "a task"}

    @property
    def commands(self) -> tuple[Any, ...]:
        return command("relay", lambda context, arguments: self, parameters=NUMBER), PING


BODY = bson.encode({"by": "a call"})


def test_an_answer_that_comes_by_a_call_keeps_its_place() -> None:
    async def scenario() -> None:
        relay = Elsewhere()
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.write(
                client.frame({"relay": 1}) + client.frame({"relay": 1}) + client.frame({"ping": 1, "n": 3})
            )
            for count in (1, 2):
                await until(lambda count=count: len(relay.answered) == count)
                assert len(listener.dispatcher.services.operations) == 1
                relay.answered[-1](BODY)
                assert not len(listener.dispatcher.services.operations) or count == 1
            replies = [bson.decode((await client.receive()).body) for _ in range(3)]
            assert [(reply.get("by"), reply["ok"]) for reply in replies] == [("a call", 1), ("a call", 1), (None, 1)]
            assert relay.awaited == 0
            await client.close()

    run(scenario())


@pytest.mark.parametrize("begins", [True, False])
def test_what_is_left_to_do_is_done_by_a_task(begins: bool) -> None:
    async def scenario() -> None:
        relay = Elsewhere(begins=begins)
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"relay": 1})
            if begins:
                await until(lambda: relay.answered)
                relay.answered[-1](None)
            assert bson.decode((await client.receive()).body)["by"] == "a task"
            assert (await client.ask({"ping": 1, "n": 1}))["ok"] == 1
            await client.close()

    run(scenario())


def test_a_request_that_wants_no_reply_is_waited_for_by_a_task() -> None:
    async def scenario() -> None:
        relay = Elsewhere()
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.write(client.frame({"relay": 1}, flags=MORE_TO_COME) + client.frame({"ping": 1, "n": 1}))
            assert bson.decode((await client.receive()).body)["n"] == 1
            assert (relay.awaited, relay.answered) == (1, [])
            await client.close()

    run(scenario())


def test_a_relay_that_is_killed_is_answered_at_once() -> None:
    async def scenario() -> None:
        relay = Elsewhere()
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"relay": 1})
            await until(lambda: relay.answered)
            operations = listener.dispatcher.services.operations
            assert operations.kill(next(iter(operations)).id)
            assert bson.decode((await client.receive()).body)["code"] == Code.Interrupted
            assert relay.cancelled == 1
            assert not len(operations)
            assert (await client.ask({"ping": 1, "n": 1}))["ok"] == 1
            await client.close()

    run(scenario())


def test_the_relay_of_a_client_that_left_is_cancelled() -> None:
    async def scenario() -> None:
        relay = Elsewhere()
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"relay": 1})
            await until(lambda: relay.answered)
            await client.close()
            await until(lambda: relay.cancelled)
            assert not len(listener.dispatcher.services.operations)

    run(scenario())


def test_stopping_ends_what_is_relayed() -> None:
    async def scenario() -> None:
        relay = Elsewhere()
        async with serving(*relay.commands) as listener:
            client = await BareClient.connect(listener)
            await client.send({"relay": 1})
            await until(lambda: relay.answered)
            await listener.stop(grace=0.1)
            assert bson.decode((await client.receive()).body)["code"] == Code.InterruptedAtShutdown
            assert relay.cancelled == 1
            await client.close()

    run(scenario())


def _request(n: int) -> bytes:
    return bson.encode({"echo": 1, "n": n, "$db": "test"})


def test_a_request_is_sent_over_an_idle_connection_that_carried_the_one_before() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), ECHO, command("slow", slow.run)) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            replies: list[Message | NetworkError] = []
            assert pool.send(address, _request(1), replies.append, timeout=1.0) is None
            waiting = [asyncio.ensure_future(pool.command(address, "test", {"slow": 1})) for _ in range(3)]
            await until(lambda: slow.running == 3)
            assert pool.send(address, _request(1), replies.append, timeout=1.0) is None
            slow.gate.set()
            await asyncio.gather(*waiting)
            first = pool.send(address, _request(1), replies.append, timeout=1.0)
            other = pool.send(address, _request(2), replies.append, timeout=1.0, before=first)
            assert first is not None
            assert other is not None
            assert other is not first
            await until(lambda: len(replies) == 2)
            for link in (first, other, first):
                assert pool.send(address, _request(3), replies.append, timeout=1.0, before=link) is link
                count = len(replies)
                await until(lambda count=count: len(replies) > count)
            bodies = [bson.decode(reply.body)["n"] for reply in replies if isinstance(reply, Message)]
            assert (sorted(bodies[:2]), bodies[2:]) == ([1, 2], [3, 3, 3])
            assert pool.statistics()[address]["idle"] == 3
            await pool.close()

    run(scenario())


def test_a_request_that_nobody_answers_any_more_is_told_so_once() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), ECHO, command("slow", slow.run)) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            await pool.command(address, "test", {"echo": 1})
            told: list[Message | NetworkError] = []
            body = bson.encode({"slow": 1, "$db": "test"})
            link = pool.send(address, body, told.append, timeout=1.0)
            assert link is not None
            await until(lambda: slow.running)
            link.close()
            assert [isinstance(each, NetworkError) and each.sent for each in told] == [True]
            assert pool.statistics() == {}
            with pytest.raises(NetworkError):
                await link.request(b"", 1, 1.0)
            await until(lambda: slow.cancelled)
            await pool.close()
            assert len(told) == 1

    run(scenario())


def test_what_no_message_can_hold_is_not_sent() -> None:
    async def scenario() -> None:
        async with serving(hello(), ECHO) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            await pool.command(address, "test", {"echo": 1})
            document = bson.encode({"x": b"x" * 16_000_000})
            sequences = {"docs": [document] * 4}
            assert pool.send(address, _request(1), pytest.fail, sequences=sequences, timeout=1.0) is None
            with pytest.raises(CommandError):
                await pool.command(address, "test", {"echo": 1}, sequences=sequences)
            await pool.close()

    run(scenario())
