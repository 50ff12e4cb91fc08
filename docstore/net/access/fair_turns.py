"""Turns at costly work: few at a time, and whoever asks for many waits behind their own, not before others.

Those who wait are queued by key (who asks), and the keys are served in rotation.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class FairTurns:
    """At most `at_once` turns are taken at a time."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait for a turn, and hold it until the block is left."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(key)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, key: Hashable) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._queues.setdefault(key, deque()).append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.cancelled():
                self._forget(key, waiting)
            else:
                # The turn was given in the moment in which its taker gave up.
                self._pass_on()
            raise

    def _forget(self, key: Hashable, waiting: asyncio.Future[None]) -> None:
        queue = self._queues.get(key)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._queues[key]

    def _pass_on(self) -> None:
        """Give a turn that has ended to the next key's first."""
        while self._queues:
            key, queue = self._queues.popitem(last=False)
            waiting = queue.popleft()
            if queue:
                self._queues[key] = queue
            if not waiting.done():
                waiting.set_result(None)
                return
        self._free += 1
