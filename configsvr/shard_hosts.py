"""Keeping `config.shards` true to the shards' own members, which come, go and are replaced.

The primary asks every shard's primary who the members are, in turn, and writes down what has changed. A shard that does
not answer stays as it is. Members are found through those that are written down: as long as one of them is left.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.log import component

if TYPE_CHECKING:
    from configsvr.server import ConfigServer

LOG = component("SHARDING")
LOOK_SECONDS = 5.0
_ANSWER_SECONDS = 5.0


class ShardHosts:
    """Runs on every config server; what it sees on others than the primary it does not write."""

    def __init__(self, server: ConfigServer) -> None:
        self._server = server

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._server.node.replication.hello().get("isWritablePrimary"):
                await self.look()

    async def look(self) -> None:
        """Ask every shard once."""
        server = self._server
        for shard in server.cluster.shards():
            try:
                raw = await server.peers.command(shard.host, "admin", {"hello": 1}, timeout=_ANSWER_SECONDS)
                hello = document_to_python(raw)
                if hello.get("setName") != shard.set_name or not hello.get("isWritablePrimary"):
                    continue
                host = f"{shard.set_name}/{','.join(hello['hosts'])}"
                if host != shard.host and server.cluster.set_host(shard.name, shard.host, host):
                    LOG.info("A shard's members have changed", shard=shard.name, before=shard.host, host=host)
                    await server.committed()
                    await server.peers.forget(shard.host)
            except CommandError as error:
                LOG.debug("A shard does not tell its members", shard=shard.name, reason=error.message)
