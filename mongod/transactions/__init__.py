"""Transactions over several shards: the coordinator of their commits, and the commands between it and the
participants.

A transaction's operations on one shard are in `docstore.node.transactions`.
"""

from __future__ import annotations

from docstore.node.node import DataNode
from mongod.migration.shard import Shard
from mongod.transactions.commands import COMMANDS
from mongod.transactions.coordinators import CommitCoordinators

__all__ = ["COMMANDS", "attach"]


def attach(node: DataNode, shard: Shard) -> CommitCoordinators:
    """The service to start and stop after the shard's own."""
    coordinators = CommitCoordinators(shard)
    node.parts[CommitCoordinators] = coordinators
    return coordinators
