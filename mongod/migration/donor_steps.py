"""The effects of the donor's state machine, each as what it does to the store, the recipient and the config servers.

A step before the commit that raises CommandError or NetworkError ends the migration; the others handle their failures
here and raise only `Lost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import bson

from docstore.bson import Value
from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import NetworkError, ReplicaSetClient
from docstore.node.cursors import SLICE_SECONDS
from docstore.sharding import requests
from docstore.sharding.donor import (
    RETRY_SECONDS,
    Answer,
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
from docstore.storage import Snapshot
from mongod.migration.capture import Capture
from mongod.migration.history import executed
from mongod.migration.ownership import CriticalSection
from mongod.migration.ranges import documents, in_range, key_index
from mongod.migration.recipient_link import BATCH_BYTES, BATCH_DOCUMENTS, CHANGES_AT_ONCE, RecipientLink
from mongod.migration.records import ROUTING_SIGNALS

LOG = component("MIGRATE")
_REFUSED = frozenset((Code.StaleEpoch, Code.ConflictingOperationInProgress, Code.ShardNotFound, Code.BadValue))
"""The config servers' definite no."""


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
        self._capture: Capture | None = None
        self._snapshot: Snapshot | None = None
        self._cursor: Iterator[tuple[int, bytes]] = iter(())
        self._told_until = 0
        self._floor: Lastmod | None = None
        self._section: CriticalSection | None = None

    async def close(self) -> None:
        """Let go of everything that is held. Operations that waited go on: where this member is no longer primary,
        writes are refused and reads take a fresh routing."""
        self._end_section()
        self._release()
        await self._recipient.close()

    def is_primary(self) -> bool:
        try:
            self._node.replication.check_write()
        except CommandError:
            return False
        return True

    # Before the commit

    async def persist_start(self) -> Event:
        migration = self.migration
        seconds = int(self._node.wall_clock())
        deletion = RangeDeletion.of(migration, pending=True, delayed=True, seconds=seconds)
        records = self._shard.records
        await records.committed(
            records.write((COORDINATORS, Coordinator(migration).document()), (RANGE_DELETIONS, deletion.document()))
        )
        await self._log("moveChunk.start", {"from": migration.donor, "to": migration.recipient})
        return Persisted()

    async def prepare_recipient(self) -> Event:
        await self._recipient.prepare(self._collection())
        return RecipientReady()

    async def start_capture(self) -> None:
        node, migration = self._node, self.migration
        collection = self._collection()
        index = key_index(collection, migration.key)
        self._capture = Capture(node.store, migration)
        self._snapshot = node.engine.snapshot()
        self._cursor = documents(self._snapshot, collection, index, migration.range)

    async def send_clone(self) -> Event:
        clock, pause = self._node.clock, self._node.pause
        batch: list[bytes] = []
        size, until, exhausted = 0, clock() + SLICE_SECONDS, True
        for _, raw in self._cursor:
            batch.append(raw)
            size += len(raw)
            if size >= BATCH_BYTES or len(batch) >= BATCH_DOCUMENTS:
                exhausted = False
                break
            if len(batch) % 128 == 0 and clock() >= until:
                await pause()
                until = clock() + SLICE_SECONDS
        if batch:
            await self._recipient.push_clone(batch)
        self._check_capture()
        if exhausted:
            self._close_snapshot()
        return CloneSent(exhausted=exhausted)

    async def send_changes(self) -> Event:
        capture = self._check_capture()
        collection = self._collection()
        reload: list[bytes] = []
        gone: list[Value] = []
        size = 0
        while len(capture) and size < BATCH_BYTES and len(reload) + len(gone) < CHANGES_AT_ONCE:
            (identity,) = capture.take(1)
            found = collection.by_id(self._node.engine, identity)
            if found is not None and in_range(self.migration.key, self.migration.range, found[1]):
                reload.append(found[1])
                size += len(found[1])
            else:
                gone.append(identity)
        catching_up = self._machine.state is State.CATCHING_UP
        await self._send_history()
        if reload or gone or catching_up:
            await self._recipient.push_changes(reload, gone, majority=catching_up)
        return ChangesSent(len(self._check_capture()))

    async def _send_history(self) -> None:
        """The retryable writes executed here since the last call."""
        store = self._node.store
        after, self._told_until = self._told_until, store.last_optime.timestamp
        statements = executed(store, self.migration.namespace, after, self._node.wall_clock())
        await self._recipient.push_statements(statements)

    def block(self, *, reads: bool) -> None:
        """Make operations on the collection wait, until `unblock` or `close`."""
        self._section = self._shard.ownership.block(self.migration.namespace, reads=reads)

    async def block_writes(self) -> None:
        self.block(reads=False)

    async def block_reads(self) -> None:
        self.block(reads=True)

    async def commit_recipient(self) -> Event:
        await self._recipient.commit()
        return RecipientCommitted()

    # The decision

    async def commit_on_config(self) -> Event:
        each = self.migration
        return await self._ask_for_decision(
            requests.commit_chunk_migration(
                each.namespace, each.epoch, each.range, each.lastmod, each.donor, each.recipient
            ),
            lambda _reply: Answer.DONE,
        )

    async def commit_on_config_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self.commit_on_config()

    async def ask_config(self) -> Event:
        each = self.migration
        return await self._ask_for_decision(
            requests.ensure_chunk_version_greater(each.namespace, each.epoch, each.range, each.lastmod),
            lambda reply: Answer.NOT_DONE if reply["shard"] == each.donor else Answer.DONE,
        )

    async def ask_config_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self.ask_config()

    async def _ask_for_decision(self, command: dict[str, Any], read: Callable[[dict[str, Any]], Answer]) -> Event:
        if not self.is_primary():
            raise Lost("this member is not primary")
        try:
            reply = bson.decode(await self._shard.config_servers().command(command))
        except CommandError as error:
            if error.code in _REFUSED:
                return ConfigAnswered(Answer.NOT_DONE)
            LOG.info("No answer from the config servers", ns=self.migration.namespace, reason=error.message)
            return ConfigAnswered(Answer.UNKNOWN)
        self._floor = Lastmod.from_timestamp(reply["collectionVersion"]["v"])
        return ConfigAnswered(read(reply))

    async def stop_capture(self) -> None:
        self._release()

    async def unblock(self) -> None:
        """The signal goes first: from then on no older routing is used here, nor on any member that has it."""
        if self._floor is not None:
            self._write(
                (
                    ROUTING_SIGNALS,
                    {
                        "_id": self.migration.namespace,
                        "epoch": self.migration.epoch,
                        "uuid": self.migration.uuid,
                        "lastRefreshedCollectionVersion": self._floor.to_timestamp(),
                        "migration": self.migration.id,
                    },
                )
            )
        self._end_section()

    def _end_section(self) -> None:
        if self._section is not None:
            self._shard.ownership.unblock(self.migration.namespace, self._section)
            self._section = None

    async def persist_decision(self) -> Event:
        document = Coordinator(self.migration, self._machine.decision).document()
        while True:
            optime = self._write((COORDINATORS, document))
            try:
                await self._shard.records.committed(optime)
            except CommandError as error:
                if error.code != Code.WriteConcernFailed or not self.is_primary():
                    raise Lost(error.message) from error
            else:
                return Persisted()

    # After it

    async def answer(self) -> None:
        committed = self._machine.decision is Decision.COMMITTED
        reason = f"the chunk did not move: {self._machine.reason}"
        self._decided(None if committed else CommandError(Code.OperationFailed, reason))
        note = "success" if committed else "aborted"
        await self._log("moveChunk.from", {"to": self.migration.recipient, "note": note})

    async def resolve_recipient(self) -> Event:
        decision = self._machine.decision
        assert decision is not None, "only a decision is told"
        try:
            await self._recipient.resolve(decision)
        except (CommandError, NetworkError) as error:
            if not self.is_primary():
                raise Lost(str(error)) from error
            LOG.info("The recipient has not heard the decision", ns=self.migration.namespace, reason=str(error))
            return RecipientResolved(heard=False)
        return RecipientResolved(heard=True)

    async def resolve_recipient_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self.resolve_recipient()

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

    # What steps are made of

    def _write(self, *changes: tuple[str, Any]) -> Any:
        try:
            return self._shard.records.write(*changes)
        except CommandError as error:
            raise Lost(error.message) from error

    def _collection(self) -> Collection:
        collection: Collection | None = self._node.store.collection(self.migration.namespace)
        if collection is None or collection.uuid != self.migration.uuid.as_uuid():
            raise CommandError(Code.NamespaceNotFound, f"{self.migration.namespace} was dropped")
        return collection

    def _check_capture(self) -> Capture:
        if self._capture is None or self._capture.overflowed:
            raise CommandError(Code.ExceededMemoryLimit, "the range changes faster than it can be moved")
        return self._capture

    def _release(self) -> None:
        if self._capture is not None:
            self._capture.stop()
            self._capture = None
        self._close_snapshot()

    def _close_snapshot(self) -> None:
        self._cursor = iter(())
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    async def _log(self, what: str, details: dict[str, Any]) -> None:
        """Tell people; that it fails changes nothing."""
        migration = self.migration
        bounds = {"min": migration.range.min.document(), "max": migration.range.max.document()}
        command = requests.log_change(
            what,
            migration.namespace,
            {**bounds, **details},
            server=self._node.settings.address,
            shard=migration.donor,
        )
        try:
            await self._shard.config_servers().command(command, timeout=2.0)
        except CommandError as error:
            LOG.info("Changelog entry not written", what=what, reason=error.message)
