"""The config server's own parts, over those of a data node.

A command changes the catalog in one step of the loop and then waits in `committed` until a majority has the change:
its reply is never rolled back.
"""

from __future__ import annotations

import asyncio
from typing import Any

from configsvr.catalog.changelog import Changelog
from configsvr.catalog.chunks import Chunks
from configsvr.catalog.cluster import Cluster
from configsvr.catalog.leases import Leases
from configsvr.catalog.records import CollectionRecord
from configsvr.catalog.tables import Tables
from configsvr.shard_hosts import ShardHosts
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.namespace import split_namespace
from docstore.net import Pool
from docstore.net.peers import Peers
from docstore.node.node import DataNode
from docstore.sharding.ddl.requests import drop_collection

LOG = component("SHARDING")
COMMIT_MS = 15_000
"""The time limit for a change to reach a majority, after which its outcome is reported as unknown."""
_MAJORITY = WriteConcern("majority", timeout_ms=COMMIT_MS)
_LOOK_SECONDS = 0.5


class ConfigServer:
    """The catalog, and the service that completes its multi-step changes."""

    def __init__(self, node: DataNode, pool: Pool) -> None:
        self.node = node
        self.peers = Peers(pool)
        self.tables = Tables(node.store, node.wall_clock)
        self.cluster = Cluster(self.tables)
        self.chunks = Chunks(self.tables)
        self.leases = Leases(self.tables)
        self.changelog = Changelog(self.tables, node.settings.address)
        self.shard_hosts = ShardHosts(node, self.cluster, self.peers, self.committed)
        self._watch: asyncio.Task[None] | None = None
        self._hosts: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to maintain the catalog whenever this node is primary."""
        self._watch = asyncio.ensure_future(self._look_after())
        self._hosts = asyncio.ensure_future(self.shard_hosts.run())

    async def stop(self) -> None:
        tasks = [task for task in (self._watch, self._hosts) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.peers.close()

    @property
    def connection_string(self) -> str:
        """This set as shards know it: "set/h:p,h:p"."""
        hello = self.node.replication.hello()
        return f"{hello['setName']}/{','.join(hello['hosts'])}"

    def ready(self) -> None:
        """Create missing config collections; called before the catalog is changed."""
        self.tables.initialise()

    async def committed(self) -> None:
        """Wait until a majority has everything written here, also writes of earlier requests.

        WriteConcernFailed when it takes too long: the outcome is unknown.
        """
        error: dict[str, Any] | None = await self.node.replication.wait_write(
            self.node.store.last_optime, _MAJORITY, None
        )
        if error is not None:
            raise CommandError(Code.WriteConcernFailed, f"no majority has the change yet: {error.get('errmsg')}")

    async def _look_after(self) -> None:
        """Complete the collections as a new primary, and finish interrupted drops."""
        replication = self.node.replication
        while True:
            if replication.hello().get("isWritablePrimary"):
                try:
                    self.ready()
                    for record in self.chunks.being_dropped():
                        await self._have_dropped(record)
                except CommandError as error:
                    LOG.info("Put off", reason=str(error))
            counter = int(replication.topology_version()["counter"])
            await replication.wait_topology_change(counter, _LOOK_SECONDS)

    async def _have_dropped(self, record: CollectionRecord) -> None:
        """Let the primary shard of the database finish a drop."""
        database = self.cluster.database(split_namespace(record.namespace)[0])
        if database is None:
            self.chunks.remove(record)
            return
        LOG.info("Carrying on a drop", ns=record.namespace)
        host = self.cluster.shard(database.primary).host
        await self.peers.command(host, "admin", drop_collection(record.namespace, record.uuid))


def server_of(context: Context) -> ConfigServer:
    """Return the config server that serves this request."""
    return context.services.parts[ConfigServer]
