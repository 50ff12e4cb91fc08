# cython: annotation_typing=False
"""The documents of one node: collections, indexes, oplog and sessions over one engine.

- Reads need only a `Collection` and a `Reader` (the engine, a snapshot, a write unit).
- All writes go through write units, one at a time, on one thread.
- The store caches what every write needs (catalog, counters, ends of the oplog), read from disk once at startup.
- Startup drops index builds that a crash has interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING
from uuid import UUID

from docstore.collection.catalog import ddl
from docstore.collection.catalog.catalog import Catalog, remove_tree, remove_trees
from docstore.collection.catalog.options import NO_OPTIONS, CollectionOptions
from docstore.collection.changes import Change, Commit
from docstore.collection.collection import Collection, Index
from docstore.collection.index.build import IndexBuild
from docstore.collection.index.spec import IndexSpec
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.journal import Journal
from docstore.collection.oplog.oplog import Oplog
from docstore.collection.oplog.sessions import SessionTable, SessionWrite
from docstore.collection.oplog.undo_history import UndoHistory
from docstore.collection.transaction.claims import Claims
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.collection.validate import Report, validate
from docstore.collection.write_lock import WriteLock
from docstore.key_layout import BUILDING, timestamp_key
from docstore.log import component
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.storage_mode import StorageMode
    from docstore.storage import Engine

LOG = component("STORAGE")

_RECLAIMED_AT_ONCE = 128
"""Trees whose space one batch frees."""


class Store:
    """See the module. `clock` returns seconds since 1970; only timestamps and wall times come from it.

    `watchers` are called with the last optime after each commit. Unlike subscribers, they get no changes, which are
    collected only for subscribers. `security_changes`: a counter of changes to users and roles. `mode`: the storage
    mode for records other than documents. `document_keys`: by namespace, for collections known to be sharded.
    """

    __weakref__: object

    def __init__(self, engine: Engine, *, clock: Callable[[], float], mode: StorageMode | None = None) -> None:
        self.engine = engine
        self.mode = mode
        self.clock = clock
        self.claims = Claims()
        self.catalog = Catalog(engine, self.claims)
        self.oplog: Oplog | None = None
        self.sessions = SessionTable(engine, self._oplog_entry)
        self.sequence = 0
        self.security_changes = 0
        self.document_keys: dict[str, DocumentKey] = {}
        self.write_lock = WriteLock()
        self.has_listeners = False
        self._listeners: tuple[Callable[[Commit], None], ...] = ()
        self.watchers: list[Callable[[OpTime | None], None]] = []
        self.undo_history = UndoHistory()
        self._undo_limit = 0
        self._give_up_builds()

    def _oplog_entry(self, timestamp: int) -> bytes | None:
        return self.oplog.entry(timestamp) if self.oplog is not None else None

    def _give_up_builds(self) -> None:
        batch = Batch()
        for ident in [ident for ident, timestamp in self.catalog.garbage.items() if timestamp == BUILDING]:
            remove_tree(batch, ident)
            self.catalog.removed(ident)
        if batch:
            self.engine.write(batch)
            LOG.info("Unfinished index builds have been removed", trees=len(batch.ranges) // 3)

    # Lookups

    def collection(self, ns: str) -> Collection | None:
        return self.catalog.collections.get(ns)

    def namespaces(self, database: str | None = None) -> list[str]:
        """Return the namespaces of all collections, or of those in one database."""
        if database is None:
            return list(self.catalog.collections)
        return [coll.ns for coll in self.catalog.in_database(database)]

    def databases(self) -> list[str]:
        """Return the databases that have a collection, sorted."""
        return self.catalog.databases()

    @property
    def last_optime(self) -> OpTime:
        """The optime of the newest oplog entry; NULL_OPTIME if there is none."""
        return NULL_OPTIME if self.oplog is None else self.oplog.last

    @property
    def writable(self) -> bool:
        """True if logged changes are allowed here: on a primary, also one that has been asked to step down."""
        return self.oplog is None or self.oplog.writable

    def attach_oplog(self, max_bytes: int) -> Oplog:
        """Attach an oplog: from now on, units log their changes to replicated namespaces.

        `max_bytes` bounds the oplog (`truncate_old`).
        """
        self.oplog = Oplog(self.engine, max_bytes=max_bytes, clock=self.clock)
        self.sessions.last_delayed = self.oplog.last.timestamp
        first, last = self.oplog.first.timestamp >> 32, self.oplog.last.timestamp >> 32
        LOG.info(
            "Oplog attached", entries=self.oplog.count, bytes=self.oplog.size, firstSeconds=first, lastSeconds=last
        )
        return self.oplog

    # Writing

    def unit(
        self,
        *,
        replicated: bool = True,
        session: SessionWrite | None = None,
        from_migrate: bool = False,
        trims: bool = True,
    ) -> WriteUnitOfWork:
        """Return a new write unit. Errors: TransactionTooOld if `session` has used a higher transaction number.

        Without `replicated` nothing is logged, as in `local`. `session` matters only with an oplog. Without `trims`,
        inserts remove nothing from capped collections.
        """
        batch = Batch()
        journal = None
        if replicated and self.oplog is not None:
            journal = Journal(
                batch,
                self.oplog,
                self.sessions,
                session=session,
                from_migrate=from_migrate,
                wall_ms=int(self.clock() * 1000),
                claims=self.claims,
            )
        return WriteUnitOfWork(self, batch, journal, from_migrate=from_migrate, trims=trims)

    def create_collection(
        self, unit: WriteUnitOfWork, ns: str, options: CollectionOptions = NO_OPTIONS, *, uuid: UUID | None = None
    ) -> Collection:
        """Create an empty collection. Errors: NamespaceExists, InvalidNamespace."""
        return ddl.create_collection(self.catalog, unit, ns, options, uuid)

    def drop_collection(self, unit: WriteUnitOfWork, ns: str) -> None:
        """Drop a collection. Errors: NamespaceNotFound."""
        ddl.drop_collection(self.catalog, unit, ns)

    def drop_database(self, unit: WriteUnitOfWork, database: str) -> None:
        """Drop all collections of the database, and log the drop even if there are none."""
        ddl.drop_database(self.catalog, unit, database)

    def rename_collection(self, unit: WriteUnitOfWork, source: str, target: str, *, drop_target: bool = False) -> None:
        """Rename a collection.

        Errors: NamespaceNotFound, NamespaceExists (if the target may not be dropped), InvalidNamespace,
        IllegalOperation.
        """
        ddl.rename_collection(self.catalog, unit, source, target, drop_target=drop_target)

    def create_index(self, unit: WriteUnitOfWork, coll: Collection, spec: IndexSpec) -> Index:
        """Create an index on an empty collection; see `build_index` for others."""
        return ddl.create_index(self.catalog, unit, coll, spec)

    def build_index(self, coll: Collection, specs: list[IndexSpec], *, tolerant: bool = False) -> IndexBuild:
        """Begin an index build while the collection is written to.

        `tolerant`: for initial sync, when documents may not fit the indexes yet. Errors: CannotCreateIndex if there
        would be too many indexes; WriteConflict while a transaction uses the collection.
        """
        ddl.check_room(coll, len(specs))
        self.claims.refuse_change(coll.ns)
        return IndexBuild(self.engine, self.catalog, coll, specs, tolerant=tolerant)

    def drop_index(self, unit: WriteUnitOfWork, coll: Collection, name: str) -> None:
        """Drop an index. Errors: IndexNotFound; InvalidOptions for the `_id` index."""
        ddl.drop_index(self.catalog, unit, coll, name)

    # After a write

    def subscribe(self, listener: Callable[[Commit], None]) -> Callable[[], None]:
        """Call `listener` after each commit, before the writer continues; return a function that unsubscribes.

        Only units begun after the subscription report their changes. A listener must not write.
        """
        self._listeners = (*self._listeners, listener)
        self.has_listeners = True

        def unsubscribe() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
            self.has_listeners = bool(self._listeners)

        return unsubscribe

    def committed(self, optime: OpTime | None, changes: list[Change] | None) -> None:
        """Notify listeners of a written unit; called by `WriteUnitOfWork`."""
        self.sequence += 1
        for watcher in self.watchers:
            watcher(optime)
        if changes is not None:
            commit = Commit(optime, changes)
            for listener in self._listeners:
                listener(commit)

    def discard_undo(self, up_to: OpTime) -> None:
        """Note that entries up to `up_to` are majority-committed: they will not be undone, and may be truncated.

        Their undo records stay for a while (`docstore.collection.oplog.undo_history`).
        """
        oplog = self.oplog
        assert oplog is not None, "the commit point moves where there is an oplog"
        if up_to.timestamp <= oplog.commit_limit:
            return
        oplog.commit_limit = up_to.timestamp
        if not self.undo_history.due(oplog.written_entries):
            return
        limit = self.undo_history.record_progress(oplog.written_entries, oplog.written_undo, up_to.timestamp)
        if limit is not None:
            batch = Batch()
            batch.delete_range(Family.UNDO, timestamp_key(self._undo_limit), timestamp_key(limit + 1))
            self.engine.write(batch)
            self._undo_limit = limit

    def undone(self) -> None:
        """Reload the caches after a rollback, and drop index builds in progress.

        The oplog has followed each undone group: finding its end on disk would iterate over everything undone.
        """
        self.sequence += 1
        self.catalog.load()
        self.sessions.forget()
        self._give_up_builds()

    def reclaim(self, deadline: float) -> bool:
        """Free the space of dropped collections and indexes whose drop is past the commit point.

        Continue until the monotonic time `deadline`; True if nothing more can be freed now.
        """
        limit = None if self.oplog is None else self.oplog.commit_limit
        droppable = sorted(self.catalog.droppable(limit))
        for at in range(0, len(droppable), _RECLAIMED_AT_ONCE):
            idents = droppable[at : at + _RECLAIMED_AT_ONCE]
            if monotonic() >= deadline:
                return False
            batch = Batch()
            remove_trees(batch, idents)
            self.engine.write(batch)
            for ident in idents:
                self.catalog.removed(ident)
        return True

    def validate(self, coll: Collection) -> Report:
        """Check the collection's documents, indexes and counters against each other."""
        return validate(coll, self.engine, self.mode)


def mode_of(store: Store, coll: Collection) -> StorageMode:
    """Return the storage mode of a collection that holds no documents."""
    assert store.mode is not None, f"{coll.ns} is of a mode that this store does not have"
    return store.mode
