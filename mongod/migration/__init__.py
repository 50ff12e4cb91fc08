"""What makes a data node a shard: which documents it serves, migrations in both directions, range deletions, and their
commands.

What a migration does next is decided by the cores `docstore.sharding.donor` and `docstore.sharding.recipient`, events
in and effects out; `donor` and `recipient` here carry that out. What survives a failover are the documents of
`records`: `shard` goes on from them when this member becomes primary.

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
    """Make the node a shard: the service to start and stop with it. Installs the node's ownership."""
    shard = Shard(node, pool, tunables)
    node.shard_filter = shard.shard_filter
    node.parts[Shard] = shard
    return shard
