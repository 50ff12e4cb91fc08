"""A write unit: several changes that become visible and durable atomically.

One engine batch holds the records, index entries, counters, catalog rows, oplog entries, undo records and session row
of the unit. Invariants:

* Operations of a unit see earlier ones (the unit is a `Reader` over its changes). Nobody else does before `commit`,
  except catalog changes, which nobody reads because nothing awaits between creation and commit.
* A refused operation (DuplicateKey, CannotIndexParallelArrays) leaves the unit unchanged.
* Each logged operation has one oplog entry and one undo record under the same timestamp; grouped inserts (`insert_all`)
  are one operation.
* `local.*`, unlogged units and nodes without an oplog write neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import repeat
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

from docstore.bson import get_field
from docstore.collection.capped import OldestRecords, exceeded
from docstore.collection.changes import Change
from docstore.collection.collection import Collection, Index, pack_counters
from docstore.collection.index.ahead import KeysAhead
from docstore.collection.index.entries import Entries, Grown, Marked
from docstore.collection.oplog.diff import Paths, make_update
from docstore.collection.oplog.document_key import document_key
from docstore.collection.oplog.entry import StatementIds, entry_head
from docstore.collection.oplog.journal import NOOP_HEAD, Image, Journal
from docstore.collection.read.overlay import PendingReader
from docstore.errors import Code, CommandError
from docstore.kernel.keys.new_documents import record_ids
from docstore.kernel.log.entries import id_document
from docstore.kernel.log.undo import DocumentChanges
from docstore.key_layout import UNLOGGED, record_id_bytes
from docstore.optime import OpTime
from docstore.storage import DiskFull, Family
from docstore.storage.engine import Batch

if TYPE_CHECKING:
    from docstore.collection.unit_store import UnitStore
    from docstore.kernel.columns.mutations import RowUpdate

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES
_META = Family.META
_WIDE = Family.WIDE
_NO_OLDEST: Mapping[Collection, OldestRecords] = MappingProxyType({})
_NOTHING_TRIMMED: Mapping[Collection, int] = MappingProxyType({})


class WriteUnitOfWork(PendingReader):
    """A unit created by `Store.unit`. Use it as a context manager, or call `commit` or `abort`; do not await meanwhile.

    `batch` is the unit's own. `tolerant`: unique keys may collide (an inconsistent clone). Without `trims`, capped
    collections may exceed their limits: the removals come from elsewhere. `from_migrate`: listeners learn that later
    operations belong to a migration.
    """

    def __init__(
        self,
        store: UnitStore,
        batch: Batch,
        journal: Journal | None,
        *,
        from_migrate: bool = False,
        tolerant: bool = False,
        trims: bool = True,
    ) -> None:
        self.batch = batch
        self.tolerant = tolerant
        self._store = store
        self.engine = self._engine = engine = store.engine
        changes = batch.changes
        self._records: dict[bytes, bytes | None] = changes[_RECORDS]
        self._indexes = indexes = changes[_INDEXES]
        self._journal = journal
        self.from_migrate = from_migrate
        self._entries = Entries(engine, indexes, not tolerant, None if journal is None else journal.check_free)
        self._deltas: dict[Collection, list[int]] = {}
        self._changes: list[Change] | None = [] if store.has_listeners else None
        self._trims: bool = trims and not (journal is not None and journal.replaying)
        self._keys = store.document_keys
        self._sequence = store.sequence
        self._on_abort: list[Callable[[], None]] | None = None
        self._oldest = _NO_OLDEST
        self._trimmed = _NOTHING_TRIMMED
        self._open = True

    def insert(
        self, coll: Collection, raw: bytes, *, stmt_id: StatementIds | None = None, index_keys: KeysAhead | None = None
    ) -> int:
        """Insert a document with an `_id`; return its record id. `index_keys`: if precomputed. Errors: DuplicateKey."""
        id_key = coll.id_key(raw)
        newest = coll.newest_id
        if newest is None:
            newest = coll.find_newest_id(self._engine)
        if id_key > newest:
            # Most ids are ascending: nothing can exist above the highest.
            coll.newest_id = id_key
        elif self._entries.get(id_key) is not None:
            raise self._entries.duplicate(coll, coll.id_index, raw, id_key)
        record_id = coll.next_record_id
        if coll.options.capped and self._trims and coll not in self._oldest:
            self._oldest = {**self._oldest, coll: OldestRecords(self._engine, self._records, coll)}
        rid = record_id_bytes(record_id)
        added: Marked = {}
        if coll.secondary:
            added, grown = self._entries.new_keys(coll, raw, rid, index_keys)
            if grown:
                self._grow_multikey(coll, grown)
            self._entries.move(coll, {}, added)
        coll.next_record_id = record_id + 1
        record_key = coll.prefix + rid
        self._records[record_key] = raw
        self._indexes[id_key] = coll.id_entry(raw, rid)
        size = len(raw)
        self._count(coll, 1, size)
        journal = self._journal
        if journal is not None and coll.replicates:
            journal.note_document(record_key, None, raw, {}, (id_key, *added))
            o2 = document_key(self._keys, coll.ns, raw, b"o2") if self._keys else id_document(raw, b"o2")
            journal.log(coll.heads["i"], raw, o2, counted=(coll.ident, 1, size), stmt_id=stmt_id)
        if self._changes is not None:
            self._changes.append(Change(coll.ns, "i", None, raw, self.from_migrate))
        if coll.options.capped and self._trims:
            self._trim(coll, record_id)
        return record_id

    def insert_all(self, coll: Collection, documents: Sequence[bytes]) -> None:
        """Insert at most `MOST_INSERTS` documents into a collection that is not capped, with one oplog entry.
        Errors: those of `insert`; the unit must be aborted then."""
        assert not coll.options.capped, "a capped collection takes documents one by one"
        count, size = len(documents), sum(map(len, documents))
        rids = record_ids(coll.next_record_id, count)
        new_keys = self._entries.add_identities(coll, documents, rids)
        if coll.secondary:
            added, grown = self._entries.add_all(coll, documents, rids)
            if grown:
                self._grow_multikey(coll, grown)
            new_keys += added
        record_keys = self._put_new(coll, rids, documents, size)
        journal = self._journal
        if journal is not None and coll.replicates:
            journal.note_absent(_RECORDS, record_keys)
            journal.note_absent(_INDEXES, new_keys)
            key = self._keys.get(coll.ns)
            journal.log_inserts(coll.heads["i"], documents, (coll.ident, count, size), key)
        if self._changes is not None:
            self._changes += [Change(coll.ns, "i", None, raw, self.from_migrate) for raw in documents]

    def _put_new(self, coll: Collection, rids: list[bytes], documents: Sequence[bytes], size: int) -> list[bytes]:
        """Put the records of new documents, of `size` bytes, into the batch; return their keys."""
        record_keys = [coll.prefix + rid for rid in rids]
        self._records.update(zip(record_keys, documents, strict=True))
        coll.next_record_id += len(rids)
        self._count(coll, len(rids), size)
        return record_keys

    def insert_each(self, coll: Collection, documents: list[bytes], stmt_ids: list[int] | None) -> bool:
        """Insert many documents, as `insert`; False, with nothing done, if they must be inserted singly.

        That is: the collection is capped, an open transaction has claims, a document is refused or has a unique key
        that the unit has changed, or an undo record would have to contain new multikey positions."""
        journal = self._journal if coll.replicates else None
        if coll.options.capped or not (journal is None or journal.logs_each):
            return False
        rids = record_ids(coll.next_record_id, len(documents))
        entries = self._entries.of_each(coll, documents, rids)
        if entries is None:
            return False
        if entries.grown:
            if journal is not None:
                return False
            self._grow_multikey(coll, entries.grown)
        record_keys = self._put_new(coll, rids, documents, sum(map(len, documents)))
        self._entries.add_each(entries)
        coll.newest_id = max(coll.newest_id or b"", *entries.id_keys)
        if journal is not None:
            changed = DocumentChanges(documents, record_keys, documents, new_keys=entries.entry_keys, stmt_ids=stmt_ids)
            journal.log_each(coll.heads["i"], changed, self._keys.get(coll.ns), coll.ident)
        if self._changes is not None:
            self._changes += [Change(coll.ns, "i", None, raw, self.from_migrate) for raw in documents]
        return True

    def replace(
        self, coll: Collection, record_id: int, before: bytes, after: bytes, *,
        stmt_id: StatementIds | None = None, image: Image | None = None, changed: frozenset[bytes] | None = None,
        paths: Paths | None = None, operation: bytes | None = None, index_keys: KeysAhead | None = None,
    ) -> None:  # fmt: skip
        """Replace `before`, which must be the current document and have an equal `_id`, by `after`.

        `changed`: the only places (`docstore.query.value.places`) in which they may differ, if known. `paths`: the
        changed paths, as in `make_update`. `operation`: the entry's `o`, if known. `index_keys`: as in `insert`.
        """
        rid = record_id_bytes(record_id)
        removed: Marked = {}
        added: Marked = {}
        if coll.secondary:
            removed, added, grown = self._entries.changed_keys(coll, before, after, rid, changed, index_keys)
            if grown:
                self._grow_multikey(coll, grown)
            self._entries.move(coll, removed, added)
        touched = get_field(before, "_id") != get_field(after, "_id") if changed is None else b"_id" in changed
        if touched:
            old, new = coll.id_entry(before, rid), coll.id_entry(after, rid)
            if old != new:
                # An equal `_id` of another type.
                id_key = coll.id_key(after)
                self._indexes[id_key] = added[id_key] = new
                removed[id_key] = old
        record_key = coll.prefix + rid
        self._records[record_key] = after
        growth = len(after) - len(before)
        if growth or coll.guards:
            self._count(coll, 0, growth)
        journal = self._journal
        if journal is not None and coll.replicates:
            if coll.options.pre_images and not self.from_migrate:
                journal.keep_before(before)
            new_keys = [key for key in added if key not in removed] if added else ()
            journal.note_document(record_key, before, after, removed, new_keys)
            o = after if journal.replaying else operation or make_update(before, after, paths)
            o2 = document_key(self._keys, coll.ns, after, b"o2") if self._keys else id_document(after, b"o2")
            journal.log(coll.heads["u"], o, o2, counted=(coll.ident, 0, growth), stmt_id=stmt_id, image=image)
        if self._changes is not None:
            self._changes.append(Change(coll.ns, "u", before, after, self.from_migrate))

    def replace_each(
        self, coll: Collection, rids: list[bytes], before: list[bytes], after: list[bytes], paths: Paths | None,
        stmt_ids: list[int] | None = None, indexes: Sequence[Index] = (), operations: list[bytes] | None = None,
    ) -> bool:  # fmt: skip
        """Replace many documents, as `replace`, by record id; False, with nothing done, if that must be done singly.
        No `_id` may have other bytes, and only entries of `indexes`, none of them unique, may differ. Done singly: with
        pre-images, claims of a transaction, or a refused document, or as in `insert_each`."""
        journal = self._journal if coll.replicates else None
        if coll.options.pre_images or not (journal is None or journal.logs_each):
            return False
        new_keys: list[list[bytes]] | None = None
        removed: list[Marked] | None = None
        if indexes:
            grow = partial(self._grow_multikey, coll) if journal is None else None
            new_keys, removed = self._entries.change_each(indexes, rids, before, after, grow)
            if new_keys is None:
                return False
        record_keys = [coll.prefix + rid for rid in rids]
        self._records.update(zip(record_keys, after, strict=True))
        growth = sum(map(len, after)) - sum(map(len, before))
        if growth or coll.guards:
            self._count(coll, 0, growth)
        if journal is not None:
            if journal.replaying or operations is None:
                operations = [] if journal.replaying else list(map(make_update, before, after, repeat(paths)))
            logged = DocumentChanges(operations, record_keys, after, before, new_keys, removed, stmt_ids=stmt_ids)
            journal.log_each(coll.heads["u"], logged, self._keys.get(coll.ns), coll.ident)
        if self._changes is not None:
            self._changes += [
                Change(coll.ns, "u", *pair, self.from_migrate) for pair in zip(before, after, strict=True)
            ]
        return True

    def remove(
        self,
        coll: Collection,
        record_id: int,
        before: bytes,
        *,
        stmt_id: StatementIds | None = None,
        image: Image | None = None,
        index_keys: KeysAhead | None = None,
    ) -> None:
        """Remove the document `before`, the current one at the record id. `index_keys`: as in `insert`."""
        rid = record_id_bytes(record_id)
        record_key = coll.prefix + rid
        id_key = coll.id_key(before)
        removed: Marked = {}
        if coll.secondary:
            removed = self._entries.old_keys(coll, before, rid, index_keys)
            self._entries.move(coll, removed, {})
        self._records[record_key] = None
        self._indexes[id_key] = None
        self._count(coll, -1, -len(before))
        journal = self._journal
        if journal is not None and coll.replicates:
            if coll.options.pre_images and not self.from_migrate:
                journal.keep_before(before)
            removed[id_key] = coll.id_entry(before, rid)
            journal.note_document(record_key, before, None, removed, ())
            counted = (coll.ident, -1, -len(before))
            o = document_key(self._keys, coll.ns, before) if self._keys else id_document(before)
            journal.log(coll.heads["d"], o, counted=counted, stmt_id=stmt_id, image=image)
        if self._changes is not None:
            self._changes.append(Change(coll.ns, "d", before, None, self.from_migrate))

    def remove_each(
        self, coll: Collection, removals: Sequence[tuple[int, bytes]], stmt_ids: list[int] | None = None
    ) -> bool:
        """Remove many documents, as `remove`, by (record id, before); False, with nothing done, if that must be done
        singly: with pre-images, or claims of a transaction."""
        journal = self._journal if coll.replicates else None
        if coll.options.pre_images or not (journal is None or journal.logs_each):
            return False
        rids, befores = [record_id_bytes(record_id) for record_id, _ in removals], [before for _, before in removals]
        removed = self._entries.remove_each(coll, befores, rids)
        record_keys = [coll.prefix + rid for rid in rids]
        self._records.update(dict.fromkeys(record_keys))
        self._count(coll, -len(befores), -sum(map(len, befores)))
        if journal is not None:
            operations = [] if journal.replaying else [document_key(self._keys, coll.ns, raw) for raw in befores]
            logged = DocumentChanges(operations, record_keys, before=befores, removed=removed, stmt_ids=stmt_ids)
            journal.log_each(coll.heads["d"], logged, None, coll.ident)
        if self._changes is not None:
            self._changes += [Change(coll.ns, "d", before, None, self.from_migrate) for before in befores]
        return True

    def _trim(self, coll: Collection, newest: int) -> None:
        """Remove the oldest documents of a capped collection above its limits, up to the record `newest`."""
        options, delta, oldest = coll.options, self._deltas[coll], self._oldest[coll]
        while exceeded(options, coll.count + delta[0], coll.size + delta[1]):
            record = oldest.take_before(newest)
            if record is None:
                return
            self.remove(coll, *record)
            self._trimmed = {**self._trimmed, coll: record[0]}

    def put_row(self, coll: Collection, update: RowUpdate, document: Callable[[], bytes]) -> None:
        """Apply a row update of `docstore.widecolumn.node.rows`; `document` returns the `o` of its entry. An update
        that changes nothing is not logged.
        """
        if not update.keys:
            return
        added, size = update.added, update.size
        self.batch.changes[_WIDE].update(update.keys)
        if added or size:
            self._count(coll, added, size)
        journal = self._journal
        o = document() if self._changes is not None or (journal is not None and not journal.replaying) else b""
        if journal is not None and coll.replicates:
            for key, previous in update.previous:
                journal.note(_WIDE, key, previous)
            journal.log(coll.heads["m"], o, counted=(coll.ident, added, size))
        if self._changes is not None:
            self._changes.append(Change(coll.ns, "m", None, o, self.from_migrate))

    def noop(self, o: bytes, coll: Collection | None = None, o2: bytes = b"", stmt_id: int | None = None) -> None:
        """Log a no-op entry with the document `o`; one about a collection has its name, and `o2`."""
        if self._journal is not None:
            head = NOOP_HEAD if coll is None else entry_head("n", coll.ns, coll.uuid)
            self._journal.log(head, o, b"\x03o2\0" + o2 if o2 else b"", stmt_id=stmt_id)
        if self._changes is not None:
            self._changes.append(Change("", "n", None, o, self.from_migrate))

    def command(self, coll: Collection | None, ns: str, o: bytes, o2: bytes | None = None) -> None:
        """Log a catalog change, whose rows were written with `touch`; `ns` is "db.$cmd"."""
        if self._journal is not None and (coll is None or coll.replicates):
            middle = b"" if o2 is None else b"\x03o2\0" + o2
            self._journal.log(entry_head("c", ns, coll.uuid if coll is not None else None), o, middle)
        if self._changes is not None:
            self._changes.append(Change(ns, "c", None, o, self.from_migrate))

    def touch(self, key: bytes, value: bytes | None, *, logged: bool) -> None:
        """Change a row of the `meta` family; if `logged`, the undo record of the next entry restores it."""
        if self._journal is not None and logged:
            self._journal.note(_META, key, self.get(_META, key))
        self.batch.changes[_META][key] = value

    def next_timestamp(self) -> int:
        """Return the timestamp of the next entry; UNLOGGED if nothing is logged."""
        return UNLOGGED if self._journal is None else self._journal.next_timestamp()

    def on_abort(self, action: Callable[[], None]) -> None:
        """Call `action` if the unit does not commit; newest action first."""
        if self._on_abort is None:
            self._on_abort = []
        self._on_abort.append(action)

    def _grow_multikey(self, coll: Collection, grown: Grown) -> None:
        coll.plans.clear()
        self.on_abort(coll.plans.clear)
        for index, array_bits in grown:
            self.on_abort(index.grow(array_bits))
        if any(index.ready for index, _ in grown):
            self.touch(*self._store.catalog.row(coll), logged=coll.replicates)

    def _count(self, coll: Collection, count: int, size: int) -> None:
        deltas = self._deltas.get(coll)
        if deltas is None:
            self._deltas[coll] = [count, size]
        else:
            deltas[0] += count
            deltas[1] += size

    def commit(self) -> OpTime | None:
        """Write the unit and notify listeners; return the optime of the last entry, None if nothing was logged.

        Errors: OutOfDiskSpace; the unit has been aborted then.
        """
        assert self._open, "the unit has ended"
        assert self._sequence == self._store.sequence, "another unit has committed since this one began"
        self._open = False
        meta = self.batch.changes[_META]
        for coll, (count, size) in self._deltas.items():
            meta[coll.counters_key] = pack_counters(coll.count + count, coll.size + size)
        journal = self._journal
        try:
            if journal is not None:
                journal.finish()
            if not self.batch:
                return None
            self._engine.write(self.batch)
        except CommandError:
            self._take_back()
            raise
        except DiskFull as error:
            self._take_back()
            raise CommandError(Code.OutOfDiskSpace, str(error)) from error
        for coll, (count, size) in self._deltas.items():
            coll.count += count
            coll.size += size
            if coll.guards:
                self._store.security_changes += 1
        for coll, record_id in self._trimmed.items():
            coll.oldest = record_id
        optime = None
        if journal is not None:
            journal.written()
            optime = journal.last
        self._store.committed(optime, self._changes)
        return optime

    def abort(self) -> None:
        """Drop all changes, including catalog changes in memory."""
        if self._open:
            self._open = False
            self._take_back()

    def _take_back(self) -> None:
        for action in reversed(self._on_abort or ()):
            action()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abort unless committed."""
        self.abort()
