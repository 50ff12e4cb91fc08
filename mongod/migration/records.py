"""The durable documents of migrations on a shard, and writing them so that a failover cannot undo them.

Documents that belong together are written in one unit, in an order in which every beginning of the list is sound: a
failover may keep the first of a unit's oplog entries only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import bson
from bson.binary import Binary

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.concerns import WriteConcern
from docstore.errors import Code, CommandError
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.node import DataNode
from docstore.optime import OpTime
from docstore.sharding.migration import (
    COORDINATORS,
    DATABASE_DELETIONS,
    RANGE_DELETIONS,
    Coordinator,
    DatabaseDeletion,
    DatabaseMigration,
    Deletion,
    RangeDeletion,
)

ROUTING_SIGNALS = "config.cache.collections"
"""One document for each collection whose routing changed on this shard; a write to it makes every member read the
routing anew."""
MAJORITY_MS = 30_000
_MAJORITY = WriteConcern("majority", timeout_ms=MAJORITY_MS)


@dataclass(frozen=True, slots=True)
class Removed:
    """Marks the removal of the document with that `_id`."""

    identity: Any


class MigrationRecords:
    """Reads and writes the records of one shard member."""

    def __init__(self, node: DataNode) -> None:
        self._node = node

    def coordinators(self) -> list[Coordinator]:
        """Return the migrations away from this shard that it has not forgotten yet."""
        return [Coordinator.from_raw(raw) for raw in self._all(COORDINATORS)]

    def deletions(self) -> list[RangeDeletion]:
        """Return the ranges to be deleted here, now, later or only if an undecided migration ends so."""
        return [RangeDeletion.from_raw(raw) for raw in self._all(RANGE_DELETIONS)]

    def may_have_orphans(self, namespace: str) -> bool:
        """True if ranges of the collection await deletion here: there may be orphaned documents."""
        collection = self._node.store.collection(namespace)
        return collection is not None and any(
            deletion.uuid.as_uuid() == collection.uuid for deletion in self.deletions()
        )

    def database_deletions(self) -> list[DatabaseDeletion]:
        """Return the collections to be dropped here because their database has left, or has not arrived."""
        return [DatabaseDeletion.from_raw(raw) for raw in self._all(DATABASE_DELETIONS)]

    def deletion(self, identity: Any) -> Deletion | None:
        """Return the deletion of one migration."""
        record = self._find(RANGE_DELETIONS, identity)
        if record is not None:
            return RangeDeletion.from_raw(record[1])
        record = self._find(DATABASE_DELETIONS, identity)
        return None if record is None else DatabaseDeletion.from_raw(record[1])

    def is_leaving(self, namespace: str, uuid: bytes) -> bool:
        """True if an old copy of an unsharded collection may still be here, to be deleted."""
        return any(uuid in record.uuids for record in self.database_deletions()) or any(
            isinstance(record.migration, DatabaseMigration) and record.migration.concerns(namespace)
            for record in self.coordinators()
        )

    def write(
        self, *changes: tuple[str, Mapping[str, Any] | Any], also: Callable[[WriteUnitOfWork], None] | None = None
    ) -> OpTime | None:
        """Apply changes in one unit, in order: (namespace, document) stores it, (namespace, _id) removes the
        document.

        An `_id` that is a document itself comes as `Removed`. `also`: a further write of the unit. NotWritablePrimary
        if this member may not write.
        """
        node = self._node
        node.replication.check_write()
        for namespace, _ in changes:
            if node.store.collection(namespace) is None:
                make_collection(node.store, namespace)
        with node.store.unit() as unit:
            for namespace, change in changes:
                collection = node.store.collection(namespace)
                assert collection is not None, "it has just been made"
                if isinstance(change, Mapping):
                    _upsert(unit, collection, change)
                else:
                    _remove(unit, collection, change.identity if isinstance(change, Removed) else change)
            if also is not None:
                also(unit)
            unit.commit()
        return node.store.last_optime

    def write_deletion(self, change: Deletion | Binary) -> OpTime | None:
        """Store a deletion, as of now, or remove the one with an `_id`. NotWritablePrimary."""
        if isinstance(change, RangeDeletion | DatabaseDeletion):
            document = change.written_at(int(self._node.wall_clock())).document()
            return self.write((deletions_of(change), document))
        deletion = self.deletion(change)
        return self._node.store.last_optime if deletion is None else self.write((deletions_of(deletion), change))

    def may_write(self) -> bool:
        """True if this member is the primary."""
        try:
            self._node.replication.check_write()
        except CommandError:
            return False
        return True

    async def committed(self, optime: OpTime | None) -> None:
        """Wait until a majority of the shard has the write. WriteConcernFailed after half a minute."""
        error = await self._node.replication.wait_write(optime, _MAJORITY, None)
        if error is not None:
            raise CommandError(Code.WriteConcernFailed, f"no majority of the shard has it yet: {error.get('errmsg')}")

    def _find(self, namespace: str, identity: Any) -> tuple[int, bytes] | None:
        collection = self._node.store.collection(namespace)
        return None if collection is None else collection.by_id(self._node.engine, from_python(identity))

    def _all(self, namespace: str) -> Iterator[bytes]:
        collection = self._node.store.collection(namespace)
        return iter(()) if collection is None else iter(list(collection.documents(self._node.engine)))


def deletions_of(deletion: Deletion) -> str:
    """Return the collection that holds such a document."""
    return RANGE_DELETIONS if isinstance(deletion, RangeDeletion) else DATABASE_DELETIONS


def _upsert(unit: WriteUnitOfWork, collection: Collection, document: Mapping[str, Any]) -> None:
    raw = bson.encode(document)
    record = collection.by_id(unit, from_python(document["_id"]))
    if record is None:
        unit.insert(collection, raw)
    elif record[1] != raw:
        unit.replace(collection, record[0], record[1], raw)


def _remove(unit: WriteUnitOfWork, collection: Collection, identity: Any) -> None:
    record = collection.by_id(unit, from_python(identity))
    if record is not None:
        unit.remove(collection, record[0], record[1])
