"""Driving the donor's state machine through one migration.

An effect that fails before the commit becomes `Failed`, and the machine aborts. Once this member is no longer primary
the donation ends where it stands: the next primary resumes it from the coordinator document.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import NetworkError, ReplicaSetClient
from docstore.sharding.donor import RETRY_SECONDS, Donor, Effect, Event, Failed
from docstore.sharding.migration import Decision, Migration
from mongod.migration.donor.steps import DonorSteps, Lost

LOG = component("MIGRATE")
_BLOCKING = (Effect.BLOCK_WRITES, Effect.BLOCK_READS)
_LATER = {
    Effect.COMMIT_ON_CONFIG_LATER: Effect.COMMIT_ON_CONFIG,
    Effect.ASK_CONFIG_LATER: Effect.ASK_CONFIG,
    Effect.RESOLVE_RECIPIENT_LATER: Effect.RESOLVE_RECIPIENT,
}


class DonorDriver:
    """One migration away from this shard. `finished` is done when it is decided: with None when the chunk has moved."""

    def __init__(self, shard: Any, migration: Migration, client: ReplicaSetClient | None) -> None:
        """`client`: the recipient; None to look it up when it is needed."""
        self.migration = migration
        self._records = shard.records
        self._machine = Donor(migration, asyncio.get_running_loop().time())
        self._steps = DonorSteps(shard, self._machine, client, self._decide)
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.finished.add_done_callback(lambda future: future.exception())

    @property
    def decided(self) -> bool:
        """Whether another migration may begin: what is left is to tell and to forget."""
        return self.finished.done()

    def begin_resumed(self, decision: Decision | None) -> list[Effect]:
        """The first effects of a donation found on disk; those that block operations have been carried out."""
        effects = self._machine.resume(decision)
        left: list[Effect] = [effect for effect in effects if effect not in _BLOCKING]
        if len(left) < len(effects):
            self._steps.block(reads=True)
        if decision is not None:
            self.finished.set_result(None)
        return left

    async def run(self, resumed: list[Effect] | None = None) -> None:
        """Carry out effects until the machine is done or this member is no longer primary."""
        pending = deque(self._machine.start() if resumed is None else resumed)
        try:
            while pending:
                event = await self._carry_out(pending.popleft())
                if event is not None:
                    assert not pending, "an effect that is answered comes last"
                    pending.extend(self._machine.receive(event, asyncio.get_running_loop().time()))
        except Lost as lost:
            LOG.info("Migration left to the next primary", ns=self.migration.namespace, state=self._state)
            self._decide(CommandError(Code.InterruptedDueToReplStateChange, str(lost)))
        except asyncio.CancelledError:
            self._decide(CommandError(Code.InterruptedDueToReplStateChange, "the shard's primary changed or stops"))
            raise
        finally:
            await self._steps.close()

    @property
    def _state(self) -> str:
        return self._machine.state.name

    def _decide(self, error: CommandError | None) -> None:
        if self.finished.done():
            return
        if error is None:
            self.finished.set_result(None)
        else:
            self.finished.set_exception(error)

    async def _carry_out(self, effect: Effect) -> Event | None:
        if effect in _LATER:
            await asyncio.sleep(RETRY_SECONDS)
            effect = _LATER[effect]
        step: Callable[[], Awaitable[Event | None]] = getattr(self._steps, effect.name.lower())
        try:
            return await step()
        except NetworkError as error:
            failure = CommandError(Code.HostUnreachable, str(error))
        except CommandError as error:
            failure = error
        if not self._records.may_write():
            raise Lost(failure.message) from failure
        assert self._machine.undecided, f"{effect} failed in {self._state}: {failure}"
        LOG.info("Migration given up", ns=self.migration.namespace, state=self._state, reason=failure.message)
        return Failed(failure.message)
