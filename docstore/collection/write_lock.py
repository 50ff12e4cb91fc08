"""fsyncLock: a lock that blocks writes while an administrator copies the files.

Every writer waits for it before each unit, and nothing awaits between the check and the commit, so no write is in
progress once the lock is taken. The election state of a replica set member is exempt.
"""

from __future__ import annotations

import asyncio


class WriteLock:
    """A recursive lock: held until released as often as taken."""

    def __init__(self) -> None:
        self.count = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def is_held(self) -> bool:
        return self.count > 0

    def take(self) -> None:
        self.count += 1

    def release(self) -> None:
        """Release it once; the last release wakes the waiters."""
        assert self.count, "the lock is not held"
        self.count -= 1
        if not self.count:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        """Return once nobody holds the lock; this is valid until the next await."""
        while self.count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
