"""Index builds over a collection that is being written to.

From the start, writes maintain the build's indexes. The build scans the existing records in order of their ids and
gathers their entries one slice at a time; the engine sorts and bulk-loads them. An entry that a write changed after it
was gathered keeps the write's state.

- All entries of records up to the build's position are in the engine or in the load.
- An unfinished index is garbage on disk, so a crash or a rollback leaves nothing behind.
- Two documents with one unique key fail the end of the build, not the writes during it. Writes do not see entries in
  the load, so unique indexes are checked after all entries are loaded.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from docstore.bson import document_from, elements, from_python
from docstore.bson.allowance import spend
from docstore.collection.catalog.catalog import garbage_key, remove_tree
from docstore.collection.collection import AFTER_RECORD_ID, Collection, Index
from docstore.collection.index.ahead import marked_keys_with_pauses, reads_much
from docstore.collection.index.duplicates import duplicate_key
from docstore.collection.index.keys import REFUSALS
from docstore.collection.index.spec import IndexSpec
from docstore.errors import CommandError
from docstore.kernel.keys.entry_source import LARGE_BYTES, EntrySource, gather_documents
from docstore.kernel.keys.gathered import RUN_ENTRIES, GatheredEntries
from docstore.key_layout import BUILDING, RECORD_ID_BYTES, long_of, record_id_bytes, timestamp_key
from docstore.query.pausing import PAUSED, allowing
from docstore.storage import Batch, Family, Load

if TYPE_CHECKING:
    from docstore.collection.catalog.catalog import Catalog
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from docstore.storage import Engine

_CLOCK_EVERY = 128
_PER_ENTRY = 64
"""Work units charged per gathered entry."""
_ABORTED = 276  # IndexBuildAborted


class IndexBuild:
    """An index build, created by `Store.build_index`.

    Call `step` until it returns True, then `finish` in a unit, and commit the unit.
    """

    def __init__(
        self,
        engine: Engine,
        catalog: Catalog,
        coll: Collection,
        specs: list[IndexSpec],
        *,
        tolerant: bool,
        replacing: bool = False,
    ) -> None:
        """`replacing`: the build replaces existing indexes of these names."""
        self.collection = coll
        self._tolerant = tolerant
        self._replacing = replacing
        self._engine = engine
        self._catalog = catalog
        batch = Batch()
        self._indexes = [Index(spec, catalog.take_ident(batch), ready=False) for spec in specs]
        for index in self._indexes:
            batch.put(Family.META, garbage_key(index.ident), timestamp_key(BUILDING))
            catalog.garbage[index.ident] = BUILDING
        engine.write(batch)
        self._last = coll.find_last_record_id(engine)
        self._place = 0
        self._load: Load | None = None
        unique = [index for index in self._indexes if index.unique and not tolerant]
        # Unique indexes still to be checked, each from a key on.
        self._unseen = [(index, index.prefix) for index in unique]
        self._open = True
        coll.set_indexes(coll.indexes, coll.building | {index.name: index for index in self._indexes})

    @property
    def progress(self) -> tuple[int, int]:
        """Return (record id reached, last record id)."""
        return self._place, self._last

    def step(self, deadline: float) -> bool:
        """Continue until the monotonic time `deadline`; True when all records have their entries.

        Errors: IndexBuildAborted if the collection is gone, a rollback has undone the build, or another index has the
        name; DuplicateKey as soon as two stored documents collide; CannotIndexParallelArrays for a document that the
        index cannot hold.
        """
        self._check()
        while self._place < self._last or self._load is not None:
            if monotonic() >= deadline:
                return False
            load = self._load = self._load or self._begin_load()
            if self._place < self._last and not load.full:
                self._gather(load, deadline)
            elif load.step(deadline):
                self._load = None
        while self._unseen:
            if monotonic() >= deadline:
                return False
            self._look_through(deadline)
        return True

    def _begin_load(self) -> Load:
        first, last = self._indexes[0], self._indexes[-1]
        return self._engine.begin_load(Family.INDEXES, first.prefix, last.end)

    def _gather(self, load: Load, deadline: float) -> None:
        coll, entries = self.collection, load.entries
        sources = [_entry_source(index, tolerant=self._tolerant) for index in self._indexes]
        start, end = (coll.prefix + record_id_bytes(record_id + 1) for record_id in (self._place, self._last))
        records = iter(self._engine.items(Family.RECORDS, start, end))
        most = entries.count + RUN_ENTRIES
        while entries.count < most:
            rid = gather_documents(records, sources, entries, _CLOCK_EVERY)
            self._place = self._last if rid is None else long_of(rid)
            if rid is None or monotonic() >= deadline:
                break
        for index, source in zip(self._indexes, sources, strict=True):
            index.array_bits |= source.array_bits
        while entries.sort_run() and monotonic() < deadline:
            pass

    def _look_through(self, deadline: float) -> None:
        """Find the keys of a unique index that two documents have. Errors: DuplicateKey for the first."""
        index, start = self._unseen[-1]
        last = b""
        for count, key in enumerate(self._engine.keys(Family.INDEXES, start, index.end), 1):
            entry = key[:-RECORD_ID_BYTES]
            if entry == last:
                index.collisions.add(entry)
                self._check_unique(index)
            last = entry
            if count % _CLOCK_EVERY == 0 and monotonic() >= deadline:
                self._unseen[-1] = (index, key)
                return
        self._unseen.pop()

    def _holders(self, entry: bytes) -> set[bytes]:
        """Return the record ids of the documents with that key."""
        keys = self._engine.keys(Family.INDEXES, entry, entry + AFTER_RECORD_ID)
        return {key[-RECORD_ID_BYTES:] for key in keys}

    def finish(self, unit: WriteUnitOfWork) -> None:
        """Make the indexes usable as of the unit, which must not have written to the collection before.

        Errors: DuplicateKey if writes during the build left two documents with one unique key.
        """
        self._check()
        complete = self._place >= self._last and self._load is None and not self._unseen
        assert complete, "the build is not complete"
        if not self._tolerant:
            for index in self._indexes:
                self._check_unique(index)
        coll = self.collection
        catalog = self._catalog
        building = {name: index for name, index in coll.building.items() if index not in self._indexes}
        ready = dict(coll.indexes)
        for index in self._indexes:
            index.ready = True
            unit.on_abort(index.unready)
            ready[index.name] = index
            catalog.adopt(unit, coll, index.ident)
            catalog.set_indexes(unit, coll, dict(ready), building)
            unit.command(coll, *create_index_entry(coll, index.spec))
        self._open = False
        unit.on_abort(self._reopen)

    def _check_unique(self, index: Index) -> None:
        for entry in index.collisions:
            holders = self._holders(entry)
            if len(holders) > 1:
                raw = self._engine.get(Family.RECORDS, self.collection.prefix + max(holders))
                assert raw is not None, f"{self.collection.ns}: an index leads to no record"
                raise duplicate_key(self.collection, index, raw, entry[len(index.prefix) :])

    def _check(self) -> None:
        building = self.collection.building
        is_current = self._catalog.collections.get(self.collection.ns) is self.collection
        has_conflict = not self._replacing and any(index.name in self.collection.indexes for index in self._indexes)
        if has_conflict or not (
            self._open and is_current and all(building.get(index.name) is index for index in self._indexes)
        ):
            raise CommandError(_ABORTED, f"the index build on {self.collection.ns} has been given up")

    def _reopen(self) -> None:
        self._open = True

    def abort(self) -> None:
        """Drop the unfinished indexes. Does nothing after a committed `finish`, or a second time."""
        if not self._open:
            return
        self._open = False
        if self._load is not None:
            self._load.abandon()
        coll = self.collection
        remaining = {name: index for name, index in coll.building.items() if index not in self._indexes}
        coll.set_indexes(coll.indexes, remaining)
        batch = Batch()
        for index in self._indexes:
            remove_tree(batch, index.ident)
            self._catalog.removed(index.ident)
        self._engine.write(batch)


def create_index_entry(coll: Collection, spec: IndexSpec) -> tuple[str, bytes]:
    """Return (`ns`, `o`) of the oplog entry of a new index."""
    o = document_from([("createIndexes", *from_python(coll.name)), *elements(spec.raw)])
    return f"{coll.database}.$cmd", o


def _entry_source(index: Index, *, tolerant: bool) -> EntrySource:
    """Return the entry source of an index for the bulk load.

    It yields to other tasks while it computes the keys of a large document; their writes to the document take
    precedence, as all writes during a load. Errors: as `Index.marked_keys`.
    """

    def gather(prefix: bytes, raw: bytes, rid: bytes, into: GatheredEntries) -> int:
        if len(raw) <= LARGE_BYTES or not reads_much(index, raw):
            keys, array_bits, marks = index.marked_keys(raw, tolerant=tolerant)
        elif index.covers(raw):
            try:
                keys, array_bits, marks = marked_keys_with_pauses(index, raw)
            except CommandError as error:
                if not tolerant or error.code not in REFUSALS:
                    raise
                return 0
        else:
            return 0
        for at in range(0, len(keys), _CLOCK_EVERY):
            part = keys[at : at + _CLOCK_EVERY]
            for key in part:
                into.add(prefix + key + rid, marks)
            allowing(PAUSED, spend, _PER_ENTRY * len(part))
        return array_bits

    return EntrySource(index.prefix, gather, None if tolerant or not index.is_of_values else index.key_pattern)
