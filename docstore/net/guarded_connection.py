"""A connection of a server with access control: who has not authenticated sends short messages only.

Always true: until then no message of more than `UNPROVEN_BYTES` is waited for, and none is decompressed to more, so
that strangers cannot have the server hold much. The longest message that authenticates is far below that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code, CommandError
from docstore.net.connection import Connection, RequestBuffer
from docstore.wire.compression import OP_COMPRESSED, claimed_bytes
from docstore.wire.errors import ProtocolError
from docstore.wire.framing import HEADER, HEADER_BYTES, frame_opcode
from docstore.wire.message import encode_body

UNPROVEN_BYTES = 64 * 1024


class TooLongForStrangers(ProtocolError):
    """`request_id`: that of the message, for the answer."""

    def __init__(self, size: int, request_id: int) -> None:
        super().__init__(f"a message of {size} bytes before authentication is longer than {UNPROVEN_BYTES}")
        self.request_id = request_id


def check_header(peer: ClientConnection, data: bytes | bytearray) -> None:
    """Judge the frame that the data begins with. Errors: TooLongForStrangers."""
    if peer.identity is None and len(data) >= HEADER_BYTES:
        size, request_id, _, _ = HEADER.unpack_from(data)
        if size > UNPROVEN_BYTES:
            raise TooLongForStrangers(size, request_id)


class _GuardedBuffer(RequestBuffer):
    """Cuts nothing that is too long, and waits for nothing that will be."""

    __slots__ = ()

    def judge(self) -> None:
        super().judge()
        check_header(self._peer, self._buffer)


class GuardedConnection(Connection):
    """Made by the listener in the place of a `Connection`, where there is access control."""

    __slots__ = ()
    _buffer_of: ClassVar[Callable[[ClientConnection], RequestBuffer]] = _GuardedBuffer

    def _handle(self, frame: bytes) -> None:
        if self.peer.identity is None:
            check_header(self.peer, frame)
            if frame_opcode(frame) == OP_COMPRESSED and claimed_bytes(frame) > UNPROVEN_BYTES:
                raise TooLongForStrangers(claimed_bytes(frame), HEADER.unpack_from(frame)[1])
        super()._handle(frame)

    def _refuse(self, violation: ProtocolError) -> None:
        if isinstance(violation, TooLongForStrangers):
            body = self._dispatcher.refuse(CommandError(Code.Unauthorized, str(violation)), None)
            self._write(encode_body(body, 0, violation.request_id, 0))
        super()._refuse(violation)
