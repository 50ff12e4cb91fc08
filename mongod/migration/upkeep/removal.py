"""A shard that was removed from its cluster releases the holds of other shards' operations.

A coordinator or donor cannot reach the removed shard by its name any more, and goes on without it. A hold that stayed
would block the namespace for good once the shard is added again, and an undecided range would stay reserved. Adding
the shard therefore waits until it has neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import CommandError
from docstore.log import component
from docstore.sharding.migration import Decision
from mongod.migration.upkeep.shard_task import ShardTask

if TYPE_CHECKING:
    from docstore.sharding.migration import Deletion
    from mongod.migration.recipient.driver import RecipientDriver
    from mongod.migration.shard_parts import ShardParts

LOG = component("SHARDING")


def undecided(shard: ShardParts) -> list[Deletion]:
    """Return the deletions of ranges that other shards sent and whose ownership they have not decided."""
    deletions: list[Deletion] = [*shard.records.deletions(), *shard.records.database_deletions()]
    return [deletion for deletion in deletions if deletion.pending and deletion.donor != shard.name]


class RemovalWatch(ShardTask):
    """Checks periodically, while a hold or an undecided range exists, that this shard is still in the cluster."""

    name = "removal"

    def __init__(self, shard: ShardParts, recipient: RecipientDriver) -> None:
        super().__init__(shard)
        self._recipient = recipient

    async def run_pass(self) -> None:
        shard, holds = self._shard, self._shard.shard_filter.holds
        if shard.identity is None or not shard.records.may_write():
            return
        stood, received = holds.all_standing(), undecided(shard)
        try:
            if not (stood or received) or not await shard.config_servers().is_removed(shard.name):
                return
            for hold in stood:
                LOG.info("Hold ended: this shard was removed", ns=hold.namespace)
                holds.release(shard.records, hold)
            for migration in received:
                # Were it ours, no removal would have ended before the chunk had gone again.
                LOG.info("Migration ended: this shard was removed", ns=migration.namespace, range=str(migration))
                await self._recipient.resolve(migration.id, migration.namespace, Decision.ABORTED)
        except CommandError as error:
            LOG.info("What is held here stays for now", reason=error.message)
