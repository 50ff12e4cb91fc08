"""Copy of the cluster's default concerns on a shard.

A router sets them in `config.settings` of the config servers. Each shard's primary copies the document to
`config.settings` of its own set, where every member reads it (`docstore.replicaset.concern_defaults`). A default from
before the shard was added applies until the cluster has one.
"""

from __future__ import annotations

from docstore.errors import CommandError
from docstore.log import component
from docstore.namespace import SETTINGS_NS
from docstore.replicaset.replicaset import ReplicaSet
from mongod.migration.upkeep.shard_task import ShardTask

LOG = component("SHARDING")


class ConcernDefaultsWatch(ShardTask):
    """Copies the cluster's defaults periodically, on a primary, when they have changed."""

    name = "concern defaults"
    seconds = 1.0

    async def run_pass(self) -> None:
        shard, replication = self._shard, self._node.replication
        if shard.identity is None or not isinstance(replication, ReplicaSet) or not shard.records.may_write():
            return
        try:
            document = await shard.config_servers().concern_defaults()
            if document is not None and document != replication.concern_defaults.document:
                await self._node.store.write_lock.wait()
                shard.records.write((SETTINGS_NS, document))
                LOG.info("The cluster's default concerns", defaults=str(document))
        except CommandError as error:
            LOG.debug("The cluster's default concerns are not known", reason=error.message)
