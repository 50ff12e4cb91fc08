"""The server's side of one connection of the native protocol.

Requests are handled as they come, many at a time; responses go out in the order in which they are ready, all of a turn
of the loop in one write. Of the requests that have come in a turn, the first is handled at once, the others in the time
that all connections share (`docstore.net.turn`).

- The requests under way are limited in number and size (`docstore.widecolumn.native.call_runner`); while they are as
  many, or the client does not read its responses, nothing more is read from it.
- Before the client has logged in, a body has at most `MAX_STRANGER_BODY_BYTES`, and little is buffered
  (`docstore.net.memory.back_pressure`).
- If the client disconnects, its requests are killed, and its login ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, cast

from docstore.commands.dispatch import Dispatcher
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.access.password_login import PasswordLogins
from docstore.net.listener import Listener
from docstore.net.memory.back_pressure import (
    MAX_READ_AHEAD_BYTES,
    MAX_STRANGER_BYTES,
    MAX_WRITE_BUFFER_BYTES,
    UnreadTimer,
)
from docstore.net.rate_limiter import Admission
from docstore.net.sockets import keep_alive
from docstore.widecolumn.native.call_runner import CallRunner
from docstore.widecolumn.native.client import NativeCall, NativeClient
from docstore.widecolumn.native.handshake import Stage, agreed_compression, check_stage, supported
from docstore.widecolumn.native.login import AUTHENTICATOR, LoginRefused, log_in_plain, read_plain
from docstore.widecolumn.native.statements import StatementService, failure_in
from docstore.widecolumn.protocol.codec import MAX_BODY_BYTES, MAX_STRANGER_BODY_BYTES, Response, ServerCodec
from docstore.widecolumn.protocol.envelopes import Envelope
from docstore.widecolumn.protocol.errors import (
    DamagedSegment,
    FramingViolation,
    ProtocolViolation,
    UnsupportedVersion,
)
from docstore.widecolumn.protocol.notation import string, value
from docstore.widecolumn.protocol.opcodes import V5, EnvelopeFlag, ErrorCode, Opcode
from docstore.widecolumn.protocol.requests import (
    AuthResponse,
    BatchRequest,
    EventType,
    ExecuteRequest,
    OptionsRequest,
    PrepareRequest,
    QueryRequest,
    RegisterRequest,
    StartupRequest,
    opcode_of,
    read_request,
)
from docstore.widecolumn.protocol.responses import Failure, error_body, warnings_prefix

LOG = component("NETWORK")
_REFUSAL_SECONDS = 0.5
_STATEMENTS = (QueryRequest, PrepareRequest, ExecuteRequest, BatchRequest)


class Door(Protocol):
    """The services shared by the connections of one port."""

    dispatcher: Dispatcher
    service: StatementService
    logins: PasswordLogins

    async def register(self, connection: NativeConnection) -> None:
        """Return when a client is going to hear of all events from now on."""

    def closed(self, connection: NativeConnection) -> None:
        """A connection has ended."""


class NativeConnection(asyncio.Protocol):
    """The protocol of an accepted socket. Its listener counts and limits it like any other connection."""

    def __init__(self, listener: Listener, loop: asyncio.AbstractEventLoop, door: Door) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer = NativeClient(0, "")
        self._listener = listener
        self._loop = loop
        self._door = door
        self._clock = listener.dispatcher.services.clock
        self._access = listener.dispatcher.services.access
        self._codec = ServerCodec(limit=MAX_STRANGER_BODY_BYTES)
        self._stage = Stage.STARTUP
        self._responses: list[Response] = []
        self._calls = CallRunner(listener, door.dispatcher, door.service, self._end_call)
        self._login: asyncio.Task[None] | None = None
        self.is_stranger = self._access.enabled
        self._unread = UnreadTimer(loop, self)
        self._is_queued = False
        # True while the turn has taken or deferred this connection's requests.
        self._is_scheduled = False
        self._is_sending_scheduled = False
        self._is_writable = True
        self._is_reading_paused = False
        self._is_closed = False

    def close(self) -> None:
        """Close after sending what is ready."""
        self._is_closed = True
        self._send()
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        self._is_closed = True
        if self.transport is not None:
            self.transport.abort()

    def admit(self) -> None:
        """Start handling requests: the rate limiter has admitted the connection."""
        self._is_queued = False
        self._schedule()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MAX_STRANGER_BYTES if self.is_stranger else MAX_WRITE_BUFFER_BYTES)
        keep_alive(self.transport)
        remote, local = (_address(transport.get_extra_info(name)) for name in ("peername", "sockname"))
        self.peer = NativeClient(self._listener.next_connection_id(), remote, self.abort, local=local)
        admission = self._listener.opened(self)
        if admission is Admission.REFUSED:
            self.transport.abort()
        self._is_queued = admission is Admission.QUEUED

    def data_received(self, data: bytes) -> None:
        if self._is_closed:
            return
        self._listener.traffic.bytes_in += len(data)
        self._codec.feed(data)
        if self._is_scheduled:
            self._regulate()
        else:
            self._is_scheduled = True
            self._listener.turn.take(self, b"")

    def connection_lost(self, error: Exception | None) -> None:
        self._is_closed = True
        self._unread.stop()
        # What was received must not stay until its turn.
        self._codec = ServerCodec()
        self._listener.closed(self)
        self._door.closed(self)
        self._calls.kill_all(CommandError(Code.ClientDisconnect, "the client is gone"))
        if self._login is not None:
            self._login.cancel()

    def pause_writing(self) -> None:
        self._is_writable = False
        if self.is_stranger:
            self._unread.start()
        self._regulate()

    def resume_writing(self) -> None:
        self._is_writable = True
        self._unread.stop()
        self._schedule()

    # Requests

    def begin(self, _frame: bytes = b"") -> None:
        """Handle the first of the received requests."""
        self.advance(0.0)

    def advance(self, until: float) -> None:
        """Handle the received requests until the time has come, or too many are under way."""
        self._is_scheduled = False
        # Responses that a client does not read count before it is given more.
        self._send()
        is_late = False
        while not is_late and not self._is_closed and has_room(self):
            stream = 0
            try:
                envelope = self._codec.next_envelope()
                if envelope is None:
                    break
                self._listener.traffic.requests += 1
                stream = envelope.stream
                self._handle(envelope)
            except DamagedSegment as violation:
                _note(violation, self.peer)
                self.abort()
                return
            except ProtocolViolation as violation:
                self._refuse(violation, violation.stream or stream)
            is_late = self._clock() >= until
        if is_late and has_room(self) and len(self._codec):
            self._schedule()
        self._send()
        self._regulate()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._listener.turn.defer(self, self.is_stranger)

    def _regulate(self) -> None:
        """Pause or resume reading."""
        transport = self.transport
        if self._is_closed or transport is None or transport.is_closing():
            return
        most = MAX_STRANGER_BYTES if self.is_stranger else MAX_READ_AHEAD_BYTES
        waits = not has_room(self) or (self._is_scheduled and len(self._codec) > most)
        if waits != self._is_reading_paused:
            self._is_reading_paused = waits
            if waits:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _handle(self, envelope: Envelope) -> None:
        """Carry out a request, or begin to. ProtocolViolation."""
        stream = envelope.stream
        check_stage(self._stage, opcode_of(envelope))
        request = read_request(envelope)
        if isinstance(request, _STATEMENTS):
            if envelope.flags & EnvelopeFlag.TRACING:
                fail(self, stream, Failure(code=ErrorCode.INVALID, message="Tracing is not supported"))
            else:
                self._calls.begin(self.peer, envelope, request)
        elif isinstance(request, OptionsRequest):
            self.answer(stream, Opcode.SUPPORTED, supported(self._codec.version))
        elif isinstance(request, StartupRequest):
            self._start(stream, request.options)
        elif isinstance(request, RegisterRequest):
            self._listener.run(self._register(stream, request.events))
        elif isinstance(request, AuthResponse):
            self._stage = Stage.PROOF
            self._login = self._listener.run(self._log_in(stream, request.token))

    def _start(self, stream: int, options: dict[str, str]) -> None:
        compression = agreed_compression(options, self._codec.version)
        self.peer.application_name = options.get("DRIVER_NAME", "")[:128]
        if self._access.enabled:
            self._stage = Stage.LOGIN
            self.answer(stream, Opcode.AUTHENTICATE, string(AUTHENTICATOR))
        else:
            self._stage = Stage.READY
            self.answer(stream, Opcode.READY, b"")
        # This response is the last bare one.
        self._send()
        self._codec.start(compression)
        if self._stage is Stage.READY:
            self._codec.limit = MAX_BODY_BYTES

    async def _register(self, stream: int, events: frozenset[EventType]) -> None:
        if self._is_closed:
            return
        self.peer.state.events |= events
        await self._door.register(self)
        self.answer(stream, Opcode.READY, b"")

    async def _log_in(self, stream: int, token: bytes | None) -> None:
        try:
            await log_in_plain(self._listener.dispatcher, self._door.logins, self.peer, read_plain(token))
        except LoginRefused as refusal:
            await asyncio.sleep(_REFUSAL_SECONDS)
            fail(self, stream, Failure(code=ErrorCode.BAD_CREDENTIALS, message=str(refusal)))
            self.close()
            return
        self._stage = Stage.READY
        self.is_stranger = False
        self._codec.limit = MAX_BODY_BYTES
        self._unread.stop()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.set_write_buffer_limits(high=MAX_WRITE_BUFFER_BYTES)
        self.answer(stream, Opcode.AUTH_SUCCESS, value(None))

    def _end_call(self, call: NativeCall) -> None:
        if self._is_closed:
            return
        if call.error is not None:
            fail(self, call.stream, failure_in(call, call.error))
        elif call.body is not None:
            self.answer(call.stream, call.opcode, call.body, call.warnings)
        if self._is_reading_paused:
            self._schedule()

    # Responses

    def answer(self, stream: int, opcode: Opcode, body: bytes, warnings: tuple[str, ...] = ()) -> None:
        """Send a response, or an event, at the end of the turn."""
        if self._is_closed:
            return
        flags = 0
        if warnings:
            body, flags = warnings_prefix(warnings) + body, EnvelopeFlag.WARNINGS
        self._responses.append(Response(stream, opcode, body, flags))
        if not self._is_sending_scheduled:
            self._is_sending_scheduled = True
            self._loop.call_soon(self._send)

    def _send(self) -> None:
        """Send all responses that are ready."""
        self._is_sending_scheduled = False
        responses, self._responses = self._responses, []
        if responses and self.transport is not None and not self.transport.is_closing():
            data = self._codec.encode(responses)
            self._listener.traffic.bytes_out += len(data)
            self.transport.write(data)

    def _refuse(self, violation: ProtocolViolation, stream: int) -> None:
        """Answer a request that broke the protocol; close the connection if nothing more can be read."""
        _note(violation, self.peer)
        version = V5 if isinstance(violation, UnsupportedVersion) else self._codec.version or V5
        body = error_body(Failure(code=violation.code, message=str(violation)), version)
        self._send()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(self._codec.encode([Response(stream, Opcode.ERROR, body)], version))
        if isinstance(violation, FramingViolation):
            self.close()


def has_room(connection: NativeConnection) -> bool:
    """True if one more request may be handled."""
    return connection._calls.has_room and connection._is_writable and not connection._is_queued


def fail(connection: NativeConnection, stream: int, failure: Failure) -> None:
    """Answer a request with an error."""
    connection.answer(stream, Opcode.ERROR, error_body(failure, connection._codec.version or V5))


def _note(violation: ProtocolViolation, client: NativeClient) -> None:
    LOG.warning("A client broke the native protocol", reason=str(violation), **client.describe())


def _address(name: Any) -> str:
    return f"{name[0]}:{name[1]}" if name else "unknown"
