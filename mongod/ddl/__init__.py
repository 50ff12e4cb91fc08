"""DDL in a cluster: the coordinator on the primary shard of a database, and what every shard does as a participant.

What an operation does next is decided by `docstore.sharding.ddl.coordinator`; `driver` carries it out, `coordinators`
lets one operation at a time have a namespace and takes up what an earlier primary has begun.
"""

from __future__ import annotations

from docstore.node.node import DataNode
from mongod.ddl.commands import COMMANDS
from mongod.ddl.coordinators import Coordinators
from mongod.ddl.participant import Participant
from mongod.migration.shard import Shard

__all__ = ["COMMANDS", "attach"]


def attach(node: DataNode, shard: Shard) -> Coordinators:
    """The service to start and stop after the shard's own."""
    coordinators = Coordinators(shard)
    node.parts[Coordinators] = coordinators
    node.parts[Participant] = Participant(shard)
    return coordinators
