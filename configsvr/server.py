"""The config server's own parts, over those of a data node.

A command changes the catalog in one step of the loop and then waits in `committed` until a majority has the change:
what it answers is never rolled back.
"""

from __future__ import annotations

import asyncio
from typing import Any

from configsvr.catalog.changelog import Changelog
from configsvr.catalog.chunks import Chunks
from configsvr.catalog.cluster import OWN_DATABASES, Cluster
from configsvr.catalog.leases import Leases
from configsvr.catalog.records import CollectionRecord
from configsvr.catalog.tables import Tables
from configsvr.peers import Peers
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import Pool
from docstore.node.node import DataNode

LOG = component("SHARDING")
COMMIT_MS = 15_000
"""How long a change may wait for a majority before its outcome is reported as unknown."""
_MAJORITY = WriteConcern("majority", timeout_ms=COMMIT_MS)
_LOOK_SECONDS = 0.5


class ConfigServer:
    """The catalog and what carries its multi-step changes to their end."""

    def __init__(self, node: DataNode, pool: Pool) -> None:
        self.node = node
        self.peers = Peers(pool)
        self.tables = Tables(node.store, node.wall_clock)
        self.cluster = Cluster(self.tables)
        self.chunks = Chunks(self.tables)
        self.leases = Leases(self.tables)
        self.changelog = Changelog(self.tables, node.settings.address)
        self._watch: asyncio.Task[None] | None = None
        self._dropping: dict[str, asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Begin to look after the catalog whenever this node is primary."""
        self._watch = asyncio.ensure_future(self._look_after())

    async def stop(self) -> None:
        tasks = [task for task in (self._watch, *self._dropping.values()) if task is not None]
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
        """Make sure that the config collections are there; called before the catalog is changed."""
        self.tables.initialise()

    async def committed(self) -> None:
        """Wait until a majority has everything written here so far, what was found done included.

        WriteConcernFailed when it takes too long: the outcome is unknown.
        """
        error: dict[str, Any] | None = await self.node.replication.wait_write(
            self.node.store.last_optime, _MAJORITY, None
        )
        if error is not None:
            raise CommandError(Code.WriteConcernFailed, f"no majority has the change yet: {error.get('errmsg')}")

    async def drop_collection(self, record: CollectionRecord) -> None:
        """Drop a sharded collection everywhere. Two calls for one collection are one drop."""
        task = self._dropping.get(record.namespace)
        if task is None:
            task = asyncio.ensure_future(self._drop_collection(record))
            self._dropping[record.namespace] = task
            task.add_done_callback(lambda _: self._dropping.pop(record.namespace, None))
        await asyncio.shield(task)

    async def _drop_collection(self, record: CollectionRecord) -> None:
        if not record.dropping:
            self.chunks.begin_drop(record)
            self.changelog.add("dropCollection.start", record.namespace, {})
        await self.committed()
        command = {"_shardsvrDropCollection": record.namespace, "uuid": record.uuid, "epoch": record.epoch}
        for shard in self.cluster.shards():
            await self.peers.command(shard.host, "admin", command)
        self.chunks.finish_drop(record)
        self.changelog.add("dropCollection", record.namespace, {})
        await self.committed()

    async def drop_database(self, name: str) -> bool:
        """Drop a database everywhere; false when the cluster does not know it."""
        database = self.cluster.database(name)
        if database is None:
            return False
        if name in OWN_DATABASES:
            raise CommandError(Code.IllegalOperation, f"Cannot drop the {name} database")
        for record in self.chunks.of_database(name):
            await self.drop_collection(record)
        self.changelog.add("dropDatabase.start", name, {})
        for shard in self.cluster.shards():
            await self.peers.command(shard.host, name, {"dropDatabase": 1, "writeConcern": {"w": "majority"}})
        self.cluster.drop_database(name)
        self.changelog.add("dropDatabase", name, {})
        await self.committed()
        return True

    async def _look_after(self) -> None:
        """As a new primary: complete the collections, and carry on the drops that the old one began."""
        replication = self.node.replication
        while True:
            if replication.hello().get("isWritablePrimary"):
                try:
                    self.ready()
                    for record in self.chunks.being_dropped():
                        LOG.info("Carrying on a drop", ns=record.namespace)
                        await self.drop_collection(record)
                except CommandError as error:
                    LOG.info("Put off", reason=str(error))
            counter = int(replication.topology_version()["counter"])
            await replication.wait_topology_change(counter, _LOOK_SECONDS)


def server_of(context: Context) -> ConfigServer:
    """The config server that answers this request."""
    return context.services.parts[ConfigServer]
