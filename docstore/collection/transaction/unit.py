"""Write units of a transaction: those inside it, visible only to it, and the one that writes all its changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from docstore.collection.index.entries import Grown
from docstore.collection.oplog.journal import Journal
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.journal import JournaledTransaction, TransactionJournal
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.collection.unit_store import CatalogRows, UnitStore
from docstore.errors import Code, CommandError
from docstore.kernel.log.undo import undo_absent, undo_marked
from docstore.optime import OpTime
from docstore.storage import Batch, Family

if TYPE_CHECKING:
    from docstore.collection.changes import Change
    from docstore.collection.collection import Collection
    from docstore.collection.store import Store
    from docstore.collection.transaction.claims import Claims
    from docstore.collection.transaction.overlay import TransactionState


class TransactionCatalog(CatalogRows, Protocol):
    """The catalog as a transaction sees it. `used`: the names that it holds."""

    used: set[str]


class UnitTransaction(JournaledTransaction, UnitStore, Protocol):
    """The transaction of a unit. `below`: the store that it commits to. `state`: its writes over its snapshot.

    `deltas`, `changes`: as in `TransactionStore`.
    """

    claims: Claims
    deltas: dict[Collection, list[int]]
    changes: list[Change]
    below: Store
    state: TransactionState

    @property
    def catalog(self) -> TransactionCatalog: ...

    @property
    def made_collections(self) -> list[Collection]: ...

    def check_open(self) -> None:
        """Errors: NoSuchTransaction if another task has ended it."""

    def took(self, batch: Batch, deltas: dict[Collection, list[int]], changes: list[Change]) -> None:
        """Add a unit's changes to the transaction."""

    def keep_places(self, coll: Collection) -> None:
        """Store new multikey positions of the collection's indexes."""


class TransactionUnit(WriteUnitOfWork):
    """A unit inside a transaction; created by `TransactionStore.unit`."""

    def __init__(self, transaction: UnitTransaction) -> None:
        batch = Batch()
        super().__init__(transaction, batch, TransactionJournal(transaction), trims=False)
        self._transaction = transaction
        self._changes = []

    def insert(self, coll: Collection, raw: bytes, **options: object) -> int:
        """Insert as in any unit, except into capped collections. Errors: also OperationNotSupportedInTransaction."""
        if coll.options.capped:
            raise _capped(coll)
        return super().insert(coll, raw, **options)  # type: ignore[arg-type]

    def commit(self) -> OpTime | None:
        """Add the writes to the transaction; there is no optime yet. Errors: NoSuchTransaction."""
        assert self._open, "the unit has ended"
        self._transaction.check_open()
        self._open = False
        journal, changes = self._journal, self._changes
        assert journal is not None, "the units of a transaction keep its operations"
        assert changes is not None, "and its changes"
        if self.batch:
            self._transaction.took(self.batch, self._deltas, changes)
            journal.written()
            self._transaction.committed(None, changes)
        return None

    def _grow_multikey(self, coll: Collection, grown: Grown) -> None:
        """Add multikey positions at once, also on disk: all readers share the indexes.

        An abort does not remove them: false positives are harmless.
        """
        for index, array_bits in grown:
            index.grow(array_bits)
        coll.plans.clear()
        self._transaction.keep_places(coll)


class CommitUnit(WriteUnitOfWork):
    """The unit that commits or prepares a transaction in the store below. The transaction holds all claims it needs.

    Like any write it must be admitted in the step in which it is written. Its statements may have been admitted long
    ago, but a collection being migrated accepts only transactions prepared before. Errors: TransactionTooOld.
    """

    def __init__(self, transaction: UnitTransaction, session: SessionWrite) -> None:
        below = transaction.below
        assert below.oplog is not None, "transactions are logged"
        batch, wall_ms = Batch(), int(below.clock() * 1000)
        journal = Journal(batch, below.oplog, below.sessions, session=session, from_migrate=False, wall_ms=wall_ms)
        super().__init__(below, batch, journal)
        self._catalog = below.catalog

    def prepare(self, transaction: UnitTransaction) -> None:
        """Log all operations of the transaction, without effect. Errors: NotWritablePrimary, LockTimeout."""
        transaction.claims.check_open(transaction.catalog.used)
        self._logging.log_prepared(transaction.operations)

    def give_up(self) -> None:
        """Log the abort of a prepared transaction. Errors: NotWritablePrimary."""
        self._logging.log_decided([], [], None, {})

    @property
    def _logging(self) -> Journal:
        assert self._journal is not None, "it has been made with one"
        return self._journal

    def take(self, transaction: UnitTransaction, as_of: int | None) -> None:
        """Apply all operations of the transaction. `as_of`: the commit timestamp if it was prepared.

        Errors: NotWritablePrimary; LockTimeout unless it was prepared.
        """
        if as_of is None:
            transaction.claims.check_open(transaction.catalog.used)
        for family in (Family.RECORDS, Family.INDEXES):
            self.batch.changes[family].update(transaction.state.changes(family))
        self._deltas = transaction.deltas
        self._changes = transaction.changes
        for coll in transaction.made_collections:
            self._enter(coll)
        counted = [(coll.ident, count, size) for coll, (count, size) in transaction.deltas.items()]
        undo: list[bytes] = []
        for family, stood in transaction.previous.items():
            undo.append(undo_absent(family, [key for key, value in stood.items() if value is None]))
            undo.append(undo_marked(family, [(key, value) for key, value in stood.items() if value is not None]))
        if as_of is None:
            self._logging.log_transaction(transaction.operations, undo, counted, transaction.before)
        else:
            self._logging.log_decided(undo, counted, as_of, transaction.before)

    def _enter(self, coll: Collection) -> None:
        """Add a collection that the transaction created. The undo record contains its row."""
        self._catalog.enter(coll)
        self.on_abort(lambda: self._catalog.forget(coll))
        self.batch.put(Family.META, *self._catalog.row(coll))


def _capped(coll: Collection) -> CommandError:
    return CommandError(
        Code.OperationNotSupportedInTransaction,
        f"Collection '{coll.ns}' is a capped collection. Writes in transactions are not allowed on capped collections.",
    )
