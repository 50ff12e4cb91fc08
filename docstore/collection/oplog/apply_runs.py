"""Bulk application of consecutive entries of one kind on one collection.

- The result is byte for byte that of applying the entries singly, except for the key order in undo records.
- If that is impossible, nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.collection.oplog.diff import apply_update
from docstore.kernel.log.entries import id_document
from docstore.kernel.log.runs import DELETE, INSERT, EntryRun, changed_names
from docstore.key_layout import RECORD_ID_BYTES, long_of
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.unit_of_work import WriteUnitOfWork

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES


def carry_out(unit: WriteUnitOfWork, coll: Collection, run: EntryRun) -> bool:
    """Apply the run in bulk and return True; the unit's journal expects these entries.

    False if nothing was done, because an entry does not fit the data or the unit has no bulk form: apply them singly.
    """
    if run.op == INSERT:
        return unit.insert_each(coll, run.objects, None)
    if coll.options.pre_images:
        return False
    return _remove(unit, coll, run) if run.op == DELETE else _change(unit, coll, run)


def _record_id(unit: WriteUnitOfWork, coll: Collection, named: bytes) -> bytes | None:
    """Return the record id of the document that has the same `_id`."""
    entry = unit.get(_INDEXES, coll.id_key(named))
    return None if entry is None else entry[-RECORD_ID_BYTES:]


def _remove(unit: WriteUnitOfWork, coll: Collection, run: EntryRun) -> bool:
    records: dict[int, bytes] = {}
    for named in run.objects:
        rid = _record_id(unit, coll, named)
        before = None if rid is None else unit.get(_RECORDS, coll.prefix + rid)
        if rid is None or before is None:
            return False
        records[long_of(rid)] = before
    return len(records) == len(run.objects) and unit.remove_each(coll, list(records.items()))


def _change(unit: WriteUnitOfWork, coll: Collection, run: EntryRun) -> bool:
    touched = _touched(run.objects)
    indexes = coll.indexes_of(touched)
    if any(index.unique for index in indexes):
        return False
    rids: list[bytes] = []
    before: list[bytes] = []
    after: list[bytes] = []
    latest: dict[bytes, bytes] = {}
    for o, named in zip(run.objects, run.named, strict=True):
        rid = _record_id(unit, coll, named)
        if rid is None:
            return False
        old = latest.get(rid) or unit.get(_RECORDS, coll.prefix + rid)
        if old is None:
            return False
        latest[rid] = new = apply_update(old, o)
        if (touched is None or b"_id" in touched) and id_document(old) != id_document(new):
            return False
        rids.append(rid)
        before.append(old)
        after.append(new)
    return unit.replace_each(coll, rids, before, after, None, None, indexes)


def _touched(changes: list[bytes]) -> frozenset[bytes] | None:
    """Return the top-level fields that some of these `o` change; None: any."""
    names: frozenset[bytes] = frozenset()
    for o in changes:
        new_names = changed_names(o)
        if new_names is None:
            return None
        if not new_names <= names:
            names |= new_names
    return names
