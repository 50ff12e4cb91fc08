"""The internal client: connections reused, bounded and given up; failures that say whether anything was sent."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import bson
import pytest

from docstore.commands.declaration import Parameter, Type
from docstore.errors import Code, CommandError
from docstore.net import NetworkError, Pool
from tests.harness.dispatching import command
from tests.harness.serving import LOOPBACK, hello, run, serving, until

ECHO = command(
    "echo", lambda context, arguments: {"n": arguments["n"], "docs": len(context.documents("docs"))},
    parameters=(Parameter("n", Type.INT), Parameter("docs", Type.DOCUMENTS)),
)  # fmt: skip


class Slow:
    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.running = 0
        self.cancelled = 0

    async def run(self, context: Any, arguments: Any) -> dict[str, Any]:
        self.running += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return {}


def test_one_connection_serves_requests_that_follow_each_other() -> None:
    async def scenario() -> None:
        async with serving(hello(), ECHO) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            for n in range(5):
                assert bson.decode(await pool.command(address, "test", {"echo": 1, "n": n}))["n"] == n
            raw = await pool.command(address, "test", bson.encode({"echo": 1}), sequences={"docs": [b"\5\0\0\0\0"] * 3})
            assert bson.decode(raw)["docs"] == 3
            assert pool.statistics() == {address: {"open": 1, "idle": 1, "created": 1}}
            await pool.close()
            await until(lambda: not listener.connections)

    run(scenario())


def test_requests_at_once_have_connections_of_their_own_up_to_the_bound() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), command("slow", slow.run)) as listener:
            pool, address = Pool(max_per_address=3), f"{LOOPBACK}:{listener.port}"
            tasks = [asyncio.ensure_future(pool.command(address, "test", {"slow": 1})) for _ in range(7)]
            await until(lambda: slow.running == 3)
            assert len(listener.connections) == 3
            slow.gate.set()
            await asyncio.gather(*tasks)
            assert slow.running == 7
            assert pool.statistics() == {address: {"open": 3, "idle": 3, "created": 3}}
            await pool.close()

    run(scenario())


def test_no_connection_in_time_is_an_error_with_nothing_sent() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), command("slow", slow.run)) as listener:
            pool, address = Pool(max_per_address=1), f"{LOOPBACK}:{listener.port}"
            first = asyncio.ensure_future(pool.command(address, "test", {"slow": 1}))
            await until(lambda: slow.running)
            with pytest.raises(NetworkError) as caught:
                await pool.command(address, "test", {"slow": 1}, timeout=0.05)
            assert (caught.value.sent, caught.value.code) == (False, Code.NetworkTimeout)
            slow.gate.set()
            await first
            await pool.close()

    run(scenario())


def test_a_request_that_is_given_up_closes_its_connection_and_ends_the_command() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), command("slow", slow.run), ECHO) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            with pytest.raises(NetworkError) as caught:
                await pool.command(address, "test", {"slow": 1}, timeout=0.05)
            assert (caught.value.sent, caught.value.code) == (True, Code.NetworkTimeout)
            cancelled = asyncio.ensure_future(pool.command(address, "test", {"slow": 1}))
            await until(lambda: slow.running == 2)
            cancelled.cancel()
            await until(lambda: slow.cancelled == 2)
            assert bson.decode(await pool.command(address, "test", {"echo": 1, "n": 1}))["n"] == 1
            assert pool.statistics() == {address: {"open": 1, "idle": 1, "created": 3}}
            await pool.close()

    run(scenario())


def test_a_restarted_server_is_reached_over_a_fresh_connection() -> None:
    async def scenario() -> None:
        pool = Pool()
        async with serving(hello(), ECHO) as listener:
            port = listener.port
            await pool.command(f"{LOOPBACK}:{port}", "test", {"echo": 1})
        await asyncio.sleep(0)
        async with serving(hello(), ECHO, port=port):
            assert await pool.command(f"{LOOPBACK}:{port}", "test", {"echo": 1})
        await pool.close()

    run(scenario())


def test_a_server_that_dies_in_the_middle_leaves_the_outcome_open() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), command("slow", slow.run)) as listener:
            pool = Pool()
            task = asyncio.ensure_future(pool.command(f"{LOOPBACK}:{listener.port}", "test", {"slow": 1}))
            await until(lambda: slow.running)
            for connection in listener.connections:
                connection.abort()
            with pytest.raises(NetworkError) as caught:
                await task
            assert (caught.value.sent, caught.value.code) == (True, Code.HostUnreachable)
            await pool.close()

    run(scenario())


def test_requests_to_a_server_that_has_fallen_silent_are_failed_and_others_go_on() -> None:
    async def scenario() -> None:
        slow, now = Slow(), [100.0]
        async with serving(hello(), command("slow", slow.run)) as listener:
            pool, address = Pool(clock=lambda: now[0]), f"{LOOPBACK}:{listener.port}"
            early = asyncio.ensure_future(pool.command(address, "test", {"slow": 1}))
            await until(lambda: slow.running)
            now[0] = 120.0
            late = asyncio.ensure_future(pool.command(address, "test", {"slow": 1}))
            await until(lambda: slow.running == 2)
            pool.give_up_silent(address, 110.0)
            with pytest.raises(NetworkError) as caught:
                await early
            assert (caught.value.sent, caught.value.code) == (True, Code.NetworkTimeout)
            slow.gate.set()
            assert bson.decode(await late)["ok"] == 1
            assert pool.statistics()[address]["open"] == 1
            await pool.close()

    run(scenario())


def test_a_dead_host_is_unreachable_at_once() -> None:
    async def scenario() -> None:
        with socket.socket() as unused:
            unused.bind((LOOPBACK, 0))
            address = f"{LOOPBACK}:{unused.getsockname()[1]}"
        pool = Pool()
        for where, code in ((address, Code.HostUnreachable), ("no port", Code.HostNotFound), (":1", Code.HostNotFound)):
            with pytest.raises(NetworkError) as caught:
                await pool.command(where, "test", {"ping": 1})
            assert (caught.value.sent, caught.value.code) == (False, code)
        assert pool.statistics() == {}
        await pool.close()

    run(scenario(), timeout=5)


def test_a_refusal_comes_back_as_the_error_it_was() -> None:
    error = CommandError(11000, "dup", extra={"keyValue": {"a": 1}}, labels=("Label",))

    def refuse(context: Any, arguments: Any) -> Any:
        raise error

    async def scenario() -> None:
        async with serving(hello(), command("refuse", refuse)) as listener:
            pool, address = Pool(), f"{LOOPBACK}:{listener.port}"
            with pytest.raises(CommandError) as caught:
                await pool.command(address, "test", {"refuse": 1})
            got = caught.value
            assert (got.code, got.message, got.extra, got.labels) == (11000, "dup", {"keyValue": {"a": 1}}, ("Label",))
            assert bson.decode(await pool.command(address, "test", {"refuse": 1}, check=False))["ok"] == 0.0
            await pool.close()

    run(scenario())


def test_a_closed_pool_answers_nobody() -> None:
    async def scenario() -> None:
        slow = Slow()
        async with serving(hello(), command("slow", slow.run)) as listener:
            pool, address = Pool(max_per_address=1), f"{LOOPBACK}:{listener.port}"
            tasks = [asyncio.ensure_future(pool.command(address, "test", {"slow": 1})) for _ in range(2)]
            await until(lambda: slow.running)
            await pool.close()
            for task in [*tasks, asyncio.ensure_future(pool.command(address, "test", {"slow": 1}))]:
                with pytest.raises(NetworkError):
                    await task

    run(scenario())


def test_something_that_is_no_server_is_a_network_error() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(answer, LOOPBACK, 0)
        pool = Pool()
        with pytest.raises(NetworkError, match="protocol"):
            await pool.command(f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}", "test", {"ping": 1})
        await pool.close()
        server.close()
        await server.wait_closed()

    run(scenario())
