"""The cluster-wide settings of splitting and balancing, from config.settings.

Documents: `{_id: "chunksize", value: MB}`, `{_id: "balancer", stopped: bool, mode: "full"|"off"}`,
`{_id: "autosplit", enabled: bool}`. Read again by every balancer round and when this router changes one.
"""

from __future__ import annotations

from docstore.sharding.split import DEFAULT_CHUNK_BYTES, MIB
from mongos.routing.shards import CONFIG, Shard


class BalancerSettings:
    """The settings of the last read. Before the first read the defaults apply."""

    def __init__(self, config: Shard) -> None:
        self._config = config
        self.chunk_bytes = DEFAULT_CHUNK_BYTES
        self.balancing = True
        self.autosplit = True

    async def refresh(self) -> None:
        answer = await self._config.command(CONFIG, {"find": "settings"}, repeatable=True)
        rows = {row["_id"]: row for row in answer.decoded()["cursor"]["firstBatch"]}
        self.chunk_bytes = int(rows.get("chunksize", {}).get("value", DEFAULT_CHUNK_BYTES // MIB) * MIB)
        balancer = rows.get("balancer", {})
        self.balancing = not balancer.get("stopped", False) and balancer.get("mode", "full") != "off"
        self.autosplit = bool(rows.get("autosplit", {}).get("enabled", True))

    async def set_balancing(self, on: bool) -> None:
        """Write the setting for all routers, with write concern majority."""
        await self._config.command(
            CONFIG,
            {
                "update": "settings",
                "updates": [
                    {
                        "q": {"_id": "balancer"},
                        "u": {"$set": {"stopped": not on, "mode": "full" if on else "off"}},
                        "upsert": True,
                    }
                ],
                "writeConcern": {"w": "majority", "wtimeout": 15000},
            },
            repeatable=True,
        )
        await self.refresh()
