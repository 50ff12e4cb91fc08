"""Which transaction of a session is meant by a number: the newest, open or ended.

Always true: a session's numbers only grow, counted together with those of its retryable writes; a newer one ends an
open transaction; what is known of open transactions is in memory only, and of committed ones also in the session's row.

The errors, and their order, follow MongoDB 6.0.
"""

from __future__ import annotations

import base64
import math
from uuid import UUID

from docstore.collection.oplog.sessions import SessionTable, converted
from docstore.collection.transaction.store import TransactionStore
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.node.transactions.settings import TransactionSettings
from docstore.node.transactions.transaction import State, Transaction, committed
from docstore.optime import OpTime

_KEPT = 20_000
"""Ended transactions that are remembered in memory."""


class SessionTransactions:
    """The newest transaction of each session; `open` are those that have not ended."""

    def __init__(self, rows: SessionTable, settings: TransactionSettings) -> None:
        self._rows = rows
        self._settings = settings
        self._by_session: dict[bytes, Transaction] = {}
        self.open: set[Transaction] = set()

    def known(self, session: Session) -> Transaction:
        """The transaction that is meant. Errors: NoSuchTransaction, TransactionTooOld, TransactionCommitted."""
        number = _number(session)
        found, state = self._by_session.get(session.lsid), self._rows.state(session.lsid)
        newest = self._newest(session.lsid)
        if number < newest:
            raise self._too_old(session, newest)
        if found is not None and found.number == number:
            return found
        if state.txn_number == number and state.committed:
            raise committed(number)
        raise CommandError(
            Code.NoSuchTransaction,
            f"Given transaction number {number} does not match any in-progress transactions. "
            f"The active transaction number is {newest}",
        )

    def committed_before(self, session: Session) -> OpTime | None:
        """Where the transaction that is meant stands in the log, if only the session's row knows of its commit."""
        found, state = self._by_session.get(session.lsid), self._rows.state(session.lsid)
        forgotten = found is None or found.number != session.txn_number
        return state.last if forgotten and state.txn_number == session.txn_number and state.committed else None

    def aborted_before(self, session: Session) -> OpTime | None:
        """Where the log says that the transaction that is meant has been given up after it was prepared."""
        state = self._rows.state(session.lsid)
        return state.last if state.txn_number == session.txn_number and state.aborted else None

    def is_open(self, session: Session) -> bool:
        """Whether the transaction that is meant is open."""
        return self.open_of(session) is not None

    def open_of(self, session: Session) -> Transaction | None:
        """The transaction that is meant, where it is open."""
        found = self._by_session.get(session.lsid)
        return found if found is not None and found.number == session.txn_number and found.state is State.OPEN else None

    def prepared_of(self, session: Session) -> Transaction | None:
        """The prepared transaction that keeps a session from its next one."""
        found = self._by_session.get(session.lsid)
        return found if found is not None and found.state is State.PREPARED else None

    def begin(self, session: Session, now: float, *, routed: bool = False) -> Transaction:
        """A new transaction. `routed`: one that was aborted may begin anew under its number, since a router knows when
        nothing was done in it. Errors: TransactionTooOld, ConflictingOperationInProgress for a number that was used.
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
        transaction = Transaction(session.lsid, number, expires=now + self._settings.lifetime_seconds)
        self._by_session[session.lsid] = transaction
        self.open.add(transaction)
        self._settings.started += 1
        if len(self._by_session) > _KEPT + len(self.open):
            ended = [lsid for lsid, old in self._by_session.items() if old.state in (State.COMMITTED, State.ABORTED)]
            for lsid in ended[: _KEPT // 10]:
                del self._by_session[lsid]
        return transaction

    def _newest(self, lsid: bytes) -> int:
        found, row = self._by_session.get(lsid), self._rows.state(lsid).txn_number
        return row if found is None else max(found.number, row)

    def _too_old(self, session: Session, newest: int) -> CommandError:
        found = self._by_session.get(session.lsid)
        of_transaction = (found is not None and found.number == newest) or self._rows.state(session.lsid).of_transaction
        what, retries = ("transaction", 0) if of_transaction else ("retryable write", -1)
        digest = base64.b64encode(session.lsid[16:]).decode()
        return CommandError(
            Code.TransactionTooOld,
            f"Cannot start transaction with {{ txnNumber: {session.txn_number} }} on session "
            f"{UUID(bytes=session.lsid[:16])} - {digest} -  -  because a newer {what} with txnNumberAndRetryCounter "
            f"{{ txnNumber: {newest}, txnRetryCounter: {retries} }} has already started on this session.",
        )

    def check_retryable(self, lsid: bytes, number: int) -> None:
        """Before a retryable write of a session. Errors: TransactionTooOld, IncompleteTransactionHistory."""
        found = self._by_session.get(lsid)
        if found is not None:
            if found.number == number:
                raise converted()
            if number < found.number:
                raise CommandError(
                    Code.TransactionTooOld,
                    f"Retryable write with txnNumber {number} is prohibited on session {lsid[:16].hex()} because a "
                    f"newer transaction with txnNumber {found.number} has already started on this session.",
                )
            self.abort(found)
        self._rows.check_retryable(lsid, number)

    def commit(self, transaction: Transaction) -> None:
        """Write what an open transaction did. Errors: those of `Transaction.commit`."""
        try:
            transaction.commit()
            self._settings.committed += 1
        except BaseException:
            self._settings.aborted += 1
            raise
        finally:
            self.open.discard(transaction)

    def prepare(self, transaction: Transaction) -> None:
        """Log what an open transaction did. Errors: those of `Transaction.prepare`."""
        try:
            transaction.prepare()
        except BaseException:
            self._settings.aborted += 1
            raise
        finally:
            self.open.discard(transaction)

    def decide(self, transaction: Transaction, commit_timestamp: int | None) -> None:
        """Write what was prepared, or give it up. Errors: those of `Transaction.decide`."""
        transaction.decide(commit_timestamp)
        if commit_timestamp is None:
            self._settings.aborted += 1
        else:
            self._settings.committed += 1

    def take_over(self, lsid: bytes, number: int, store: TransactionStore, optime: OpTime) -> None:
        """A transaction that another primary has prepared."""
        transaction = Transaction(lsid, number, expires=math.inf)
        transaction.prepared_again(store, optime)
        self._by_session[lsid] = transaction

    def abort(self, transaction: Transaction, reason: CommandError | None = None) -> None:
        """Forget what an open transaction did. `reason`: what a request of it that runs ends with."""
        if transaction.state is State.OPEN:
            transaction.abort(reason)
            self._settings.aborted += 1
        self.open.discard(transaction)

    def end_all(self, reason: CommandError) -> None:
        """This node is no primary any more: abort what is open, and go by the rows from now on."""
        for transaction in list(self.open):
            self.abort(transaction, reason)
        for transaction in self._by_session.values():
            transaction.let_go(reason)
        self._by_session.clear()


def _number(session: Session) -> int:
    assert session.txn_number is not None, "a transaction has a number"
    return session.txn_number
