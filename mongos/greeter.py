"""The router's reply to hello. It does not change while the router runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from bson.int64 import Int64
from bson.objectid import ObjectId


class RouterGreeter:
    """Awaitable hello never has news: drivers wait until their time is up, or until the router stops."""

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
        """Release the waiting drivers."""
        self._stopping.set()
