"""Envelopes: the header of 9 bytes and the body of every message.

version u8 | flags u8 | stream i16 | opcode u8 | length i32 | body
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from docstore.widecolumn.protocol.errors import FramingViolation, OversizedRequest, UnsupportedVersion
from docstore.widecolumn.protocol.opcodes import RESPONSE, VERSIONS, Opcode

HEADER = struct.Struct(">BBhBi")


class Envelope(NamedTuple):
    """A request as it was framed. `flags` and `opcode` may be any number."""

    version: int
    flags: int
    stream: int
    opcode: int
    body: bytes


class EnvelopeBuffer:
    """Cuts received bytes into requests. `limit`: the maximal length of a body; a longer one is passed over as it
    comes and never kept.
    """

    __slots__ = ("_buffer", "_excess", "_length", "limit", "version")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.version: int | None = None
        """That of the first request, which all others must have."""
        self._buffer = bytearray()
        self._length: int | None = None
        self._excess = 0
        """The bytes still to come of a body that is too long."""

    def __len__(self) -> int:
        return len(self._buffer)

    @property
    def is_amid(self) -> bool:
        """True if a part of a request has come and the rest has not."""
        return bool(self._buffer) or self._excess > 0

    def feed(self, data: bytes) -> None:
        self._buffer += data
        if self._excess:
            self._pass_over()

    def _pass_over(self) -> None:
        length = min(self._excess, len(self._buffer))
        del self._buffer[:length]
        self._excess -= length

    def take_rest(self) -> bytes:
        """Remove and return what has come and not been read."""
        remaining = bytes(self._buffer)
        self._buffer.clear()
        self._length = None
        return remaining

    def next_envelope(self) -> Envelope | None:
        """Return the next complete request; None if there is none. Errors: FramingViolation, OversizedRequest."""
        buffer = self._buffer
        if self._length is None:
            if not buffer:
                return None
            self._check_version()
            if len(buffer) < HEADER.size:
                return None
            _, _, stream, _, length = HEADER.unpack_from(buffer)
            if length < 0:
                raise FramingViolation(f"Invalid value for envelope header body length field: {length}", stream)
            if length > self.limit:
                self._excess = HEADER.size + length
                self._pass_over()
                raise OversizedRequest(length, self.limit, stream)
            self._length = length
        end = HEADER.size + self._length
        if len(buffer) < end:
            return None
        version, flags, stream, opcode, _ = HEADER.unpack_from(buffer)
        envelope = Envelope(version, flags, stream, opcode, bytes(buffer[HEADER.size : end]))
        del buffer[:end]
        self._length = None
        return envelope

    def _check_version(self) -> None:
        buffer = self._buffer
        version = buffer[0]
        if version in VERSIONS and self.version in (None, version):
            self.version = version
            return
        if len(buffer) < 4 and version & ~RESPONSE > 2:
            # Its stream is still to come.
            return
        stream = int.from_bytes(buffer[2:4], "big", signed=True) if version & ~RESPONSE > 2 else 0
        if version not in VERSIONS:
            raise UnsupportedVersion(version, stream)
        raise FramingViolation(
            f"Invalid message version. Got {version}/v{version} but previous messages on this connection had version "
            f"{self.version}/v{self.version}",
            stream,
        )


def encode_envelope(version: int, stream: int, opcode: Opcode, body: bytes, flags: int = 0) -> bytes:
    """Return a response's bytes."""
    return HEADER.pack(RESPONSE | version, flags, stream, opcode, len(body)) + body
