"""The lock that keeps writes out while an administrator copies the files: fsyncLock.

Whatever writes looks here before each of its units and waits while the lock is held; between the look and the commit
nothing is awaited, so that no write is under way once the lock has been taken. What a member of a set must remember of
elections is written all the same.
"""

from __future__ import annotations

import asyncio


class WriteLock:
    """A lock that is held as often as it was taken."""

    def __init__(self) -> None:
        self.count = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def held(self) -> bool:
        return self.count > 0

    def take(self) -> None:
        self.count += 1

    def release(self) -> None:
        """Give it back once; at the last time those who wait go on."""
        assert self.count, "the lock is not held"
        self.count -= 1
        if not self.count:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)

    async def wait(self) -> None:
        """Return while nobody holds the lock; holds until the next await."""
        while self.count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
