"""The donor's durable documents. From the decision on they are written until it succeeds: what raises there is
`NoLongerPrimary`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.optime import OpTime
from docstore.sharding.ddl.incarnations import DROPPED_UNTIL
from docstore.sharding.migration import COORDINATORS, RANGE_DELETIONS, Coordinator, Decision, Migration, RangeDeletion
from docstore.sharding.version import Lastmod
from mongod.migration.changes import log_change
from mongod.migration.holds import stored_document
from mongod.migration.records import ROUTING_SIGNALS

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


class NoLongerPrimary(Exception):
    """The donation goes on elsewhere."""


def check_primary(shard: Shard) -> None:
    """NoLongerPrimary."""
    if not shard.records.may_write():
        raise NoLongerPrimary("this member is not primary")


async def persist_start(shard: Shard, migration: Migration) -> None:
    """The coordinator document, then the pending range deletion. Errors: CommandError."""
    deletion = RangeDeletion.of(migration, pending=True, delayed=True, seconds=int(shard.node.wall_clock()))
    records = shard.records
    await records.committed(
        records.write((COORDINATORS, Coordinator(migration).document()), (RANGE_DELETIONS, deletion.document()))
    )
    await log_change(shard, migration, "moveChunk.start", {"from": migration.donor})


async def persist_block(shard: Shard, migration: Migration) -> None:
    """Every member that has it keeps reads waiting. Errors: CommandError."""
    records = shard.records
    await records.committed(records.write((COORDINATORS, Coordinator(migration, blocks_reads=True).document())))


def raise_routing_floor(shard: Shard, migration: Migration, version: Lastmod) -> None:
    """No member that has this document uses an older routing."""
    signal = {
        "_id": migration.namespace,
        "epoch": migration.epoch,
        "uuid": migration.uuid,
        "lastRefreshedCollectionVersion": version.to_timestamp(),
        "migration": migration.id,
    }
    known = stored_document(shard.node, ROUTING_SIGNALS, migration.namespace)
    if known is not None and DROPPED_UNTIL in (before := document_to_python(known)):
        signal[DROPPED_UNTIL] = before[DROPPED_UNTIL]
    _write(shard, (ROUTING_SIGNALS, signal))


async def persist_decision(shard: Shard, migration: Migration, decision: Decision) -> None:
    """Return when a majority has it, however long that takes."""
    document = Coordinator(migration, decision).document()
    while True:
        optime = _write(shard, (COORDINATORS, document))
        try:
            return await shard.records.committed(optime)
        except CommandError as error:
            if error.code != Code.WriteConcernFailed:
                raise NoLongerPrimary(error.message) from error


async def forget(shard: Shard, migration: Migration, decision: Decision) -> None:
    """What is left of the migration is a range deletion that may be carried out, or nothing."""
    deletion: Any = migration.id
    if decision is Decision.COMMITTED:
        seconds = int(shard.node.wall_clock())
        deletion = RangeDeletion.of(migration, pending=False, delayed=True, seconds=seconds).document()
    optime = _write(shard, (RANGE_DELETIONS, deletion), (COORDINATORS, migration.id))
    try:
        await shard.records.committed(optime)
    except CommandError as error:
        raise NoLongerPrimary(error.message) from error
    shard.deleter.changed()


def _write(shard: Shard, *changes: tuple[str, Any]) -> OpTime | None:
    try:
        return shard.records.write(*changes)
    except CommandError as error:
        raise NoLongerPrimary(error.message) from error
