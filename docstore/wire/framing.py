"""Framing: cutting a byte stream into messages.

A frame is one whole message with its header: int32 total length, int32 request id, int32 response to, int32 opcode,
body; little-endian.

- A length is checked before any byte of the body is awaited, so that a peer cannot make us buffer more than
  `MAX_MESSAGE_BYTES` per frame.
- `next_frame` transfers the frame: nothing of it stays here.
"""

from __future__ import annotations

from struct import Struct

from docstore.wire.errors import ProtocolError

MAX_MESSAGE_BYTES = 48_000_000
HEADER = Struct("<iiii")
HEADER_BYTES = HEADER.size
_LENGTH = Struct("<i")
_LARGE_BYTES = 256 * 1024
_PART_BYTES = 16 * 1024
"""Smaller pieces are joined as they arrive: as separate objects they could take a multiple of their size."""


class FrameBuffer:
    """A buffer that takes received bytes and returns frames."""

    __slots__ = ("_buffer", "_held", "_need", "_parts")

    def __init__(self) -> None:
        # The received part of a frame, after the parts.
        self._buffer = bytearray()
        # The received pieces of a large frame: growing one buffer would copy it repeatedly.
        self._parts: list[bytes | bytearray] = []
        # Total bytes of the parts.
        self._held = 0
        # Length of the current frame; 0 while unknown.
        self._need = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        if self._parts and len(data) >= _PART_BYTES:
            self._set_apart()
            self._parts.append(data)
            self._held += len(data)
        else:
            self._buffer += data

    def next_frame(self) -> bytes | None:
        """Return the next whole frame, or None if more bytes are needed. Errors: ProtocolError for an invalid
        length.
        """
        if self._parts:
            return None if len(self) < self._need else self._joined()
        buffer = self._buffer
        if not self._need:
            if len(buffer) < 4:
                return None
            self._need = frame_length(buffer)
        need = self._need
        if len(buffer) < need:
            if need > _LARGE_BYTES and len(buffer) >= HEADER_BYTES:
                self._set_apart()
            return None
        self._need = 0
        if len(buffer) == need:
            self._buffer = bytearray()
            return bytes(buffer)
        frame = bytes(memoryview(buffer)[:need])
        del buffer[:need]
        return frame

    def _set_apart(self) -> None:
        """Move the buffer to the parts."""
        if self._buffer:
            self._parts.append(self._buffer)
            self._held += len(self._buffer)
            self._buffer = bytearray()

    def _joined(self) -> bytes:
        """Return the large frame; the last part may extend beyond it."""
        self._set_apart()
        last = self._parts[-1]
        surplus = self._held - self._need
        if surplus:
            self._parts[-1] = last[:-surplus]
            self._buffer += last[-surplus:]
        frame = b"".join(self._parts)
        self._parts = []
        self._held = 0
        self._need = 0
        return frame

    def __len__(self) -> int:
        """Return the number of buffered bytes."""
        return self._held + len(self._buffer)


def frame_length(data: bytes | bytearray) -> int:
    """Return the length announced by a frame's first four bytes. Errors: ProtocolError if it exceeds the message
    limit.
    """
    length = int(_LENGTH.unpack_from(data)[0])
    if not HEADER_BYTES <= length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes is outside {HEADER_BYTES} to {MAX_MESSAGE_BYTES}")
    return length


def frame_opcode(frame: bytes) -> int:
    """Return the opcode in a whole frame's header."""
    return int(_LENGTH.unpack_from(frame, 12)[0])


def whole_frame(data: bytes) -> bool:
    """True if the bytes are exactly one frame: the common case, which needs no buffer."""
    return HEADER_BYTES <= len(data) == int.from_bytes(data[:4], "little") <= MAX_MESSAGE_BYTES
