"""Undoing oplog entries, newest first, each in one atomic batch with the removal of the entry itself.

A kill between two batches leaves an oplog that ends at an entry whose change stands: the rollback goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import bson
from bson.int64 import Int64

from docstore.bson import BINARY, OBJECT, append_fields, document_to_python, get_field
from docstore.collection.collection import pack_counters, unpack_counters
from docstore.collection.oplog.oplog import COUNTERS_KEY, Oplog, entry_optime
from docstore.collection.oplog.undo import undo_counters, undo_keys
from docstore.collection.rows import merge_document
from docstore.kernel.columns.encoding import ESTIMATE, EXPIRING, TOMBSTONE, WHOLE
from docstore.key_layout import CATALOG_PREFIX, COUNTERS_PREFIX, IDENT_BYTES, ident_bytes, timestamp_key
from docstore.optime import OpTime
from docstore.storage import Batch, Family
from docstore.widecolumn.model.cells import unpack_cell, unpack_deletion
from docstore.widecolumn.model.keys import family_prefix
from docstore.widecolumn.model.mutations import Entry

if TYPE_CHECKING:
    from docstore.storage import Engine

OnRemoved = Callable[[str, bytes], None]
"""Told (namespace, document) of each document as it stood before the rollback took or changed it."""


class UnrecoverableRollback(Exception):
    """An entry to be undone has no undo record: it lies behind the commit point, or was applied in an initial sync."""


def undo_entries(engine: Engine, oplog: Oplog, optime: OpTime, on_removed: OnRemoved) -> int:
    """Undo every entry after `optime`, which must stand in the oplog; returns how many.

    `on_removed` hears of each document, and of each cell of a row, once, with what the last of the undone writes had
    left. What is in memory of catalog, counters and sessions is out of date afterwards.
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
        _tell(engine, entry, record, told, on_removed)
        _undo(engine, oplog, entry, at, record)
        undone += 1
    return undone


def _tell(engine: Engine, entry: bytes, record: bytes, told: set[bytes], on_removed: OnRemoved) -> None:
    for family, key, _ in undo_keys(record):
        if family is Family.WIDE and key not in told:
            told.add(key)
            present, row = engine.get(Family.WIDE, key), _row_of(entry)
            if present is not None and row is not None and not present[0] & ESTIMATE:
                on_removed(bson.decode(entry)["ns"], _kept(row, key, present))
        elif family is Family.RECORDS and key not in told:
            told.add(key)
            present = engine.get(Family.RECORDS, key)
            row = engine.get(Family.META, CATALOG_PREFIX + key[:IDENT_BYTES])
            if present is not None and row is not None:
                on_removed(str(document_to_python(row)["ns"]), present)


def _row_of(entry: bytes) -> bytes | None:
    """The row (token and key) that an entry changes; None where it changes no row."""
    o = get_field(entry, "o")
    row = None if o is None or o[0] != OBJECT else get_field(o[1], "r")
    return None if row is None or row[0] != BINARY else row[1][5:]


def _kept(row: bytes, key: bytes, record: bytes) -> bytes:
    """A cell or deletion as it is kept: `{r, m}`, which merges it again as an entry of the oplog does, and what it is:
    `timestamp`, `value` of a value, `expires` (seconds since 1970) where it does, `deleted`.
    """
    path = key[len(family_prefix(0)) + len(row) :]
    fields: dict[str, Any]
    if record[0] & WHOLE:
        fields = {"timestamp": Int64(unpack_deletion(record).timestamp), "deleted": True}
    else:
        cell = unpack_cell(record)
        fields = {"timestamp": Int64(cell.timestamp)}
        fields.update({"deleted": True} if cell.flags & TOMBSTONE else {"value": cell.value})
        if cell.flags & EXPIRING:
            fields["expires"] = Int64(cell.local_deletion)
    return append_fields(merge_document(row, (Entry(path, record),)), bson.encode(fields)[4:-1])


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
