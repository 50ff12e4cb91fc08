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
from docstore.widecolumn.model.executor import Executor
from docstore.widecolumn.native.door import native_port
from docstore.widecolumn.native.statements import StatementNeeds, StatementService
from mongos.router import Router
from mongos.routing.shards import CONFIG
from mongos.widecolumn.cluster_schema import ClusterSchema, LenientReader
from mongos.widecolumn.shard_requests import let_tell
from mongos.widecolumn.statement_runs import run_with_definitions

T = TypeVar("T")
_FIND_PINGS = {"find": "mongos", "filter": {"cql": {"$exists": True}}, "batchSize": 10_000}
_SILENT_MS = 40_000
"""How long after its last ping a router counts as a node."""


def native_port_of(router: Router, options: Options, listener: Listener) -> AbstractAsyncContextManager[object]:
    """The port of the native protocol, if it is configured. Errors: StartError."""

    def opened(address: str, port: int) -> None:
        host_id = host_id_of(f"{router.facts.hostname}/{router.facts.address}")
        router.cql_address = {"address": address, "port": port, "hostId": str(host_id)}

    async def read() -> tuple[list[KeyspaceSchema], Sequence[Node]]:
        return await schema_of(ClusterSchema(reader)), await nodes.peers()

    reader = LenientReader(router)
    nodes = _Nodes(reader)
    service = StatementService(_run, lambda _: ClusterSchema(reader), nodes.topology)
    return native_port(options, listener, service, read, opened, as_command_error)


def _run(
    context: Context,
    needs: StatementNeeds,
    work: Callable[[Executor, PreparedCache, Environment], Awaitable[T]],
) -> Awaitable[T]:
    let_tell(context)
    return run_with_definitions(context, work, serial=needs.serial, fresh=needs.fresh)


class _Nodes:
    """The routers that serve the native protocol."""

    def __init__(self, reader: LenientReader) -> None:
        self._reader = reader
        self._router = reader.router
        self._pings: Sequence[Mapping[str, Any]] = ()
        """As they were read last."""

    async def topology(self, context: Context) -> Topology:
        """The nodes as a client sees them."""
        local, peers = await self._read()
        # The address by which the client has come here is one that it reaches.
        reached = context.connection.local.rpartition(":")[0]
        return Topology(Node(local.host_id, reached, local.port, local.tokens), peers)

    async def peers(self) -> list[Node]:
        """The other nodes."""
        return (await self._read())[1]

    async def _read(self) -> tuple[Node, list[Node]]:
        answer = await self._reader.ask(CONFIG, "config", _FIND_PINGS)
        if answer is not None:
            self._pings = answer.decoded()["cursor"]["firstBatch"]
        return self._shared()

    def _shared(self) -> tuple[Node, list[Node]]:
        """(this router, the others), with their parts of the ring."""
        own = self._router.cql_address
        assert own is not None, "a client of the port asks"
        latest = max((_millis(ping["ping"]) for ping in self._pings), default=0)
        nodes = {own["hostId"]: _node(own)}
        for ping in self._pings:
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
