"""A multi-document transaction: a store whose changes are written to the store below at commit.

Code that reads or writes through a `Store` works in a transaction unchanged. Invariants:

* Reads see the snapshot that the transaction began with, and its own writes.
* Writes are claimed (`docstore.collection.transaction.claims`): at commit, every written key has the value below that
  was read. The commit is one batch of the writes, the oplog entries, the undo record and the session row. Other writers
  cannot make it fail.
* Record ids and idents come from the store below, so keys are final when written; an aborted transaction's are not
  reused.
* A prepared transaction is in the log, and can neither be changed nor forgotten: only its coordinator ends it. A new
  primary restores it from the log (`prepared_store`), with the same claims.
* A collection in use keeps the options and indexes that it had in the snapshot, until the transaction ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any
from uuid import UUID

from docstore.bson import document_from, document_to_python, from_python
from docstore.collection.catalog.catalog import Catalog
from docstore.collection.changes import Change
from docstore.collection.collection import AFTER_RECORD_ID, Collection
from docstore.collection.oplog.apply import apply_operations
from docstore.collection.oplog.operations import chained_operations
from docstore.collection.oplog.sessions import PreparedTransaction, SessionWrite
from docstore.collection.store import Store
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.transaction.overlay import TransactionState
from docstore.collection.transaction.unit import CommitUnit, TransactionUnit
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import Code, CommandError
from docstore.key_layout import CATALOG_PREFIX, after_prefix
from docstore.optime import OpTime
from docstore.storage import Batch, Family, Snapshot

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES
_PREFIX = slice(4)
_READ_ONLY = document_from([("msg", *from_python("read-only transaction"))])
_IDENTITY, _UNIQUE = 1, 2


class TransactionStore(Store):
    """The store of one transaction. Its owner calls `commit` or `abort` once.

    After that it cannot be written, and only holders of its state (`TransactionState.hold`) can read it. `operations`:
    the operations for the oplog, in order. `before`: pre-images for change streams, by operation index. `previous`: the
    values below of the keys it has changed. `deltas`: count and size changes per collection. `changes`: the
    notification for listeners.
    """

    def __init__(self, below: Store, snapshot: Snapshot, *, newest: bool) -> None:
        """Take ownership of the snapshot: the store's `newest` state, taken in this step, or an earlier one."""
        self.below = below
        self.state = TransactionState(snapshot)
        self.engine = self.state  # type: ignore[assignment]  # operations in a transaction need no more of it
        self.mode = below.mode
        self.clock = below.clock
        self.oplog = below.oplog
        self.sessions = below.sessions
        self.document_keys = below.document_keys
        self.write_lock = below.write_lock
        self.undo_history = below.undo_history
        self.claims = below.claims
        self.sequence = 0
        self.has_listeners = False
        self._listeners = ()
        self.watchers = []
        self.operations: list[bytes] = []
        self.before: dict[int, bytes] = {}
        self.previous: dict[Family, dict[bytes, bytes | None]] = {}
        self.catalog: _Catalog = _Catalog(self, below.catalog, newest=newest)
        self._begun = below.sequence if newest else -1
        self.deltas: dict[Collection, list[int]] = {}
        self.changes: list[Change] = []
        self._claimed: list[bytes] = []
        self._made: set[bytes] = set()
        self._kinds: dict[bytes, int] = {}
        self._over: list[asyncio.Future[None]] = []
        self._ended = False

    # Reads

    @property
    def last_optime(self) -> OpTime:
        return self.below.last_optime

    def unit(
        self,
        *,
        replicated: bool = True,
        session: SessionWrite | None = None,
        from_migrate: bool = False,
        trims: bool = True,
    ) -> WriteUnitOfWork:
        """Return a unit whose changes join the transaction. Its options apply only to other stores.

        Errors: NoSuchTransaction.
        """
        self.check_open()
        return TransactionUnit(self)

    def check_open(self) -> None:
        """Check that the transaction has not been ended by another task. Errors: NoSuchTransaction."""
        if self._ended:
            raise CommandError(Code.NoSuchTransaction, "The transaction has been aborted.")

    @property
    def made_collections(self) -> list[Collection]:
        """Return the collections that the transaction has created."""
        return self.catalog.made

    def is_made(self, coll: Collection) -> bool:
        """True if the transaction has created the collection."""
        return any(member is coll for member in self.catalog.made)

    # Write units

    def took(self, batch: Batch, deltas: dict[Collection, list[int]], changes: list[Change]) -> None:
        """Commit a unit to the transaction."""
        self.state.write(batch)
        for coll, (count, size) in deltas.items():
            sums = self.deltas.setdefault(coll, [0, 0])
            sums[0] += count
            sums[1] += size
        self.changes += changes

    def note_created(self, keys: Iterable[bytes]) -> None:
        """Note records that the transaction created."""
        self._made.update(keys)

    def claim(self, family: Family, key: bytes) -> None:
        """Claim a key that a unit changes or removes. Errors: WriteConflict."""
        if key in self._made or self._is_mine(key):
            return
        if self.below.sequence != self._begun and self.below.engine.get(family, key) != self.state.below.get(
            family, key
        ):
            raise WriteConflict
        self._take(key)

    def claim_entries(self, keys: Iterable[bytes]) -> None:
        """Claim the index entries that a unit adds or removes and that other writers could change too. Errors:
        WriteConflict.
        """
        kinds = self._kinds
        identities: dict[bytes, TransactionStore] = {}
        for key in keys:
            kind = kinds.get(key[_PREFIX])
            if kind == _IDENTITY:
                identities[key] = self
            elif kind == _UNIQUE:
                self._claim_unique(key[:-8])
        claimed = self.claims.keys
        if self.below.sequence == self._begun and claimed.keys().isdisjoint(identities):
            # Nothing was written since the snapshot, and no transaction has claimed any of them.
            self.check_open()
            claimed.update(identities)
            self._claimed += identities
        else:
            for key in identities:
                self.claim(_INDEXES, key)

    def _claim_unique(self, key: bytes) -> None:
        if self._is_mine(key):
            return
        if self.below.sequence != self._begun:
            end = key + AFTER_RECORD_ID
            if list(self.below.engine.keys(_INDEXES, key, end)) != list(self.state.below.keys(_INDEXES, key, end)):
                raise WriteConflict
        self._take(key)

    def check_free(self, key: bytes) -> None:
        """Errors: WriteConflict if another transaction has claimed the key."""
        self._is_mine(key)

    def _is_mine(self, key: bytes) -> bool:
        """True if this transaction has claimed the key. Errors: WriteConflict if another one has."""
        owner = self.claims.keys.get(key)
        if owner is not None and owner is not self:
            raise WriteConflict
        return owner is self

    def _take(self, key: bytes) -> None:
        self.check_open()
        self.claims.keys[key] = self
        self._claimed.append(key)

    def uses(self, coll: Collection, *, prepared: bool = False) -> None:
        """Keep the collection's name, options and indexes until the end. Errors: LockTimeout, NoSuchTransaction."""
        self.check_open()
        self.claims.use(coll.ns, self, prepared=prepared)
        if coll.newest_id is None:
            # Read below: writes since the snapshot count too.
            coll.find_newest_id(self.below.engine)
        self._kinds[coll.id_prefix] = _IDENTITY
        for index in coll.secondary:
            if index.unique:
                self._kinds[index.prefix] = _UNIQUE

    def keep_places(self, coll: Collection) -> None:
        """Store new multikey positions of the collection's indexes."""
        if not self.is_made(coll):
            batch = Batch()
            batch.put(Family.META, *self.below.catalog.row(coll))
            self.below.engine.write(batch)

    def check_new_index(self, coll: Collection) -> None:
        """Errors: OperationNotSupportedInTransaction, unless the transaction has created the collection and it is
        empty.
        """
        if self.is_made(coll):
            if next(iter(coll.documents(self.state)), None) is None:
                return
            which = "non-empty"
        else:
            which = "existing"
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            f"Cannot create new indexes on {which} collection {coll.ns} in a multi-document transaction.",
        )

    # Its end

    def commit(self, session: SessionWrite) -> OpTime | None:
        """Write all changes; return the optime of the last oplog entry.

        A read-only transaction writes an entry too: once it is majority-committed, this node was primary at that time,
        and no deposed primary's data was read.
        Errors: NotWritablePrimary, OutOfDiskSpace, TransactionTooOld: nothing was written, and the transaction is
        aborted.
        """
        assert not self._ended, "the transaction has ended"
        try:
            if not self.operations:
                with self.below.unit() as noop:
                    noop.noop(_READ_ONLY)
                    return noop.commit()
            with CommitUnit(self, session) as unit:
                unit.take(self, None)
                return unit.commit()
        finally:
            self._end()

    def prepare(self, session: SessionWrite) -> OpTime:
        """Log all operations as prepared, so that the transaction survives this member. Errors: as `commit`; it is
        aborted then.
        """
        assert not self._ended, "the transaction has ended"
        try:
            with CommitUnit(self, session) as unit:
                unit.prepare(self)
                prepared = unit.commit()
        except BaseException:
            self._end()
            raise
        assert prepared is not None, "an entry has been logged"
        return prepared

    def decide(self, session: SessionWrite, commit_timestamp: int | None) -> OpTime:
        """Commit the prepared transaction as of that timestamp; without one, abort it.

        Errors: NotWritablePrimary, OutOfDiskSpace: nothing was written, and the transaction stays prepared.
        """
        assert not self._ended, "the transaction has ended"
        with CommitUnit(self, session) as unit:
            if commit_timestamp is None:
                unit.give_up()
            else:
                unit.take(self, commit_timestamp)
            decided = unit.commit()
        self._end()
        assert decided is not None, "an entry has been logged"
        return decided

    def abort(self) -> None:
        """Discard all changes. Does nothing a second time, or after `commit`."""
        if not self._ended:
            self._end()

    @property
    def ended(self) -> bool:
        return self._ended

    def _end(self) -> None:
        self._ended = True
        self.claims.release(self, self._claimed, self.catalog.used)
        self.state.end()
        self.operations, self.before, self.previous, self.changes = [], {}, {}, []
        waiters, self._over = self._over, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def over(self) -> Awaitable[Any]:
        """Return an awaitable that completes when the transaction ends."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._ended:
            waiter.set_result(None)
        else:
            self._over.append(waiter)
        return waiter


def prepared_store(below: Store, prepared: PreparedTransaction) -> TransactionStore:
    """Restore a prepared transaction from the log, before anything else is written."""
    oplog = below.oplog
    assert oplog is not None, "what is prepared is logged"
    entry = oplog.entry(prepared.optime.timestamp)
    operations = None if entry is None else chained_operations(entry, oplog.entry)
    assert operations is not None, f"the log holds on to the entries of what is prepared: {prepared}"
    store = TransactionStore(below, below.engine.snapshot(), newest=True)
    with store.unit() as unit:
        apply_operations(store, unit, operations)
        unit.commit()
    return store


class _Collections(dict[str, Collection]):
    """By name: the collections that the transaction created, and those below that it has used."""

    def __init__(self, catalog: _Catalog) -> None:
        super().__init__()
        self._catalog = catalog

    def get(self, ns: str, default: Any = None) -> Any:
        collection = dict.get(self, ns)
        if collection is None:
            collection = self._catalog.use_collection(ns)
        return default if collection is None else collection

    def __contains__(self, ns: object) -> bool:
        return self.get(str(ns)) is not None

    def __missing__(self, ns: str) -> Collection:
        collection = self._catalog.use_collection(ns)
        if collection is None:
            raise KeyError(ns)
        return collection


class _Catalog(Catalog):
    """The catalog of the transaction. `used`: the namespaces that it holds, in use or created."""

    def __init__(self, transaction: TransactionStore, below: Catalog, *, newest: bool) -> None:
        self._transaction = transaction
        self._catalog_below = below
        self._begun = below.version if newest else -1
        self.collections = _Collections(self)
        self.garbage = {}
        self.version = 0
        self.claims = transaction.claims
        self.made: list[Collection] = []
        self.used: set[str] = set()
        self._absent: set[str] = set()

    def use_collection(self, ns: str) -> Collection | None:
        """Return the collection below and mark it as used. Errors: SnapshotUnavailable, LockTimeout."""
        coll = self._catalog_below.collections.get(ns)
        if coll is None and ns in self._absent:
            return None
        if self._catalog_below.version != self._begun:
            self._check_same(ns, coll)
        if coll is None:
            self._absent.add(ns)
            return None
        self._use(coll)
        return coll

    def _use(self, coll: Collection, *, prepared: bool = False) -> None:
        self._transaction.uses(coll, prepared=prepared)
        self.used.add(coll.ns)
        dict.__setitem__(self.collections, coll.ns, coll)

    def _check_same(self, ns: str, coll: Collection | None) -> None:
        """Errors: SnapshotUnavailable if the collection has changed since the snapshot."""
        snapshot = self._transaction.state.below
        if coll is None:
            rows = snapshot.items(Family.META, CATALOG_PREFIX, after_prefix(CATALOG_PREFIX))
            same = all(document_to_python(row)["ns"] != ns for _, row in rows)
        else:
            key, row = self._catalog_below.row(coll)
            stood = snapshot.get(Family.META, key)
            same = stood is not None and (stood == row or _without_places(stood) == _without_places(row))
        if not same:
            raise CommandError(
                Code.SnapshotUnavailable,
                "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.",
            )

    def take_ident(self, batch: Batch) -> int:
        """Return an ident that stays taken even if the transaction aborts."""
        own = Batch()
        ident = self._catalog_below.take_ident(own)
        self._transaction.below.engine.write(own)
        return ident

    def add(self, unit: WriteUnitOfWork, coll: Collection) -> None:
        if coll.ns in self._catalog_below.collections:
            # Created below since the lookup.
            raise WriteConflict
        self._transaction.check_open()
        self.claims.name(coll.ns, self._transaction)
        self.used.add(coll.ns)
        self.made.append(coll)
        dict.__setitem__(self.collections, coll.ns, coll)
        unit.touch(*self.row(coll), logged=True)

    def set_indexes(self, unit: WriteUnitOfWork, coll: Collection, ready: Any, building: Any) -> None:
        coll.set_indexes(ready, building)
        unit.touch(*self.row(coll), logged=True)

    def databases(self) -> list[str]:
        return sorted({*self._catalog_below.databases(), *(coll.database for coll in self.made)})

    def in_database(self, database: str) -> list[Collection]:
        own = [coll for coll in self.made if coll.database == database]
        return [*self._catalog_below.in_database(database), *own]

    def by_uuid(self, uuid: UUID) -> Collection | None:
        """Return the collection of a log entry, that is, of a prepared transaction being restored.

        It is in use from now on, even if a DDL operation waits for it.
        """
        coll = next((member for member in self.made if member.uuid == uuid), None)
        if coll is None:
            coll = self._catalog_below.by_uuid(uuid)
            if coll is not None:
                self._use(coll, prepared=True)
        return coll


def _without_places(row: bytes) -> dict[str, Any]:
    fields = document_to_python(row)
    for index in fields["indexes"]:
        del index["places"]
    return fields
