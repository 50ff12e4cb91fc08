"""Clients of replica sets, one per connection string, created on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.net.errors import NetworkError
from docstore.net.pool import Pool
from docstore.net.replica_set_client import ReplicaSetClient


class Peers:
    """Replica sets by connection string "set/h:p,h:p"."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._clients: dict[str, ReplicaSetClient] = {}

    async def command(
        self, connection_string: str, db: str, command: Mapping[str, Any], *, timeout: float = 30.0
    ) -> bytes:
        """Run a command on the set's primary. It is retried after failures, so it must be idempotent.

        Errors: those of the reply; HostUnreachable if no primary answers in time.
        """
        client = self._clients.get(connection_string)
        if client is None:
            set_name, _, hosts = connection_string.partition("/")
            client = self._clients[connection_string] = ReplicaSetClient(hosts.split(","), set_name, self._pool)
        try:
            return await client.command(db, command, retry=True, timeout=timeout)
        except NetworkError as error:
            raise CommandError(Code.HostUnreachable, str(error)) from error

    async def hello(self, address: str, *, timeout: float) -> dict[str, Any]:
        """Return a server's hello reply. Errors: HostUnreachable if it does not answer."""
        try:
            return document_to_python(await self._pool.command(address, "admin", {"hello": 1}, timeout=timeout))
        except NetworkError as error:
            raise CommandError(Code.HostUnreachable, str(error)) from error

    async def forget(self, connection_string: str) -> None:
        """Close the client of a set that is no longer a shard."""
        client = self._clients.pop(connection_string, None)
        if client is not None:
            await client.close()

    async def close(self) -> None:
        for connection_string in list(self._clients):
            await self.forget(connection_string)
