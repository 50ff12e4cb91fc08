"""The effects of the donor's state machine, each as what it does to the store, the recipient and the config servers.

A step before the commit that raises CommandError or NetworkError ends the migration; the others handle their failures
here and raise only `Lost`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import NetworkError, ReplicaSetClient
from docstore.sharding.donor import (
    ChangesSent,
    CloneSent,
    ConfigAnswered,
    Donor,
    Event,
    Forgotten,
    Persisted,
    RecipientCommitted,
    RecipientReady,
    RecipientResolved,
    State,
)
from docstore.sharding.migration import COORDINATORS, RANGE_DELETIONS, Coordinator, Decision, Migration, RangeDeletion
from docstore.sharding.version import Lastmod
from docstore.widecolumn.node.keyspaces import MARK
from mongod.migration.changes import log_change
from mongod.migration.donor import decision
from mongod.migration.donor.clone_source import CloneSource, collection_of, source_of
from mongod.migration.donor.recipient_link import RecipientLink
from mongod.migration.history import executed
from mongod.migration.records import ROUTING_SIGNALS
from mongod.migration.shard_filter import CriticalSection

LOG = component("MIGRATE")


class Lost(Exception):
    """This member is not the primary (any more): the donation goes on elsewhere."""


class DonorSteps:
    """One method for each effect, named like it. `decided(error)` tells who asked: None when the chunk has moved."""

    def __init__(
        self,
        shard: Any,
        machine: Donor,
        client: ReplicaSetClient | None,
        decided: Callable[[CommandError | None], None],
    ) -> None:
        self.migration: Migration = machine.migration
        self._shard = shard
        self._node = shard.node
        self._machine = machine
        self._decided = decided
        self._recipient = RecipientLink(shard, machine.migration, client)
        self._source: CloneSource | None = None
        self._told_until = 0
        self._floor: Lastmod | None = None
        self._section: CriticalSection | None = None

    async def close(self) -> None:
        """Let go of everything that is held. Operations that waited go on: where this member is no longer primary,
        writes are refused and reads take a fresh routing."""
        self._end_section()
        await self.stop_capture()
        await self._recipient.close()

    def block(self, *, reads: bool) -> None:
        """Make operations on the collection wait, until `unblock` or `close`."""
        self._section = self._shard.shard_filter.block(self.migration.namespace, reads=reads)

    # Before the commit

    async def persist_start(self) -> Event:
        migration = self.migration
        seconds = int(self._node.wall_clock())
        deletion = RangeDeletion.of(migration, pending=True, delayed=True, seconds=seconds)
        records = self._shard.records
        await records.committed(
            records.write((COORDINATORS, Coordinator(migration).document()), (RANGE_DELETIONS, deletion.document()))
        )
        await log_change(self._shard, migration, "moveChunk.start", {"from": migration.donor})
        return Persisted()

    async def prepare_recipient(self) -> Event:
        collection = collection_of(self._node, self.migration)
        mark = self._node.store.collection(f"{collection.database}.{MARK}")
        await self._recipient.prepare(collection, mark)
        return RecipientReady()

    async def start_capture(self) -> None:
        self._source = source_of(self._node, self.migration)

    async def send_clone(self) -> Event:
        assert self._source is not None, "the capture has begun"
        batch, exhausted = await self._source.next_batch()
        if batch:
            await self._recipient.push_clone(batch)
        return CloneSent(exhausted=exhausted)

    async def send_changes(self) -> Event:
        """Changes go with the retryable writes that made them."""
        assert self._source is not None, "the capture has begun"
        store = self._node.store
        present, gone = self._source.take_changes()
        after, self._told_until = self._told_until, store.last_optime.timestamp
        statements = executed(store, self.migration.namespace, after, self._node.wall_clock())
        await self._recipient.push_statements(statements)
        catching_up = self._machine.state is State.CATCHING_UP
        if present or gone or catching_up:
            await self._recipient.push_changes(present, gone, majority=catching_up)
        return ChangesSent(self._source.left())

    async def block_writes(self) -> None:
        self.block(reads=False)

    async def block_reads(self) -> None:
        self.block(reads=True)

    async def commit_recipient(self) -> Event:
        await self._recipient.commit()
        return RecipientCommitted()

    # The decision

    async def commit_on_config(self) -> Event:
        self._check_primary()
        outcome = await decision.commit(self._shard.config_servers(), self.migration)
        self._floor = outcome.version
        return ConfigAnswered(outcome.answer)

    async def ask_config(self) -> Event:
        self._check_primary()
        outcome = await decision.find_out(self._shard.config_servers(), self.migration)
        self._floor = outcome.version
        return ConfigAnswered(outcome.answer)

    async def stop_capture(self) -> None:
        if self._source is not None:
            self._source.close()
            self._source = None

    async def unblock(self) -> None:
        """The signal goes first: from then on no older routing is used here, nor on any member that has it."""
        if self._floor is not None:
            signal = {
                "_id": self.migration.namespace,
                "epoch": self.migration.epoch,
                "uuid": self.migration.uuid,
                "lastRefreshedCollectionVersion": self._floor.to_timestamp(),
                "migration": self.migration.id,
            }
            self._write((ROUTING_SIGNALS, signal))
        self._end_section()

    async def persist_decision(self) -> Event:
        document = Coordinator(self.migration, self._machine.decision).document()
        while True:
            optime = self._write((COORDINATORS, document))
            try:
                await self._shard.records.committed(optime)
            except CommandError as error:
                if error.code != Code.WriteConcernFailed:
                    raise Lost(error.message) from error
            else:
                return Persisted()

    # After it

    async def answer(self) -> None:
        committed = self._machine.decision is Decision.COMMITTED
        reason = f"the chunk did not move: {self._machine.reason}"
        self._decided(None if committed else CommandError(Code.OperationFailed, reason))
        note = "success" if committed else "aborted"
        await log_change(self._shard, self.migration, "moveChunk.from", {"note": note})

    async def resolve_recipient(self) -> Event:
        told = self._machine.decision
        assert told is not None, "only a decision is told"
        try:
            await self._recipient.resolve(told)
        except (CommandError, NetworkError) as error:
            self._check_primary()
            LOG.info("The recipient has not heard the decision", ns=self.migration.namespace, reason=str(error))
            return RecipientResolved(heard=False)
        return RecipientResolved(heard=True)

    async def forget(self) -> Event:
        migration = self.migration
        deletion: Any = migration.id
        if self._machine.decision is Decision.COMMITTED:
            seconds = int(self._node.wall_clock())
            deletion = RangeDeletion.of(migration, pending=False, delayed=True, seconds=seconds).document()
        optime = self._write((RANGE_DELETIONS, deletion), (COORDINATORS, migration.id))
        try:
            await self._shard.records.committed(optime)
        except CommandError as error:
            raise Lost(error.message) from error
        self._shard.deleter.changed()
        return Forgotten()

    def _end_section(self) -> None:
        if self._section is not None:
            self._shard.shard_filter.unblock(self.migration.namespace, self._section)
            self._section = None

    def _write(self, *changes: tuple[str, Any]) -> Any:
        try:
            return self._shard.records.write(*changes)
        except CommandError as error:
            raise Lost(error.message) from error

    def _check_primary(self) -> None:
        if not self._shard.records.may_write():
            raise Lost("this member is not primary")
