"""The commits that this shard coordinates.

Invariant on the primary: every commit whose document is on disk runs here, also those of an earlier primary, before
any reply. Once the document is gone, the outcome is in the session's row of this shard, because the coordinator is a
participant.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from docstore.commands.context import Context
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.transactions.registry import transactions_of
from docstore.sharding.commitment import COORDINATORS, Commitment, Decision
from mongod.migration.shard import Shard
from mongod.transactions.driver import CommitDriver
from mongod.transactions.participants import Participants

LOG = component("TXN")
_LOOK_SECONDS = 0.5
"""The interval between checks that the client's operation was not killed."""


class CommitCoordinators:
    """A service of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._participants = Participants(shard)
        self._running: dict[tuple[bytes, int], tuple[CommitDriver, asyncio.Task[None]]] = {}
        shard.on_term.append(self._take_up)

    async def start(self) -> None:
        """Commits are taken up when this member becomes primary."""

    async def stop(self) -> None:
        """Stop all work; it resumes from the documents."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await self._participants.close()

    async def coordinate(self, context: Context, participants: Sequence[str]) -> bytes:
        """Return the reply to coordinateCommitTransaction. Errors: NoSuchTransaction if it is aborted. After
        MaxTimeMSExpired and the errors of a step-down the outcome is open.
        """
        session = context.session
        if session is None or not session.in_transaction or session.txn_number is None:
            raise CommandError(Code.CommandFailed, "coordinateCommitTransaction must be run within a transaction")
        if participants and self._shard.name not in participants:
            raise CommandError(Code.BadValue, "the coordinator of a commit must be one of its participants")
        self._shard.shard_filter.settle_term()
        self._shard.node.replication.check_write()
        running = self._running.get((session.lsid, session.txn_number))
        if running is None and participants and transactions_of(self._shard.node).sessions.is_open(session):
            commitment = Commitment(session.lsid, session.txn_number, tuple(participants))
            running = self._begin(CommitDriver(self._shard, self._participants, commitment), resumed=False)
        if running is not None:
            decision = await self._outcome(context, running[0])
            if not decision.committed:
                raise _aborted(session)
        return await transactions_of(self._shard.node).endings.outcome(context)

    async def _outcome(self, context: Context, driver: CommitDriver) -> Decision:
        clock = self._shard.node.clock
        while not driver.finished.done():
            if context.deadline is not None and clock() >= context.deadline:
                raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
            context.operation.check()
            timeout = _LOOK_SECONDS if context.deadline is None else min(context.deadline - clock(), _LOOK_SECONDS)
            await asyncio.wait([driver.finished], timeout=timeout)
        return driver.finished.result()

    def _begin(self, driver: CommitDriver, *, resumed: bool) -> tuple[CommitDriver, asyncio.Task[None]]:
        key = driver.commitment.lsid, driver.commitment.number
        task = asyncio.get_running_loop().create_task(driver.run(resumed=resumed), name="commit")
        self._running[key] = running = driver, task

        def ended(done: asyncio.Task[None]) -> None:
            if self._running.get(key, (None, None))[1] is done:
                del self._running[key]

        task.add_done_callback(ended)
        return running

    def _take_up(self) -> None:
        """Enter a term as primary: end what an earlier term began here, resume what is on disk."""
        for _, task in self._running.values():
            task.cancel()
        self._running.clear()
        node = self._shard.node
        collection = node.store.collection(COORDINATORS)
        for raw in [] if collection is None else list(collection.documents(node.engine)):
            commitment = Commitment.from_raw(raw)
            LOG.info("Commit resumed", txnNumber=commitment.number, decided=commitment.decision is not None)
            self._begin(CommitDriver(self._shard, self._participants, commitment), resumed=True)


def _aborted(session: Session) -> CommandError:
    return CommandError(
        Code.NoSuchTransaction, f"Transaction with {{ txnNumber: {session.txn_number} }} has been aborted."
    )


def coordinators_of(context: Context) -> CommitCoordinators:
    """Return the coordinators of the shard that serves this request."""
    return context.services.parts[CommitCoordinators]
