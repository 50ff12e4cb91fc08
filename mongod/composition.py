"""What mongod adds to a data node: map-reduce everywhere, and on a shard ownership and migrations."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.net.pool import Pool
from docstore.node.node import DataNode
from docstore.node.process import Extension, Service
from docstore.node.settings import ClusterRole
from docstore.node.wide.modes import for_documents
from mongod import migration
from mongod.document.commands import map_reduce, merge_temporary
from mongod.document.javascript import JavaScript
from mongod.document.left_outputs import LeftOutputs
from mongod.widecolumn.commands import COMMANDS as WIDE_COLUMN


def extension(role: ClusterRole) -> Extension:
    """The commands, services and parameters of a data node in that role."""
    if role is not ClusterRole.SHARD:
        return Extension(
            commands=(for_documents(map_reduce.COMMAND), *WIDE_COLUMN),
            services=lambda node, _pool: (JavaScript(node), LeftOutputs(node)),
        )
    tunables = migration.Tunables()

    def services(node: DataNode, pool: Pool) -> Iterable[Service]:
        yield JavaScript(node)
        yield migration.attach(node, pool, tunables)
        yield LeftOutputs(node)

    return Extension(
        commands=(for_documents(map_reduce.COMMAND), merge_temporary.COMMAND, *WIDE_COLUMN, *migration.COMMANDS),
        services=services,
        parameters=tunables.parameters(),
    )
