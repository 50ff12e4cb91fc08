"""The native protocol of CQL on a router. All routers that serve it are the nodes that its clients know."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from docstore.commands.context import Context
from docstore.net.errors import as_command_error
from docstore.net.listener import Listener
from docstore.options import Options
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.system.contents import KeyspaceSchema
from docstore.widecolumn.cql.system.executor import schema_of
from docstore.widecolumn.cql.system.topology import Node, Topology, host_id_of, with_tokens
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import Executor, StoredFamily
from docstore.widecolumn.native.door import native_port
from docstore.widecolumn.native.statements import StatementNeeds, StatementService
from mongos.router import Router, router_of
from mongos.widecolumn.definition_cache import Schema, database_names
from mongos.widecolumn.shard_requests import let_tell
from mongos.widecolumn.statement_runs import run_with_definitions

T = TypeVar("T")
_SILENT_MS = 40_000
"""How long after its last ping a router counts as a node."""


def native_port_of(router: Router, options: Options, listener: Listener) -> AbstractAsyncContextManager[object]:
    """The port of the native protocol, if it is configured. Errors: StartError."""

    def opened(address: str, port: int) -> None:
        host_id = host_id_of(f"{router.facts.hostname}/{router.facts.address}")
        router.cql_address = {"address": address, "port": port, "hostId": str(host_id)}

    async def read() -> tuple[list[KeyspaceSchema], Sequence[Node]]:
        return await schema_of(_RouterSchema(router)), (await _nodes(router))[1]

    service = StatementService(_run, _topology_of)
    return native_port(options, listener, service, read, opened, as_command_error)


class _RouterSchema:
    """All keyspaces of the cluster, each as its shard has it now (`SchemaReader`)."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._read: dict[str, Schema] = {}

    async def keyspaces(self) -> list[Keyspace]:
        for name in await database_names(self._router):
            await self.keyspace(name)
        return [schema.keyspace for schema in self._read.values()]

    async def keyspace(self, name: str) -> Keyspace | None:
        schema = await self._router.definitions.renew(self._router, name)
        if schema is None:
            return None
        self._read[name] = schema
        return schema.keyspace

    async def families(self, keyspace: str) -> list[StoredFamily]:
        schema = self._read.get(keyspace)
        return [] if schema is None else [schema.families[name].stored for name in sorted(schema.families)]


def _run(
    context: Context,
    needs: StatementNeeds,
    work: Callable[[Executor, PreparedCache, Environment], Awaitable[T]],
) -> Awaitable[T]:
    let_tell(context)
    return run_with_definitions(context, work, serial=needs.serial, fresh=needs.fresh)


async def _topology_of(context: Context) -> Topology:
    """Read which routers serve the native protocol."""
    local, peers = await _nodes(router_of(context))
    # The address by which the client has come here is one that it reaches.
    reached = context.connection.local.rpartition(":")[0]
    return Topology(Node(local.host_id, reached, local.port, local.tokens), peers)


async def _nodes(router: Router) -> tuple[Node, list[Node]]:
    """(this router, the others)."""
    own = router.cql_address
    assert own is not None, "a client of the port asks"
    command = {"find": "mongos", "filter": {"cql": {"$exists": True}}, "batchSize": 10_000}
    answer = await router.config.command("config", command, repeatable=True)
    pings = answer.decoded()["cursor"]["firstBatch"]
    latest = max((_millis(ping["ping"]) for ping in pings), default=0)
    nodes = {own["hostId"]: _node(own)}
    for ping in pings:
        # By the config servers' clock alone.
        if latest - _millis(ping["ping"]) < _SILENT_MS:
            nodes.setdefault(ping["cql"]["hostId"], _node(ping["cql"]))
    sharing = {str(node.host_id): node for node in with_tokens(nodes.values())}
    local = sharing.pop(own["hostId"])
    return local, list(sharing.values())


def _millis(date: Any) -> int:
    return int(date.timestamp() * 1000) if hasattr(date, "timestamp") else int(date)


def _node(address: Mapping[str, Any]) -> Node:
    return Node(uuid.UUID(address["hostId"]), address["address"], address["port"])
