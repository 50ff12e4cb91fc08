"""A listener on a free port, and a bare client for it, inside one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Mapping
from time import monotonic
from typing import Any

import bson

from docstore.commands.declaration import Command
from docstore.commands.dispatch import Dispatcher
from docstore.net.listener import Listener
from docstore.wire.framing import FrameBuffer
from docstore.wire.message import Message, decode_frame, encode_message
from tests.harness.dispatching import FakeHost, command, dispatcher_of

LOOPBACK = "127.0.0.1"


def run(scenario: Coroutine[Any, Any, None], timeout: float = 20.0) -> None:
    """Run a test's coroutine; what the event loop cannot hand to anyone fails the test."""

    async def guarded() -> None:
        unhandled: list[Mapping[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
        async with asyncio.timeout(timeout):
            await scenario
        assert not unhandled, unhandled

    asyncio.run(guarded())


async def until(condition: Any, timeout: float = 5.0) -> None:
    """Return once the condition holds; AssertionError when it does not in time."""
    end = monotonic() + timeout
    while not condition():
        assert monotonic() < end, f"the condition did not hold within {timeout} s"
        await asyncio.sleep(0.005)


def hello(fields: Mapping[str, Any] | None = None) -> Command:
    """A hello that tells what it is told to tell."""
    return command("hello", lambda context, arguments: dict(fields or {"isWritablePrimary": True}), tolerant=True)


@contextlib.asynccontextmanager
async def serving(
    *commands: Command,
    host: FakeHost | None = None,
    port: int = 0,
    dispatcher: Dispatcher | None = None,
    **options: Any,
) -> AsyncIterator[Listener]:
    """A listener for these commands on the real clock; closed at the end."""
    if dispatcher is None:
        dispatcher = dispatcher_of(*commands, host=host, clock=monotonic)
    listener = Listener(dispatcher, addresses=[LOOPBACK], port=port, **options)
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(grace=1.0)


class BareClient:
    """Writes frames and reads messages, without any idea of which belongs to which."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._buffer = FrameBuffer()
        self._next_id = 0

    @classmethod
    async def connect(cls, listener: Listener) -> BareClient:
        return await cls.connect_to(listener.port)

    @classmethod
    async def connect_to(cls, port: int) -> BareClient:
        return cls(*await asyncio.open_connection(LOOPBACK, port))

    def frame(self, body: Mapping[str, Any], *, db: str = "test", **options: Any) -> bytes:
        self._next_id += 1
        return encode_message(bson.encode({**body, "$db": db}), request_id=self._next_id, **options)

    async def send(self, body: Mapping[str, Any], **options: Any) -> None:
        await self.write(self.frame(body, **options))

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> Message:
        """The next message. Errors: EOFError when the connection was closed."""
        return decode_frame(await self.receive_frame())

    async def receive_frame(self) -> bytes:
        """The same as its bytes."""
        while True:
            frame = self._buffer.next_frame()
            if frame is not None:
                return frame
            data = await self.reader.read(65536)
            if not data:
                raise EOFError
            self._buffer.feed(data)

    async def ask(self, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        await self.send(body, **options)
        return bson.decode((await self.receive()).body)

    async def closed(self) -> bool:
        """Whether the other side closed the connection."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read(1) == b""
        return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()
