"""The parts that mongod adds to a data node: map-reduce everywhere; on a shard the shard filter and migrations."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.net.pool import Pool
from docstore.node.namespace_guard import for_documents
from docstore.node.node import DataNode
from docstore.node.process.settings import ClusterRole
from docstore.node.process.start import Extension, Service
from docstore.widecolumn.node.keyspaces import attach as attach_wide_columns
from docstore.widecolumn.node.storage_mode import WideColumnMode
from docstore.widecolumn.node.tombstone_gc import TombstoneCollector
from mongod import ddl, migration, transactions
from mongod.document.commands import group, map_reduce, merge_temporary
from mongod.document.commands.evaluate import EvalSwitch
from mongod.document.javascript import CallTimeLimit, HeapLimit, JavaScript
from mongod.document.unfinished_outputs import UnfinishedOutputs
from mongod.migration.range_cloner import RangeCloner
from mongod.widecolumn.commands import COMMANDS as WIDE_COLUMN
from mongod.widecolumn.native import native_port_of
from mongod.widecolumn.range_cloner import RowRangeCloner


def extension(role: ClusterRole) -> Extension:
    """The commands, services and parameters of a data node in that role."""
    switch, heap, time_limit = EvalSwitch(), HeapLimit(), CallTimeLimit()
    parameters = (switch.parameter(), heap.parameter(), time_limit.parameter())
    documents = (map_reduce.COMMAND, group.COMMAND, switch.command())
    commands = (*map(for_documents, documents), *WIDE_COLUMN)
    tunables = migration.Tunables() if role is ClusterRole.SHARD else None

    def services(node: DataNode, pool: Pool) -> Iterable[Service]:
        attach_wide_columns(node)
        yield JavaScript(node, heap, time_limit)
        if tunables is not None:
            node.parts[RangeCloner] = RowRangeCloner(node)
            shard = migration.attach(node, pool, tunables)
            yield shard
            yield ddl.attach(node, shard)
            yield transactions.attach(node, shard)
        yield UnfinishedOutputs(node)
        yield TombstoneCollector(node)

    if tunables is None:
        return Extension(
            commands=commands,
            services=services,
            parameters=parameters,
            mode=WideColumnMode(),
            ports=native_port_of,
        )
    return Extension(
        commands=(*commands, merge_temporary.COMMAND, *migration.COMMANDS, *ddl.COMMANDS, *transactions.COMMANDS),
        services=services,
        parameters=(*parameters, *tunables.parameters()),
        mode=WideColumnMode(),
    )
