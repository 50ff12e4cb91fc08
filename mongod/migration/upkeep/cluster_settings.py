"""Copies of the cluster's settings on a shard: the default concerns, and the cluster parameters.

A router sets them in `config.settings` and `config.clusterParameters` of the config servers. Each shard's primary
copies the documents to the collections of the same names of its own set, where every member reads them
(`docstore.replicaset.concern_defaults`, `docstore.node.cluster_parameters`). A setting from before the shard was added
applies until the cluster has one.
"""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component
from docstore.replicaset.replicaset import ReplicaSet
from mongod.migration.holds import stored_document
from mongod.migration.upkeep.shard_task import ShardTask

LOG = component("SHARDING")


class ClusterSettingsWatch(ShardTask):
    """Copies the cluster's settings periodically, on a primary, when they have changed."""

    name = "cluster settings"
    seconds = 1.0

    async def run_pass(self) -> None:
        shard, replication = self._shard, self._node.replication
        if shard.identity is None or not isinstance(replication, ReplicaSet) or not shard.records.may_write():
            return
        try:
            for namespace, document in await shard.config_servers().cluster_settings():
                copied = stored_document(self._node, namespace, document["_id"])
                if copied is None or document_to_python(copied) != document:
                    await self._node.store.write_lock.wait()
                    shard.records.write((namespace, document))
                    LOG.info("A setting of the cluster", ns=namespace, setting=str(document))
        except CommandError as error:
            LOG.debug("The cluster's settings are not known", reason=error.message)
