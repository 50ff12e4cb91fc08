"""The donor's durable documents. From the decision on, writes are retried until they succeed; they raise only
`NoLongerPrimary`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.namespace import replicates
from docstore.optime import OpTime
from docstore.sharding.ddl.incarnations import DATABASES, DROPPED_UNTIL, dropped
from docstore.sharding.migration import (
    COORDINATORS,
    DATABASE_DELETIONS,
    RANGE_DELETIONS,
    AnyMigration,
    Coordinator,
    DatabaseDeletion,
    DatabaseMigration,
    Decision,
    Migration,
    RangeDeletion,
)
from docstore.sharding.version import DatabaseVersion, Lastmod
from mongod.drivers import NoLongerPrimary
from mongod.migration.changes import log_change
from mongod.migration.holds import stored_document
from mongod.migration.records import ROUTING_SIGNALS

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts


def check_primary(shard: ShardParts) -> None:
    """NoLongerPrimary."""
    if not shard.records.may_write():
        raise NoLongerPrimary("this member is not primary")


async def persist_start(shard: ShardParts, migration: AnyMigration) -> None:
    """Write the coordinator document, then the pending deletion of a range. The collections of a database to drop are
    listed only at the end. Errors: CommandError.
    """
    records, documents = shard.records, [(COORDINATORS, Coordinator(migration).document())]
    if isinstance(migration, Migration):
        deletion = RangeDeletion.of(migration, pending=True, delayed=True, seconds=int(shard.node.wall_clock()))
        documents.append((RANGE_DELETIONS, deletion.document()))
    await records.committed(records.write(*documents))
    await log_change(shard, migration, "start", {"from": migration.donor})


async def persist_block(shard: ShardParts, migration: AnyMigration) -> None:
    """Write the document by which every member blocks reads. Errors: CommandError."""
    records = shard.records
    await records.committed(records.write((COORDINATORS, Coordinator(migration, blocks_reads=True).document())))


def raise_routing_floor(shard: ShardParts, migration: AnyMigration, version: Lastmod | DatabaseVersion) -> None:
    """No member that has this document uses an older routing. `version`: of a database, the one that is over."""
    if isinstance(migration, DatabaseMigration):
        _end_database(shard, migration)
        return
    assert isinstance(version, Lastmod), "the version of a collection"
    signal = {
        "_id": migration.namespace,
        "epoch": migration.epoch,
        "uuid": migration.uuid,
        "lastRefreshedCollectionVersion": version.to_timestamp(),
        "migration": migration.id,
    }
    raw = stored_document(shard.node, ROUTING_SIGNALS, migration.namespace)
    if raw is not None and DROPPED_UNTIL in (before := document_to_python(raw)):
        signal[DROPPED_UNTIL] = before[DROPPED_UNTIL]
    _write(shard, (ROUTING_SIGNALS, signal))


def _end_database(shard: ShardParts, migration: DatabaseMigration) -> None:
    raw = stored_document(shard.node, DATABASES, migration.namespace)
    before = None if raw is None else document_to_python(raw)
    _write(shard, (DATABASES, dropped(migration.namespace, [migration.version.timestamp], before)))


async def persist_decision(shard: ShardParts, migration: AnyMigration, decision: Decision) -> None:
    """Return when a majority has it, however long that takes."""
    document = Coordinator(migration, decision).document()
    while True:
        optime = _write(shard, (COORDINATORS, document))
        try:
            return await shard.records.committed(optime)
        except CommandError as error:
            if error.code != Code.WriteConcernFailed:
                raise NoLongerPrimary(error.message) from error


async def forget(shard: ShardParts, migration: AnyMigration, decision: Decision) -> None:
    """Remove the coordinator document; after a commit, make the deletion of the donor's copy ready to run."""
    committed, seconds = decision is Decision.COMMITTED, int(shard.node.wall_clock())
    changes: list[tuple[str, Any]] = [(COORDINATORS, migration.id)]
    if isinstance(migration, DatabaseMigration):
        if committed:
            changes.insert(
                0, (DATABASE_DELETIONS, _deletion_of_remainder(shard, migration).written_at(seconds).document())
            )
    else:
        deletion = RangeDeletion.of(migration, pending=False, delayed=True, seconds=seconds).document()
        changes.insert(0, (RANGE_DELETIONS, deletion if committed else migration.id))
    optime = _write(shard, *changes)
    try:
        await shard.records.committed(optime)
    except CommandError as error:
        raise NoLongerPrimary(error.message) from error
    shard.deleter.changed()


def _deletion_of_remainder(shard: ShardParts, migration: DatabaseMigration) -> DatabaseDeletion:
    """Return the deletion of all unsharded collections, temporary ones too."""
    uuids = frozenset(
        collection.uuid.bytes
        for collection in shard.node.store.catalog.in_database(migration.namespace)
        if migration.concerns(collection.ns) and replicates(collection.ns)
    )
    return DatabaseDeletion(
        id=migration.id, namespace=migration.namespace, uuids=uuids, donor=migration.donor, pending=False, delayed=True
    )


def _write(shard: ShardParts, *changes: tuple[str, Any]) -> OpTime | None:
    try:
        return shard.records.write(*changes)
    except CommandError as error:
        raise NoLongerPrimary(error.message) from error
