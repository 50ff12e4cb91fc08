"""The write units of a transaction: those in it, whose changes only it sees, and the one that writes all of it."""

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
    """The catalog as a transaction sees it. `used`: the names that it has claimed."""

    used: set[str]


class UnitTransaction(JournaledTransaction, UnitStore, Protocol):
    """The transaction that a unit belongs to. `below`: the store that it commits to; `state`: its writes over its
    snapshot; `deltas`, `changes`: as those of `TransactionStore`.
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
        """Errors: NoSuchTransaction where others have ended it."""

    def took(self, batch: Batch, deltas: dict[Collection, list[int]], changes: list[Change]) -> None:
        """Make a unit's changes the transaction's."""

    def keep_places(self, coll: Collection) -> None:
        """Store that indexes of the collection have met arrays in new places."""


class TransactionUnit(WriteUnitOfWork):
    """Made by `TransactionStore.unit`."""

    def __init__(self, transaction: UnitTransaction) -> None:
        batch = Batch()
        super().__init__(transaction, batch, TransactionJournal(transaction), trims=False)
        self._transaction = transaction
        self._changes = []

    def insert(self, coll: Collection, raw: bytes, **options: object) -> int:
        """As a unit's, but for capped collections. Errors: OperationNotSupportedInTransaction."""
        if coll.options.capped:
            raise _capped(coll)
        return super().insert(coll, raw, **options)  # type: ignore[arg-type]

    def commit(self) -> OpTime | None:
        """Make what was written part of the transaction; there is no optime yet. Errors: NoSuchTransaction."""
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
        """Indexes belong to all: what they are said to hold grows at once, also on disk, and does not shrink when the
        transaction is aborted: that there may be arrays does no harm."""
        for index, places in grown:
            index.grow(places)
        coll.plans.clear()
        self._transaction.keep_places(coll)


class CommitUnit(WriteUnitOfWork):
    """Writes a transaction, or that it is prepared, to the store below; it holds all claims it needs.

    Like any write it must be let in, in the step in which it is written: its statements were let in, long ago perhaps,
    but a collection that changes hands takes nothing that has not been prepared before. Errors: TransactionTooOld.
    """

    def __init__(self, transaction: UnitTransaction, session: SessionWrite) -> None:
        below = transaction.below
        assert below.oplog is not None, "transactions are logged"
        batch, wall_ms = Batch(), int(below.clock() * 1000)
        journal = Journal(batch, below.oplog, below.sessions, session=session, from_migrate=False, wall_ms=wall_ms)
        super().__init__(below, batch, journal)
        self._catalog = below.catalog

    def prepare(self, transaction: UnitTransaction) -> None:
        """Log all that the transaction did, without any effect. Errors: NotWritablePrimary, LockTimeout."""
        transaction.claims.check_open(transaction.catalog.used)
        self._logging.log_prepared(transaction.operations)

    def give_up(self) -> None:
        """Log that a prepared transaction has no effect. Errors: NotWritablePrimary."""
        self._logging.log_decided([], [], None, {})

    @property
    def _logging(self) -> Journal:
        assert self._journal is not None, "it has been made with one"
        return self._journal

    def take(self, transaction: UnitTransaction, as_of: int | None) -> None:
        """Take over all that the transaction did, which it has prepared if `as_of` says as of when that counts.
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
        """A collection that the transaction has made; the undo record knows of its row."""
        self._catalog.enter(coll)
        self.on_abort(lambda: self._catalog.forget(coll))
        self.batch.put(Family.META, *self._catalog.row(coll))


def _capped(coll: Collection) -> CommandError:
    return CommandError(
        Code.OperationNotSupportedInTransaction,
        f"Collection '{coll.ns}' is a capped collection. Writes in transactions are not allowed on capped collections.",
    )
