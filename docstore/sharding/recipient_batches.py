"""The work for each kind of batch that a donor sends (`docstore.sharding.recipient`)."""

from __future__ import annotations

from collections.abc import Mapping

from docstore.sharding.migration import AnyMigration, DatabaseMigration
from docstore.sharding.recipient_messages import (
    Batch,
    CollectionDefinition,
    Definition,
    HoldCollections,
    InsertDocuments,
    MergeRows,
    RememberStatements,
    ReplaceDocuments,
    ReplaceInCollections,
    TakeChanges,
    TakeCollections,
    TakeDocuments,
    TakeStatements,
    Work,
)


def is_answered_ahead(batch: Batch) -> bool:
    """True if the batch is acknowledged when its storing begins."""
    return isinstance(batch, TakeDocuments) and batch.clone and not batch.majority


def work_of(
    batch: Batch,
    migration: AnyMigration,
    definition: Definition | None,
    collections: Mapping[str, CollectionDefinition],
) -> Work:
    """Return the work that stores the batch.

    `definition`: of a chunk's collection; `collections`: those of a database that the donor has announced.
    """
    if isinstance(batch, TakeStatements):
        return RememberStatements(migration, batch.statements)
    if isinstance(batch, TakeCollections):
        assert isinstance(migration, DatabaseMigration), "the collections of a database"
        return HoldCollections(migration, batch.definitions)
    if isinstance(batch, TakeChanges):
        assert isinstance(migration, DatabaseMigration), "the collections of a database"
        parts = []
        for change in batch.changes:
            part = migration.part(change.namespace, collections[change.namespace].uuid)
            parts.append(ReplaceDocuments(part, change.documents, change.removed_ids))
        return ReplaceInCollections(parts)
    if isinstance(migration, DatabaseMigration):
        migration = migration.part(batch.namespace, collections[batch.namespace].uuid)
    elif definition is not None and definition.keyspace is not None:
        return MergeRows(migration, batch.documents)
    if batch.clone:
        return InsertDocuments(migration, batch.documents)
    return ReplaceDocuments(migration, batch.documents, batch.removed_ids)
