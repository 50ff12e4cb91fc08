"""Renaming a collection on this shard, concurrently with all others.

A durable record of the ended incarnations of both names comes first. The step is idempotent: a shard recognises by
the uuid that it has renamed already, since the collection with the new name is not the one to drop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.sharding.ddl.incarnations import dropped
from docstore.sharding.ddl.operation import Operation
from mongod.ddl.drops import tells, write_notes
from mongod.migration.holds import stored_document
from mongod.migration.records import ROUTING_SIGNALS

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


async def rename(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """The target goes, the collection gets its name; where there is none of it here, the target goes only."""
    facts = operation.facts
    source, target = facts["source"], facts["target"]
    notes = []
    for name, stamp in ((source, facts["sourceTimestamp"]), (target, facts["targetTimestamp"])):
        if stamp is not None:
            signal = stored_document(shard.node, ROUTING_SIGNALS, name)
            note = dropped(name, [stamp], None if signal is None else document_to_python(signal))
            notes.append((ROUTING_SIGNALS, note))
    target_uuid = facts["targetUuid"]
    write_notes(shard, set() if target_uuid is None else {bytes(target_uuid)}, *notes)
    store, uuid = shard.node.store, bytes(facts["uuid"])
    old, new = store.collection(source), store.collection(target)
    moved = old is not None and old.uuid.bytes == uuid
    with store.unit(from_migrate=not tells(shard, operation)) as unit:
        if moved:
            store.rename_collection(unit, source, target, drop_target=True)
        elif new is not None and new.uuid.bytes != uuid:
            store.drop_collection(unit, target)
        unit.commit()
    return {}
