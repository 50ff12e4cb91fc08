"""Undoing oplog entries, newest first, each in one atomic batch with the removal of the entry itself.

A kill between two batches leaves an oplog that ends at an entry whose change stands: the rollback goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from docstore.bson import document_to_python, get_field
from docstore.collection.collection import pack_counters, unpack_counters
from docstore.collection.oplog.oplog import COUNTERS_KEY, Oplog, entry_optime
from docstore.collection.oplog.undo import undo_counters, undo_keys
from docstore.key_layout import CATALOG_PREFIX, COUNTERS_PREFIX, IDENT_BYTES, ident_bytes, timestamp_key
from docstore.optime import OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.storage_mode import EntryMerger
    from docstore.storage import Engine

OnRemoved = Callable[[str, bytes], None]
"""Told (namespace, document) of each document as it stood before the rollback took or changed it."""


class UnrecoverableRollback(Exception):
    """An entry to be undone has no undo record: it lies behind the commit point, or was applied in an initial sync."""


def undo_entries(
    engine: Engine, oplog: Oplog, optime: OpTime, on_removed: OnRemoved, merger: EntryMerger | None
) -> int:
    """Undo every entry after `optime`, which must stand in the oplog; returns how many.

    `on_removed` hears of each document, and of each record of `merger`, once, with what the last of the undone writes
    had left. What is in memory of catalog, counters and sessions is out of date afterwards.
    """
    if optime.timestamp < oplog.commit_limit or oplog.entry(optime.timestamp) is None:
        raise UnrecoverableRollback(f"there is no way back to {optime}: the oplog's undo records do not reach it")
    told: set[bytes] = set()
    undone = 0
    for entry in oplog.scan_back(engine):
        at = entry_optime(entry)
        if at.timestamp <= optime.timestamp:
            assert at == optime, f"the entry at the common point is {at}, not {optime}"
            break
        record = engine.get(Family.UNDO, timestamp_key(at.timestamp))
        if record is None:
            raise UnrecoverableRollback(f"the entry at {at} has no undo record")
        _tell(engine, entry, record, told, on_removed, merger)
        _undo(engine, oplog, entry, at, record)
        undone += 1
    return undone


def _tell(
    engine: Engine, entry: bytes, record: bytes, told: set[bytes], on_removed: OnRemoved, merger: EntryMerger | None
) -> None:
    for family, key, _ in undo_keys(record):
        if family is Family.WIDE and key not in told:
            told.add(key)
            present, o = engine.get(Family.WIDE, key), get_field(entry, "o")
            assert merger is not None, "the store has the mode of its records"
            kept = None if present is None or o is None else merger.rolled_back(o[1], key, present)
            if kept is not None:
                on_removed(document_to_python(entry)["ns"], kept)
        elif family is Family.RECORDS and key not in told:
            told.add(key)
            present = engine.get(Family.RECORDS, key)
            row = engine.get(Family.META, CATALOG_PREFIX + key[:IDENT_BYTES])
            if present is not None and row is not None:
                on_removed(str(document_to_python(row)["ns"]), present)


def _undo(engine: Engine, oplog: Oplog, entry: bytes, at: OpTime, record: bytes) -> None:
    batch = Batch()
    for family, key, previous in undo_keys(record):
        # A key touched twice by one entry goes back to what stood there before the first touch.
        batch.changes[family].setdefault(key, previous)
    ident, count, size = undo_counters(record)
    if ident:
        counters_key = COUNTERS_PREFIX + ident_bytes(ident)
        stored = engine.get(Family.META, counters_key)
        assert stored is not None, f"the entry at {at} counts in an unknown collection"
        present_count, present_size = unpack_counters(stored)
        batch.put(Family.META, counters_key, pack_counters(present_count - count, present_size - size))
    key = timestamp_key(at.timestamp)
    batch.delete(Family.OPLOG, key)
    batch.delete(Family.UNDO, key)
    batch.put(Family.META, COUNTERS_KEY, oplog.counters(-1, -len(entry)))
    engine.write(batch)
    oplog.undone(len(entry))
