"""Drives the recipient's core: carries out its effects and reports their results as events.

The donor's documents are stored invisibly: the shard does not own the range until the config servers say so. Work
runs in tasks of its own, which survive a broken connection of the donor and end with `StopWork`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.sharding.migration import (
    AnyMigration,
    DatabaseMigration,
    Decision,
    Deletion,
)
from docstore.sharding.recipient import NEVER, Recipient
from docstore.sharding.recipient_messages import (
    AwaitDeletions,
    AwaitMajority,
    Batch,
    BuildIndexes,
    CheckCollection,
    Commit,
    Definition,
    Done,
    Effect,
    Event,
    Failed,
    ForgetRouting,
    GetStatus,
    HoldCollections,
    HoldColumnFamily,
    InsertDocuments,
    Interrupted,
    LogDecision,
    Logged,
    MajorityFailed,
    MajorityReached,
    MakeCollection,
    MergeRows,
    PersistDeletion,
    PersistResolution,
    ReadRouting,
    RememberStatements,
    ReplaceDocuments,
    ReplaceInCollections,
    Reply,
    Resolve,
    Start,
    StopWork,
    SweepRange,
    WakeDeleter,
    Work,
)
from docstore.sharding.recipient_state import Status
from mongod.migration.changes import log_change
from mongod.migration.donor.clone_source import collection_of
from mongod.migration.recipient import batches, preparation

if TYPE_CHECKING:
    from mongod.migration.shard_parts import ShardParts

LOG = component("MIGRATE")


class RecipientDriver:
    """The receiving side of a shard. Errors of the donor's requests: CommandError as the core answers."""

    def __init__(self, shard: ShardParts) -> None:
        self._shard = shard
        self._node = shard.node
        self._core = Recipient()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_token = 0
        self._work: set[asyncio.Task[None]] = set()
        self._resolutions: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def running(self) -> AnyMigration | None:
        """Return the migration being received; None if there is none."""
        return self._core.running

    async def stop(self) -> None:
        """Stop all work; the range deletion on disk stays."""
        self.interrupt("the shard's member stops")
        ending = [*self._work, *self._resolutions]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    def interrupt(self, reason: str) -> None:
        """End the migration that an earlier term began here."""
        self._deliver(Interrupted(reason))

    # Requests of the donor

    async def start(self, migration: AnyMigration, definition: Definition | None) -> Status:
        shard = self._shard
        operation = migration.operation if isinstance(migration, DatabaseMigration) else None
        name, conflict = shard.name, shard.donation_conflict(migration.namespace, operation)
        status: Status = await self._ask(
            lambda token: Start(token=token, migration=migration, definition=definition, shard=name, conflict=conflict)
        )
        return status

    async def status(self, identity: bytes, seconds: float) -> Status:
        """Return the progress once the preparation has ended, or after that many seconds."""
        status: Status = await self._ask(lambda token: GetStatus(token=token, id=identity, seconds=seconds))
        return status

    async def take(self, make_batch: Callable[[int], Batch]) -> None:
        """Return when a batch, which is made with its token, is acknowledged."""
        await self._ask(make_batch)

    async def commit(self, identity: bytes, last: int) -> None:
        await self._ask(lambda token: Commit(token=token, id=identity, last=last))

    async def resolve(self, identity: Binary, namespace: str, decision: Decision) -> None:
        key, deletion = bytes(identity), self._shard.records.deletion(identity)
        await self._ask(
            lambda token: Resolve(token=token, id=key, namespace=namespace, decision=decision, deletion=deletion)
        )

    # Between the core and the world

    async def _ask(self, make_event: Callable[[int], Event]) -> Any:
        self._last_token = token = self._last_token + 1
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        try:
            self._deliver(make_event(token))
            return await answer
        finally:
            del self._answers[token]

    def _deliver(self, event: Event) -> None:
        if isinstance(event, Failed) and self.running is not None:
            work, reason = type(event.work).__name__, event.error.message
            LOG.info("Migration refused", ns=self.running.namespace, work=work, reason=reason)
        self._carry_out(self._core.receive(event, asyncio.get_running_loop().time()))

    def _tick(self) -> None:
        self._timer = None
        self._carry_out(self._core.tick(asyncio.get_running_loop().time()))

    def _carry_out(self, effects: list[Effect]) -> None:
        self._core.check()
        for effect in effects:
            match effect:
                case Reply():
                    self._answer(effect)
                case StopWork():
                    for task in self._work:
                        task.cancel()
                case ForgetRouting():
                    self._shard.shard_filter.forget(effect.namespace)
                case WakeDeleter():
                    self._shard.deleter.changed()
                case LogDecision():
                    self._spawn(self._resolutions, self._log(effect))
                case PersistResolution():
                    self._spawn(self._resolutions, self._await_majority(effect.token, effect.change))
                case AwaitMajority():
                    self._spawn(self._work, self._await_majority(effect.token, None))
                case _:
                    self._spawn(self._work, self._do(effect))
        self._set_timer()

    def _answer(self, reply: Reply) -> None:
        answer = self._answers.get(reply.token)
        if answer is None or answer.done():
            return
        if isinstance(reply.result, CommandError):
            answer.set_exception(reply.result)
        else:
            answer.set_result(reply.result)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wakeup = self._core.next_wakeup()
        if wakeup != NEVER:
            self._timer = asyncio.get_running_loop().call_at(wakeup, self._tick)

    def _spawn(self, group: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="recipient")
        group.add(task)
        task.add_done_callback(group.discard)

    # Long-running work

    async def _do(self, work: Work) -> None:
        event: Event
        try:
            event = await self._outcome(work)
        except CommandError as error:
            event = Failed(work, error)
        except Exception as error:
            self._deliver(Failed(work, CommandError(Code.InternalError, repr(error))))
            raise
        self._deliver(event)

    async def _outcome(self, work: Work) -> Event:
        shard, node = self._shard, self._node
        match work:
            case AwaitDeletions(migration):
                await shard.deleter.wait_clear(migration, shard.tunables.wait_for_deletion)
            case ReadRouting():
                return await preparation.read_routing(shard, work)
            case MakeCollection(migration, definition):
                preparation.make_collection(shard, migration, definition)
            case HoldColumnFamily(migration, definition):
                preparation.hold_column_family(node, migration, definition)
            case HoldCollections(migration, definitions):
                await preparation.hold_collections(shard, migration, definitions)
            case CheckCollection(migration):
                collection_of(node, migration)
            case BuildIndexes(migration, definition):
                await preparation.build_indexes(shard, migration, definition)
            case PersistDeletion(deletion):
                await shard.records.committed(shard.records.write_deletion(deletion))
            case SweepRange(migration):
                await preparation.sweep(node, migration)
            case InsertDocuments(migration, documents):
                await batches.insert(node, migration, documents)
            case ReplaceDocuments() | ReplaceInCollections():
                await batches.replace(node, work.replacements if isinstance(work, ReplaceInCollections) else [work])
            case MergeRows(migration, entries):
                await batches.merge(node, migration, entries)
            case RememberStatements(_, statements):
                await batches.remember(node, statements)
        return Done(work)

    async def _await_majority(self, token: int, change: Deletion | Binary | None) -> None:
        event: Event = MajorityReached(token)
        try:
            records = self._shard.records
            await records.committed(self._node.store.last_optime if change is None else records.write_deletion(change))
        except CommandError as error:
            event = MajorityFailed(token, error)
        self._deliver(event)

    async def _log(self, effect: LogDecision) -> None:
        migration = effect.migration
        note = "success" if effect.decision is Decision.COMMITTED else "aborted"
        await log_change(self._shard, migration, "to", {"from": migration.donor, "note": note})
        self._deliver(Logged(effect.token))
