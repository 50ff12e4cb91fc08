# cython: annotation_typing=False
"""A turn of the loop: what has come in it is handled together, and what is to be sent leaves together.

To send wakes whoever waits for it, who then takes processors from the rest of the turn, and each change between the
work on sockets and the work on requests finds cold caches: with 32 connections of one client that was a tenth of an
insert and more. What is sent behind the first frame finds the client awake.

Always true: frames are handled in the order in which they came and sent in the order in which they were put; nothing
waits beyond the turn, and while one goes on, the next frame that is put takes along what has waited for `MOST_SECONDS`,
so that a client works while the server does; of a connection that sent the last frame too, which waits for each reply,
nothing else is expected; whoever writes to a transport by other ways, or closes it, calls `send`
before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

MOST_SECONDS = 120e-6
MOST_BYTES = 16_384
"""Longer frames gain nothing by it, and would have to be kept."""


class Taker(Protocol):
    """A connection."""

    def begin(self, frame: bytes, /) -> None:
        """Handle a frame."""


class Traffic:
    """What the connections of one listener have taken in and sent, since it began."""

    __slots__ = ("bytes_in", "bytes_out", "requests")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests = 0


class Turn:
    """What the connections of one loop share. `clock`: seconds."""

    __slots__ = ("_clock", "_held", "_last", "_loop", "_scheduled", "_taken", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        self._loop = loop
        self._clock = clock
        self._taken: deque[tuple[Taker, bytes]] = deque()
        self._last: Taker | None = None
        self._held: list[tuple[asyncio.Transport, bytes]] = []
        self._until = 0.0
        self._scheduled = False

    @property
    def waits(self) -> bool:
        """Whether a frame that has come is not handled yet."""
        return bool(self._taken)

    def take(self, taker: Taker, frame: bytes) -> None:
        """Give `taker` the frame when all that has come with it is there."""
        self._taken.append((taker, frame))
        if taker is self._last and not self._scheduled:
            self._scheduled = True
            self._finish()
        else:
            self._last = taker
            self._schedule()

    def put(self, transport: asyncio.Transport, frame: bytes) -> None:
        """Send the frame when the turn is over, or before."""
        held = self._held
        held.append((transport, frame))
        if len(held) == 1:
            self._until = self._clock() + MOST_SECONDS
            self._schedule()
        elif len(frame) > MOST_BYTES or self._clock() >= self._until:
            self.send()

    def send(self) -> None:
        """Send all that is held; what is for a transport that has been closed is dropped."""
        held, self._held = self._held, []
        for transport, frame in held:
            if not transport.is_closing():
                transport.write(frame)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._finish)

    def _finish(self) -> None:
        taken = self._taken
        try:
            while taken:
                taker, frame = taken.popleft()
                taker.begin(frame)
            self.send()
        finally:
            self._scheduled = False
            if taken or self._held:
                # One of them has failed, which is no matter of the others.
                self._schedule()
