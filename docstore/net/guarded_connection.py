"""Connections of a server with access control, which accept only short messages before authentication.

Until then no message above `UNPROVEN_BYTES` is received or decompressed, so that strangers cannot exhaust memory. The
longest authentication message is far shorter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code, CommandError
from docstore.net.connection import Acceptor, Connection, RequestBuffer
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

    __slots__ = ()
    _buffer_of: ClassVar[Callable[[ClientConnection], RequestBuffer]] = _GuardedBuffer

    def __init__(self, listener: Acceptor, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(listener, loop)
        self.is_stranger = True

    def _handle(self, frame: bytes) -> None:
        if self.peer.identity is not None:
            self.is_stranger = False
        else:
            check_header(self.peer, frame)
            if frame_opcode(frame) == OP_COMPRESSED and claimed_bytes(frame) > UNPROVEN_BYTES:
                raise TooLongForStrangers(claimed_bytes(frame), HEADER.unpack_from(frame)[1])
        super()._handle(frame)

    def _refuse(self, violation: ProtocolError) -> None:
        if isinstance(violation, TooLongForStrangers):
            body = self._dispatcher.refuse(CommandError(Code.Unauthorized, str(violation)), None)
            self._write(encode_body(body, 0, violation.request_id, 0))
        super()._refuse(violation)
