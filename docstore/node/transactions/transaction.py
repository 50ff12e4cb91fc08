"""One transaction of a session, from its first request until the session's next transaction.

* Its requests are executed one at a time.
* A request sees a copy of the node over the transaction's store.
* After its end only the outcome remains.
"""

from __future__ import annotations

import asyncio
import copy
from enum import Enum
from typing import TYPE_CHECKING, Any

from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.store import TransactionStore
from docstore.commands.concerns import LOCAL, WriteConcern
from docstore.commands.context import Context, Services
from docstore.commands.parts import Parts
from docstore.commands.sessions.activity import TransactionActivity
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.node.shard_filter import MustWait, TransactionFilter
from docstore.node.slices import Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from docstore.collection.transaction.overlay import TransactionState
    from docstore.node.node import DataNode
    from docstore.optime import OpTime

_AT_ONCE = WriteConcern(1)


class State(Enum):
    OPEN = "open"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Transaction:
    """A transaction; see the module. `lsid` and `number` identify it.

    `busy`: it is executing a request. `optime`: that of its last oplog entry, once prepared, or committed with writes.
    `reason`: the error of the running request if others aborted the transaction.
    """

    __slots__ = (
        "_cursors",
        "_filter",
        "_node",
        "_opened",
        "_services",
        "_state",
        "activity",
        "busy",
        "lsid",
        "number",
        "optime",
        "reason",
        "state",
        "store",
        "waiting",
    )

    def __init__(self, activity: TransactionActivity) -> None:
        self.lsid = activity.lsid
        self.number = activity.number
        self.activity = activity
        self.state = State.OPEN
        self.busy = False
        self.waiting: list[Any] = []
        self.optime: OpTime | None = None
        self.reason: CommandError | None = None
        self.store: TransactionStore | None = None
        self._node: DataNode | None = None
        self._filter: TransactionFilter | None = None
        self._services: Services | None = None
        self._state: TransactionState | None = None
        self._cursors = False
        self._opened = 0

    def begin(self, node: DataNode, services: Services, store: TransactionStore, taken_at: int) -> None:
        """Open it for requests. `taken_at`: the timestamp of the state that it reads."""
        self.store = store
        inner = copy.copy(node)
        inner.store = store
        inner.engine = store.engine
        inner.transaction = store
        if node.shard_filter is not None:
            inner.shard_filter = self._filter = node.shard_filter.for_transaction(taken_at, store.catalog.used)
        inner.parts = Parts(node.parts)
        inner.parts[type(node)] = inner
        self._node = inner
        self._services = services.with_parts(inner.parts)

    def enter(self, namespace: str) -> Steps[None]:
        """Wait, before a request uses a collection, for pending exclusive users of it."""
        while self.state is State.OPEN and self._filter is not None:
            try:
                self._filter.check_use(namespace)
            except MustWait as others:
                yield others.wait()
            else:
                return

    def request(self, context: Context) -> Context:
        """Return the request's context within the transaction, which others may end before the request."""
        assert self._services is not None, "it has begun"
        assert self.store is not None, "and is open"
        self._state = self.store.state
        self._state.hold()
        self._opened = context.services.cursors.opened
        self.activity.begin_statement(
            context.connection,
            context.read_concern,
            explicit=context.explicit_read_concern,
            now=context.services.clock(),
        )
        return context.derived(
            services=self._services,
            session=Session(self.lsid, transaction=self.number),
            read_concern=LOCAL,
            explicit_read_concern=False,
            write_concern=_AT_ONCE,
            explicit_write_concern=True,
        )

    def carried_out(self, services: Services) -> None:
        """Finish a request, executed or refused."""
        if self._state is None:
            return
        self.activity.end_statement(services.clock())
        self._state.let_go()
        self._state = None
        if services.cursors.opened != self._opened:
            self._cursors = True
            if self.state is not State.OPEN:
                self._kill_cursors(services)

    def _kill_cursors(self, services: Services) -> None:
        services.cursors.kill_where(lambda cursor: cursor.lsid == self.lsid and cursor.transaction == self.number)

    def check(self) -> None:
        """Check that it is open. Errors: TransactionCommitted, NoSuchTransaction, PreparedTransactionInProgress."""
        if self.state is State.PREPARED:
            raise CommandError(
                Code.PreparedTransactionInProgress,
                f"Transaction with {{ txnNumber: {self.number} }} has been prepared, and takes no further requests.",
            )
        if self.state is State.COMMITTED:
            raise committed(self.number)
        if self.state is State.ABORTED:
            raise CommandError(
                Code.NoSuchTransaction, f"Transaction with {{ txnNumber: {self.number} }} has been aborted."
            )

    def commit(self) -> OpTime | None:
        """Commit its writes. Errors: those of `TransactionStore.commit`, which abort it."""
        store = self.store
        assert store is not None, "it has begun"
        try:
            self.optime = store.commit(SessionWrite(self.lsid, self.number))
        except BaseException:
            self._end(State.ABORTED)
            raise
        self._end(State.COMMITTED)
        return self.optime

    def prepare(self) -> OpTime:
        """Log its writes as prepared. Errors: those of `TransactionStore.prepare`, which abort it."""
        store = self.store
        assert store is not None, "it has begun"
        try:
            self.optime = store.prepare(SessionWrite(self.lsid, self.number))
        except BaseException:
            self._end(State.ABORTED)
            raise
        self.state = State.PREPARED
        assert self._node is not None, "it has begun"
        self.activity.prepared = self._node.clock()
        self._end_cursors()
        return self.optime

    def prepared_again(self, store: TransactionStore, optime: OpTime) -> None:
        """Set the state of a transaction that another primary has prepared."""
        self.store, self.optime, self.state = store, optime, State.PREPARED

    def decide(self, commit_timestamp: int | None) -> OpTime:
        """Commit what was prepared, as of `commit_timestamp`, or abort it if None; return the optime.

        After an error of `TransactionStore.decide` it is still prepared.
        """
        store = self.store
        assert store is not None, "it is prepared"
        self.optime = store.decide(SessionWrite(self.lsid, self.number), commit_timestamp)
        self._end(State.ABORTED if commit_timestamp is None else State.COMMITTED)
        return self.optime

    def let_go(self, reason: CommandError) -> None:
        """Drop it from memory after a step-down."""
        if self.state is State.PREPARED and self.store is not None:
            self.reason = reason
            self.store.abort()
            self._end(State.ABORTED)
        else:
            self.abort(reason)

    def abort(self, reason: CommandError | None = None) -> None:
        """Abort it if open. `reason`: the error of its running request."""
        if self.state is State.OPEN:
            self.reason = reason
            if self.store is not None:
                self.store.abort()
            self._end(State.ABORTED)

    def _end(self, state: State) -> None:
        self.state = state
        self._end_cursors()
        self.store = self._node = self._filter = self._services = None
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()

    def turn(self, *, ended: bool = False) -> Steps[None]:
        """Wait for the running request of the transaction to finish.

        Errors: those of an ended transaction, unless `ended`.
        """
        loop = asyncio.get_running_loop()
        while self.busy:
            turn = loop.create_future()
            self.waiting.append(lambda turn=turn: turn.done() or turn.set_result(None))
            yield turn
        if not ended:
            self.check()

    def _end_cursors(self) -> None:
        services = self._services
        if services is not None and self._cursors:
            self._kill_cursors(services)

    def released(self) -> None:
        """Let the next request run."""
        self.busy = False
        if self.waiting:
            wake: Callable[[], None] = self.waiting.pop(0)
            wake()


def committed(number: int) -> CommandError:
    """Return the error of a request in a committed transaction."""
    return CommandError(Code.TransactionCommitted, f"Transaction with {{ txnNumber: {number} }} has been committed.")
