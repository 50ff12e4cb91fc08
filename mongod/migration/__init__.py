"""The parts that make a data node a shard: the shard filter, migrations in both directions, range deletions, and
their commands.

The pure cores `docstore.sharding.donor` and `docstore.sharding.recipient` decide each step of a migration: events in,
effects out. The packages `donor` and `recipient` here carry the effects out. The documents of `records` survive a
failover: `shard` resumes from them when this member becomes primary.

An executable adds it to a node as an extension:

    tunables = Tunables()
    Extension(commands=COMMANDS, services=lambda node, pool: [attach(node, pool, tunables)],
    parameters=tunables.parameters())
"""

from __future__ import annotations

from docstore.net import Pool
from docstore.node.node import DataNode
from mongod.migration.commands import COMMANDS
from mongod.migration.shard import Shard
from mongod.migration.tunables import Tunables

__all__ = ["COMMANDS", "Shard", "Tunables", "attach"]


def attach(node: DataNode, pool: Pool, tunables: Tunables) -> Shard:
    """Make the node a shard and return the service to start and stop with it. Installs the node's shard filter."""
    shard = Shard(node, pool, tunables)
    node.shard_filter = shard.shard_filter
    node.parts[Shard] = shard
    return shard
