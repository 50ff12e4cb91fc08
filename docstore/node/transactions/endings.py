"""Ends of a node's transactions: commit, abort, and prepare for a coordinator on another shard.

* Ends are idempotent: a repeated request gets the same answer.
* A commit is confirmed only when it satisfies the write concern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.bson import document_from, from_python
from docstore.bson.walk import EMPTY_DOCUMENT
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.errors import Code, CommandError
from docstore.node.entry import enter_write
from docstore.node.slices import Steps, finish_steps, run_steps
from docstore.node.transactions.transaction import State, Transaction
from docstore.node.write.driver import effective_concern, wait_for_write
from docstore.optime import unpack_timestamp

if TYPE_CHECKING:
    from docstore.commands.sessions.fields import Session
    from docstore.node.node import DataNode
    from docstore.node.transactions.numbers import SessionTransactions
    from docstore.optime import OpTime


_NO_SUCH_TRANSACTION = document_from([("msg", *from_python("NoSuchTransaction error"))])


class TransactionEndings:
    """The ends of transactions, a part of the node's `TransactionRegistry`."""

    def __init__(self, node: DataNode, sessions: SessionTransactions) -> None:
        self._node = node
        self._sessions = sessions

    def prepare(self, context: Context) -> Response:
        """Return the reply of prepareTransaction: `prepareTimestamp`. Errors: those of the session, of a write."""
        return run_steps(context, self._prepare(context, self._ending(context)))

    def _prepare(self, context: Context, session: Session) -> Steps[bytes]:
        node = self._node
        transaction = self._sessions.find_transaction(session)
        if transaction.busy:
            yield from transaction.turn(ended=True)
        if transaction.state is not State.PREPARED:
            transaction.check()
            transaction.busy = True
            try:
                yield from enter_write(node, context.namespace)
            finally:
                transaction.released()
            transaction.check()
            self._sessions.prepare(transaction)
        optime = transaction.optime
        assert optime is not None, "it is prepared"
        failed = yield wait_for_write(context, optime, effective_concern(context, node))
        if failed is not None:
            raise CommandError(Code.WriteConcernFailed, str(failed["errmsg"]))
        return document_from([("prepareTimestamp", *from_python(unpack_timestamp(optime.timestamp)))])

    def commit(self, context: Context, commit_timestamp: int | None = None) -> Response:
        """Return the reply of commitTransaction. `commit_timestamp`: the commit time of a prepared transaction.

        Errors: those of the session, of a write, of the write concern.
        """
        session, node = self._ending(context), self._node
        transaction = self._sessions.open_of(session) if commit_timestamp is None else None
        if transaction is None or transaction.busy or node.shard_filter is not None or node.store.write_lock.count:
            return run_steps(context, self._commit(context, session, commit_timestamp))
        # Only the write concern has to be awaited.
        self._sessions.commit(transaction)
        return self._acknowledged(context, transaction.optime, effective_concern(context, node))

    def _commit_prepared(self, transaction: Transaction, commit_timestamp: int | None) -> None:
        """Commit a prepared transaction. Errors: InvalidOptions."""
        oplog, prepared = self._node.store.oplog, transaction.optime
        assert oplog is not None, "a member of a set has one"
        assert prepared is not None, "it is prepared"
        if commit_timestamp is None:
            raise CommandError(
                Code.InvalidOptions, "commitTransaction must provide commitTimestamp to prepared transaction."
            )
        if commit_timestamp < prepared.timestamp:
            raise CommandError(
                Code.InvalidOptions, "'commitTimestamp' must be greater than or equal to the 'prepareTimestamp'"
            )
        oplog.observe(commit_timestamp)
        self._sessions.decide(transaction, commit_timestamp)

    def _commit(self, context: Context, session: Session, commit_timestamp: int | None) -> Steps[bytes]:
        node = self._node
        concern = effective_concern(context, node)
        optime = self._sessions.committed_before(session)
        if optime is None:
            try:
                optime = yield from self._commit_known(context, session, commit_timestamp)
            except CommandError as error:
                yield from self._vouch(context, error, concern, decided=commit_timestamp is not None)
                raise
        reply: bytes = yield self._acknowledged(context, optime, concern)
        return reply

    def _commit_known(self, context: Context, session: Session, commit_timestamp: int | None) -> Steps[OpTime | None]:
        transaction = self._sessions.find_transaction(session)
        if transaction.busy:
            yield from transaction.turn(ended=True)
        if transaction.state in (State.OPEN, State.PREPARED):
            transaction.busy = True
            try:
                yield from enter_write(self._node, context.namespace)
            finally:
                transaction.released()
        if transaction.state is State.ABORTED:
            transaction.check()
        if transaction.state is State.PREPARED:
            self._commit_prepared(transaction, commit_timestamp)
        if transaction.state is State.OPEN:
            if commit_timestamp is not None:
                self._sessions.abort(transaction)
                raise CommandError(
                    Code.InvalidOptions, "commitTransaction cannot provide commitTimestamp to unprepared transaction."
                )
            self._sessions.commit(transaction)
        return transaction.optime

    def _vouch(
        self, context: Context, error: CommandError, concern: WriteConcern, *, decided: bool = False
    ) -> Steps[None]:
        """Confirm that a transaction does not exist before NoSuchTransaction is reported.

        Another primary may know of it, or may still receive what an earlier one wrote. It certainly does not exist once
        an entry of this primary satisfies the commit's write concern. Until then the error carries a
        `writeConcernError`, and the transaction must not be restarted.

        `decided`: a coordinator asks, which infers also from TransactionTooOld that its decision was executed. But a
        deposed primary may have begun the session's next transaction without knowing what its successor prepared.
        Errors: those of a write.
        """
        if error.code != Code.NoSuchTransaction and not (decided and error.code == Code.TransactionTooOld):
            return
        yield from enter_write(self._node, context.namespace)
        with self._node.store.unit() as unit:
            unit.noop(_NO_SUCH_TRANSACTION)
            optime = unit.commit()
        failed = yield wait_for_write(context, optime, concern)
        if failed is not None:
            error.extra["writeConcernError"] = failed

    async def _acknowledged(self, context: Context, optime: OpTime | None, concern: WriteConcern) -> bytes:
        failed = await wait_for_write(context, optime, concern)
        return document_from([] if failed is None else [("writeConcernError", *from_python(failed))])

    def abort(self, context: Context, *, prepared: bool = False) -> Response:
        """Return the reply of abortTransaction.

        `prepared`: the coordinator has decided, so prepared transactions abort too. Errors: those of the session.
        """
        session = self._ending(context)
        transaction = None if prepared or context.explicit_write_concern else self._sessions.open_of(session)
        if transaction is None:
            return run_steps(context, self._aborted(context, session, prepared))
        self._sessions.abort(transaction)
        return EMPTY_DOCUMENT

    def _aborted(self, context: Context, session: Session, prepared: bool) -> Steps[bytes]:
        node = self._node
        concern = effective_concern(context, node)
        optime = self._sessions.aborted_before(session) if prepared else None
        if optime is None:
            try:
                transaction = self._sessions.find_transaction(session)
                if not (prepared and transaction.state is State.PREPARED):
                    transaction.check()
            except CommandError as error:
                yield from self._vouch(context, error, concern, decided=prepared)
                raise
            if prepared and transaction.state is State.PREPARED:
                if transaction.busy:
                    yield from transaction.turn(ended=True)
                yield from enter_write(node, context.namespace)
                if transaction.state is State.PREPARED:
                    self._sessions.decide(transaction, None)
                optime = transaction.optime
            else:
                self._sessions.abort(transaction)
        if not context.explicit_write_concern:
            return document_from([])
        reply: bytes = yield self._acknowledged(context, optime, concern)
        return reply

    async def outcome(self, context: Context) -> bytes:
        """Return the outcome of a transaction for recovery; one that is still open is aborted by this request.

        Errors: NoSuchTransaction and TransactionTooOld if it is not committed, those of the write concern.
        """
        return await finish_steps(context, self._outcome(context, self._ending(context)))

    def _outcome(self, context: Context, session: Session) -> Steps[bytes]:
        concern = effective_concern(context, self._node)
        while (prepared := self._sessions.prepared_of(session)) is not None and prepared.number == session.txn_number:
            assert prepared.store is not None, "it is prepared"
            yield prepared.store.over()
            self._node.replication.check_write()
        optime = self._sessions.committed_before(session)
        if optime is None:
            try:
                transaction = self._sessions.find_transaction(session)
                if transaction.state is State.OPEN:
                    self._sessions.abort(transaction)
                if transaction.state is not State.COMMITTED:
                    transaction.check()
            except CommandError as error:
                yield from self._vouch(context, error, concern)
                raise
            optime = transaction.optime
        reply: bytes = yield self._acknowledged(context, optime, concern)
        return reply

    def _ending(self, context: Context) -> Session:
        session = context.session
        if session is None or not session.in_transaction:
            raise CommandError(Code.CommandFailed, f"{context.command.name} must be run within a transaction")
        return session
