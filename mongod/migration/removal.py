"""A shard that was removed from its cluster lets go of what operations held on it.

Whoever has held a namespace there cannot reach it any more by its name, and goes on without it. A hold that stayed
would keep the namespace from the shard for good when it is added again; so that waits until none stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component
from docstore.node.upkeep.periodic import PeriodicTask

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

LOG = component("SHARDING")
LOOK_SECONDS = 5.0


class Removal(PeriodicTask):
    """Looks now and then, while anything is held here, whether this is a shard of the cluster still."""

    name = "removal"

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard.node)
        self._shard = shard

    def interval(self) -> float:
        return LOOK_SECONDS

    async def run_pass(self) -> None:
        holds, records = self._shard.shard_filter.holds, self._shard.records
        if not holds.any or not records.may_write():
            return
        stood = holds.all_standing()
        try:
            if not await self._is_removed():
                return
            for hold in stood:
                LOG.info("Hold ended: this shard was removed", ns=hold.namespace)
                holds.release(records, hold)
        except CommandError as error:
            LOG.info("Holds stay for now", reason=error.message)

    async def _is_removed(self) -> bool:
        """Whether the cluster has no shard of this name, now: a deposed config server must not say so."""
        command = {
            "find": "shards", "filter": {"_id": self._shard.name}, "readConcern": {"level": "linearizable"},
            "maxTimeMS": 10_000,
        }  # fmt: skip
        reply = await self._shard.config_servers().command(command, db="config")
        return not document_to_python(reply)["cursor"]["firstBatch"]
