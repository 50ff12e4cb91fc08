"""Lookup of a session's newest transaction by its number, open or ended.

* A session's transaction numbers only grow, and share one sequence with its retryable writes.
* A newer transaction aborts an open one.
* Open transactions exist in memory only; committed ones also in the session's row.
* The errors and their order follow MongoDB 6.0.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from uuid import UUID

from docstore.collection.oplog.sessions import SessionTable, converted
from docstore.collection.transaction.store import TransactionStore
from docstore.commands.sessions.activity import TransactionActivity
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.node.transactions.settings import TransactionSettings
from docstore.node.transactions.transaction import State, Transaction, committed
from docstore.optime import OpTime

_KEPT = 20_000
"""Maximum number of ended transactions kept in memory."""


class SessionTransactions:
    """The newest transaction of each session; `open` holds those that have not ended."""

    def __init__(self, rows: SessionTable, settings: TransactionSettings) -> None:
        self._rows = rows
        self._settings = settings
        self._by_session: dict[bytes, Transaction] = {}
        self.open: dict[Transaction, None] = {}
        """In the order in which they began: the same for the same requests."""

    def find_transaction(self, session: Session) -> Transaction:
        """Return the transaction that the session names.

        Errors: NoSuchTransaction, TransactionTooOld, TransactionCommitted.
        """
        number = _number(session)
        transaction, state = self._by_session.get(session.lsid), self._rows.state(session.lsid)
        newest = self._newest(session.lsid)
        if number < newest:
            raise self._too_old(session, newest)
        if transaction is not None and transaction.number == number:
            return transaction
        if state.txn_number == number and state.committed:
            raise committed(number)
        raise CommandError(
            Code.NoSuchTransaction,
            f"Given transaction number {number} does not match any in-progress transactions. "
            f"The active transaction number is {newest}",
        )

    def committed_before(self, session: Session) -> OpTime | None:
        """Return the commit optime of the named transaction if only the session's row has it; else None."""
        transaction, state = self._by_session.get(session.lsid), self._rows.state(session.lsid)
        forgotten = transaction is None or transaction.number != session.txn_number
        return state.last if forgotten and state.txn_number == session.txn_number and state.committed else None

    def aborted_before(self, session: Session) -> OpTime | None:
        """Return the optime of the abort of the named transaction if it was prepared and aborted; else None."""
        state = self._rows.state(session.lsid)
        return state.last if state.txn_number == session.txn_number and state.aborted else None

    def is_open(self, session: Session) -> bool:
        """Return True if the named transaction is open."""
        return self.open_of(session) is not None

    def open_of(self, session: Session) -> Transaction | None:
        """Return the named transaction if it is open; else None."""
        transaction = self._by_session.get(session.lsid)
        return (
            transaction
            if transaction is not None and transaction.number == session.txn_number and transaction.state is State.OPEN
            else None
        )

    def prepared_of(self, session: Session) -> Transaction | None:
        """Return the session's prepared transaction, which blocks its next one; else None."""
        transaction = self._by_session.get(session.lsid)
        return transaction if transaction is not None and transaction.state is State.PREPARED else None

    def unended(self) -> Iterator[Transaction]:
        """Yield the transactions that are open, and those that are prepared."""
        yield from self.open
        for lsid in self._rows.prepared:
            transaction = self._by_session.get(lsid)
            if transaction is not None and transaction.state is State.PREPARED:
                yield transaction

    def begin(self, session: Session, now: float, *, routed: bool = False) -> Transaction:
        """Begin a transaction.

        `routed`: an aborted number may be reused, because a router knows when nothing was done in it. Errors:
        TransactionTooOld, ConflictingOperationInProgress for a used number.
        """
        number, newest = _number(session), self._newest(session.lsid)
        if number < newest:
            raise self._too_old(session, newest)
        before = self._by_session.get(session.lsid)
        if number == newest and not (
            routed
            and before is not None
            and before.number == number
            and before.state is State.ABORTED
            and self._rows.state(session.lsid).txn_number != number
        ):
            raise CommandError(
                Code.ConflictingOperationInProgress,
                "Only servers in a sharded cluster can start a new transaction at the active transaction number",
            )
        if before is not None:
            if before.state is State.PREPARED:
                before.check()
            self.abort(before)
        transaction = Transaction(
            TransactionActivity(session.lsid, number, began=now, expires=now + self._settings.lifetime_seconds)
        )
        self._by_session[session.lsid] = transaction
        self.open[transaction] = None
        self._settings.started += 1
        if len(self._by_session) > _KEPT + len(self.open):
            ended = [lsid for lsid, old in self._by_session.items() if old.state in (State.COMMITTED, State.ABORTED)]
            for lsid in ended[: _KEPT // 10]:
                del self._by_session[lsid]
        return transaction

    def _newest(self, lsid: bytes) -> int:
        transaction, row = self._by_session.get(lsid), self._rows.state(lsid).txn_number
        return row if transaction is None else max(transaction.number, row)

    def _too_old(self, session: Session, newest: int) -> CommandError:
        transaction = self._by_session.get(session.lsid)
        of_transaction = (transaction is not None and transaction.number == newest) or self._rows.state(
            session.lsid
        ).of_transaction
        kind, retries = ("transaction", 0) if of_transaction else ("retryable write", -1)
        digest = base64.b64encode(session.lsid[16:]).decode()
        return CommandError(
            Code.TransactionTooOld,
            f"Cannot start transaction with {{ txnNumber: {session.txn_number} }} on session "
            f"{UUID(bytes=session.lsid[:16])} - {digest} -  -  because a newer {kind} with txnNumberAndRetryCounter "
            f"{{ txnNumber: {newest}, txnRetryCounter: {retries} }} has already started on this session.",
        )

    def check_retryable(self, lsid: bytes, number: int) -> None:
        """Check the number of a retryable write. Errors: TransactionTooOld, IncompleteTransactionHistory."""
        transaction = self._by_session.get(lsid)
        if transaction is not None:
            if transaction.number == number:
                raise converted()
            if number < transaction.number:
                raise CommandError(
                    Code.TransactionTooOld,
                    f"Retryable write with txnNumber {number} is prohibited on session {lsid[:16].hex()} because a "
                    f"newer transaction with txnNumber {transaction.number} has already started on this session.",
                )
            self.abort(transaction)
        self._rows.check_retryable(lsid, number)

    def commit(self, transaction: Transaction) -> None:
        """Commit an open transaction. Errors: those of `Transaction.commit`."""
        try:
            transaction.commit()
            self._settings.committed += 1
        except BaseException:
            self._settings.aborted += 1
            raise
        finally:
            self.open.pop(transaction, None)

    def prepare(self, transaction: Transaction) -> None:
        """Prepare an open transaction. Errors: those of `Transaction.prepare`."""
        try:
            transaction.prepare()
        except BaseException:
            self._settings.aborted += 1
            raise
        finally:
            self.open.pop(transaction, None)

    def decide(self, transaction: Transaction, commit_timestamp: int | None) -> None:
        """Commit a prepared transaction at `commit_timestamp`, or abort it if None.

        Errors: those of `Transaction.decide`.
        """
        transaction.decide(commit_timestamp)
        if commit_timestamp is None:
            self._settings.aborted += 1
        else:
            self._settings.committed += 1

    def take_over(self, lsid: bytes, number: int, store: TransactionStore, optime: OpTime, now: float) -> None:
        """Register a transaction that another primary has prepared."""
        transaction = Transaction(TransactionActivity(lsid, number, began=now, prepared=now))
        transaction.prepared_again(store, optime)
        self._by_session[lsid] = transaction

    def abort(self, transaction: Transaction, reason: CommandError | None = None) -> None:
        """Abort an open transaction. `reason`: the error of a request that it is executing."""
        if transaction.state is State.OPEN:
            transaction.abort(reason)
            self._settings.aborted += 1
        self.open.pop(transaction, None)

    def end_all(self, reason: CommandError) -> None:
        """Abort all open transactions after a step-down; from then on the session rows count."""
        for transaction in list(self.open):
            self.abort(transaction, reason)
        for transaction in self._by_session.values():
            transaction.let_go(reason)
        self._by_session.clear()


def _number(session: Session) -> int:
    assert session.txn_number is not None, "a transaction has a number"
    return session.txn_number
