"""A relay that is awaited: because no transport has started it, or to do what its answer has left."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Generator
from typing import Any

from docstore.commands.declaration import Result
from docstore.commands.operations.relay import Relay


class AwaitedRelay(Relay):
    """`_begun`: `start` has been tried, and need not be again; it says so."""

    _begun = False

    def __await__(self) -> Generator[Any, Any, Result]:
        return self._whole().__await__()

    async def _whole(self) -> Result:
        if not self._begun:
            result = await answer_of(self)
            if result is not None:
                return result
        return await self._rest()

    @abstractmethod
    async def _rest(self) -> Result:
        """What is left to do in a task: all, where nothing could be sent."""


async def answer_of(relay: Relay) -> bytes | None:
    """Start the relay and wait for its answer; None where a task has to do what is left. Cancelled, it is too."""
    waiter: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
    if not relay.start(lambda result: None if waiter.done() else waiter.set_result(result)):
        return None
    try:
        return await waiter
    except asyncio.CancelledError:
        relay.cancel()
        raise
