"""Clients of the native protocol that send much at once, and those beside them."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

from docstore.net.memory import back_pressure
from docstore.net.memory.back_pressure import MAX_STRANGER_BYTES
from docstore.widecolumn.native.connection import NativeConnection
from docstore.widecolumn.protocol.envelopes import HEADER
from docstore.widecolumn.protocol.opcodes import V4, Opcode
from tests.harness.dispatching import FakeHost, dispatcher_of
from tests.harness.fake_socket import FakeSocket
from tests.harness.serving import run, serving, until


def connected(listener: Any, socket: FakeSocket) -> NativeConnection:
    door = SimpleNamespace(dispatcher=listener.dispatcher, service=None, closed=lambda _connection: None)
    connection = NativeConnection(listener, asyncio.get_running_loop(), cast(Any, door))
    connection.connection_made(socket)
    return connection


def test_who_pipelines_much_holds_up_nobody_else() -> None:
    async def scenario() -> None:
        now = itertools.count()
        # Each look at the clock takes 0.1 ms.
        dispatcher = dispatcher_of(host=FakeHost(), clock=lambda: next(now) / 10_000)
        options = HEADER.pack(V4, 0, 1, Opcode.OPTIONS, 0)
        async with serving(dispatcher=dispatcher) as listener:
            sockets = [FakeSocket() for _ in range(50)]
            many = [connected(listener, socket) for socket in sockets]
            before = listener.traffic.requests
            for connection in many:
                connection.data_received(options * 40_000)
            its_socket = FakeSocket()
            patient = connected(listener, its_socket)
            patient.data_received(options)
            await asyncio.sleep(0)
            assert len(its_socket.sent) == 1
            handled = listener.traffic.requests - before
            assert len(sockets) < handled < 2 * len(sockets) + 2, "the first of each, and what all share"
            assert all(socket.is_paused for socket in sockets), "more is not read while so much waits"
            for connection in (*many, patient):
                connection.connection_lost(None)

    run(scenario())


def test_little_is_kept_of_a_client_that_has_not_logged_in_and_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(back_pressure, "MAX_UNREAD_SECONDS", 0.0)

    async def scenario() -> None:
        dispatcher = dispatcher_of(host=FakeHost())
        dispatcher.services.access.enabled = True
        async with serving(dispatcher=dispatcher) as listener:
            socket = FakeSocket()
            stranger = connected(listener, socket)
            assert socket.most_buffered == MAX_STRANGER_BYTES
            options = HEADER.pack(V4, 0, 1, Opcode.OPTIONS, 0)
            stranger.data_received(options)
            stranger.data_received(options * (MAX_STRANGER_BYTES // len(options) + 1))
            assert socket.is_paused
            stranger.pause_writing()
            await until(lambda: socket.is_closed)
            stranger.connection_lost(None)

    run(scenario())
