"""A shard that was removed from its cluster lets go of what operations held on it.

Whoever has held a namespace there cannot reach it any more by its name, and goes on without it. A hold that stayed
would keep the namespace from the shard for good when it is added again; so that waits until none stands.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

LOG = component("SHARDING")
LOOK_SECONDS = 5.0


class Removal:
    """Looks now and then, while anything is held here, whether this is a shard of the cluster still."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="removal")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        holds, records = self._shard.shard_filter.holds, self._shard.records
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not holds.any or not records.may_write():
                continue
            stood = holds.all_standing()
            try:
                if not await self._is_removed():
                    continue
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
