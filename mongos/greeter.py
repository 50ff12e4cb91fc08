"""What a router says of itself in hello: it is one, and that never changes while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId


class RouterGreeter:
    """Drivers that wait for news of a router wait in vain until their time is up, or until it stops."""

    def __init__(self) -> None:
        self._process = ObjectId()
        self._stopping = asyncio.Event()

    def hello(self) -> Mapping[str, Any]:
        return {"isWritablePrimary": True, "msg": "isdbgrid"}

    def topology_version(self) -> Mapping[str, Any]:
        return {"processId": self._process, "counter": Int64(0)}

    async def wait_topology_change(self, counter: int, timeout: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), timeout)
        except TimeoutError:
            return

    def stop(self) -> None:
        """Let those who wait go."""
        self._stopping.set()
