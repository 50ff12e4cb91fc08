"""Migrations of column families (`mongod.migration.range_cloner.RangeCloner`)."""

from __future__ import annotations

from uuid import UUID

from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.node.slices import Steps
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.migration import Migration
from docstore.sharding.recipient_messages import CollectionChanges
from docstore.widecolumn.node.keyspaces import MARK
from mongod.migration.donor.clone_source import CloneSource, collection_of
from mongod.migration.limits import BATCH_BYTES, CHANGES_AT_ONCE
from mongod.widecolumn.held_families import hold_family
from mongod.widecolumn.row_ranges import RowCapture, delete_rows, partitioner_of, row_documents, rows_of
from mongod.widecolumn.splits import sized_places, split_places


class RowSource(CloneSource):
    """Rows of a column family, and then the entries that concern them."""

    def __init__(self, node: DataNode, migration: Migration, collection: Collection) -> None:
        partitioner = partitioner_of(node, collection)
        rows = rows_of(partitioner, migration.range)
        self._migration = migration
        self._capture = RowCapture(node.store, migration.namespace, rows)
        super().__init__(node, migration, self._capture)
        self._cursor = row_documents(self._snapshot, collection, partitioner, rows)

    def take_changes(self) -> list[CollectionChanges]:
        """See the base; merges make all that there is, so nothing is gone."""
        collection_of(self._node, self._migration)
        self._check()
        return [CollectionChanges(self._migration.namespace, self._capture.take(CHANGES_AT_ONCE, BATCH_BYTES), [])]

    def _check(self) -> None:
        super()._check()
        if self._capture.redefined:
            raise CommandError(Code.ConflictingOperationInProgress, "the column family changes while it is moved")


class RowRangeCloner:
    """Satisfies `RangeCloner` for the column families of a node."""

    def __init__(self, node: DataNode) -> None:
        self._node = node

    def source(self, migration: Migration, collection: Collection) -> CloneSource:
        return RowSource(self._node, migration, collection)

    def delete_some(self, unit: WriteUnitOfWork, collection: Collection, bounds: KeyRange, limit: int) -> int:
        partitioner = partitioner_of(self._node, collection)
        return delete_rows(unit, collection, partitioner, rows_of(partitioner, bounds), limit)

    async def split_points(
        self, collection: Collection, key: ShardKey, bounds: KeyRange, target: int | None
    ) -> list[Bound]:
        return await split_places(self._node, collection, key, bounds, target)

    def sized(self, collection: Collection, key: ShardKey, bounds: KeyRange) -> Steps[list[tuple[Bound, int]]]:
        return sized_places(self._node, collection, key, bounds)

    def partitioner(self, collection: Collection) -> str:
        return partitioner_of(self._node, collection).name

    def mark(self, collection: Collection) -> Collection:
        mark = self._node.store.collection(f"{collection.database}.{MARK}")
        assert mark is not None, f"{collection.ns} is in a keyspace"
        return mark

    def hold(self, namespace: str, uuid: UUID, options: CollectionOptions, mark: CollectionOptions) -> None:
        hold_family(self._node, namespace, uuid, options, mark)
