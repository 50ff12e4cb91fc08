"""Connections of a server with access control, which accept only short messages before authentication.

Until then no message above `UNPROVEN_BYTES` is received or decompressed, and little is buffered
(`docstore.net.memory.back_pressure`), so that strangers cannot exhaust memory. The longest authentication message is
far shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar, cast

from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code, CommandError
from docstore.net.connection import Acceptor, Connection, RequestBuffer
from docstore.net.memory.back_pressure import (
    MAX_READ_AHEAD_BYTES,
    MAX_STRANGER_BYTES,
    MAX_WRITE_BUFFER_BYTES,
    UnreadTimer,
)
from docstore.wire.compression import OP_COMPRESSED, claimed_bytes
from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES, frame_opcode
from docstore.wire.message import encode_body

UNPROVEN_BYTES = 64 * 1024


class TooLongForStrangers(ProtocolError):
    """The message is too long before authentication. `request_id`: that of the message, for the reply."""

    def __init__(self, size: int, request_id: int) -> None:
        super().__init__(f"a message of {size} bytes before authentication is longer than {UNPROVEN_BYTES}")
        self.request_id = request_id


def check_header(peer: ClientConnection, data: bytes | bytearray) -> None:
    """Check the length of the first frame in the data. Errors: TooLongForStrangers."""
    if peer.identity is None and len(data) >= HEADER_BYTES:
        size, request_id, _, _ = HEADER.unpack_from(data)
        if size > UNPROVEN_BYTES:
            raise TooLongForStrangers(size, request_id)


class _GuardedBuffer(RequestBuffer):
    """Refuses frames that are, or announce to be, too long."""

    __slots__ = ()

    def judge(self) -> None:
        super().judge()
        check_header(self._peer, self._buffer)


class GuardedConnection(Connection):
    """The `Connection` that a listener creates with access control."""

    __slots__ = ("_unread",)
    _buffer_of: ClassVar[Callable[[ClientConnection], RequestBuffer]] = _GuardedBuffer

    def __init__(self, listener: Acceptor, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(listener, loop)
        self.is_stranger = True
        self._most_ahead = MAX_STRANGER_BYTES
        self._unread = UnreadTimer(loop, self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        cast(asyncio.Transport, transport).set_write_buffer_limits(high=MAX_STRANGER_BYTES)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.is_stranger:
            self._unread.start()

    def resume_writing(self) -> None:
        self._unread.stop()
        super().resume_writing()

    def _welcome(self) -> None:
        """Lift the bounds: the client has logged in."""
        self.is_stranger = False
        self._most_ahead = MAX_READ_AHEAD_BYTES
        self._unread.stop()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.set_write_buffer_limits(high=MAX_WRITE_BUFFER_BYTES)

    def _handle(self, frame: bytes) -> None:
        if self.peer.identity is None:
            check_header(self.peer, frame)
            if frame_opcode(frame) == OP_COMPRESSED and claimed_bytes(frame) > UNPROVEN_BYTES:
                raise TooLongForStrangers(claimed_bytes(frame), HEADER.unpack_from(frame)[1])
        elif self.is_stranger:
            self._welcome()
        super()._handle(frame)

    def _refuse(self, violation: ProtocolError) -> None:
        if isinstance(violation, TooLongForStrangers):
            body = self._dispatcher.refuse(CommandError(Code.Unauthorized, str(violation)), None)
            self._write(encode_body(body, 0, violation.request_id, 0))
        super()._refuse(violation)
