"""A shard's client of the config servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.namespace import SETTINGS_NS
from docstore.net import NetworkError, Pool, ReplicaSetClient
from docstore.node.cluster_parameters import NAMESPACE as CLUSTER_PARAMETERS
from docstore.replicaset.concern_defaults import DOCUMENT_ID
from docstore.sharding.chunks import InconsistentChunks
from docstore.sharding.routing import Routing, RoutingRead
from mongod.migration.identity import ShardIdentity

LOG = component("SHARDING")
SECONDS = 20.0
LINEARIZABLE_MS = 10_000


class ConfigServers:
    """A client of the config set that the shard's identity names."""

    def __init__(self, identity: ShardIdentity, pool: Pool) -> None:
        self.identity = identity
        self._client = ReplicaSetClient(identity.config_hosts, identity.config_set, pool)

    async def close(self) -> None:
        await self._client.close()

    async def command(self, command: Mapping[str, Any], *, db: str = "admin", timeout: float = SECONDS) -> bytes:
        """Run a command on the primary, with retries after failures: only for idempotent commands.

        Errors: those of the reply; HostUnreachable when the outcome is unknown.
        """
        try:
            return await self._client.command(db, command, retry=True, timeout=timeout)
        except NetworkError as error:
            raise CommandError(Code.HostUnreachable, f"the config servers do not answer: {error}") from error

    async def routing(self, namespace: str, cached: Routing | None) -> Routing:
        """Return `cached` brought up to date."""
        for _ in range(10):
            read = RoutingRead(namespace, cached)
            try:
                while (routing := read.take(await self.command(read.request()))) is None:
                    pass
                return routing
            except InconsistentChunks as error:
                if cached is None:
                    LOG.info("Routing was read while it changed", ns=namespace, reason=str(error))
                    await asyncio.sleep(0.01)
                cached = None
        raise CommandError(Code.OperationFailed, f"the routing of {namespace} does not become consistent")

    async def shard_host(self, shard: str) -> str:
        """Return the connection string of a shard. Errors: ShardNotFound."""
        command = {"find": "shards", "filter": {"_id": shard}, "readConcern": {"level": "majority"}}
        rows = document_to_python(await self.command(command, db="config"))["cursor"]["firstBatch"]
        if not rows:
            raise CommandError(Code.ShardNotFound, f"Shard {shard} not found")
        return str(rows[0]["host"])

    async def database_timestamps(self, names: Sequence[str]) -> dict[str, Timestamp]:
        """Return the timestamps of the databases that exist, by name, from a linearizable read.

        Errors: those of `command`; a deposed or lagging config server does not answer.
        """
        command = {
            "find": "databases", "filter": {"_id": {"$in": list(names)}}, "projection": {"version.timestamp": 1},
            "batchSize": len(names) + 1, "readConcern": {"level": "linearizable"}, "maxTimeMS": LINEARIZABLE_MS,
        }  # fmt: skip
        rows = document_to_python(await self.command(command, db="config"))["cursor"]["firstBatch"]
        return {row["_id"]: row["version"]["timestamp"] for row in rows}

    async def cluster_settings(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the documents that a majority of the config servers has and shards copy, each with its namespace.

        These are the default concerns and the cluster parameters, where they were set. Errors: those of `command`.
        """
        documents: list[tuple[str, dict[str, Any]]] = []
        for namespace, filter_ in ((SETTINGS_NS, {"_id": DOCUMENT_ID}), (CLUSTER_PARAMETERS, {})):
            command = {
                "find": namespace.partition(".")[2], "filter": filter_, "readConcern": {"level": "majority"},
            }  # fmt: skip
            rows = document_to_python(await self.command(command, db="config"))["cursor"]["firstBatch"]
            documents += [(namespace, row) for row in rows]
        return documents

    async def is_removed(self, shard: str) -> bool:
        """True if the cluster has no shard of that name.

        The read is linearizable, because a deposed or lagging config server may not answer this. Errors: those of
        `command`.
        """
        command = {
            "find": "shards", "filter": {"_id": shard}, "readConcern": {"level": "linearizable"},
            "maxTimeMS": LINEARIZABLE_MS,
        }  # fmt: skip
        return not document_to_python(await self.command(command, db="config"))["cursor"]["firstBatch"]
