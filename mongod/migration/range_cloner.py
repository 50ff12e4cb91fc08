"""The operations that migrations need of collections without documents (option `columnFamily`).

Reading, deleting and splitting ranges differ there, and a recipient needs definitions first. Composition registers
the cloner of the mode of the node's store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.node.node import DataNode
from docstore.node.slices import Steps
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.migration import Migration

if TYPE_CHECKING:
    from mongod.migration.donor.clone_source import CloneSource


class RangeCloner(Protocol):
    """See the module. Collections are the node's."""

    def source(self, migration: Migration, collection: Collection) -> CloneSource:
        """Return the clone source of the migration's range. It sends the documents of merge entries."""

    def delete_some(self, unit: WriteUnitOfWork, collection: Collection, bounds: KeyRange, limit: int) -> int:
        """Remove at most `limit` records of the range; return how many there were."""

    async def split_points(
        self, collection: Collection, key: ShardKey, bounds: KeyRange, target: int | None
    ) -> list[Bound]:
        """Return the bounds at which to split a chunk: at every half of `target` bytes, or once in the middle if it
        is None.
        """

    def sized(self, collection: Collection, key: ShardKey, bounds: KeyRange) -> Steps[list[tuple[Bound, int]]]:
        """Yield (place, bytes) of the range's data in order: everything between two splits."""

    def partitioner(self, collection: Collection) -> str:
        """Return the class name of the partitioner, which maps keys to places on the ring."""

    def mark(self, collection: Collection) -> Collection:
        """The collection whose options a recipient needs besides."""

    def hold(self, namespace: str, uuid: UUID, options: CollectionOptions, mark: CollectionOptions) -> None:
        """Create the collection and its mark with these definitions, or alter them.

        Errors: InvalidUUID if another collection of the name is not empty, NamespaceExists if the database holds
        documents, ConfigurationException.
        """


def cloner_of(node: DataNode, collection: Collection) -> RangeCloner | None:
    """The cloner of a collection; None for one of documents."""
    return None if collection.options.family is None else registered_cloner(node)


def registered_cloner(node: DataNode) -> RangeCloner:
    """Return the cloner of the node's mode."""
    return node.parts[RangeCloner]
