"""The native protocol of CQL on a router. All routers that serve it are the nodes that its clients know."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from docstore.commands.context import Context
from docstore.net.errors import as_command_error
from docstore.net.listener import Listener
from docstore.options import Options
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.system.topology import Node, Topology, host_id_of, with_tokens
from docstore.widecolumn.model.executor import Executor
from docstore.widecolumn.native.door import native_port
from docstore.widecolumn.native.statements import StatementNeeds, StatementService
from mongos.router import Router, router_of
from mongos.widecolumn.shard_requests import let_tell
from mongos.widecolumn.statement_runs import run_with_definitions

T = TypeVar("T")
_SILENT_MS = 40_000
"""How long after its last ping a router counts as a node."""


def native_port_of(router: Router, options: Options, listener: Listener) -> AbstractAsyncContextManager[None]:
    """The port of the native protocol, if it is configured. Errors: StartError."""

    def opened(address: str, port: int) -> None:
        host_id = host_id_of(f"{router.facts.hostname}/{router.facts.address}")
        router.cql_address = {"address": address, "port": port, "hostId": str(host_id)}

    return native_port(options, listener, StatementService(_run, topology_of), opened, as_command_error)


def _run(
    context: Context,
    needs: StatementNeeds,
    work: Callable[[Executor, PreparedCache, Environment], Awaitable[T]],
) -> Awaitable[T]:
    let_tell(context)
    return run_with_definitions(context, work, serial=needs.serial, fresh=needs.fresh)


async def topology_of(context: Context) -> Topology:
    """Read which routers serve the native protocol."""
    router = router_of(context)
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
    # The address by which the client has come here is one that it reaches.
    reached = context.connection.local.rpartition(":")[0]
    return Topology(Node(local.host_id, reached, local.port, local.tokens), list(sharing.values()))


def _millis(date: Any) -> int:
    return int(date.timestamp() * 1000) if hasattr(date, "timestamp") else int(date)


def _node(address: Mapping[str, Any]) -> Node:
    return Node(uuid.UUID(address["hostId"]), address["address"], address["port"])
