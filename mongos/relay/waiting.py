"""A relay as an awaitable: for callers that no transport has started, or to finish in a task."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Generator
from typing import Any

from docstore.commands.declaration import Result
from docstore.commands.operations.relay import Relay


class AwaitedRelay(Relay):
    """A relay to await. `_started`: `start` was tried before, and is not called again."""

    _started = False

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._whole().__await__()

    async def _whole(self) -> Result:
        if not self._started:
            result = await answer_of(self)
            if result is not None:
                return result
        return await self._rest()

    @abstractmethod
    async def _rest(self) -> Result:
        """Do the rest in a task: everything, if the request could not be sent."""


async def answer_of(relay: Relay) -> bytes | None:
    """Start the relay and wait for its answer; None if a task must finish. Cancelling the wait cancels the relay."""
    waiter: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    if not relay.start(lambda result: None if waiter.done() else waiter.set_result(result)):
        return None
    try:
        return await waiter
    except asyncio.CancelledError:
        relay.cancel()
        raise
