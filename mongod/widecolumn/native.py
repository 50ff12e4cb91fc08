"""The native protocol of CQL on a data node that is no shard. The node is the only one that its clients know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from docstore.commands.context import Context
from docstore.net.listener import Listener
from docstore.node.node import DataNode, node_of
from docstore.node.process.start import translate_storage_error
from docstore.options import Options
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.system.contents import Schema
from docstore.widecolumn.cql.system.executor import schema_of
from docstore.widecolumn.cql.system.topology import Node, Topology, host_id_of, with_tokens
from docstore.widecolumn.model.column_families import Keyspace
from docstore.widecolumn.model.executor import Executor, StoredFamily
from docstore.widecolumn.native.door import native_port
from docstore.widecolumn.native.statements import StatementNeeds, StatementService
from docstore.widecolumn.node.executor import executor_of
from docstore.widecolumn.node.keyspaces import WideColumns, stored, wide_of
from mongod.widecolumn.commands.cql import surroundings_of

T = TypeVar("T")


def native_port_of(options: Options, listener: Listener) -> AbstractAsyncContextManager[object]:
    """The port of the native protocol, if it is configured. Errors: StartError."""
    own: list[Node] = []

    def opened(address: str, port: int) -> None:
        own[:] = [Node(host_id_of(f"{address}:{listener.port}"), address, port)]

    async def topology(context: Context) -> Topology:
        [node] = with_tokens(own)
        # The address by which the client has come here is one that it reaches.
        reached = context.connection.local.rpartition(":")[0]
        return Topology(Node(node.host_id, reached, node.port, node.tokens))

    async def read() -> tuple[Schema, Sequence[Node]]:
        return await schema_of(_NodeSchema(wide_of(listener.dispatcher.services.parts[DataNode]))), ()

    service = StatementService(_run, lambda executor: executor, topology, is_eager=True)
    return native_port(options, listener, service, read, opened, translate_storage_error)


class _NodeSchema:
    """All keyspaces of a node (`SchemaReader`)."""

    def __init__(self, wide: WideColumns) -> None:
        self._wide = wide

    async def keyspaces(self) -> list[Keyspace]:
        return self._wide.keyspaces()

    async def keyspace(self, name: str) -> Keyspace | None:
        return self._wide.keyspace(name)

    async def families(self, keyspace: str) -> list[StoredFamily]:
        return [stored(family) for family in self._wide.families(keyspace)]


def _run(
    context: Context,
    needs: StatementNeeds,
    work: Callable[[Executor, PreparedCache, Environment], Awaitable[T]],
) -> Awaitable[T]:
    return work(executor_of(context), wide_of(node_of(context)).statements, surroundings_of(context))
