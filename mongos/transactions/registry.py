"""The transactions of a router's clients.

Invariants:

- a session's transaction numbers only grow; a newer one ends an open transaction;
- a refused request ends its transaction on all shards, also if a write reports errors of single documents;
- an open transaction, or one whose commit has begun, is remembered as long as its session. Of the ended ones the
  newest are, so that a late request gets the outcome;
- the outcome of an unknown or forgotten transaction is not guessed: a commit then needs the client's recovery token.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import bson

from docstore.bson import append_fields, document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result, in_one_piece
from docstore.commands.sessions.activity import TransactionActivity
from docstore.commands.sessions.fields import Session
from docstore.commands.sessions.transactions import ENDING, reports_errors
from docstore.errors import Code, CommandError
from docstore.query.scripts import ScriptsWanted
from mongos.transactions.ending import abort_everywhere, commit, recover
from mongos.transactions.shards import parts_within
from mongos.transactions.transaction import RouterTransaction, State, concern_at

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts

MAX_ENDED_TRANSACTIONS = 20_000
_NO_PARTICIPANTS = 50940


class RouterTransactions:
    """Satisfies `docstore.commands.context.Transactions`."""

    def __init__(self, router: RouterParts) -> None:
        self._router = router
        self._unended: dict[bytes, RouterTransaction] = {}
        self._ended: OrderedDict[bytes, RouterTransaction] = OrderedDict()
        self._ending: set[asyncio.Task[None]] = set()

    # Requests

    def run(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Response:
        if context.command.name in ENDING:
            return execute(context, arguments)
        return self._statement(context, arguments, execute)

    async def _statement(
        self, context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
    ) -> Result:
        session = context.session
        assert session is not None, "a transaction belongs to a session"
        if context.read_preference.secondary_ok:
            raise CommandError(Code.InvalidOptions, "read preference in a transaction must be primary")
        transaction = await self._begin(context, session) if session.starts else self._known(session)
        async with transaction.turn:
            transaction.check()
            try:
                inner = transaction.request(context)
                result = await _carried_out(inner, arguments, execute)
            except BaseException:
                self._abort(transaction)
                raise
            finally:
                transaction.activity.end_statement(context.services.clock())
            if reports_errors(context.command, result):
                self._abort(transaction)
        token = transaction.recovery_token
        reply = in_one_piece(result)
        if isinstance(reply, bytes):
            return append_fields(reply, b"\x03recoveryToken\0" + bson.encode(token))
        return {**reply, "recoveryToken": token}

    async def _begin(self, context: Context, session: Session) -> RouterTransaction:
        if not self._router.cluster_time():
            # The cluster time is still unknown.
            await self._router.config.command("admin", {"ping": 1}, repeatable=True)
        number, found = session.txn_number, self._newest(session.lsid)
        assert number is not None, "a transaction has a number"
        if found is not None and number < found.number:
            raise CommandError(
                Code.TransactionTooOld,
                f"txnNumber {number} is less than last txnNumber {found.number} seen in session",
            )
        if found is not None and number == found.number:
            raise CommandError(Code.ConflictingOperationInProgress, f"txnNumber {number} for session already started")
        if found is not None:
            self._abort(found)
        self._ended.pop(session.lsid, None)
        concern = concern_at(context.read_concern, self._router.cluster_time())
        transaction = self._unended[session.lsid] = RouterTransaction(
            self._router, session, concern, now=context.services.clock()
        )
        transaction.parts = parts_within(self._router, transaction)
        return transaction

    def _newest(self, lsid: bytes) -> RouterTransaction | None:
        return self._unended.get(lsid) or self._ended.get(lsid)

    def _end(self, transaction: RouterTransaction, state: State) -> None:
        """Note how it ended, in the place of the oldest such note where there are too many."""
        transaction.state = state
        if self._unended.get(transaction.lsid) is not transaction:
            return
        del self._unended[transaction.lsid]
        self._ended[transaction.lsid] = transaction
        if len(self._ended) > MAX_ENDED_TRANSACTIONS:
            self._ended.popitem(last=False)

    def _known(self, session: Session) -> RouterTransaction:
        """Errors: TransactionTooOld, NoSuchTransaction."""
        transaction = self._newest(session.lsid)
        if transaction is not None and transaction.number == session.txn_number:
            return transaction
        newest = -1 if transaction is None else transaction.number
        if transaction is not None and session.txn_number is not None and session.txn_number < newest:
            raise CommandError(
                Code.TransactionTooOld,
                f"txnNumber {session.txn_number} is less than last txnNumber {newest} seen in session",
            )
        raise CommandError(
            Code.NoSuchTransaction, f"cannot continue txnId {newest} for session with txnId {session.txn_number}"
        )

    def _abort(self, transaction: RouterTransaction) -> None:
        """End an open transaction on its shards, in the background."""
        if transaction.state is State.OPEN:
            self._end(transaction, State.ABORTED)
            self._background(abort_everywhere(transaction))

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # Ends

    async def commit(self, context: Context, token: bytes | None) -> bytes:
        """Return the reply to commitTransaction.

        Errors: those of `commit` and `recover`; Location50940 without a token for a transaction that this router does
        not know; NoSuchTransaction if the token says that nothing was written.
        """
        session = _ending(context)
        transaction = self._newest(session.lsid)
        if transaction is None or transaction.number != session.txn_number:
            return await self._recover(context, session, token)
        async with transaction.turn:
            if transaction.state is State.ABORTED:
                transaction.check()
            transaction.state = State.COMMITTING if transaction.state is State.OPEN else transaction.state
            try:
                reply = await commit(context, transaction)
            except CommandError as error:
                if error.code == Code.NoSuchTransaction and "writeConcernError" not in error.extra:
                    self._end(transaction, State.ABORTED)
                    self._background(abort_everywhere(transaction))
                raise
            self._end(transaction, State.COMMITTED)
            return reply

    async def _recover(self, context: Context, session: Session, token: bytes | None) -> bytes:
        if token is None:
            newest = self._newest(session.lsid)
            if newest is not None and session.txn_number is not None and session.txn_number < newest.number:
                self._known(session)
            raise CommandError(_NO_PARTICIPANTS, "cannot commit with no participants")
        shard = document_to_python(token).get("recoveryShardId")
        if shard is None:
            raise CommandError(
                Code.NoSuchTransaction,
                "Recovery token is empty, meaning the transaction only performed reads and can be safely retried",
            )
        return await recover(context, session, await self._router.shards.get(str(shard)), self._router)

    async def abort(self, context: Context) -> dict[str, Any]:
        """The reply to abortTransaction. Errors: TransactionCommitted where it may be committed; NoSuchTransaction."""
        session = _ending(context)
        transaction = self._known(session)
        async with transaction.turn:
            if transaction.state is not State.COMMITTING or transaction.commit_requested:
                transaction.check()
            self._end(transaction, State.ABORTED)
            await abort_everywhere(transaction)
        return {}

    def activities(self) -> Iterable[TransactionActivity]:
        for transaction in self._unended.values():
            yield replace(transaction.activity, details=transaction.describe_participants())

    def end_sessions(self, lsids: set[bytes]) -> None:
        """See the protocol. Commits under way continue; their recovery shards know the outcome."""
        for lsid in lsids or list(self._unended):
            transaction = self._unended.get(lsid)
            if transaction is not None:
                self._abort(transaction)
            if transaction is not None and lsids and transaction.state is State.COMMITTING:
                del self._unended[lsid]

    def stop(self) -> None:
        for task in list(self._ending):
            task.cancel()


async def _carried_out(
    context: Context, arguments: Arguments, execute: Callable[[Context, Arguments], Response]
) -> Result:
    try:
        result = execute(context, arguments)
        return await result if isinstance(result, Awaitable) else result
    except ScriptsWanted:
        assert context.services.carry_out is not None, "what wants scripts was told that there are some"
        outcome: Result = await context.services.carry_out(context, lambda: context.command.run(context, arguments))
        return outcome


def _ending(context: Context) -> Session:
    session = context.session
    if session is None or not session.in_transaction:
        raise CommandError(Code.CommandFailed, f"{context.command.name} must be run within a transaction")
    return session
