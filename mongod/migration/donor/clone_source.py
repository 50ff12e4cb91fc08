"""The documents that a donor sends: first a snapshot taken when the capture began, then the changes captured since.

Invariant: snapshot and capture begin in one step, so a change is in the snapshot or in the capture.

A collection that does not hold documents has a source of its own (`mongod.migration.range_cloner`). That one sends
documents, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from docstore.bson import Value
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.node.slices import PAUSE, Steps, finish_work
from docstore.sharding.migration import AnyMigration, Migration
from docstore.sharding.recipient_messages import CollectionChanges, CollectionDefinition
from mongod.migration.donor.capture import Capture
from mongod.migration.limits import BATCH_BYTES, BATCH_DOCUMENTS, CHANGES_AT_ONCE
from mongod.migration.ranges import documents, in_range, key_index

_DOCUMENTS_PER_LOOK = 32
"""The number of documents read between two checks of the clock, unless one is long."""
_LONG_DOCUMENT = 4096


class Changes(Protocol):
    """Captured changes. `overflowed`: they exceeded the limit, and some are lost."""

    overflowed: bool

    def __len__(self) -> int: ...

    def stop(self) -> None: ...


class CloneBatch(NamedTuple):
    """Documents of the snapshot, of one collection. `is_last`: no more follow."""

    namespace: str
    documents: list[bytes]
    is_last: bool


class CloneSource(ABC):
    """The data that one migration moves, on the donor. The caller must close it."""

    def __init__(self, node: DataNode, migration: AnyMigration, capture: Changes) -> None:
        self._node = node
        self._changes = capture
        self._snapshot = node.engine.snapshot()
        self._namespace = migration.namespace
        """The collection of `_cursor`."""
        self._cursor: Iterator[bytes] = iter(())

    def close(self) -> None:
        """Stop capturing, let the snapshot go."""
        self._changes.stop()
        self._close_snapshot()

    def _close_snapshot(self) -> None:
        self._cursor = iter(())
        self._snapshot.close()

    async def next_batch(self) -> CloneBatch:
        """Documents of the snapshot. ExceededMemoryLimit when changes came too fast."""
        return await finish_work(self._node, self._take_batch())

    def _take_batch(self) -> Steps[CloneBatch]:
        batch: list[bytes] = []
        size = 0
        for raw in self._cursor:
            batch.append(raw)
            size += len(raw)
            if size >= BATCH_BYTES or len(batch) >= BATCH_DOCUMENTS:
                self._check()
                return CloneBatch(self._namespace, batch, is_last=False)
            if len(batch) % _DOCUMENTS_PER_LOOK == 0 or len(raw) > _LONG_DOCUMENT:
                yield PAUSE
        self._check()
        namespace = self._namespace
        if self._next_collection():
            return CloneBatch(namespace, batch, is_last=False)
        self._close_snapshot()
        return CloneBatch(namespace, batch, is_last=True)

    def _next_collection(self) -> bool:
        """Switch to the next collection; False if there is none."""
        return False

    def new_definitions(self) -> list[CollectionDefinition]:
        """Return the collections that the recipient does not know yet. Errors: ConflictingOperationInProgress if one
        that it knows has changed.
        """
        return []

    @abstractmethod
    def take_changes(self) -> list[CollectionChanges]:
        """Return some captured changes, at most once for each collection. Errors: CommandError."""

    def unsent_count(self) -> int:
        """Return how many captured changes have not been sent. Errors: those of `take_changes`."""
        self._check()
        return len(self._changes)

    def _check(self) -> None:
        """ExceededMemoryLimit when changes came too fast."""
        if self._changes.overflowed:
            raise CommandError(Code.ExceededMemoryLimit, "the range changes faster than it can be moved")


class DocumentSource(CloneSource):
    """Documents of the snapshot, and the newest version of those that have changed."""

    def __init__(self, node: DataNode, migration: Migration) -> None:
        """NamespaceNotFound, IndexNotFound."""
        collection = collection_of(node, migration)
        index = key_index(collection, migration.key)
        self._migration = migration
        self._capture = Capture(node.store, migration)
        super().__init__(node, migration, self._capture)
        self._cursor = documents(self._snapshot, collection, index, migration.range)

    def take_changes(self) -> list[CollectionChanges]:
        """See the base."""
        collection, migration = collection_of(self._node, self._migration), self._migration
        present: list[bytes] = []
        deleted_ids: list[Value] = []
        size = 0
        self._check()
        while len(self._capture) and size < BATCH_BYTES and len(present) + len(deleted_ids) < CHANGES_AT_ONCE:
            (identity,) = self._capture.take(1)
            record = collection.by_id(self._node.engine, identity)
            if record is not None and in_range(migration.key, migration.range, record[1]):
                present.append(record[1])
                size += len(record[1])
            else:
                deleted_ids.append(identity)
        return [CollectionChanges(migration.namespace, present, deleted_ids)]


def collection_of(node: DataNode, migration: Migration) -> Collection:
    """The migration's collection on this member. NamespaceNotFound when it was dropped."""
    collection = node.store.collection(migration.namespace)
    if collection is None or collection.uuid != migration.uuid.as_uuid():
        raise CommandError(Code.NamespaceNotFound, f"{migration.namespace} was dropped")
    return collection
