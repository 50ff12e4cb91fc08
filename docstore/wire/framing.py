"""Cutting a byte stream into frames.

A frame is one whole message with its header: int32 length of everything, int32 request id, int32 response to, int32
opcode, body; little-endian.

Always true: a length is checked before a single byte of the body is awaited, so that nobody can make us hold more than
`MAX_MESSAGE_BYTES` for a frame; what `next_frame` has given out is forgotten here.
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
"""What comes in smaller pieces is put together as it comes: as many objects it could take a multiple of its size."""


class FrameBuffer:
    """Feed it bytes as they come, take frames out."""

    __slots__ = ("_buffer", "_held", "_need", "_parts")

    def __init__(self) -> None:
        # What has come of a frame, behind what is in the parts.
        self._buffer = bytearray()
        # What has come of a large one, as it came: to let one buffer grow by each would copy it over and over.
        self._parts: list[bytes | bytearray] = []
        # Bytes in the parts.
        self._held = 0
        # Length of the frame that all of it begins with; 0 while unknown.
        self._need = 0

    def feed(self, data: bytes) -> None:
        """Take in bytes that arrived."""
        if self._parts and len(data) >= _PART_BYTES:
            self._set_apart()
            self._parts.append(data)
            self._held += len(data)
        else:
            self._buffer += data

    def next_frame(self) -> bytes | None:
        """The next whole frame, or None when more bytes are needed. Errors: ProtocolError on an impossible length."""
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
        """Make a part of the buffer."""
        if self._buffer:
            self._parts.append(self._buffer)
            self._held += len(self._buffer)
            self._buffer = bytearray()

    def _joined(self) -> bytes:
        """The large frame, of which the last part may hold more than its end."""
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
        """Bytes held."""
        return self._held + len(self._buffer)


def frame_length(data: bytes | bytearray) -> int:
    """The length that a frame's first four bytes announce. Errors: ProtocolError when no message can be that long."""
    length = int(_LENGTH.unpack_from(data)[0])
    if not HEADER_BYTES <= length <= MAX_MESSAGE_BYTES:
        raise ProtocolError(f"a message of {length} bytes is outside {HEADER_BYTES} to {MAX_MESSAGE_BYTES}")
    return length


def frame_opcode(frame: bytes) -> int:
    """The opcode in a whole frame's header."""
    return int(_LENGTH.unpack_from(frame, 12)[0])


def whole_frame(data: bytes) -> bool:
    """Whether the bytes are exactly one frame: the common case, which needs no buffer."""
    return HEADER_BYTES <= len(data) == int.from_bytes(data[:4], "little") <= MAX_MESSAGE_BYTES
