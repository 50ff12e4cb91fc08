"""What mongod adds to a data node: map-reduce, and on a shard migrations."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.net.pool import Pool
from docstore.node.node import DataNode
from docstore.node.process import Extension, Service
from docstore.node.settings import ClusterRole
from mongod.document.commands import map_reduce
from mongod.document.javascript import JavaScript


def extension(role: ClusterRole) -> Extension:
    """The commands and services of a data node in that role."""
    del role
    return Extension(commands=(map_reduce.COMMAND,), services=_services)


def _services(node: DataNode, _pool: Pool) -> Iterable[Service]:
    yield JavaScript(node)
