# cython: annotation_typing=False
"""Batching per turn of the loop: the input of a turn is handled together, and its output is sent together.

A send wakes its receiver, which competes for processors with the rest of the turn; and alternating between socket work
and request work finds cold caches. With 32 connections of one client that cost a tenth of an insert and more. Frames
sent after the first one find the client awake.

- Frames are handled in order of arrival and sent in the order of `enqueue`.
- No reply waits beyond the turn. Within one, the next `enqueue` also sends frames that have waited for `MOST_SECONDS`,
  so that client and server work in parallel.
- If the previous frame came from the same connection, which waits for each reply, no other frame is expected: it is
  handled at once.
- Call `send` before writing to a transport directly, or closing it.
- The first request of each connection is handled in the turn in which it came. What connections have beyond that
  is deferred: all connections together get `DEFERRED_SECONDS` a turn for it, in rotation, and then those of clients
  that have not logged in `STRANGERS_SECONDS`. So whoever sends much waits for its own, and nobody else does.
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


DEFERRED_SECONDS = 0.005
"""The time that deferred work may hold the loop in one turn, all connections together."""
STRANGERS_SECONDS = 0.002
"""The same for the connections of clients that have not logged in where they must."""
SHARE_SECONDS = 0.0005
"""The time for which one connection may go on with deferred work before the next."""


class Worker(Protocol):
    """A connection that has deferred work."""

    def advance(self, until: float, /) -> None:
        """Do one step of the work, and more until the time `until`; defer what remains."""


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

    __slots__ = ("_clock", "_deferred", "_held", "_last", "_loop", "_of_strangers", "_scheduled", "_taken", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._taken: deque[tuple[Taker, bytes]] = deque()
        self._deferred: deque[Worker] = deque()
        self._of_strangers: deque[Worker] = deque()
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
    def defer(self, worker: Worker, is_stranger: bool) -> None:
        """Let the worker advance in its share of the time for deferred work. `is_stranger`: after all that are none."""
        if is_stranger:
            self._of_strangers.append(worker)
        else:
            self._deferred.append(worker)
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
            if self._deferred or self._of_strangers:
                self._work_off()
            self.send()
        finally:
            self._scheduled = False
            if pending or self._held or self._deferred or self._of_strangers:
                # One handler has failed, and the others continue; or not all deferred work is done.
                self._schedule()

    @cython.cfunc
    def _work_off(self) -> None:
        """Do deferred work in its time."""
        self._rotate(self._deferred, DEFERRED_SECONDS)
        self._rotate(self._of_strangers, STRANGERS_SECONDS)

    @cython.cfunc
    def _rotate(self, workers: deque[Worker], seconds: float) -> None:
        now = self._clock()
        until = now + seconds
        while workers and now < until:
            workers.popleft().advance(now + SHARE_SECONDS)
            now = self._clock()
