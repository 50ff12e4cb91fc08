"""Drives two-phase commit for one transaction; `docstore.sharding.commitment` has the rules.

Until a decision is on its way to disk, the coordinator may decide to abort. It does so if a participant refuses to
prepare or does not answer for `PREPARE_SECONDS`. Afterwards this primary or the next one repeats the decision to each
participant until it acknowledges.

The client gets its reply when all participants have carried the decision out, so later reads see it. If one does not
answer, the reply comes `CARRY_OUT_SECONDS` after a majority has the decision, which nothing can change.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.log import component
from docstore.optime import pack_timestamp
from docstore.sharding.commitment import COORDINATORS, Commitment, Decision
from mongod.drivers import NoLongerPrimary
from mongod.limits import MAX_RETRY_SECONDS
from mongod.migration.records import Removed

if TYPE_CHECKING:
    from mongod.migration.shard import Shard
    from mongod.transactions.participants import Participants

LOG = component("TXN")
PREPARE_SECONDS = 60.0
ANSWER_SECONDS = 10.0
CARRY_OUT_SECONDS = 1.0
_RETRY_SECONDS = 0.05
_NO_ANSWER = STATE_CHANGE_CODES | {
    Code.FailedToSatisfyReadPreference,
    Code.HostNotFound,
    Code.HostUnreachable,
    Code.NetworkTimeout,
    Code.WriteConcernFailed,
}
_FORGOTTEN = frozenset((Code.NoSuchTransaction, Code.TransactionTooOld))
"""A participant that answers so to a decision has carried it out, and its session has gone on."""


class CommitDriver:
    """One commit. `finished` is done with the decision once the client may hear it; see `Drivers`."""

    def __init__(self, shard: Shard, participants: Participants, commitment: Commitment) -> None:
        self.commitment = commitment
        self._shard = shard
        self._participants = participants
        self.finished: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    async def run(self, *, resumed: bool) -> None:
        """Run the commit from its current state to its end, or until this member is no longer primary."""
        try:
            if not resumed:
                await self._write((COORDINATORS, self.commitment.document()))
            decision = self.commitment.decision
            if decision is None:
                decision = await self._vote()
                self.commitment = self.commitment.decided(decision)
                await self._write((COORDINATORS, self.commitment.document()))
            await self._tell_all(decision)
            await self._write((COORDINATORS, Removed(self.commitment.id)))
        except NoLongerPrimary:
            LOG.info("Commit left to the next primary", txnNumber=self.commitment.number)

    async def _vote(self) -> Decision:
        votes = await asyncio.gather(*(self._prepare(shard) for shard in self.commitment.participants))
        timestamps = [vote for vote in votes if vote is not None]
        if len(timestamps) < len(votes):
            return Decision(None)
        oplog = self._shard.node.store.oplog
        assert oplog is not None, "a shard is a replica set"
        oplog.observe(max(timestamps))
        return Decision(max(timestamps))

    async def _prepare(self, shard: str) -> int | None:
        """Prepare the participant. Return its prepare timestamp; None if it refuses for good or does not answer in
        time.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PREPARE_SECONDS
        while loop.time() < give_up:
            self._check_primary()
            try:
                reply = await self._participants.ask(shard, self.commitment.prepare(), ANSWER_SECONDS)
                return pack_timestamp(reply["prepareTimestamp"])
            except CommandError as error:
                LOG.info("A participant does not prepare", shard=shard, reason=error.message)
                if error.code not in _NO_ANSWER:
                    return None
            await asyncio.sleep(_RETRY_SECONDS)
        return None

    async def _tell_all(self, decision: Decision) -> None:
        """Return when every participant has carried out the decision. The client hears it earlier if one takes long."""
        telling = [asyncio.ensure_future(self._tell(shard, decision)) for shard in self.commitment.participants]
        try:
            await asyncio.wait(telling, timeout=CARRY_OUT_SECONDS, return_when=asyncio.FIRST_EXCEPTION)
            if not any(task.done() and task.exception() for task in telling):
                self.finished.set_result(decision)
            await asyncio.gather(*telling)
        finally:
            for task in telling:
                task.cancel()

    async def _tell(self, shard: str, decision: Decision) -> None:
        """Return when the participant has carried out the decision, and a majority of it has that; also when it was
        removed from the cluster, which no shard is while anything is prepared on it.
        """
        pause = _RETRY_SECONDS
        while True:
            self._check_primary()
            try:
                await self._participants.ask(shard, self.commitment.tell(decision), ANSWER_SECONDS)
                return
            except CommandError as error:
                if error.code in _FORGOTTEN and "writeConcernError" not in error.extra:
                    return
                LOG.info("A participant has not heard the decision", shard=shard, reason=error.message)
                if error.code == Code.ShardNotFound and await self._is_removed(shard):
                    return
                if error.code not in _NO_ANSWER:
                    self._check_primary()
                    LOG.error("A participant refuses the decision", shard=shard, reason=error.message)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_SECONDS)

    async def _is_removed(self, shard: str) -> bool:
        try:
            return await self._shard.config_servers().is_removed(shard)
        except CommandError as error:
            LOG.info("The config servers do not say whether a shard was removed", shard=shard, reason=error.message)
            return False

    def _check_primary(self) -> None:
        if not self._shard.records.may_write():
            raise NoLongerPrimary

    async def _write(self, change: tuple[str, Any]) -> None:
        """Return when a majority has it, however long that takes."""
        records = self._shard.records
        while True:
            self._check_primary()
            try:
                return await records.committed(records.write(change))
            except CommandError as error:
                self._check_primary()
                LOG.info("A commit waits for its coordinator's majority", reason=error.message)
            await asyncio.sleep(_RETRY_SECONDS)
