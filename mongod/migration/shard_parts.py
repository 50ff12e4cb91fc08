"""`ShardParts`: the parts of a shard that its migrations use, so that these need not know the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from bson.binary import Binary

from docstore.errors import CommandError
from docstore.net import ReplicaSetClient

if TYPE_CHECKING:
    from docstore.node.node import DataNode
    from mongod.migration.config_servers import ConfigServers
    from mongod.migration.deletions import RangeDeleter
    from mongod.migration.identity import ShardIdentity
    from mongod.migration.records import MigrationRecords
    from mongod.migration.shard_filter import RangeShardFilter
    from mongod.migration.tunables import Tunables


class ShardParts(Protocol):
    """A shard (`mongod.migration.shard.Shard`)."""

    node: DataNode
    tunables: Tunables
    records: MigrationRecords
    shard_filter: RangeShardFilter
    deleter: RangeDeleter
    identity: ShardIdentity | None

    @property
    def name(self) -> str:
        """The shard's name. Errors: NotYetInitialized before it was added to a cluster."""

    def config_servers(self) -> ConfigServers:
        """Return the cluster's config servers. Errors: NotYetInitialized before the shard was added to a cluster."""

    async def client_of(self, shard: str) -> ReplicaSetClient:
        """Return a client of another shard, which the caller closes. Errors: ShardNotFound."""

    def donation_conflict(self, namespace: str, operation: Binary | None = None) -> CommandError | None:
        """Return ConflictingOperationInProgress while this shard gives something away, is about to, or holds the
        namespace for another operation than this one; None where it may receive.
        """
