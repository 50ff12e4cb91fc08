"""Repair of a store from its records: everything derived from documents is recomputed. Afterwards:

- each document is valid BSON with an `_id` that is unique in its collection;
- indexes, multikey flags and counters match the documents (`validate` reports nothing, except documents that collide
  under a unique index, which are kept).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from docstore.bson import get_field
from docstore.bson.validation import validate as validate_document
from docstore.collection.collection import Collection, pack_counters
from docstore.collection.store import mode_of
from docstore.errors import CommandError
from docstore.key_layout import record_id_bytes
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.store import Store

_BATCH_ENTRIES = 10_000


@dataclass(slots=True)
class Repaired:
    """The repairs of one collection. `removed`: the reason for each removed record."""

    ns: str
    count: int = 0
    entries: int = 0
    was_valid: bool = False
    removed: list[str] = field(default_factory=list)


def repair_collection(
    store: Store, coll: Collection, note: Callable[[list[str]], None] = lambda removed: None
) -> Repaired:
    """Rebuild indexes and counters from the records, and remove records that are no documents.

    `note` receives all removals before they happen.
    """
    engine = store.engine
    if coll.options.family is not None:
        return _recount(store, coll)
    done = Repaired(coll.ns, was_valid=store.validate(coll).valid)
    indexes = list(coll.indexes.values())
    batch = Batch()
    for index in indexes:
        batch.delete_range(Family.INDEXES, index.prefix, index.end)
        index.array_bits = 0
    engine.write(batch)
    batch = Batch()
    size = 0
    for record_id, raw in coll.records(engine):
        rid = record_id_bytes(record_id)
        id_key = b""
        reason = _unfit(raw)
        if reason is None:
            id_key = coll.id_key(raw)
            if id_key in batch.changes[Family.INDEXES] or engine.get(Family.INDEXES, id_key) is not None:
                reason = "has an _id that another document has"
        if reason is not None:
            done.removed.append(f"record {record_id} {reason}")
            batch.delete(Family.RECORDS, coll.prefix + rid)
            continue
        done.count += 1
        size += len(raw)
        batch.put(Family.INDEXES, id_key, coll.id_entry(raw, rid))
        for index in indexes:
            if not index.is_id:
                keys, array_bits, marks = index.marked_keys(raw, tolerant=True)
                index.array_bits |= array_bits
                for key in keys:
                    batch.put(Family.INDEXES, index.prefix + key + rid, marks)
        if len(batch.changes[Family.INDEXES]) >= _BATCH_ENTRIES:
            note(done.removed)
            done.entries += len(batch.changes[Family.INDEXES])
            engine.write(batch)
            batch = Batch()
    note(done.removed)
    done.entries += len(batch.changes[Family.INDEXES])
    coll.count, coll.size = done.count, size
    batch.put(Family.META, coll.counters_key, pack_counters(coll.count, coll.size))
    batch.put(Family.META, *store.catalog.row(coll))
    engine.write(batch)
    return done


def _recount(store: Store, coll: Collection) -> Repaired:
    """Recompute the counters of a column family: it has no other derived data."""
    done = Repaired(coll.ns, was_valid=store.validate(coll).valid)
    size = 0
    for key, record in mode_of(store, coll).stored(store.engine, coll):
        done.count += 1
        size += len(key) + len(record)
    coll.count, coll.size = done.count, size
    batch = Batch()
    batch.put(Family.META, coll.counters_key, pack_counters(coll.count, coll.size))
    store.engine.write(batch)
    return done


def _unfit(raw: bytes) -> str | None:
    """Return the reason why a record is no document."""
    try:
        validate_document(raw)
    except CommandError as error:
        return f"is not BSON: {error.message}"
    return "has no _id" if get_field(raw, "_id") is None else None
