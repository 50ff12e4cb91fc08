"""Drives one DDL operation: carries out the decisions of its coordinator.

A fallible effect becomes `Refused` when a shard refuses it, or when none has answered for `PATIENCE_SECONDS`. All
other effects are retried until they succeed. Once this member is no longer primary the operation stops: the next
primary resumes it from the document.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from docstore.bson import document_to_python
from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.log import component
from docstore.net.peers import Peers
from docstore.sharding.ddl import requests
from docstore.sharding.ddl.coordinator import (
    Answer,
    Answered,
    Ask,
    Commit,
    Coordinator,
    Done,
    Effect,
    Event,
    Find,
    Forget,
    HoldShards,
    Persist,
    Refused,
    Release,
    Unreachable,
)
from docstore.sharding.ddl.operation import COORDINATORS, Kind, Operation, Phase
from mongod.ddl.finding import find
from mongod.ddl.shard_key import tell_sharded
from mongod.drivers import NoLongerPrimary
from mongod.limits import MAX_RETRY_SECONDS
from mongod.migration.changes import log

if TYPE_CHECKING:
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from mongod.migration.shard import Shard

LOG = component("SHARDING")
PATIENCE_SECONDS = 30.0
HOLD_SECONDS = 10.0
ACT_SECONDS = 60.0
_RETRY_SECONDS = 0.1
_NO_ANSWER = STATE_CHANGE_CODES | {
    Code.FailedToSatisfyReadPreference,
    Code.HostNotFound,
    Code.HostUnreachable,
    Code.NetworkTimeout,
    Code.WriteConcernFailed,
}
_INDEXES_AND_OPTIONS = frozenset((Kind.CREATE_INDEXES, Kind.DROP_INDEXES, Kind.COLL_MOD))


class Driver:
    """One operation. `finished`: its result, or the error with which it ended; see `Drivers`."""

    def __init__(self, shard: Shard, peers: Peers, operation: Operation) -> None:
        self.finished: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._shard = shard
        self._peers = peers
        self._core = Coordinator(operation)

    @property
    def operation(self) -> Operation:
        return self._core.operation

    async def run(self, *, resumed: bool) -> None:
        """Carry out effects until the operation has ended or this member is no longer primary."""
        effects = self._core.resume() if resumed else self._core.start()
        try:
            while effects:
                event: Event | None = None
                for effect in effects:
                    event = await self._carry_out(effect)
                self._core.check()
                effects = [] if event is None else self._core.receive(event)
        except NoLongerPrimary:
            LOG.info("DDL left to the next primary", ns=self.operation.namespace, phase=self.operation.phase.value)

    async def _carry_out(self, effect: Effect) -> Event | None:
        try:
            return await self._do(effect)
        except CommandError as error:
            self._check_primary()
            if not effect.may_fail:
                raise AssertionError(f"{effect} failed") from error
            LOG.info("DDL refused", ns=self.operation.namespace, kind=self.operation.kind.value, reason=error.message)
            return Refused(error)

    async def _do(self, effect: Effect) -> Event | None:
        operation, may_fail = self.operation, effect.may_fail
        match effect:
            case Find():
                return await find(self._shard, operation)
            case Persist():
                await self._write((COORDINATORS, operation.document()), also=self._event())
                await self._announce()
                return Done()
            case HoldShards():
                await self._ask_all(
                    operation.participants, partial(requests.hold, operation), HOLD_SECONDS, may_fail=may_fail
                )
                return Done()
            case Ask():
                act = partial(requests.act, operation)
                return Answered(await self._ask_all(effect.shards, act, ACT_SECONDS, may_fail=may_fail))
            case Commit():
                return Answered({"": await self._commit(may_fail=may_fail)})
            case Release():
                return await self._release()
            case Forget():
                await self._write((COORDINATORS, operation.id))
                return Done()
            case Answer():
                self._answer()
        return None

    def _answer(self) -> None:
        operation = self.operation
        LOG.info("DDL ended", ns=operation.namespace, kind=operation.kind.value, failed=operation.failure is not None)
        if self.finished.done():
            return
        if operation.failure is None:
            self.finished.set_result(operation.result)
        else:
            self.finished.set_exception(error_of(operation.failure))

    async def _announce(self) -> None:
        """Log the operation in config.changelog, at the first phase and at the last."""
        operation = self.operation
        if operation.failure is None and operation.phase in (Phase.HOLDING, Phase.RELEASING):
            event = operation.kind.value if operation.phase is Phase.RELEASING else f"{operation.kind.value}.start"
            await log(self._shard, event, operation.namespace, {})

    # Durable state

    def _check_primary(self) -> None:
        if not self._shard.records.may_write():
            raise NoLongerPrimary

    def _event(self) -> Callable[[WriteUnitOfWork], None] | None:
        """Return the change stream event of the unit that marks the operation done; None if there is none."""
        operation = self.operation
        done = operation.phase is Phase.RELEASING and operation.failure is None and "uuid" in operation.facts
        if not done or operation.kind is not Kind.SHARD_COLLECTION:
            return None
        return partial(tell_sharded, self._shard, operation)

    async def _write(self, change: tuple[str, Any], also: Callable[[WriteUnitOfWork], None] | None = None) -> None:
        """Write, and return when a majority has the change, however long that takes. `also`: a further write of the
        unit, once.
        """
        while True:
            self._check_primary()
            try:
                written, also = self._shard.records.write(change, also=also), None
                return await self._shard.records.committed(written)
            except CommandError as error:
                self._check_primary()
                LOG.info("DDL waits for its shard's majority", ns=self.operation.namespace, reason=error.message)
                await asyncio.sleep(_RETRY_SECONDS)

    # Others

    async def _release(self) -> Event:
        release = partial(requests.release, self.operation)
        releasing = self._ask_all(self.operation.participants, release, HOLD_SECONDS, may_fail=False)
        try:
            await asyncio.wait_for(releasing, PATIENCE_SECONDS)
        except TimeoutError:
            return Unreachable()
        return Done()

    async def _commit(self, *, may_fail: bool) -> Mapping[str, Any]:
        command = requests.commit(self.operation, self._shard.name)
        while True:
            self._check_primary()
            try:
                return document_to_python(await self._shard.config_servers().command(command))
            except CommandError as error:
                if may_fail and error.code not in _NO_ANSWER:
                    raise
                LOG.info("DDL waits for the config servers", ns=self.operation.namespace, reason=error.message)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _ask_all(
        self, shards: Iterable[str], command: Callable[[str], Mapping[str, Any]], seconds: float, *, may_fail: bool
    ) -> dict[str, Mapping[str, Any]]:
        """Return the replies to `command` by shard. Errors: the first shard's, with all outcomes as `shards`."""
        names = list(shards)
        calls = (self._ask_until(name, command(name), seconds, may_fail=may_fail) for name in names)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        replies: dict[str, Mapping[str, Any]] = {}
        errors: list[CommandError] = []
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, CommandError):
                errors.append(outcome)
                replies[name] = outcome.reply()
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                replies[name] = outcome
        for error in errors:
            extra = {**error.extra, "shards": replies} if self.operation.kind in _INDEXES_AND_OPTIONS else error.extra
            raise CommandError(error.code, error.message, extra=extra)
        return replies

    async def _ask_until(
        self, shard: str, command: Mapping[str, Any], seconds: float, *, may_fail: bool
    ) -> Mapping[str, Any]:
        loop = asyncio.get_running_loop()
        give_up, pause = loop.time() + PATIENCE_SECONDS, _RETRY_SECONDS
        while True:
            self._check_primary()
            start = loop.time()
            try:
                return await self._ask(shard, command, seconds)
            except CommandError as error:
                if not may_fail and (error.extra.get("notHeld") or await self._is_removed(shard, error)):
                    return {}  # removed from the cluster: its old data must be dropped before it returns
                waits_for_another = self._waits_for_another(error)
                unanswered = error.code in _NO_ANSWER or waits_for_another
                if may_fail and (not unanswered or loop.time() >= give_up):
                    raise
                if not unanswered and self._keeps_refusals:
                    return error.reply()
                LOG.info("DDL waits for a shard", ns=self.operation.namespace, shard=shard, reason=error.message)
                if error.code == Code.HostUnreachable and loop.time() - start >= PATIENCE_SECONDS:
                    give_up = loop.time() + PATIENCE_SECONDS  # it was at work all the while
            await asyncio.sleep(pause)
            pause = _RETRY_SECONDS if waits_for_another else min(2 * pause, MAX_RETRY_SECONDS)

    async def _is_removed(self, shard: str, error: CommandError) -> bool:
        """True if a shard that is not found was certainly removed from the cluster. One that was not goes on holding
        the namespace.
        """
        if error.code != Code.ShardNotFound:
            return False
        try:
            return await self._shard.config_servers().is_removed(shard)
        except CommandError as unknown:
            LOG.info("The config servers do not say whether a shard was removed", shard=shard, reason=unknown.message)
            return False

    def _waits_for_another(self, error: CommandError) -> bool:
        """True if an operation of another coordinator holds the shard; that one is about to end."""
        return self.operation.phase is Phase.HOLDING and error.code == Code.ConflictingOperationInProgress

    @property
    def _keeps_refusals(self) -> bool:
        """True if refusals become part of the reply: once the first shard has applied the change, others may refuse."""
        return self.operation.kind in _INDEXES_AND_OPTIONS and self.operation.phase is Phase.APPLYING

    async def _ask(self, shard: str, command: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
        host = await self._shard.config_servers().shard_host(shard)
        reply = document_to_python(await self._peers.command(host, "admin", command, timeout=seconds))
        return {name: value for name, value in reply.items() if name not in _OF_THE_DISPATCHER}


_OF_THE_DISPATCHER = frozenset(("operationTime", "$clusterTime"))
_OF_ERRORS = frozenset(("ok", "code", "codeName", "errmsg"))


def error_of(failure: Mapping[str, Any]) -> CommandError:
    """Return the error of a failed reply."""
    extra = {name: value for name, value in failure.items() if name not in _OF_ERRORS}
    return CommandError(failure.get("code", Code.UnknownError), failure["errmsg"], extra=extra)
