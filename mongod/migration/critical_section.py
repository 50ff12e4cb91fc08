"""What operations wait for while a collection changes hands or is changed itself."""

from __future__ import annotations

import asyncio


class CriticalSection:
    """Operations on one collection, or on a database, wait for its end; reads too once `reads` is set.

    `unsharded_only`: those on sharded collections do not wait.
    """

    def __init__(self) -> None:
        self.reads = False
        self.unsharded_only = False
        self._ended = asyncio.Event()

    async def wait(self) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()
