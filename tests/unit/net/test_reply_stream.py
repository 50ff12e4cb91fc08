"""Streams of replies: in order, given up and ended properly, and no more of them than somebody reads."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import bson
import pytest

from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.errors import Code, CommandError
from docstore.net import NetworkError, Pool
from tests.harness.dispatching import command
from tests.harness.serving import LOOPBACK, hello, run, serving, until


class Counting:
    """A command whose stream counts from `from` on to `until`; the number `waits_at` waits, `refused` is refused."""

    def __init__(self, *, size: int = 0, waits_at: int = -1, refused: int = -1) -> None:
        self._waits_at, self._refused = waits_at, refused
        self._padding = "x" * size
        self.reached = 0
        self.cancelled = False
        parameters = tuple(Parameter(name, Type.INT) for name in ("from", "until"))
        self.command = command("count", self._run, parameters=parameters, following=self._following)

    async def _run(self, _: Context, arguments: Any) -> dict[str, Any]:
        number = arguments["from"]
        self.reached = max(self.reached, number)
        if number == self._refused:
            raise CommandError(Code.BadValue, "not this one")
        try:
            await asyncio.sleep(3600 if number == self._waits_at else 0)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return {"number": number, "padding": self._padding}

    def _following(self, context: Context, reply: bytes) -> bytes | None:
        body = bson.decode(context.raw)
        body["from"] += 1
        return bson.encode(body) if bson.decode(reply)["ok"] and body["from"] <= body["until"] else None


def test_replies_come_one_behind_the_other_and_the_connection_serves_the_next_request() -> None:
    async def scenario() -> None:
        async with serving(hello(), Counting().command) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            for last in (9, 1, 30):
                replies = pool.stream(address, "test", {"count": 1, "from": 1, "until": last})
                assert [bson.decode(reply)["number"] async for reply in replies] == list(range(1, last + 1))
            assert bson.decode(await pool.command(address, "test", {"count": 1, "from": 3, "until": 9}))["number"] == 3
            assert pool.statistics() == {address: {"open": 1, "idle": 1, "created": 1}}
            await pool.close()

    run(scenario())


def test_a_stream_that_nobody_reads_is_not_sent() -> None:
    async def scenario() -> None:
        counting = Counting(size=1 << 20)
        async with serving(hello(), counting.command) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            async with aclosing(pool.stream(address, "test", {"count": 1, "from": 1, "until": 500})) as replies:
                assert bson.decode(await anext(replies))["number"] == 1
                for _ in range(2_000):
                    await asyncio.sleep(0)
                assert counting.reached < 100
                assert [bson.decode(await anext(replies))["number"] for _ in range(499)] == list(range(2, 501))
            await pool.close()

    run(scenario(), 60)


def test_a_stream_that_is_left_takes_its_connection_along() -> None:
    async def scenario() -> None:
        counting = Counting(waits_at=3)
        async with serving(hello(), counting.command) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            async with aclosing(pool.stream(address, "test", {"count": 1, "from": 1, "until": 5})) as replies:
                assert [bson.decode(await anext(replies))["number"] for _ in range(2)] == [1, 2]
                waiting = asyncio.ensure_future(anext(replies))
                await until(lambda: counting.reached == 3)
                waiting.cancel()
                await asyncio.wait([waiting])
            await until(lambda: counting.cancelled and not listener.connections)
            assert pool.statistics() == {}
            await pool.close()

    run(scenario())


def test_silence_and_refusals_end_a_stream() -> None:
    async def scenario() -> None:
        silent, refusing = Counting(waits_at=2), Counting(refused=2)
        for counting, failure in ((silent, NetworkError), (refusing, CommandError)):
            async with serving(hello(), counting.command) as listener:
                pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
                replies = pool.stream(address, "test", {"count": 1, "from": 1, "until": 5}, timeout=0.2)
                assert bson.decode(await anext(replies))["number"] == 1
                with pytest.raises(failure) as caught:
                    await anext(replies)
                assert caught.value.code == (Code.NetworkTimeout if counting is silent else Code.BadValue)
                # After a refusal the connection is as good as before.
                assert pool.statistics().get(address, {}).get("open", 0) == (counting is refusing)
                await pool.close()

    run(scenario())
