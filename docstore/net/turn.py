# cython: annotation_typing=False
"""Batching per turn of the loop: the input of a turn is handled together, and its output is sent together.

A send wakes its receiver, which competes for processors with the rest of the turn; and alternating between socket work
and request work finds cold caches. With 32 connections of one client that cost a tenth of an insert and more. Frames
sent after the first one find the client awake.

- Frames are handled in order of arrival and sent in the order of `enqueue`.
- Nothing waits beyond the turn. Within one, the next `enqueue` also sends frames that have waited for `MOST_SECONDS`,
  so that client and server work in parallel.
- If the previous frame came from the same connection, which waits for each reply, no other frame is expected: it is
  handled at once.
- Call `send` before writing to a transport directly, or closing it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

import cython

MOST_SECONDS = 120e-6
MOST_BYTES = 16_384
"""Longer frames do not benefit, and would have to be buffered."""


class Taker(Protocol):
    """A connection that handles frames."""

    def begin(self, frame: bytes, /) -> None:
        """Handle a frame."""


class Traffic:
    """Traffic counters of one listener's connections."""

    __slots__ = ("bytes_in", "bytes_out", "requests")

    def __init__(self) -> None:
        self.bytes_in: cython.Py_ssize_t = 0
        self.bytes_out: cython.Py_ssize_t = 0
        self.requests: cython.Py_ssize_t = 0


class Turn:
    """The shared input and output of one loop's connections. `clock`: seconds."""

    __slots__ = ("_clock", "_held", "_last", "_loop", "_scheduled", "_taken", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._taken: deque[tuple[Taker, bytes]] = deque()
        self._last: Taker | None = None
        self._held: list[tuple[asyncio.Transport, bytes]] = []
        self._until: cython.double = 0.0
        self._scheduled = False

    @property
    def waits(self) -> bool:
        """True if a received frame is not handled yet."""
        return bool(self._taken)

    @cython.ccall
    def take(self, taker: Taker, frame: bytes) -> None:
        """Give `taker` the frame once all input of the turn is there."""
        self._taken.append((taker, frame))
        if taker is self._last and not self._scheduled:
            self._scheduled = True
            self._finish()
        else:
            self._last = taker
            self._schedule()

    @cython.ccall
    def enqueue(self, transport: asyncio.Transport, frame: bytes) -> None:
        """Send the frame at the end of the turn, or earlier."""
        frames = self._held
        frames.append((transport, frame))
        if len(frames) == 1:
            self._until = self._clock() + MOST_SECONDS
            self._schedule()
        elif len(frame) > MOST_BYTES or self._clock() >= self._until:
            self.send()

    @cython.ccall
    def send(self) -> None:
        """Send all buffered frames; those of closed transports are dropped."""
        frames, self._held = self._held, []
        for transport, frame in frames:
            if not transport.is_closing():
                transport.write(frame)

    @cython.cfunc
    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        pending = self._taken
        try:
            while pending:
                taker, frame = pending.popleft()
                taker.begin(frame)
            self.send()
        finally:
            self._scheduled = False
            if pending or self._held:
                # One handler has failed; the others continue.
                self._schedule()
