"""The transactions of a node: execution of their requests, and their ends.

* An error of a request aborts its transaction, including write errors of single documents.
* Only a primary executes transactions; a step-down aborts them.
* None stays open longer than `TransactionSettings.lifetime_seconds`.
* A commit writes an oplog entry even if the transaction has written nothing: once a majority has it, this node was the
  primary at that time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from docstore.bson import append_fields
from docstore.collection.transaction.store import TransactionStore, prepared_store
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.commands.context import Context
from docstore.commands.declaration import RESULTS, Response, Result, in_one_piece
from docstore.commands.sessions.activity import TransactionActivity
from docstore.commands.sessions.transactions import ENDING, READ_ONLY, reports_errors
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.slices import Steps, run_steps
from docstore.node.transactions.endings import TransactionEndings
from docstore.node.transactions.numbers import SessionTransactions
from docstore.node.transactions.settings import TransactionSettings
from docstore.node.transactions.transaction import State, Transaction
from docstore.query.scripts import ScriptsWanted
from docstore.replicaset.replicaset import ReplicaSet

if TYPE_CHECKING:
    from docstore.commands.sessions.fields import Session
    from docstore.node.node import DataNode
    from docstore.storage import Snapshot


class TransactionRegistry:
    """The transactions of a node.

    Implements `docstore.commands.context.Transactions`; created once, as a part of the node.
    """

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self.settings = TransactionSettings()
        self.sessions = SessionTransactions(node.store.sessions, self.settings)
        self.endings = TransactionEndings(node, self.sessions)
        node.parts[TransactionRegistry] = self
        node.check_retryable = self.sessions.check_retryable
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
        node.replication.check_write()

    def _statement(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Steps[Result]:
        session = context.session
        assert session is not None, "a transaction belongs to a session"
        if session.starts:
            transaction = yield from self._begin(context, session)
        else:
            transaction = self.sessions.find_transaction(session)
            transaction.check()
        if transaction.busy:
            yield from transaction.turn()
        transaction.busy = True
        try:
            _check_target(context)
            if self._node.store.claims.is_awaited(context.namespace):
                yield from self._patience(context)
            if self._node.shard_filter is not None:
                yield from transaction.enter(context.namespace)
            transaction.check()
            inner = transaction.request(context)
            result = execute(inner, arguments)
            if not isinstance(result, RESULTS):
                try:
                    result = yield result
                except ScriptsWanted:
                    assert context.services.carry_out is not None, "what wants scripts was told that there are some"
                    result = yield context.services.carry_out(inner, lambda: context.command.run(inner, arguments))
        except CommandError as error:
            if transaction.state is State.OPEN:
                if error.code != Code.CommandOnShardedViewNotSupportedOnMongod:
                    # This error tells the router to read the collection below the view.
                    self.sessions.abort(transaction)
                raise
        except BaseException:
            self.sessions.abort(transaction)
            raise
        finally:
            transaction.carried_out(context.services)
            transaction.released()
        if transaction.state is not State.OPEN:
            # Others ended the transaction meanwhile: this overrides the request's result.
            if transaction.reason is not None:
                raise transaction.reason
            transaction.check()
        assert isinstance(result, RESULTS), "it was awaited"
        if reports_errors(context.command, result):
            self.sessions.abort(transaction)
        elif self._node.shard_filter is not None:
            return self._with_read_only(result, transaction)
        return result

    def _with_read_only(self, result: Result, transaction: Transaction) -> Result:
        """Return the reply with `readOnly`, which tells the router if there is anything to commit here."""
        store = transaction.store
        read_only = store is None or not store.operations
        reply = in_one_piece(result)
        if isinstance(reply, dict):
            return {**reply, READ_ONLY: read_only}
        return append_fields(reply, b"\x08" + READ_ONLY.encode() + (b"\0\1" if read_only else b"\0\0"))

    def _patience(self, context: Context) -> Steps[None]:
        """Wait up to `patience_ms` for a pending change of the collection, before the transaction is refused."""
        holder = self._node.store.claims.holder(context.namespace)
        if holder is not None:
            yield asyncio.wait([asyncio.ensure_future(holder.over())], timeout=self.settings.patience_ms / 1000)

    def _begin(self, context: Context, session: Session) -> Steps[Transaction]:
        node = self._node
        while (before := self.sessions.prepared_of(session)) is not None and before.number != session.txn_number:
            assert before.store is not None, "it is prepared"
            yield before.store.over()
        transaction = self.sessions.begin(session, node.clock(), routed=node.shard_filter is not None)
        transaction.busy = True
        try:
            snapshot, taken_at = yield from self._snapshot(context)
            if transaction.state is State.OPEN:
                store = TransactionStore(node.store, snapshot, newest=taken_at is None)
                transaction.activity.read_timestamp = taken_at or 0
                assert node.store.oplog is not None, "a member of a set has one"
                transaction.begin(
                    node, context.services, store, node.store.oplog.cluster_time if taken_at is None else taken_at
                )
            else:
                snapshot.close()
        except BaseException:
            self.sessions.abort(transaction)
            raise
        finally:
            transaction.released()
        transaction.check()
        return transaction

    def _snapshot(self, context: Context) -> Steps[tuple[Snapshot, int | None]]:
        """Return (the snapshot that the transaction reads, its timestamp; None for the newest state, of this step)."""
        node, concern = self._node, context.read_concern
        oplog = node.store.oplog
        assert oplog is not None, "a member of a set has one"
        if concern.level is ReadLevel.SNAPSHOT and concern.at_cluster_time is not None:
            assert isinstance(node.replication, ReplicaSet), "a member of a set"
            at, reader, release = yield node.replication.snapshot_reader(concern, context.deadline)
            return _Leased(reader, release), at
        after = concern.after_cluster_time
        if after is not None and (after > oplog.last.timestamp or node.store.sessions.is_prepared_at(after)):
            _, release = yield node.replication.reader(
                ReadConcern(ReadLevel.LOCAL, after_cluster_time=after), context.deadline
            )
            release()
        self._check_here()
        return node.engine.snapshot(), None

    def take_over(self) -> None:
        """Load the prepared transactions when this node becomes primary, before anything is written."""
        store = self._node.store
        for lsid, prepared in store.sessions.prepared.items():
            self.sessions.take_over(
                lsid, prepared.number, prepared_store(store, prepared), prepared.optime, self._node.clock()
            )

    def end_sessions(self, lsids: set[bytes]) -> None:
        for transaction in list(self.sessions.open):
            if not lsids or transaction.lsid in lsids:
                self.sessions.abort(transaction)

    def activities(self) -> Iterable[TransactionActivity]:
        return [transaction.activity for transaction in self.sessions.unended()]

    def expire(self) -> None:
        """Abort transactions past their lifetime."""
        now = self._node.clock()
        for transaction in [candidate for candidate in self.sessions.open if candidate.activity.expires <= now]:
            self.sessions.abort(transaction)


def transactions_of(node: DataNode) -> TransactionRegistry:
    """Return the transactions of a node."""
    return node.parts[TransactionRegistry]


def _check_target(context: Context) -> None:
    """Reject writes to system collections. Errors: 50791."""
    if context.command.retryable and split_namespace(context.namespace)[1].startswith("system."):
        raise CommandError(50791, f"Cannot write to system collection {context.namespace} within a transaction.")


class _Leased:
    """A shared state as a `Snapshot`."""

    def __init__(self, reader: Any, release: Callable[[], None]) -> None:
        self.get = reader.get
        self.items = reader.items
        self.keys = reader.keys
        self.values = reader.values
        self.close = release
