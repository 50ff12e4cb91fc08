"""DDL in a cluster: the coordinator on the primary shard of a database, and the participants on every shard.

`docstore.sharding.ddl.coordinator` decides the steps of an operation; `driver` carries them out. `coordinators`
admits one operation at a time on a namespace, and resumes the operations of an earlier primary.
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
