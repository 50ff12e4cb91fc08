"""Rollback: undo of oplog entries, newest first, in groups that are each an atomic batch with the removal of its
entries.

- The data that a group removes is known before its undo, so that the caller can save it first.
- A crash between two groups leaves an oplog that matches the data; the rollback resumes there.
- The oplog and the catalog in memory follow each group, so other tasks may run between two groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from docstore.bson import document_to_python, get_field
from docstore.collection.collection import pack_counters, unpack_counters
from docstore.collection.limits import MAX_UNDO_GROUP_BYTES
from docstore.collection.oplog.oplog import COUNTERS_KEY, entry_optime
from docstore.collection.oplog.undo import Part, undo_counters, undo_keys
from docstore.key_layout import (
    CATALOG_PREFIX,
    COUNTERS_PREFIX,
    GARBAGE_PREFIX,
    IDENT_BYTES,
    SESSION_PREFIX,
    ident_bytes,
    last_long,
    timestamp_key,
)
from docstore.optime import OpTime
from docstore.storage import Batch, Family, Urgency

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store
    from docstore.storage import Reader

MOST_ENTRIES = 256
"""Entries per group: each takes some 20 µs to examine and as long to write."""

_META = Family.META


class UnrecoverableRollback(Exception):
    """An entry to undo has no undo record: it is before the commit point, or was applied in an initial sync."""


class RemovedDocument(NamedTuple):
    """A document before the rollback removed or changed it. `ns`: the collection's name at that time."""

    uuid: UUID
    ns: str
    document: bytes


@dataclass(slots=True)
class UndoGroup:
    """Consecutive entries undone together. `removed`: the data this removes that no later group covers."""

    removed: list[RemovedDocument] = field(default_factory=list)
    batch: Batch = field(default_factory=Batch)
    entries: int = 0
    entries_bytes: int = 0
    size: int = 0
    last: OpTime | None = None


class _Identities:
    """The highest `_id` keys of collections before the rollback.

    Many removed keys may follow the highest remaining one, and finding that would iterate over them.
    """

    def __init__(self, coll: Collection) -> None:
        self._coll = coll
        self._newest: bytes | None = None

    def take_back(self, reader: Reader, key: bytes) -> None:
        """Note a key of the `_id` index that will be restored or removed."""
        if self._newest is None:
            self._newest = self._coll.newest_id or self._coll.find_newest_id(reader)
        self._newest = max(self._newest, key)

    def keep(self, collections: Mapping[str, Collection]) -> None:
        """Set the highest key of each collection as an upper bound; the key itself may be gone."""
        if collections.get(self._coll.ns) is self._coll:
            self._coll.newest_id = self._newest


class Rollback:
    """The undo of every entry after `optime` in a store's oplog.

    Call `next_group` and `undo` alternately until there is no group, then `finish`, also after a failure. Each
    document, and each record of the storage mode, is reported once, as the last undone write left it.
    """

    def __init__(self, store: Store, optime: OpTime) -> None:
        """`optime` must be in the oplog and not before the commit point. Errors: UnrecoverableRollback."""
        assert store.oplog is not None, "there is nothing to roll back without an oplog"
        self._store = store
        self._oplog = store.oplog
        self._engine = store.engine
        self._optime = optime
        self._told: set[bytes] = set()
        self._names: dict[bytes, tuple[UUID, str]] = {}
        self._identities: dict[bytes, _Identities] = {
            coll.id_prefix: _Identities(coll) for coll in store.catalog.collections.values()
        }
        # By collection, the highest restored record key.
        self._records: dict[bytes, bytes] = {}
        present = self._oplog.entry(optime.timestamp)
        if optime.timestamp < self._oplog.commit_limit or present is None or entry_optime(present) != optime:
            raise UnrecoverableRollback(f"there is no way back to {optime}: the oplog's undo records do not reach it")
        self.undone = 0

    def next_group(self, clock: Callable[[], float], deadline: float) -> UndoGroup | None:
        """Return the next entries to undo, at least one; None when all are undone.

        Errors: UnrecoverableRollback for the first one that cannot be undone.
        """
        group = UndoGroup()
        for entry in self._oplog.scan_back(self._engine, self._oplog.last.timestamp + 1):
            at = entry_optime(entry)
            full = group.entries == MOST_ENTRIES or group.size >= MAX_UNDO_GROUP_BYTES
            if at.timestamp <= self._optime.timestamp or full or (group.entries and clock() >= deadline):
                group.last = at
                break
            record = self._engine.get(Family.UNDO, timestamp_key(at.timestamp))
            if record is None:
                if group.entries:
                    group.last = at
                    break
                raise UnrecoverableRollback(f"the entry at {at} has no undo record")
            self._tell(group, entry, record)
            self._take_back(group, entry, at, record)
        return group if group.entries else None

    def undo(self, group: UndoGroup) -> None:
        """Write the group last returned by `next_group`. Errors: StorageError; nothing of it is undone then."""
        oplog, batch = self._oplog, group.batch
        assert group.last is not None, "the entry at the common point stays"
        batch.urgency = Urgency.RECOVERY
        batch.put(_META, COUNTERS_KEY, oplog.counters(-group.entries, -group.entries_bytes))
        self._engine.write(batch)
        self.undone += group.entries
        oplog.cut(group.last, group.entries, group.entries_bytes)
        self._store.sequence += 1
        rows = batch.changes[_META]
        if any(key[:1] in (CATALOG_PREFIX, GARBAGE_PREFIX) for key in rows):
            self._store.catalog.load()
        if any(key[:1] == SESSION_PREFIX for key in rows):
            self._store.sessions.forget()

    def finish(self) -> None:
        """Update the caches in memory from disk."""
        self._store.undone()
        collections = self._store.catalog.collections
        for identities in self._identities.values():
            identities.keep(collections)
        for coll in collections.values():
            highest = self._records.get(coll.prefix)
            if highest is not None:
                # They may have been removed before this process started, whose record ids continued from the remaining
                # ones.
                coll.next_record_id = max(coll.next_record_id, last_long(highest) + 1)

    def _tell(self, group: UndoGroup, entry: bytes, record: bytes) -> None:
        for family, key, _ in undo_keys(record):
            if family not in (Family.RECORDS, Family.WIDE) or key in self._told:
                continue
            self._told.add(key)
            # No later entry has changed it, so nothing in the group has yet.
            present = self._engine.get(family, key)
            if present is None:
                continue
            row = None
            if family is Family.RECORDS:
                row = self._row(group, CATALOG_PREFIX + key[:IDENT_BYTES])
            else:
                mode, o = self._store.mode, get_field(entry, "o")
                assert mode is not None, "the store has the mode of its records"
                assert o is not None, "an entry of a row has an o"
                present = mode.rolled_back(o[1], key, present)
            if present is not None:
                group.removed.append(RemovedDocument(*self._collection_of(row, entry), present))
                group.size += len(present)

    def _collection_of(self, row: bytes | None, entry: bytes) -> tuple[UUID, str]:
        """Return (UUID, name) from the collection's row, or from the entry if there is no row."""
        identity = self._names.get(row or b"")
        if identity is not None:
            return identity
        if row is None:
            ui, ns = get_field(entry, "ui"), get_field(entry, "ns")
            return UUID(int=0) if ui is None else UUID(bytes=ui[1][5:]), "" if ns is None else ns[1][4:-1].decode()
        fields = document_to_python(row)
        identity = self._names[row] = UUID(bytes=bytes(fields["uuid"])), str(fields["ns"])
        return identity

    def _row(self, group: UndoGroup, key: bytes) -> bytes | None:
        """Return a row of `meta` as of the undo of the group's entries so far."""
        rows = group.batch.changes[_META]
        return rows[key] if key in rows else self._engine.get(_META, key)

    def _take_back(self, group: UndoGroup, entry: bytes, at: OpTime, record: bytes) -> None:
        batch = group.batch
        for family, key, previous in reversed(list(undo_keys(record))):
            # A key changed twice returns to its value before the first change.
            changes = batch.changes[family]
            if isinstance(previous, Part):
                previous = previous.put_back(changes[key] if key in changes else self._engine.get(family, key))
            changes[key] = previous
            if family is Family.RECORDS and previous is not None:
                prefix = key[:IDENT_BYTES]
                self._records[prefix] = max(self._records.get(prefix, key), key)
            if family is Family.INDEXES and (identities := self._identities.get(key[:IDENT_BYTES])) is not None:
                identities.take_back(self._engine, key)
        for ident, count, size in undo_counters(record):
            key = COUNTERS_PREFIX + ident_bytes(ident)
            stored = self._row(group, key)
            assert stored is not None, f"the entry at {at} counts in an unknown collection"
            present_count, present_size = unpack_counters(stored)
            batch.put(_META, key, pack_counters(present_count - count, present_size - size))
        batch.delete(Family.OPLOG, timestamp_key(at.timestamp))
        batch.delete(Family.UNDO, timestamp_key(at.timestamp))
        group.entries += 1
        group.entries_bytes += len(entry)
        group.size += len(entry) + len(record)
