"""The shards that take part in transactions, as their coordinator reaches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python, get_field, to_python
from docstore.errors import Code, CommandError
from docstore.net.peers import Peers

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


class Participants:
    """Clients of the participants. A shard's connection string is read once, and again if no server answers there."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._peers = Peers(shard.pool)
        self._hosts: dict[str, str] = {}

    async def ask(self, shard: str, command: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        """Run an idempotent command on a shard's primary and return the reply.

        Errors: those of the reply, including WriteConcernFailed; HostUnreachable, ShardNotFound.
        """
        host = self._hosts.get(shard)
        if host is None:
            host = self._hosts[shard] = await self._shard.config_servers().shard_host(shard)
        try:
            reply = await self._peers.command(host, "admin", command, timeout=seconds)
        except CommandError as error:
            if error.code == Code.HostUnreachable:
                self._hosts.pop(shard, None)
            raise
        failed = get_field(reply, "writeConcernError")
        if failed is not None:
            raise CommandError(Code.WriteConcernFailed, str(to_python(failed)["errmsg"]))
        return document_to_python(reply)

    async def close(self) -> None:
        await self._peers.close()
