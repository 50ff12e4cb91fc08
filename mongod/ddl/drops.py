"""Dropping a sharded collection or a database on this shard.

A durable record of the dropped incarnation comes first. Every collection of the name is dropped, whatever its uuid:
no other can exist while the operation holds the name on all shards. Change streams see the drop on one shard, the
primary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.sharding.ddl.incarnations import DATABASES, dropped
from docstore.sharding.ddl.operation import Operation
from docstore.sharding.migration import RANGE_DELETIONS
from mongod.migration.holds import stored_document
from mongod.migration.records import ROUTING_SIGNALS

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

_AT_ONCE = 64


async def drop_collection(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """The collection, and the ranges of it that were to be deleted."""
    namespace, facts = operation.namespace, operation.facts
    signal = stored_document(shard.node, ROUTING_SIGNALS, namespace)
    note = dropped(namespace, [facts["timestamp"]], None if signal is None else document_to_python(signal))
    write_notes(shard, {bytes(facts["uuid"])}, (ROUTING_SIGNALS, note))
    store = shard.node.store
    if store.collection(namespace) is not None:
        with store.unit(from_migrate=not tells(shard, operation)) as unit:
            store.drop_collection(unit, namespace)
            unit.commit()
    return {}


async def drop_database(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Drop all collections of the database."""
    database, facts = operation.namespace, operation.facts
    record = stored_document(shard.node, DATABASES, database)
    collections = facts["collections"]
    timestamps = [facts["databaseVersion"]["timestamp"], *(collection["timestamp"] for collection in collections)]
    note = dropped(database, timestamps, None if record is None else document_to_python(record))
    write_notes(shard, {bytes(collection["uuid"]) for collection in collections}, (DATABASES, note))
    store = shard.node.store
    while len(namespaces := store.namespaces(database)) > _AT_ONCE:
        with store.unit(from_migrate=not tells(shard, operation)) as unit:
            for namespace in namespaces[:_AT_ONCE]:
                store.drop_collection(unit, namespace)
            unit.commit()
        await shard.node.pause()
        shard.node.replication.check_write()
    with store.unit(from_migrate=not tells(shard, operation)) as unit:
        store.drop_database(unit, database)
        unit.commit()
    return {}


def tells(shard: Shard, operation: Operation) -> bool:
    """True if change streams see on this shard an event that all shards share."""
    return bool(operation.facts.get("primary", shard.name) == shard.name)


def write_notes(shard: Shard, uuids: set[bytes], *notes: tuple[str, dict[str, Any]]) -> None:
    """Note that incarnations are over, and that the ranges of the collections that go need not be deleted."""
    identities = [
        deletion.id for deletion in shard.records.deletions() if bytes(deletion.uuid) in uuids and not deletion.pending
    ]
    shard.records.write(*notes, *((RANGE_DELETIONS, identity) for identity in identities))
