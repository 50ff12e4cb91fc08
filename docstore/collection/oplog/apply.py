"""Application of another member's oplog entries, in units of one or several entries.

Each entry is written to the oplog with its own undo record and session row. A unit takes effect as a whole: readers see
only states that the primary was in, since entries apply in order. A command has a unit of its own.

- Strict (steady state): the data must be exactly what the entry expects; a difference is a broken invariant.
- Tolerant (initial sync): the data may already reflect later entries. An insert on an existing `_id` replaces the
  document; an update or delete of a missing document does nothing; an existing collection or index stays; unique keys
  may collide until the end is reached. Applying a suffix of the oplog twice is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING
from uuid import UUID

from docstore.bson import BINARY, OBJECT, Value, document_from, document_to_python, elements, get_field, to_python
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.collection.catalog.ddl import modify_index, truncate_family
from docstore.collection.catalog.modification import MODIFIABLE, modify_options
from docstore.collection.catalog.options import options_from
from docstore.collection.collection import Collection
from docstore.collection.index.build import IndexBuild
from docstore.collection.index.spec import IndexSpec, parse_index_spec
from docstore.collection.oplog.apply_runs import carry_out
from docstore.collection.oplog.diff import apply_update
from docstore.collection.oplog.inserts import NAME as INSERTS
from docstore.collection.oplog.inserts import inserted_documents
from docstore.collection.oplog.operations import ABORT, COMMIT, PARTIAL, PREPARE, chained_operations
from docstore.collection.oplog.oplog import optime_of
from docstore.collection.oplog.replay_journal import ReplayJournal
from docstore.collection.store import mode_of
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.kernel.log.runs import entry_run
from docstore.namespace import split_namespace
from docstore.storage import Batch

if TYPE_CHECKING:
    from docstore.collection.store import Store

MOST_TOGETHER = 128
"""Entries applied between two checks of the clock: some 5 µs each, unless there are many indexes."""


class ApplyError(Exception):
    """An entry does not fit the data: this member differs from the one that wrote the entry."""


def apply_entry(store: Store, entry: bytes, *, tolerant: bool = False, build: IndexBuild | None = None) -> None:
    """Apply one entry in a unit of its own. Errors: ApplyError if, in strict mode, the data is not what the entry
    expects.

    A new index on a non-empty collection is built here, which takes its time, unless `build` is the completed build
    that `begin_build` returned for the entry.
    """
    with EntryUnit(store, tolerant=tolerant) as unit:
        unit.apply(entry, build)
        unit.commit()


class EntryUnit:
    """Entries applied in one unit. Do not await between the first entry and the commit.

    Use as a context manager: without a commit there is no effect. A command shares its unit with no other entry.
    """

    def __init__(self, store: Store, *, tolerant: bool = False) -> None:
        oplog = store.oplog
        assert oplog is not None, "entries are applied where there is an oplog"
        batch = Batch()
        self._store = store
        self._tolerant = tolerant
        self._journal = ReplayJournal(batch, oplog, store.sessions, tolerant=tolerant)
        self._unit = WriteUnitOfWork(store, batch, self._journal, tolerant=tolerant)
        self._collections: dict[bytes, Collection | None] = {}

    def apply(self, entry: bytes, build: IndexBuild | None = None) -> None:
        """Apply one more entry. Errors: ApplyError, as `apply_entry`; the unit must not be committed then."""
        fields = {name: (code, data) for name, code, data in elements(entry)}
        unit = self._unit
        unit.from_migrate = "fromMigrate" in fields
        wall = fields.get("wall")
        wall_ms = 0 if wall is None else int.from_bytes(wall[1], "little", signed=True)
        self._journal.begin(optime_of(fields["ts"], fields.get("t")), wall_ms)
        _Applier(self._store, unit, fields, self._collections, self._tolerant, build, entry, at=self._at).run()
        self._journal.end(entry, fields)

    def apply_next(self, entries: list[bytes], start: int, end: int) -> int:
        """Apply the entry at `start` and those after it, before `end`, that are applied in the same run. Return their
        number.

        No command may be among them. Errors: as `apply`.
        """
        run = None if self._tolerant else entry_run(entries, start, end, MOST_TOGETHER)
        if run is None:
            self.apply(entries[start])
            return 1
        coll = self._collections.get(run.ui)
        if coll is None:
            coll = self._collections[run.ui] = _collection_of(self._store, (BINARY, run.ui))
        self._unit.from_migrate = False
        self._journal.begin_run(run)
        if coll is None or not carry_out(self._unit, coll, run):
            for entry in run.entries:
                self.apply(entry)
        return len(run.entries)

    def _at(self, position: int) -> None:
        self._journal.position = position

    def commit(self) -> None:
        """Write the unit. Errors: OutOfDiskSpace; nothing has taken effect then."""
        self._unit.commit()

    def __enter__(self) -> EntryUnit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unit.abort()


def begin_build(store: Store, entry: bytes, *, tolerant: bool = False) -> IndexBuild | None:
    """Return the index build that the entry requires, if it indexes existing documents; else None.

    Step the build to its end before `apply_entry`; the collection may be written to meanwhile.
    """
    o = get_field(entry, "o")
    ui = get_field(entry, "ui")
    if o is None or ui is None or get_field(o[1], "createIndexes") is None:
        return None
    coll = _collection_of(store, ui)
    spec = _spec_of(o[1])
    if coll is None or spec.name in coll.indexes or coll.count == 0:
        return None
    return store.build_index(coll, [spec], tolerant=tolerant)


def apply_operations(store: Store, unit: WriteUnitOfWork, operations: Sequence[bytes]) -> None:
    """Apply the operations of a transaction in a unit. Errors: ApplyError if the data is not what they expect."""
    _Applier(store, unit, {"o": (OBJECT, EMPTY_DOCUMENT)}, {}, tolerant=False).run_operations(operations)


class _Applier:
    """One entry being applied in one unit."""

    def __init__(
        self,
        store: Store,
        unit: WriteUnitOfWork,
        fields: Mapping[str, Value],
        collections: dict[bytes, Collection | None],
        tolerant: bool,
        build: IndexBuild | None = None,
        entry: bytes = b"",
        at: Callable[[int], None] = lambda place: None,
    ) -> None:
        """`fields` are those of the entry, or of one operation of a transaction; `at` receives the position of each
        operation.
        """
        self._at = at
        self._store = store
        self._entry = entry
        self._unit = unit
        self._fields = fields
        self._collections = collections
        self._tolerant = tolerant
        self._build = build
        self._o = self._field("o")[1]

    def _field(self, name: str) -> Value:
        value = self._fields.get(name)
        if value is None:
            raise ApplyError(f"an oplog entry has no {name!r}")
        return value

    def _text(self, name: str) -> str:
        return str(to_python(self._field(name)))

    def run(self) -> None:
        op = self._text("op")
        if op == "n":
            self._unit.noop(self._o)
        elif op == "c":
            self._command()
        elif op in ("i", "u", "d", "m"):
            coll = self._collection()
            if coll is None:
                return
            if op == "i":
                self._insert(coll)
            elif op == "u":
                self._update(coll)
            elif op == "m":
                mode_of(self._store, coll).apply(self._unit, coll, self._o)
            else:
                self._remove(coll)
        else:
            raise ApplyError(f"an oplog entry has the unknown op {op!r}")

    def _collection(self) -> Collection | None:
        """Return the collection with the entry's UUID; None if it is gone, which only tolerant mode allows."""
        ui = self._fields.get("ui")
        if ui is None:
            coll = None
        elif ui[1] in self._collections:
            coll = self._collections[ui[1]]
        else:
            coll = self._collections[ui[1]] = _collection_of(self._store, ui)
        if coll is None and not self._tolerant:
            raise ApplyError(f"there is no collection {self._text('ns')}")
        return coll

    def _insert(self, coll: Collection) -> None:
        existing = coll.by_id(self._unit, _id_of(self._o)) if self._tolerant else None
        if existing is None:
            self._unit.insert(coll, self._o)
        else:
            self._unit.replace(coll, *existing, self._o)

    def _insert_all(self) -> None:
        """Apply an entry of grouped inserts, all into one collection."""
        inserts = inserted_documents(self._o)
        if not inserts or any(ui != inserts[0][0] for ui, _ in inserts):
            raise ApplyError("an oplog entry groups what is not inserts into one collection")
        coll = self._store.catalog.by_uuid(UUID(bytes=inserts[0][0][5:]))
        if coll is None and not self._tolerant:
            raise ApplyError("there is no collection for the inserts of an oplog entry")
        if coll is None:
            return
        if not self._tolerant:
            self._unit.insert_all(coll, [raw for _, raw in inserts])
            return
        for _, self._o in inserts:
            self._insert(coll)

    def _update(self, coll: Collection) -> None:
        identity = _id_of(self._field("o2")[1])
        record = coll.by_id(self._unit, identity)
        if record is not None:
            self._unit.replace(coll, *record, apply_update(record[1], self._o))
        elif not self._tolerant:
            raise ApplyError(f"there is no document to update in {coll.ns}")

    def _remove(self, coll: Collection) -> None:
        record = coll.by_id(self._unit, _id_of(self._o))
        if record is not None:
            self._unit.remove(coll, *record)
        elif not self._tolerant:
            raise ApplyError(f"there is no document to remove in {coll.ns}")

    def _command(self) -> None:
        name = elements(self._o)[0][0]
        if name == "create":
            self._create()
        elif (name == INSERTS and "txnNumber" in self._fields) or name == COMMIT:
            self._transaction()
        elif name == ABORT:
            # The prepared operations have had no effect.
            return
        elif name == INSERTS:
            self._insert_all()
        elif name == "dropDatabase":
            # Earlier entries have dropped its collections.
            self._unit.command(None, self._text("ns"), self._o)
        elif name == "renameCollection":
            self._rename()
        elif name in ("drop", "createIndexes", "dropIndexes", "collMod", "truncate"):
            coll = self._collection()
            if coll is None:
                return
            if name == "drop":
                self._store.drop_collection(self._unit, coll.ns)
            elif name == "truncate":
                truncate_family(self._store.catalog, self._unit, coll)
            elif name == "createIndexes":
                self._create_index(coll)
            elif name == "dropIndexes":
                self._drop_index(coll)
            else:
                self._modify(coll)
        else:
            raise ApplyError(f"an oplog entry has the unknown command {name!r}")

    def _transaction(self) -> None:
        """Apply a transaction at its last entry, the one that commits it; the entries before it have no effect of their
        own.
        """
        if get_field(self._o, PARTIAL) is not None or get_field(self._o, PREPARE) is not None:
            return
        oplog = self._store.oplog
        assert oplog is not None, "entries are applied where there is an oplog"
        operations = chained_operations(self._entry, oplog.entry)
        if operations is None:
            raise ApplyError("not all entries of a transaction are in the oplog")
        self.run_operations(operations)

    def run_operations(self, operations: Sequence[bytes]) -> None:
        for position, operation in enumerate(operations):
            self._at(position)
            fields = {name: (code, data) for name, code, data in elements(operation)}
            _Applier(self._store, self._unit, fields, self._collections, self._tolerant).run()

    def _create(self) -> None:
        uuid = UUID(bytes=self._field("ui")[1][5:])
        fields = {name: (code, data) for name, code, data in elements(self._o)}
        ns = f"{split_namespace(self._text('ns'))[0]}.{to_python(fields.pop('create'))}"
        fields.pop("idIndex", None)
        existing = self._store.catalog.by_uuid(uuid)
        if existing is None:
            self._clear_name(ns)
            self._store.create_collection(self._unit, ns, options_from(fields.items()), uuid=uuid)
        elif not self._tolerant:
            raise ApplyError(f"a collection with the UUID {uuid} exists already")
        elif existing.ns != ns:
            self._clear_name(ns)
            self._store.rename_collection(self._unit, existing.ns, ns)

    def _clear_name(self, ns: str) -> None:
        """In tolerant mode, rename a later collection that already has this name to a temporary name.

        The entry that gave it the name is still to come, and finds the collection by its UUID.
        """
        standing = self._store.collection(ns)
        if standing is not None and self._tolerant:
            spare = f"{standing.database}.tmp.{standing.uuid.hex}"
            self._store.rename_collection(self._unit, ns, spare)

    def _rename(self) -> None:
        target = str(to_python(_part(self._o, "to")))
        dropped = get_field(self._o, "dropTarget")
        replaced = None if dropped is None else self._store.catalog.by_uuid(UUID(bytes=dropped[1][5:]))
        coll = self._collection()
        if replaced is not None and (replaced.ns != target or coll is None):
            self._store.drop_collection(self._unit, replaced.ns)
            replaced = None
        if coll is None or coll.ns == target:
            return
        if replaced is None:
            self._clear_name(target)
        self._store.rename_collection(self._unit, coll.ns, target, drop_target=replaced is not None)

    def _create_index(self, coll: Collection) -> None:
        spec = _spec_of(self._o)
        if spec.name in coll.indexes:
            if not self._tolerant:
                raise ApplyError(f"{coll.ns} has an index {spec.name} already")
            return
        if coll.count == 0:
            self._store.create_index(self._unit, coll, spec)
            return
        build = self._build or self._store.build_index(coll, [spec], tolerant=self._tolerant)
        while not build.step(inf):
            continue
        build.finish(self._unit)

    def _drop_index(self, coll: Collection) -> None:
        name = str(to_python(_part(self._o, "index")))
        if name in coll.indexes:
            self._store.drop_index(self._unit, coll, name)
        elif not self._tolerant:
            raise ApplyError(f"{coll.ns} has no index {name}")

    def _modify(self, coll: Collection) -> None:
        index = get_field(self._o, "index")
        if index is not None:
            self._modify_index(coll, index)
        request = {name: (code, data) for name, code, data in elements(self._o) if name in MODIFIABLE}
        if request or index is None:
            modify_options(self._store.catalog, self._unit, coll, request)

    def _modify_index(self, coll: Collection, value: Value) -> None:
        change = document_to_python(value[1])
        name = str(change["name"])
        if name in coll.indexes:
            modify_index(
                self._store.catalog,
                self._unit,
                coll,
                name,
                hidden=change.get("hidden"),
                expire_after=change.get("expireAfterSeconds"),
            )
        elif not self._tolerant:
            raise ApplyError(f"{coll.ns} has no index {name}")


def _collection_of(store: Store, ui: Value) -> Collection | None:
    return store.catalog.by_uuid(UUID(bytes=ui[1][5:]))


def _spec_of(o: bytes) -> IndexSpec:
    return parse_index_spec(document_from(elements(o)[1:]))


def _part(o: bytes, name: str) -> Value:
    value = get_field(o, name)
    if value is None:
        raise ApplyError(f"an oplog entry has no {name!r} in its o")
    return value


def _id_of(raw: bytes) -> Value:
    return _part(raw, "_id")
