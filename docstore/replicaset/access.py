"""Access of this package's commands to the node's replica set member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.replicaset.replicaset import ReplicaSet

if TYPE_CHECKING:
    from docstore.commands.context import Context


def replica_set_of(context: Context) -> ReplicaSet:
    """Return the member. Errors: NoReplicationEnabled (76) on a node started without a set name."""
    replica_set = context.services.parts.get(ReplicaSet)
    if replica_set is None:
        raise CommandError(Code.NoReplicationEnabled, "not running with --replSet")
    return replica_set


def initiated_set_of(context: Context) -> ReplicaSet:
    """Return the member, once initiated.

    Errors: NoReplicationEnabled, NotYetInitialized (94) before the first configuration.
    """
    replica_set = replica_set_of(context)
    if replica_set.membership.state.config is None:
        raise CommandError(Code.NotYetInitialized, "no replset config has been received")
    return replica_set
