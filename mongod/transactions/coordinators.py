"""The commits that this shard coordinates.

Invariant on the primary: every commit whose document is on disk runs here, also those of an earlier primary, before
any reply. Once the document is gone, the outcome is in the session's row of this shard, because the coordinator is a
participant.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.commands.context import Context
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.transactions.registry import transactions_of
from docstore.sharding.commitment import COORDINATORS, Commitment
from mongod.drivers import Drivers, outcome_of
from mongod.migration.shard import Shard
from mongod.transactions.driver import CommitDriver
from mongod.transactions.participants import Participants

LOG = component("TXN")


class CommitCoordinators:
    """A service of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._participants = Participants(shard)
        self._drivers: Drivers[tuple[bytes, int], CommitDriver] = Drivers("commit")
        shard.on_term.append(self._take_up)

    async def start(self) -> None:
        """Commits are taken up when this member becomes primary."""

    async def stop(self) -> None:
        """Stop all work; it resumes from the documents."""
        await self._drivers.stop()
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
        key = session.lsid, session.txn_number
        driver = self._drivers.get(key)
        if driver is None and participants and transactions_of(self._shard.node).sessions.is_open(session):
            commitment = Commitment(session.lsid, session.txn_number, tuple(participants))
            driver = CommitDriver(self._shard, self._participants, commitment)
            self._drivers.begin(key, driver, resumed=False)
        if driver is not None:
            decision = await outcome_of(context, driver.finished)
            if not decision.committed:
                raise _aborted(session)
        return await transactions_of(self._shard.node).endings.outcome(context)

    def _take_up(self) -> None:
        """Enter a term as primary: end what an earlier term began here, resume what is on disk."""
        node = self._shard.node
        collection = node.store.collection(COORDINATORS)
        drivers: list[tuple[tuple[bytes, int], CommitDriver]] = []
        for raw in [] if collection is None else collection.documents(node.engine):
            commitment = Commitment.from_raw(raw)
            LOG.info("Commit resumed", txnNumber=commitment.number, decided=commitment.decision is not None)
            driver = CommitDriver(self._shard, self._participants, commitment)
            drivers.append(((commitment.lsid, commitment.number), driver))
        self._drivers.take_up(drivers)


def _aborted(session: Session) -> CommandError:
    return CommandError(
        Code.NoSuchTransaction, f"Transaction with {{ txnNumber: {session.txn_number} }} has been aborted."
    )


def coordinators_of(context: Context) -> CommitCoordinators:
    """Return the coordinators of the shard that serves this request."""
    return context.services.parts[CommitCoordinators]
