"""Keeps `config.shards` in accord with the shards' current members.

The primary asks every shard's primary for the members, in turn, and records changes. A shard that does not answer
stays unchanged. Members are found through the recorded ones, as long as one of them is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from configsvr.catalog.cluster import Cluster
from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component
from docstore.net.peers import Peers
from docstore.node.node import DataNode

LOG = component("SHARDING")
LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 5.0


class ShardHosts:
    """The task on every config server that updates shards' hosts while the node is primary. `committed` waits until a
    majority has all writes so far; it raises CommandError when that takes too long.
    """

    def __init__(
        self, node: DataNode, cluster: Cluster, peers: Peers, committed: Callable[[], Awaitable[None]]
    ) -> None:
        self._node = node
        self._cluster = cluster
        self._peers = peers
        self._committed = committed

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._node.replication.hello().get("isWritablePrimary"):
                await self.look()

    async def look(self) -> None:
        """Ask every shard once."""
        for shard in self._cluster.shards():
            try:
                raw = await self._peers.command(shard.host, "admin", {"hello": 1}, timeout=_ANSWER_SECONDS)
                hello = document_to_python(raw)
                if hello.get("setName") != shard.set_name or not hello.get("isWritablePrimary"):
                    continue
                host = f"{shard.set_name}/{','.join(hello['hosts'])}"
                if host != shard.host and self._cluster.set_host(shard.name, shard.host, host):
                    LOG.info("A shard's members have changed", shard=shard.name, before=shard.host, host=host)
                    await self._committed()
                    await self._peers.forget(shard.host)
            except CommandError as error:
                LOG.debug("A shard does not tell its members", shard=shard.name, reason=error.message)
