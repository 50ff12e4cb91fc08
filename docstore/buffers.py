"""Memory accounting of buffered documents: sorts, groups, and batches read ahead.

All buffers count against one limit for the process, however many cursors are open. An operation that adds to its
buffer checks the limit (`OperationBuffers.crowded`) and then spills to disk, reads less ahead, or refuses.

Invariant: `BUFFERS.held` is the sum of what open operations have taken; a closed one holds nothing.
"""

from __future__ import annotations

LIMIT_BYTES = 128 * 1024 * 1024

SMALL_BYTES = 1024 * 1024
"""The size up to which an operation's buffer is always allowed."""


class ProcessBuffers:
    """The buffers of the whole process, in bytes; `limit` may be changed at any time."""

    __slots__ = ("held", "limit", "spilled")

    def __init__(self) -> None:
        self.held = 0
        self.limit = LIMIT_BYTES
        self.spilled = 0
        """The number of bytes spilled to disk so far, for any reason."""


BUFFERS = ProcessBuffers()


class OperationBuffers:
    """The share of one operation, from its start to the end of its cursor."""

    __slots__ = ("_closed", "held", "most")

    def __init__(self) -> None:
        self.held = 0
        self.most = 0
        """The peak of `held`."""
        self._closed = False

    def change(self, size: int) -> None:
        """Add `size` bytes to the buffer; a negative size releases them."""
        if not self._closed:
            self.held += size
            BUFFERS.held += size
            if self.held > self.most:
                self.most = self.held

    @property
    def crowded(self) -> bool:
        """True if this operation should hold less: the process exceeds its limit, and this operation's share is not
        small.
        """
        return BUFFERS.held > BUFFERS.limit and self.held > SMALL_BYTES

    def close(self) -> None:
        """Release everything; later changes have no effect."""
        if not self._closed:
            self._closed = True
            BUFFERS.held -= self.held
            self.held = 0

    def __del__(self) -> None:
        # An operation that fails before it has a cursor may just be forgotten.
        self.close()
