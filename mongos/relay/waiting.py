"""A relay that no transport has started."""

from __future__ import annotations

import asyncio

from docstore.commands.operations.relay import Relay


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
