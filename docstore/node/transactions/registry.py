"""The transactions of a node: how their requests are carried out, and their ends.

Always true:

* whatever refuses a request of a transaction aborts it, also what a write reports of single documents;
* transactions are carried out by a primary only: one that steps down has none;
* none stays open longer than `TransactionSettings.lifetime_seconds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from docstore.bson import document_from, from_python, get_field
from docstore.collection.transaction.store import TransactionStore
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadConcern, ReadLevel, WriteConcern
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.sessions.transactions import ENDING
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.entry import enter_write
from docstore.node.slices import Steps, run_steps
from docstore.node.transactions.numbers import SessionTransactions
from docstore.node.transactions.settings import TransactionSettings
from docstore.node.transactions.transaction import State, Transaction
from docstore.node.write.driver import effective_concern, wait_for_write
from docstore.query.context import ScriptsWanted
from docstore.replicaset.replicaset import ReplicaSet

if TYPE_CHECKING:
    from docstore.commands.sessions.fields import Session
    from docstore.node.node import DataNode
    from docstore.optime import OpTime
    from docstore.storage import Snapshot

_WRITES = frozenset(("insert", "update", "delete"))


class TransactionRegistry:
    """Satisfies `docstore.commands.sessions.transactions.Transactions`. Made once for a node, which then knows it."""

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self.settings = TransactionSettings()
        self.sessions = SessionTransactions(node.store.sessions, self.settings)
        node.transactions = self
        node.parameters.add(self.settings.parameters())

    # Requests

    def run(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Response:
        self._check_here()
        if context.command.name in ENDING:
            return execute(context, arguments)
        return run_steps(context, self._statement(context, arguments, execute))

    def _check_here(self) -> None:
        node = self._node
        if node.replication.set_name is None:
            raise CommandError(
                Code.IllegalOperation, "Transaction numbers are only allowed on a replica set member or mongos"
            )
        if node.shard_filter is not None:
            raise CommandError(Code.OperationNotSupportedInTransaction, "Transactions on shards are not supported yet")
        node.replication.check_write()

    def _statement(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Steps[Result]:
        session = context.session
        assert session is not None, "a transaction belongs to a session"
        if session.starts:
            transaction = yield from self._begin(context, session)
        else:
            transaction = self.sessions.known(session)
            transaction.check()
        if transaction.busy:
            yield from self._turn(transaction)
        transaction.busy = True
        try:
            _check_target(context)
            yield from self._patience(context)
            inner = transaction.request(context)
            result = execute(inner, arguments)
            if not isinstance(result, (bytes, dict)):
                try:
                    result = yield result
                except ScriptsWanted:
                    assert context.services.carry_out is not None, "what wants scripts was told that there are some"
                    result = yield context.services.carry_out(inner, lambda: context.command.run(inner, arguments))
        except CommandError:
            reason = transaction.reason
            self.sessions.abort(transaction)
            if reason is not None:
                raise reason from None
            raise
        except BaseException:
            self.sessions.abort(transaction)
            raise
        finally:
            transaction.carried_out(context.services)
            transaction.released()
        if transaction.state is not State.OPEN:
            if transaction.reason is not None:
                raise transaction.reason
            transaction.check()
        if context.command.name in _WRITES and isinstance(result, bytes) and get_field(result, "writeErrors"):
            self.sessions.abort(transaction)
        assert isinstance(result, (bytes, dict)), "it was awaited"
        return result

    def _turn(self, transaction: Transaction) -> Steps[None]:
        """Wait until no other request of the transaction is carried out. Errors: those of an ended one."""
        loop = asyncio.get_running_loop()
        while transaction.busy:
            turn = loop.create_future()
            transaction.waiting.append(lambda turn=turn: turn.done() or turn.set_result(None))
            yield turn
        transaction.check()

    def _patience(self, context: Context) -> Steps[None]:
        """Give who wants to change the collection a moment to do so, before the transaction is refused."""
        claims = self._node.store.claims
        if claims.is_awaited(context.namespace):
            holder = claims.holder(context.namespace)
            if holder is not None:
                yield asyncio.wait([asyncio.ensure_future(holder.over())], timeout=self.settings.patience_ms / 1000)

    def _begin(self, context: Context, session: Session) -> Steps[Transaction]:
        node = self._node
        transaction = self.sessions.begin(session, node.clock())
        transaction.busy = True
        try:
            snapshot, newest_state = yield from self._snapshot(context)
            if transaction.state is State.OPEN:
                store = TransactionStore(node.store, snapshot, newest=newest_state)
                transaction.begin(node, context.services, store)
            else:
                snapshot.close()
        except BaseException:
            self.sessions.abort(transaction)
            raise
        finally:
            transaction.released()
        transaction.check()
        return transaction

    def _snapshot(self, context: Context) -> Steps[tuple[Snapshot, bool]]:
        """(what the transaction reads, whether that is the newest state in this step)."""
        node, concern = self._node, context.read_concern
        oplog = node.store.oplog
        assert oplog is not None, "a member of a set has one"
        if concern.level is ReadLevel.SNAPSHOT and concern.at_cluster_time is not None:
            assert isinstance(node.replication, ReplicaSet), "a member of a set"
            _, reader, release = yield node.replication.snapshot_reader(concern, context.deadline)
            return _Leased(reader, release), False
        after = concern.after_cluster_time
        if after is not None and after > oplog.last.timestamp:
            _, release = yield node.replication.reader(
                ReadConcern(ReadLevel.LOCAL, after_cluster_time=after), context.deadline
            )
            release()
        self._check_here()
        return node.engine.snapshot(), True

    # Ends

    def commit(self, context: Context) -> Response:
        """The reply to commitTransaction. Errors: those of the session, of a write, of the write concern."""
        return run_steps(context, self._commit(context, self._ending(context)))

    def _commit(self, context: Context, session: Session) -> Steps[bytes]:
        node = self._node
        concern = effective_concern(context, node)
        optime = self.sessions.committed_before(session)
        if optime is None:
            transaction = self.sessions.known(session)
            if transaction.busy:
                yield from self._turn(transaction)
            if transaction.state is State.OPEN:
                transaction.busy = True
                try:
                    yield from enter_write(node, context.namespace)
                finally:
                    transaction.released()
            if transaction.state is State.ABORTED:
                transaction.check()
            if transaction.state is State.OPEN:
                self.sessions.commit(transaction)
            optime = transaction.optime
        reply: bytes = yield self._acknowledged(context, optime, concern)
        return reply

    async def _acknowledged(self, context: Context, optime: OpTime | None, concern: WriteConcern) -> bytes:
        failed = await wait_for_write(context, optime, concern)
        return document_from([] if failed is None else [("writeConcernError", *from_python(failed))])

    def abort(self, context: Context) -> Response:
        """The reply to abortTransaction. Errors: those of the session."""
        return run_steps(context, self._aborted(context, self._ending(context)))

    def _aborted(self, context: Context, session: Session) -> Steps[bytes]:
        node = self._node
        concern = effective_concern(context, node)
        transaction = self.sessions.known(session)
        transaction.check()
        self.sessions.abort(transaction)
        if not context.explicit_write_concern:
            return document_from([])
        reply: bytes = yield self._acknowledged(context, None, concern)
        return reply

    def _ending(self, context: Context) -> Session:
        session = context.session
        if session is None or not session.in_transaction:
            raise CommandError(Code.CommandFailed, f"{context.command.name} must be run within a transaction")
        return session

    def end_sessions(self, lsids: set[bytes]) -> None:
        for transaction in list(self.sessions.open):
            if not lsids or transaction.lsid in lsids:
                self.sessions.abort(transaction)

    def expire(self) -> None:
        """Abort what has been open for too long."""
        now = self._node.clock()
        for transaction in [each for each in self.sessions.open if each.expires <= now]:
            self.sessions.abort(transaction)


def _check_target(context: Context) -> None:
    """Errors: 50791 for a write to a system collection."""
    if context.command.retryable and split_namespace(context.namespace)[1].startswith("system."):
        raise CommandError(50791, f"Cannot write to system collection {context.namespace} within a transaction.")


class _Leased:
    """A state that others read too, as a `Snapshot`."""

    def __init__(self, reader: Any, release: Callable[[], None]) -> None:
        self.get = reader.get
        self.items = reader.items
        self.keys = reader.keys
        self.values = reader.values
        self.close = release
