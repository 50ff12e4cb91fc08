"""What migrations need of collections that hold no documents: their ranges are read, deleted and cut differently, and a
shard that gets one needs definitions first. Such a collection has the option `columnFamily`.

Composition registers the cloner of the mode that the node's store has.
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
        """What a donor sends of the migration's range; the documents are those of entries that merge."""

    def delete_some(self, unit: WriteUnitOfWork, collection: Collection, bounds: KeyRange, limit: int) -> int:
        """Remove at most `limit` records of the range; how many there were."""

    async def split_points(
        self, collection: Collection, key: ShardKey, bounds: KeyRange, target: int | None
    ) -> list[Bound]:
        """Where to cut a chunk: at every half of `target` bytes; once in the middle with None."""

    def sized(self, collection: Collection, key: ShardKey, bounds: KeyRange) -> Steps[list[tuple[Bound, int]]]:
        """(place, bytes) of what is in a range, in order: everything between two cuts."""

    def partitioner(self, collection: Collection) -> str:
        """The class name of what makes places on the ring of its keys."""

    def mark(self, collection: Collection) -> Collection:
        """The collection whose options a recipient needs besides."""

    def hold(self, namespace: str, uuid: UUID, options: CollectionOptions, mark: CollectionOptions) -> None:
        """Have the collection and its mark here with these definitions. Errors: InvalidUUID where another collection
        of the name has something in it, NamespaceExists where the database holds documents, ConfigurationException.
        """


def cloner_of(node: DataNode, collection: Collection) -> RangeCloner | None:
    """The cloner of a collection; None for one of documents."""
    return None if collection.options.family is None else registered_cloner(node)


def registered_cloner(node: DataNode) -> RangeCloner:
    """That of the node's mode."""
    return node.parts[RangeCloner]
