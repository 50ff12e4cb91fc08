"""Driving the donor's core through one migration.

An effect that fails before the commit becomes `Failed`, and the core aborts; those after it are tried until they
succeed. Once this member is no longer primary the donation ends where it stands: the next primary resumes it from the
coordinator document.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import NetworkError, ReplicaSetClient
from docstore.sharding.donor import (
    STEADY_CHANGES,
    Answer,
    AskConfig,
    AskRecipient,
    BlockReads,
    BlockWrites,
    ChangesSent,
    CloneSent,
    CommitOnConfig,
    CommitRecipient,
    ConfigAnswered,
    Donor,
    Effect,
    Event,
    Failed,
    Forget,
    Forgotten,
    PersistBlock,
    PersistDecision,
    Persisted,
    PersistStart,
    RaiseRoutingFloor,
    RecipientCommitted,
    RecipientResolved,
    ResolveRecipient,
    SendChanges,
    SendClone,
    StartCapture,
    StartRecipient,
    StopCapture,
    Unblock,
)
from docstore.sharding.migration import AnyMigration, Decision, Migration
from mongod.drivers import NoLongerPrimary
from mongod.migration.changes import log_change
from mongod.migration.critical_section import CriticalSection
from mongod.migration.donor import config_commit, persistence
from mongod.migration.donor.cloning import Cloning
from mongod.migration.donor.phases import Phases
from mongod.migration.donor.recipient_link import RecipientLink
from mongod.migration.statements import MovesTurn

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("MIGRATE")


class DonorDriver:
    """One migration away from this shard. `finished` is done at the decision, with None if it has committed."""

    def __init__(self, shard: ShardParts, migration: AnyMigration, client: ReplicaSetClient | None) -> None:
        """`client`: the recipient; None to look it up when it is needed."""
        self.migration = migration
        self._shard = shard
        self._term = self._term_now
        now = asyncio.get_running_loop().time()
        self._core = Donor(migration, now)
        self._phases = Phases(now, self._core.state)
        self._recipient = RecipientLink(shard, migration, client)
        self._cloning = Cloning(shard.node, migration, self._recipient)
        self._section: CriticalSection | None = None
        self._turn = MovesTurn(shard.shard_filter.statements, migration)
        self._given_up = asyncio.Event()
        self._given_up_for = ""
        self._refusal: CommandError | None = None
        """The error because of which it did not happen."""
        self._pending: deque[Effect] = deque()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def _term_now(self) -> int:
        oplog = self._shard.node.store.oplog
        assert oplog is not None, "a member of a shard has one"
        return oplog.term

    @property
    def decided(self) -> bool:
        """True if another migration may begin: only telling the recipient and forgetting remain."""
        return self.finished.done()

    def give_up(self, reason: str) -> None:
        """Abort the migration unless it is being committed, and end its waits."""
        self._given_up_for = reason
        self._given_up.set()

    def resume(self, decision: Decision | None) -> None:
        """Go on with a donation found on disk, when it runs; what blocks operations does so from now on."""
        for effect in self._core.resume(decision):
            if isinstance(effect, BlockWrites | BlockReads):
                self._block(effect)
            else:
                self._pending.append(effect)
        if decision is not None:
            self.finished.set_result(None)

    async def run(self, *, resumed: bool) -> None:
        """Carry out effects until the core is done or this member is no longer primary."""
        pending = self._pending
        if not resumed:
            pending.extend(self._core.start())
        try:
            while pending:
                event = await self._carry_out(pending.popleft())
                if isinstance(event, Failed):
                    # The remaining effects are void: the core says how to abort.
                    pending.clear()
                if event is not None:
                    assert not pending, "an effect that is answered comes last"
                    now = asyncio.get_running_loop().time()
                    pending.extend(self._core.receive(event, now))
                    self._phases.reached(self._core.state, now)
        except NoLongerPrimary as lost:
            LOG.info(
                "Migration left to the next primary", ns=self.migration.namespace, state=self._state, reason=str(lost)
            )
        finally:
            # Where this member is no longer primary, writes are refused and reads take a fresh routing.
            self._unblock()
            self._cloning.stop_capture()
            await self._recipient.close()

    @property
    def _state(self) -> str:
        return self._core.state.name

    async def _carry_out(self, effect: Effect) -> Event | None:
        if self._term_now != self._term:
            # The snapshot and the captured changes may have been rolled back in between.
            raise NoLongerPrimary("this member was elected anew")
        try:
            return await self._unless_given_up(effect) if self._core.undecided else await self._do(effect)
        except NetworkError as error:
            failure = CommandError(Code.HostUnreachable, str(error))
        except CommandError as error:
            failure = error
        if not self._shard.records.may_write():
            raise NoLongerPrimary(failure.message) from failure
        assert self._core.undecided, f"{effect} failed in {self._state}: {failure}"
        LOG.info("Migration given up", ns=self.migration.namespace, state=self._state, reason=failure.message)
        self._refusal = failure
        return Failed(failure.message)

    async def _unless_given_up(self, effect: Effect) -> Event | None:
        doing = asyncio.ensure_future(self._do(effect))
        give_up = asyncio.ensure_future(self._given_up.wait())
        try:
            await asyncio.wait((doing, give_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            give_up.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait((doing,))
        if doing.cancelled():
            return Failed(self._given_up_for)
        event = doing.result()
        return event if event is None or not self._given_up.is_set() else Failed(self._given_up_for)

    async def _do(self, effect: Effect) -> Event | None:
        cloning = self._cloning
        match effect:
            case PersistStart():
                await persistence.persist_start(self._shard, self.migration)
                return Persisted()
            case StartRecipient():
                return await cloning.start_recipient()
            case AskRecipient():
                return await self._recipient.status()
            case StartCapture():
                cloning.start_capture()
            case SendClone():
                return CloneSent(exhausted=await cloning.send_clone())
            case SendChanges(majority):
                remaining = await cloning.send_changes(majority=majority)
                return ChangesSent(
                    remaining, statements=majority and not await self._turn.comes(is_ready=remaining <= STEADY_CHANGES)
                )
            case BlockWrites():
                self._turn.check()
                self._block(effect)
            case BlockReads():
                self._block(effect)
            case CommitRecipient():
                await self._recipient.commit()
                return RecipientCommitted()
            case PersistBlock():
                await persistence.persist_block(self._shard, self.migration)
                return Persisted()
            case CommitOnConfig() | AskConfig():
                return await self._ask_config(effect)
            case _:
                return await self._conclude(effect)
        return None

    async def _conclude(
        self,
        effect: StopCapture | RaiseRoutingFloor | Unblock | PersistDecision | Answer | ResolveRecipient | Forget,
    ) -> Event | None:
        shard, migration = self._shard, self.migration
        match effect:
            case StopCapture():
                self._cloning.stop_capture()
            case RaiseRoutingFloor(version):
                persistence.raise_routing_floor(shard, migration, version)
            case Unblock():
                self._unblock()
            case PersistDecision(decision):
                await persistence.persist_decision(shard, migration, decision)
                return Persisted()
            case Answer():
                await self._answer(effect)
            case ResolveRecipient():
                return await self._resolve_recipient(effect)
            case Forget(decision):
                await persistence.forget(shard, migration, decision)
                return Forgotten()
        return None

    def _block(self, effect: BlockWrites | BlockReads) -> None:
        reads = isinstance(effect, BlockReads)
        self._section = self._shard.shard_filter.sections.begin(
            self.migration.namespace, self.migration.concerns, reads=reads
        )
        self._turn.end()

    def _unblock(self) -> None:
        self._turn.end()
        if self._section is not None:
            self._shard.shard_filter.sections.end(self.migration.namespace, self._section)
            self._section = None

    async def _ask_config(self, effect: CommitOnConfig | AskConfig) -> ConfigAnswered:
        await _wait(effect.after)
        persistence.check_primary(self._shard)
        ask = config_commit.commit if isinstance(effect, CommitOnConfig) else config_commit.find_out
        answered = await ask(self._shard.config_servers(), self.migration)
        self._refusal = answered.refusal
        return answered

    def _failure(self, reason: str) -> CommandError:
        """Return the error for the client that asked for the migration."""
        if isinstance(self.migration, Migration):
            return CommandError(Code.OperationFailed, f"the chunk did not move: {reason}")
        code = Code.OperationFailed if self._refusal is None else self._refusal.code
        return CommandError(code, f"{self.migration} did not move: {reason}")

    async def _answer(self, effect: Answer) -> None:
        committed = effect.decision is Decision.COMMITTED
        if not self.finished.done():
            if committed:
                self.finished.set_result(None)
            else:
                self.finished.set_exception(self._failure(effect.reason))
        note, phases = "success" if committed else "aborted", self._phases.milliseconds()
        LOG.info("Migration decided", ns=self.migration.namespace, note=note, milliseconds=phases)
        await log_change(self._shard, self.migration, "from", {"note": note, "milliseconds": phases})

    async def _resolve_recipient(self, effect: ResolveRecipient) -> RecipientResolved:
        await _wait(effect.after)
        try:
            await self._recipient.resolve(effect.decision)
        except (CommandError, NetworkError) as error:
            persistence.check_primary(self._shard)
            LOG.info("The recipient has not heard the decision", ns=self.migration.namespace, reason=str(error))
            return RecipientResolved(heard=False)
        return RecipientResolved(heard=True)


async def _wait(seconds: float) -> None:
    if seconds:
        await asyncio.sleep(seconds)
