"""What operations hold in memory of documents that are still to be given out: sorted ones, groups, batches read ahead.

All of it is counted against one limit for the process, however many cursors are open. Whoever adds to it looks whether
there is too much (`OperationBuffers.crowded`) and then writes what it holds to disk, or reads less ahead, or refuses.

Always true: `BUFFERS.held` is the sum of what open operations have taken; one that is closed holds nothing.
"""

from __future__ import annotations

LIMIT_BYTES = 128 * 1024 * 1024

SMALL_BYTES = 1024 * 1024
"""What one operation may hold in any case."""


class ProcessBuffers:
    """The buffers of the process together, in bytes; `limit` may be changed at any time."""

    __slots__ = ("held", "limit", "spilled")

    def __init__(self) -> None:
        self.held = 0
        self.limit = LIMIT_BYTES
        self.spilled = 0
        """Bytes that were written to disk so far, for whatever reason."""


BUFFERS = ProcessBuffers()


class OperationBuffers:
    """The share of one operation, from its start to the end of its cursor."""

    __slots__ = ("_closed", "held", "most")

    def __init__(self) -> None:
        self.held = 0
        self.most = 0
        """What it has held at once, at most."""
        self._closed = False

    def change(self, size: int) -> None:
        """So many bytes more, or fewer where it is negative."""
        if not self._closed:
            self.held += size
            BUFFERS.held += size
            if self.held > self.most:
                self.most = self.held

    @property
    def crowded(self) -> bool:
        """Whether this operation ought to hold less: there is too much in the process, and it has its part in that."""
        return BUFFERS.held > BUFFERS.limit and self.held > SMALL_BYTES

    def close(self) -> None:
        """Give everything back; what is said afterwards counts for nothing."""
        if not self._closed:
            self._closed = True
            BUFFERS.held -= self.held
            self.held = 0

    def __del__(self) -> None:
        # An operation that fails before it has a cursor may just be forgotten.
        self.close()
