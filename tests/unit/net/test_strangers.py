"""What is kept of clients that have not logged in, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, cast

import bson
import pytest

from docstore.commands.dispatch import Dispatcher
from docstore.net.guarded_connection import GuardedConnection
from docstore.net.listener import Listener
from docstore.net.memory import back_pressure
from docstore.net.memory.back_pressure import MAX_READ_AHEAD_BYTES, MAX_STRANGER_BYTES, MAX_WRITE_BUFFER_BYTES
from docstore.wire.message import MORE_TO_COME, encode_message
from tests.harness.dispatching import command, services_of
from tests.harness.fake_socket import FakeSocket
from tests.harness.serving import run, serving, until


class Waiting:
    """A command that ends when it is killed, and one that logs its client in."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0

    async def wait(self, context: Any, arguments: Any) -> dict[str, Any]:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ended += 1
        return {}

    def log_in(self, context: Any, arguments: Any) -> dict[str, Any]:
        context.connection.identity = cast(Any, object())
        return {}

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Listener]:
        services = services_of(
            (command("ping", tolerant=True), command("wait", self.wait), command("logIn", self.log_in)), clock=monotonic
        )
        services.access.enabled = True
        async with serving(dispatcher=Dispatcher(services)) as listener:
            yield listener


def connected(listener: Listener) -> tuple[GuardedConnection, FakeSocket]:
    socket = FakeSocket()
    connection = GuardedConnection(listener, asyncio.get_running_loop())
    connection.connection_made(socket)
    return connection, socket


def frame(body: dict[str, Any], flags: int = 0) -> bytes:
    return encode_message(bson.encode({**body, "$db": "test"}), request_id=1, flags=flags)


def test_little_is_buffered_until_a_client_has_logged_in() -> None:
    async def scenario() -> None:
        async with Waiting().listening() as listener:
            connection, socket = connected(listener)
            assert socket.most_buffered == MAX_STRANGER_BYTES
            connection.pause_writing()
            ping = frame({"ping": 1})
            connection.data_received(ping * (MAX_STRANGER_BYTES // len(ping) + 1))
            assert socket.is_paused
            connection.resume_writing()
            await until(lambda: not socket.is_paused)
            connection.data_received(frame({"logIn": 1}))
            connection.data_received(ping)
            await until(lambda: socket.most_buffered == MAX_WRITE_BUFFER_BYTES)
            connection.pause_writing()
            connection.data_received(ping * (MAX_READ_AHEAD_BYTES // len(ping) - 1))
            assert not socket.is_paused
            connection.connection_lost(None)

    run(scenario())


def test_who_reads_no_replies_is_disconnected_unless_it_has_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_pressure, "MAX_UNREAD_SECONDS", 0.0)

    async def scenario() -> None:
        async with Waiting().listening() as listener:
            (stuck, its_socket), (slow, slow_socket), (user, user_socket) = (connected(listener) for _ in range(3))
            user.data_received(frame({"logIn": 1}))
            user.data_received(frame({"ping": 1}))
            await until(lambda: not user.is_stranger)
            for connection in (slow, user, stuck):
                connection.pause_writing()
            slow.resume_writing()
            await until(lambda: its_socket.is_closed)
            assert not slow_socket.is_closed
            assert not user_socket.is_closed
            for connection in (slow, user, stuck):
                connection.connection_lost(None)

    run(scenario())


def test_nothing_of_a_stranger_stays_when_it_has_gone() -> None:
    async def scenario() -> None:
        waiting = Waiting()
        async with waiting.listening() as listener:
            requests = listener.traffic.requests
            for _ in range(10):
                connection, _ = connected(listener)
                connection.data_received(frame({"wait": 1}, MORE_TO_COME) + frame({"ping": 1}, MORE_TO_COME) * 100)
                await asyncio.sleep(0)
                await until(lambda: waiting.begun > waiting.ended)
                connection.connection_lost(None)
                await until(lambda: waiting.begun == waiting.ended)
            assert listener.traffic.requests == requests + 10
            connection, _ = connected(listener)
            connection.data_received(frame({"wait": 1}, MORE_TO_COME))
            connection.connection_lost(None)
            await asyncio.sleep(0)
            assert waiting.begun == 10, "it had gone before its request was begun"
            assert not len(listener.dispatcher.services.operations)

    run(scenario())
