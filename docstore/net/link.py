"""The client side of one connection: one request, then its reply or replies.

- At most one request is outstanding. Each reply answers it, or follows its previous reply.
- After any failure the link is closed and never reused: a late reply would be taken for that of the next request.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from docstore.errors import Code
from docstore.net.errors import NetworkError
from docstore.net.sockets import keep_alive
from docstore.net.tls.stream import TlsStream
from docstore.wire.errors import ProtocolError
from docstore.wire.framing import FrameBuffer, whole_frame
from docstore.wire.message import Message, decode_frame

Answered = Callable[[Message | NetworkError], None]
"""Receives the reply to a request, or the error if none will come."""


class Link(asyncio.Protocol):
    """A connection to another process, created by `connect`."""

    def __init__(self, address: str, loop: asyncio.AbstractEventLoop) -> None:
        self.address = address
        self.idle_since = 0.0
        self.due = 0.0
        """The deadline of the current request, checked periodically by the owner."""
        self.process_id: object = None
        """The process id that the peer reported during the handshake, if any."""
        self._loop = loop
        self._buffer = FrameBuffer()
        self._transport: asyncio.Transport | None = None
        self._answered: Answered | None = None
        self._exhaust = False
        self._request_id = 0
        self._reading = True
        self._closed: str | None = None

    @property
    def usable(self) -> bool:
        """True if another request may be sent."""
        return self._closed is None and self._answered is None and not len(self._buffer)

    @property
    def waiting(self) -> bool:
        """True if a request is in progress."""
        return self._answered is not None

    def send(self, frame: bytes, request_id: int, answered: Answered, *, exhaust: bool = False) -> None:
        """Send a frame; `answered` is called once, with the reply or the error that closed the link.

        With `exhaust` it is called for each reply; the last one is marked as such, or is an error.
        Errors: NetworkError with `sent` False; `answered` is not called then.
        """
        if self._closed is not None or self._transport is None:
            raise NetworkError(self.address, self._closed or "not connected", sent=False)
        assert self._answered is None, "one request at a time"
        self._answered, self._request_id, self._exhaust = answered, request_id, exhaust
        self._transport.write(frame)

    async def request(self, frame: bytes, request_id: int, timeout: float) -> Message:
        """Send a frame and await its reply.

        Errors: NetworkError. On an error or a cancellation the link is closed.
        """
        waiter: asyncio.Future[Message | NetworkError] = self._loop.create_future()
        self.send(frame, request_id, lambda reply: None if waiter.done() else waiter.set_result(reply))
        timer = self._loop.call_later(timeout, self._expire, timeout)
        try:
            reply = await waiter
        except asyncio.CancelledError:
            self._fail(NetworkError(self.address, "given up", sent=True))
            raise
        finally:
            timer.cancel()
        if isinstance(reply, NetworkError):
            raise reply
        return reply

    def close(self) -> None:
        """Close the connection; a request in progress fails."""
        self._fail(NetworkError(self.address, "closed", sent=True))

    def give_up(self, reason: str) -> None:
        """Close a connection that will deliver no reply; a request in progress fails."""
        self._fail(NetworkError(self.address, reason, sent=True, code=Code.NetworkTimeout))

    def stop_reading(self) -> None:
        """Pause reading, so that further replies wait in the network."""
        if self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def read_on(self) -> None:
        """Resume reading."""
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _expire(self, timeout: float) -> None:
        self.give_up(f"no reply within {timeout:g} s")

    def _fail(self, error: NetworkError) -> None:
        if self._closed is None:
            self._closed = error.reason
        if self._transport is not None:
            self._transport.abort()
        self._tell(error)

    def _tell(self, reply: Message | NetworkError) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(reply)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keep_alive(self._transport)

    def data_received(self, data: bytes) -> None:
        try:
            if len(self._buffer) or not whole_frame(data):
                self._buffer.feed(data)
                while self._closed is None and (frame := self._buffer.next_frame()) is not None:
                    self._take(decode_frame(frame))
            else:
                self._take(decode_frame(data))
        except ProtocolError as violation:
            self._fail(NetworkError(self.address, f"the peer broke the protocol: {violation}", sent=True))

    def _take(self, message: Message) -> None:
        if self._answered is None:
            self._fail(NetworkError(self.address, "a message came that was not asked for", sent=True))
        elif message.response_to != self._request_id:
            self._fail(NetworkError(self.address, "a reply to another request came", sent=True))
        elif self._exhaust and message.more_to_come:
            self._request_id = message.request_id
            self._answered(message)
        else:
            self._tell(message)

    def connection_lost(self, error: Exception | None) -> None:
        reason = f"connection lost: {error}" if error is not None else "connection closed by the other side"
        is_disconnected = error is None or isinstance(error, ConnectionError)
        self._fail(NetworkError(self.address, reason, sent=True, refused=is_disconnected))


async def connect(address: str, timeout: float, context: ssl.SSLContext | None = None) -> Link:
    """Connect to "host:port", with TLS if there is a context. Errors: NetworkError with `sent` False."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise NetworkError(address, "not a host:port", sent=False, code=Code.HostNotFound)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(timeout):
            link = await _connected(Link(address, loop), host.strip("[]"), int(port), context)
    except TimeoutError:
        raise NetworkError(address, f"no connection within {timeout:g} s", sent=False) from None
    except socket.gaierror as error:
        raise NetworkError(address, str(error.strerror), sent=False, code=Code.HostNotFound) from error
    except OSError as error:
        refused = isinstance(error, ConnectionError)
        raise NetworkError(address, error.strerror or str(error), sent=False, refused=refused) from error
    return link


async def _connected(link: Link, host: str, port: int, context: ssl.SSLContext | None) -> Link:
    """Connect the link. Errors: OSError; NetworkError if the TLS handshake fails."""
    loop = asyncio.get_running_loop()
    if context is None:
        await loop.create_connection(lambda: link, host, port)
        return link
    done: asyncio.Future[str | None] = loop.create_future()

    def ended(reason: str | None) -> None:
        if not done.done():
            done.set_result(reason)

    def secured(stream: TlsStream) -> None:
        link.connection_made(stream)
        ended(None)

    transport, _ = await loop.create_connection(asyncio.Protocol, host, port)
    TlsStream(
        context, transport, link, server_name=host, secured=secured, failed=ended,
        defer=lambda stream: loop.call_soon(stream.advance, 0.0),
    ).begin()  # fmt: skip
    try:
        reason = await done
    except asyncio.CancelledError:
        transport.abort()
        raise
    if reason is not None:
        raise NetworkError(link.address, f"no encrypted connection: {reason}", sent=False)
    return link
