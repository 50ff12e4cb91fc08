"""The cluster-wide settings of splitting and balancing, as the config servers evaluate them
(`docstore.sharding.balancing.settings`).

Read again by every balancer round and before each move, and when this router changes one.
"""

from __future__ import annotations

from docstore.sharding import requests
from docstore.sharding.balancing.settings import FULL, OFF, BalancingSettings
from mongos.routing.shards import CONFIG, Shard


class BalancerSettings:
    """The settings of the last read. Before the first read the defaults apply."""

    def __init__(self, config: Shard) -> None:
        self._config = config
        self._last = BalancingSettings()

    @property
    def chunk_bytes(self) -> int:
        return self._last.chunk_bytes

    @property
    def mode(self) -> str:
        return self._last.mode

    @property
    def autosplit(self) -> bool:
        return self._last.autosplit

    @property
    def balancing(self) -> bool:
        """True if chunks may be balanced: by the mode, and in the active window."""
        return self._last.active

    @property
    def problem(self) -> str:
        """Why a setting cannot be read; empty if all can."""
        return self._last.problem

    async def refresh(self) -> None:
        reply = await self._config.command("admin", requests.get_balancing_settings(), repeatable=True)
        self._last = BalancingSettings.from_document(reply.decoded())

    async def set_balancing(self, on: bool) -> None:
        """Write the setting for all routers, with write concern majority."""
        await self._config.command(
            CONFIG,
            {
                "update": "settings",
                "updates": [
                    {
                        "q": {"_id": "balancer"},
                        "u": {"$set": {"stopped": not on, "mode": FULL if on else OFF}},
                        "upsert": True,
                    }
                ],
                "writeConcern": {"w": "majority", "wtimeout": 15000},
            },
            repeatable=True,
        )
        await self.refresh()
