"""What a donor has to send: the range as it was when the capture began, then what has changed since.

Always true: snapshot and capture begin in one step, so a change is in the snapshot or in the capture.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.bson import Value
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.node.cursors import SLICE_SECONDS
from docstore.node.node import DataNode
from docstore.sharding.migration import Migration
from mongod.migration.capture import Capture
from mongod.migration.ranges import documents, in_range, key_index
from mongod.migration.recipient_link import BATCH_BYTES, BATCH_DOCUMENTS, CHANGES_AT_ONCE


class CloneSource:
    """One migration's documents on the donor. Close it in any case."""

    def __init__(self, node: DataNode, migration: Migration) -> None:
        """NamespaceNotFound, IndexNotFound."""
        self._node = node
        self._migration = migration
        collection = collection_of(node, migration)
        index = key_index(collection, migration.key)
        self._capture = Capture(node.store, migration)
        self._snapshot = node.engine.snapshot()
        self._cursor: Iterator[tuple[int, bytes]] = documents(self._snapshot, collection, index, migration.range)

    def close(self) -> None:
        """Stop capturing, let the snapshot go."""
        self._capture.stop()
        self._close_snapshot()

    def _close_snapshot(self) -> None:
        self._cursor = iter(())
        self._snapshot.close()

    async def next_batch(self) -> tuple[list[bytes], bool]:
        """(documents of the snapshot, whether they are the last). ExceededMemoryLimit when changes came too fast."""
        clock, pause = self._node.clock, self._node.pause
        batch: list[bytes] = []
        size, until = 0, clock() + SLICE_SECONDS
        for _, raw in self._cursor:
            batch.append(raw)
            size += len(raw)
            if size >= BATCH_BYTES or len(batch) >= BATCH_DOCUMENTS:
                self._check()
                return batch, False
            if len(batch) % 128 == 0 and clock() >= until:
                await pause()
                until = clock() + SLICE_SECONDS
        self._close_snapshot()
        self._check()
        return batch, True

    def take_changes(self) -> tuple[list[bytes], list[Value]]:
        """(documents as they are now, `_id`s of those that are gone from the range) of some captured changes."""
        collection, migration = collection_of(self._node, self._migration), self._migration
        present: list[bytes] = []
        gone: list[Value] = []
        size = 0
        self._check()
        while len(self._capture) and size < BATCH_BYTES and len(present) + len(gone) < CHANGES_AT_ONCE:
            (identity,) = self._capture.take(1)
            found = collection.by_id(self._node.engine, identity)
            if found is not None and in_range(migration.key, migration.range, found[1]):
                present.append(found[1])
                size += len(found[1])
            else:
                gone.append(identity)
        return present, gone

    def left(self) -> int:
        """How many captured changes are left. ExceededMemoryLimit when they came too fast."""
        self._check()
        return len(self._capture)

    def _check(self) -> None:
        if self._capture.overflowed:
            raise CommandError(Code.ExceededMemoryLimit, "the range changes faster than it can be moved")


def collection_of(node: DataNode, migration: Migration) -> Collection:
    """The migration's collection on this member. NamespaceNotFound when it was dropped."""
    collection = node.store.collection(migration.namespace)
    if collection is None or collection.uuid != migration.uuid.as_uuid():
        raise CommandError(Code.NamespaceNotFound, f"{migration.namespace} was dropped")
    return collection
