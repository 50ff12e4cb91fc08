"""Fair shares of a pool of workers: no owner can block others by holding all of them.

- Usually at most `size` slots are held; waiting requests get them in order of arrival.
- An owner that holds none gets one even so, while no more than `size` additional ones are held. So an owner whose
  work never ends uses up its own share, and every other owner's first request runs at once.
- Of the waiting owners, the one with the fewest slots comes first.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from typing import NamedTuple


class _Waiter(NamedTuple):
    owner: Hashable
    admitted: asyncio.Future[None]


class FairShares:
    """Slots that are held by owners, any of which may be None."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._held: Counter[Hashable] = Counter()
        self._waiting: list[_Waiter] = []

    @asynccontextmanager
    async def slot(self, owner: Hashable) -> AsyncIterator[None]:
        """Hold a slot for as long as the context lasts, once there is one."""
        if self._may_hold(owner):
            self._held[owner] += 1
        else:
            await self._wait(owner)
        try:
            yield
        finally:
            self._let_go(owner)

    def _may_hold(self, owner: Hashable) -> bool:
        total = self._held.total()
        return total < self._size or (total < 2 * self._size and not self._held[owner])

    async def _wait(self, owner: Hashable) -> None:
        waiter = _Waiter(owner, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await waiter.admitted
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif waiter.admitted.done() and not waiter.admitted.cancelled():
                self._let_go(owner)
            raise

    def _let_go(self, owner: Hashable) -> None:
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        while self._waiting:
            following = min(self._waiting, key=lambda waiter: self._held[waiter.owner])
            if not self._may_hold(following.owner):
                return
            self._waiting.remove(following)
            if not following.admitted.done():  # else it was cancelled, and does not know yet
                self._held[following.owner] += 1
                following.admitted.set_result(None)
