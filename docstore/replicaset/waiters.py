"""Waiting for conditions that progress makes true; they are checked after every event, never by a timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Waiters:
    """Coroutines that wait for their conditions."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[bool], Callable[[], bool]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def wake(self) -> None:
        """Check every condition; call it after any change that may affect one."""
        if self._waiting:
            for future, condition in list(self._waiting.items()):
                if not future.done() and condition():
                    future.set_result(True)

    async def wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Return True when `condition()` holds, False after `timeout` seconds (None: no limit)."""
        if condition():
            return True
        if timeout is not None and timeout <= 0:
            return False
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        timer = None if timeout is None else loop.call_later(timeout, _expire, future)
        self._waiting[future] = condition
        try:
            return await future
        finally:
            del self._waiting[future]
            if timer is not None:
                timer.cancel()


def _expire(future: asyncio.Future[bool]) -> None:
    if not future.done():
        future.set_result(False)
