# cython: annotation_typing=False
"""The server side of one client connection.

Frames are cut from the received bytes and handled strictly in order: each after the reply to the one before. A command
that does not wait is answered in the turn of the loop in which it came, or later if it came pipelined behind another
one (`docstore.net.turn`). Only a waiting command, a stream of replies, and the compression of large messages run as
tasks.

- While a request is in progress, or the client does not read its replies, the connection buffers at most
  `MAX_READ_AHEAD_BYTES` beyond one message, and at most one reply beyond `MAX_WRITE_BUFFER_BYTES`; for strangers see
  `docstore.net.memory.back_pressure`.
- If the client disconnects, a request without a reply is still executed; one that expects a reply is killed, and so is
  that of a stranger.
- A protocol violation closes only this connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

import cython

from docstore.commands.client_connection import UNIX_SOCKET, ClientConnection
from docstore.commands.dispatch import Outcome, Pending, StreamedReply
from docstore.commands.legacy import opcodes
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.memory.back_pressure import MAX_READ_AHEAD_BYTES, MAX_WRITE_BUFFER_BYTES
from docstore.net.rate_limiter import Admission
from docstore.net.relayed_request import begins
from docstore.net.sockets import keep_alive
from docstore.wire.compression import COMPRESSOR_IDS, NEVER_COMPRESSED, OP_COMPRESSED, claimed_bytes, wrap
from docstore.wire.errors import ProtocolError
from docstore.wire.framing import FrameBuffer, frame_opcode, whole_frame
from docstore.wire.handshake import is_handshake
from docstore.wire.message import MAX_BODY_BYTES, MORE_TO_COME, Message, decode_frame, encode_head
from docstore.wire.query import WRITES, reply_head

if TYPE_CHECKING:
    from docstore.commands.dispatch import Dispatcher
    from docstore.net.turn import Traffic, Turn

LOG = component("NETWORK")
_OFF_LOOP_BYTES = 64 * 1024
"""Larger messages are compressed and decompressed in a thread."""
_COMPRESSED = OP_COMPRESSED & 0xFF
_LARGE_BYTES = 1024 * 1024
"""Larger replies are sent in a turn of their own, without a copy."""
_UNCOMPRESSED = frozenset(name.encode() for name in NEVER_COMPRESSED)


class RequestBuffer(FrameBuffer):
    """The received part of requests of the client `peer`, checked before more is awaited."""

    __slots__ = ("_peer",)

    def __init__(self, peer: ClientConnection) -> None:
        super().__init__()
        self._peer = peer

    def next_frame(self) -> bytes | None:
        # A large incomplete frame has been checked before.
        if not self._parts:
            self.judge()
        return super().next_frame()

    def judge(self) -> None:
        """Refuse a TLS handshake, which as a request would claim 33 MB. Errors: ProtocolError."""
        if is_handshake(self._buffer):
            raise ProtocolError("a TLS handshake, where connections are not encrypted")


class Acceptor(Protocol):
    """The listener as its connections see it. `inflating` bounds the number of concurrent decompressions."""

    inflating: asyncio.Semaphore

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def turn(self) -> Turn: ...

    @property
    def traffic(self) -> Traffic: ...

    def next_connection_id(self) -> int:
        """Return an unused connection id."""

    def opened(self, connection: Connection) -> Admission:
        """Decide if one more connection is admitted, queued or refused."""

    def closed(self, connection: Connection) -> None:
        """Remove a connection that has ended."""

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work of a connection as a task."""


class Connection:
    """The `asyncio.Protocol` of an accepted socket, created by the listener."""

    _buffer_of: ClassVar[Callable[[ClientConnection], RequestBuffer]] = RequestBuffer
    # A compiled class cannot have a Python base class.
    eof_received = asyncio.Protocol.eof_received
    __slots__ = (
        "__weakref__", "_buffer", "_busy", "_clock", "_closed", "_dispatcher", "_last_id", "_listener", "_loop",
        "_most_ahead", "_pending", "_reading_paused", "_scheduled", "_traffic", "_turn", "_writable", "is_stranger",
        "peer", "transport",
    )  # fmt: skip

    def __init__(self, listener: Acceptor, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = listener
        self._turn: Turn = listener.turn
        self._traffic: Traffic = listener.traffic
        self._loop = loop
        self._dispatcher: Dispatcher = listener.dispatcher
        self._clock = listener.dispatcher.services.clock
        # The TLS stream over the socket's transport, if the connection turns out to be encrypted.
        self.transport: asyncio.Transport | None = None
        # None while empty: most connections are idle, and most reads deliver one whole frame.
        self._buffer: RequestBuffer | None = None
        self._busy = False
        self._closed = False
        self._reading_paused = False
        # Set while the client does not read; completes when it reads again or disconnects.
        self._writable: asyncio.Future[None] | None = None
        # True while the turn has deferred this connection's requests.
        self._scheduled = False
        # True until the client has logged in, where it must.
        self.is_stranger = False
        self._most_ahead = MAX_READ_AHEAD_BYTES
        self._last_id = 0
        self._pending: Pending | None = None
        self.peer = ClientConnection(0, "")

    def close(self) -> None:
        """Close after sending what was written. A request in progress ends as if the client had disconnected."""
        self._buffer = None
        if self.transport is not None:
            self._turn.send()
            self.transport.close()

    def abort(self) -> None:
        """Close at once, after the replies already given."""
        if self.transport is not None:
            self._turn.send()
            self.transport.abort()

    def admit(self) -> None:
        """Start handling requests: the rate limiter has admitted the connection."""
        self._busy = False
        self._schedule()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MAX_WRITE_BUFFER_BYTES)
        keep_alive(self.transport)
        remote, bound = _address(transport.get_extra_info("peername")), transport.get_extra_info("sockname")
        local = bound if isinstance(bound, str) else _address(bound)
        self.peer = ClientConnection(self._listener.next_connection_id(), remote, self.abort, local=local)
        admission = self._listener.opened(self)
        if admission is Admission.REFUSED:
            self.transport.abort()
        self._busy = admission is Admission.QUEUED

    def data_received(self, data: bytes) -> None:
        self._traffic.bytes_in += len(data)
        if self._buffer is None:
            if not self._busy and self._writable is None and whole_frame(data):
                self._busy = True
                self._turn.take(self, data)
                return
            self._buffer = type(self)._buffer_of(self.peer)
        self._buffer.feed(data)
        if not self._busy and not self._scheduled and self._writable is None:
            try:
                frame = self._buffer.next_frame()
            except ProtocolError as violation:
                self._refuse(violation)
                return
            if frame is None:
                return
            if not len(self._buffer):
                self._buffer = None
            self._busy = True
            self._turn.take(self, frame)
        self._regulate()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        # Nothing of a stranger needs to be executed, and it must not stay here until its turn.
        if knows_nobody(self):
            self._buffer = None
        self.resume_writing()
        self._listener.closed(self)
        for cursor_id in self.peer.cursors:
            self._dispatcher.services.cursors.kill(cursor_id)
        if self._pending is not None and (self._pending.wants_reply or knows_nobody(self)):
            self._pending.operation.kill(CommandError(Code.ClientDisconnect, "the client is gone"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
            self._schedule()

    # In order, one at a time.

    @cython.cfunc
    def _schedule(self) -> None:
        """Have the received frames handled, and reading resumed."""
        if not self._scheduled and (self._buffer is not None or self._reading_paused):
            self._scheduled = True
            self._turn.defer(self, self.is_stranger)

    def advance(self, until: float) -> None:
        """Handle the received frames until one must wait, or the time has come."""
        is_late = False
        try:
            while self._buffer is not None and not self._busy and self._writable is None and not is_late:
                frame = self._buffer.next_frame()
                if frame is None:
                    break
                if not len(self._buffer):
                    self._buffer = None
                self._handle(frame)
                is_late = self._clock() >= until
        except ProtocolError as violation:
            self._refuse(violation)
            return
        finally:
            self._scheduled = False
        if is_late and not self._busy and self._writable is None and self._buffer is not None:
            self._schedule()
        self._regulate()

    @cython.cfunc
    def _regulate(self) -> None:
        """Pause or resume reading, depending on the bytes buffered here."""
        if self._closed or self.transport is None:
            return
        waiting = 0 if self._buffer is None else len(self._buffer)
        waits = waiting > self._most_ahead and (self._busy or self._scheduled or self._writable is not None)
        if waits != self._reading_paused and not self.transport.is_closing():
            self._reading_paused = waits
            if waits:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def begin(self, frame: bytes) -> None:
        """Handle a complete frame, in its turn."""
        self._busy = False
        try:
            self._handle(frame)
        except ProtocolError as violation:
            self._refuse(violation)
        if self._buffer is not None and not self._busy:
            self._schedule()

    @cython.ccall
    def _handle(self, frame: bytes) -> None:
        if (
            frame[12] == _COMPRESSED
            and frame_opcode(frame) == OP_COMPRESSED
            and max(len(frame), claimed_bytes(frame)) > _OFF_LOOP_BYTES
        ):
            self._busy = True
            self._listener.run(self._decompress(frame))
            return
        message = decode_frame(frame)
        outcome = self._serve(message)
        if type(outcome) is bytes and message.compressor is None:
            self._write(b"".join(self._frame(message, outcome)))
        elif type(outcome) is Pending and begins(message, outcome, self._relay_ended):
            self._busy = True
        elif outcome is not None:
            self._busy = True
            self._listener.run(self._follow(message, outcome))

    def _relay_ended(self, message: Message, outcome: Outcome | Pending) -> None:
        if isinstance(outcome, Pending):
            self._listener.run(self._follow(message, outcome))
            return
        self._busy = False
        self._pending = None
        if outcome is not None and not self._closed:
            self._write(b"".join(self._frame(message, outcome)))
        self._schedule()

    @cython.cfunc
    def _serve(self, message: Message) -> Outcome | Pending:
        if self._closed and (knows_nobody(self) or not (message.more_to_come or message.opcode in WRITES)):
            self._buffer = None
            return None
        self._traffic.requests += 1
        if message.operation is None:
            outcome = self._dispatcher.handle(message, self.peer)
        else:
            outcome = opcodes.serve(self._dispatcher, message, message.operation, self.peer)
        self._pending = outcome if isinstance(outcome, Pending) else None
        return outcome

    async def _decompress(self, frame: bytes) -> None:
        try:
            async with self._listener.inflating:
                message = await self._loop.run_in_executor(None, decode_frame, frame)
        except ProtocolError as violation:
            self._refuse(violation)
            return
        try:
            outcome = self._serve(message)
        except BaseException:
            self.abort()
            raise
        await self._follow(message, outcome)

    async def _follow(self, message: Message, outcome: Outcome | Pending) -> None:
        """Await a request to its last reply, then continue with the next one."""
        try:
            while outcome is not None:
                if isinstance(outcome, Pending):
                    outcome = await outcome_of(outcome, self._loop, self._clock)
                if outcome is None or self._closed:
                    break
                if message.compressor is not None and may_compress(message, self.peer):
                    if is_large(outcome):
                        await asyncio.sleep(0)
                    self._write(await compress(b"".join(self._frame(message, outcome)), message.compressor))
                elif is_large(outcome):
                    await asyncio.sleep(0)
                    self._write(*self._frame(message, outcome))
                else:
                    self._write(b"".join(self._frame(message, outcome)))
                if not isinstance(outcome, StreamedReply):
                    break
                message = outcome.following._replace(request_id=self._last_id)
                if self._writable is not None:
                    await asyncio.shield(self._writable)
                outcome = self._serve(message)
        finally:
            self._busy = False
            self._pending = None
            self._schedule()

    @cython.cfunc
    def _frame(self, message: Message, outcome: bytes | StreamedReply) -> tuple[bytes, bytes]:
        """Return (head of the reply's frame, body)."""
        self._last_id = (self._last_id + 1) & 0x7FFFFFFF
        body, flags = (outcome.body, MORE_TO_COME) if isinstance(outcome, StreamedReply) else (outcome, 0)
        if message.operation is None and len(body) > MAX_BODY_BYTES:
            too_large = f"a reply of {len(body)} bytes is longer than any message"
            body = self._dispatcher.refuse(CommandError(Code.BSONObjectTooLarge, too_large), None)
        if message.operation is not None:
            return reply_head(len(body), request_id=self._last_id, response_to=message.request_id), body
        return encode_head(len(body), self._last_id, message.request_id, flags), body

    @cython.ccall
    def _write(self, frame: bytes, tail: bytes = b"") -> None:
        """Send a frame; `tail` is its remainder if large, which is not copied."""
        assert self.transport is not None
        if self.transport.is_closing():
            return
        self._traffic.bytes_out += len(frame) + len(tail)
        if tail:
            self._turn.send()
            self.transport.write(frame)
            self.transport.write(memoryview(tail))
        else:
            self._turn.enqueue(self.transport, frame)

    @cython.ccall
    def _refuse(self, violation: ProtocolError) -> None:
        LOG.warning(
            "A peer broke the wire protocol; closing its connection", reason=str(violation), **self.peer.describe()
        )
        self.close()


def knows_nobody(connection: Connection) -> bool:
    """True if the client has not logged in where it must, not even by its last request."""
    return connection.is_stranger and connection.peer.identity is None


async def outcome_of(pending: Pending, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> Outcome:
    """Await a command in a task that a kill cancels; return its outcome. `clock`: that of its deadline."""
    task = asyncio.current_task()
    assert task is not None, "runs in a task of its own"
    operation = pending.operation
    timer = None
    if operation.killed:
        task.cancel()
    else:
        operation.on_kill = task.cancel
        if pending.deadline is not None:
            late = CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
            timer = loop.call_later(max(pending.deadline - clock(), 0), operation.kill, late)
    try:
        return await pending.finish()
    except asyncio.CancelledError:
        if not operation.killed:
            raise
        task.uncancel()
        return pending.interrupted()
    finally:
        operation.on_kill = None
        if timer is not None:
            timer.cancel()


def _address(name: Any) -> str:
    """Return one side of a connection as "host:port"."""
    if isinstance(name, str):
        return UNIX_SOCKET
    return f"{name[0]}:{name[1]}" if name else "unknown"


def is_large(outcome: bytes | StreamedReply) -> bool:
    return len(outcome.body if isinstance(outcome, StreamedReply) else outcome) > _LARGE_BYTES


def may_compress(message: Message, peer: ClientConnection) -> bool:
    """True if the reply may be compressed: the client negotiated the compressor it used, and the command allows it."""
    agreed = {COMPRESSOR_IDS[name] for name in peer.compressors}
    name = message.body[5 : message.body.find(b"\0", 5)]
    return message.compressor in agreed and name not in _UNCOMPRESSED


async def compress(frame: bytes, compressor: int) -> bytes:
    """Return the frame compressed, in a thread if it is large."""
    if len(frame) > _OFF_LOOP_BYTES:
        return await asyncio.get_running_loop().run_in_executor(None, wrap, frame, compressor)
    return wrap(frame, compressor)
