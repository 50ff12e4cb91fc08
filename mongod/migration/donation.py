"""Driving the donor's state machine: its effects on the store, the recipient and the config servers.

An effect that fails before the commit becomes `Failed`, and the machine aborts. Once this member is no longer primary
the donation ends where it stands (`Lost`): the next primary resumes it from the coordinator document.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import bson
from bson.int64 import Int64

from docstore.bson import Value, array_from
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
    Effect,
    Event,
    Failed,
    Forgotten,
    Persisted,
    RecipientCommitted,
    RecipientReady,
    RecipientResolved,
    State,
)
from docstore.sharding.migration import (
    COORDINATORS,
    RANGE_DELETIONS,
    Coordinator,
    Decision,
    Migration,
    RangeDeletion,
    migration_fields,
)
from docstore.sharding.version import Lastmod
from docstore.storage import Snapshot
from mongod.migration.capture import Capture
from mongod.migration.history import executed
from mongod.migration.ranges import documents, in_range, key_index
from mongod.migration.records import ROUTING_SIGNALS

LOG = component("MIGRATE")
BATCH_BYTES = 4 * 1024 * 1024
BATCH_DOCUMENTS = 5_000
CHANGES_AT_ONCE = 1_000
REQUEST_SECONDS = 60.0
PREPARE_SECONDS = 120.0
_REFUSED = frozenset((Code.StaleEpoch, Code.ConflictingOperationInProgress, Code.ShardNotFound, Code.BadValue))
"""The config servers' definite no."""


class Lost(Exception):
    """This member is not the primary (any more): the donation goes on elsewhere."""


class Donation:
    """One migration away from this shard. `finished` is done when it is decided: with None when the chunk has moved."""

    def __init__(self, shard: Any, migration: Migration, client: ReplicaSetClient | None) -> None:
        """`client`: the recipient; None to look it up when it is needed."""
        self.migration = migration
        self._shard = shard
        self._node = shard.node
        self._machine = Donor(migration, asyncio.get_running_loop().time())
        self._client = client
        self._capture: Capture | None = None
        self._snapshot: Snapshot | None = None
        self._cursor: Iterator[tuple[int, bytes]] = iter(())
        self._batches = 0
        self._told_until = 0
        self._floor: Lastmod | None = None
        self._steps: list[tuple[State, float]] = []
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.finished.add_done_callback(lambda future: future.exception())

    @property
    def state(self) -> State:
        return self._machine.state

    @property
    def decided(self) -> bool:
        """Whether another migration may begin: what is left is to tell and to forget."""
        return self.finished.done()

    def begin_resumed(self, decision: Decision | None) -> list[Effect]:
        """The first effects of a donation found on disk; those that block operations have been carried out."""
        effects = self._machine.resume(decision)
        left: list[Effect] = [effect for effect in effects if effect not in (Effect.BLOCK_WRITES, Effect.BLOCK_READS)]
        if len(left) < len(effects):
            self._shard.ownership.block(self.migration.namespace, reads=True)
        return left

    async def run(self, resumed: list[Effect] | None = None) -> None:
        """Carry out effects until the machine is done or this member is no longer primary."""
        pending = deque(self._machine.start() if resumed is None else resumed)
        try:
            while pending:
                effect = pending.popleft()
                event = await self._carry_out(effect)
                if event is not None:
                    assert not pending, "an effect that is answered comes last"
                    self._steps.append((self._machine.state, asyncio.get_running_loop().time()))
                    pending.extend(self._machine.receive(event, asyncio.get_running_loop().time()))
        except Lost as lost:
            LOG.info("Migration left to the next primary", ns=self.migration.namespace, state=self.state.name)
            self._give_up(CommandError(Code.InterruptedDueToReplStateChange, str(lost)))
        except asyncio.CancelledError:
            self._give_up(CommandError(Code.InterruptedAtShutdown, "the shard's member stops"))
            raise
        finally:
            self._release()
            if self._client is not None:
                await self._client.close()

    def _give_up(self, error: CommandError) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)

    def _release(self) -> None:
        if self._capture is not None:
            self._capture.stop()
            self._capture = None
        self._cursor = iter(())
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    async def _carry_out(self, effect: Effect) -> Event | None:
        step: Callable[[], Awaitable[Event | None]] = getattr(self, f"_{effect.name.lower()}")
        try:
            return await step()
        except NetworkError as error:
            failure = CommandError(Code.HostUnreachable, str(error))
        except CommandError as error:
            failure = error
        if not self._is_primary():
            raise Lost(failure.message) from failure
        assert self._machine.undecided, f"{effect} failed in {self.state}: {failure}"
        LOG.info("Migration given up", ns=self.migration.namespace, state=self.state.name, reason=failure.message)
        return Failed(failure.message)

    def _is_primary(self) -> bool:
        try:
            self._node.replication.check_write()
        except CommandError:
            return False
        return True

    # Effects, by their names

    async def _persist_start(self) -> Event:
        migration = self.migration
        seconds = int(self._node.wall_clock())
        deletion = RangeDeletion.of(migration, pending=True, delayed=True, seconds=seconds)
        records = self._shard.records
        await records.committed(
            records.write((COORDINATORS, Coordinator(migration).document()), (RANGE_DELETIONS, deletion.document()))
        )
        await self._log("moveChunk.start", {"from": migration.donor, "to": migration.recipient})
        return Persisted()

    async def _prepare_recipient(self) -> Event:
        collection = self._collection()
        indexes = [bson.decode(index.spec.raw) for index in collection.indexes.values() if not index.is_id]
        command = {"_recvChunkStart": 1, **migration_fields(self.migration), "indexes": indexes}
        await self._ask_recipient(command | {"options": dict(collection.options)}, retry=True)
        deadline = asyncio.get_running_loop().time() + PREPARE_SECONDS
        while True:
            status = bson.decode(
                await self._ask_recipient(
                    {"_recvChunkStatus": 1, "migrationId": self.migration.id, "waitMillis": 1000}, retry=True
                )
            )
            if status["state"] == "receiving":
                return RecipientReady()
            if status["state"] == "ended" or asyncio.get_running_loop().time() > deadline:
                raise CommandError(Code.OperationFailed, f"the recipient is not ready: {status.get('reason')}")

    async def _start_capture(self) -> None:
        node, migration = self._node, self.migration
        collection = self._collection()
        index = key_index(collection, migration.key)
        self._capture = Capture(node.store, migration)
        self._snapshot = snapshot = node.engine.snapshot()
        self._cursor = documents(snapshot, collection, index, migration.range)

    async def _send_clone(self) -> Event:
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
            await self._push(batch, [], majority=False)
        self._check_capture()
        if exhausted and self._snapshot is not None:
            self._cursor = iter(())
            self._snapshot.close()
            self._snapshot = None
        return CloneSent(exhausted=exhausted)

    async def _send_changes(self) -> Event:
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
        catching_up = self.state is State.CATCHING_UP
        await self._push_history()
        if reload or gone or catching_up:
            await self._push(reload, gone, majority=catching_up)
        self._check_capture()
        return ChangesSent(len(capture))

    async def _block_writes(self) -> None:
        self._shard.ownership.block(self.migration.namespace, reads=False)

    async def _block_reads(self) -> None:
        self._shard.ownership.block(self.migration.namespace, reads=True)

    async def _commit_recipient(self) -> Event:
        command = {"_recvChunkCommit": 1, "migrationId": self.migration.id, "last": Int64(self._batches)}
        await self._ask_recipient(command, retry=True)
        return RecipientCommitted()

    async def _commit_on_config(self) -> Event:
        migration = self.migration
        return await self._decided_by_config(
            requests.commit_chunk_migration(
                migration.namespace,
                migration.epoch,
                migration.range,
                migration.lastmod,
                migration.donor,
                migration.recipient,
            ),
            lambda _reply: Answer.DONE,
        )

    async def _commit_on_config_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self._commit_on_config()

    async def _ask_config(self) -> Event:
        migration = self.migration
        return await self._decided_by_config(
            requests.ensure_chunk_version_greater(
                migration.namespace, migration.epoch, migration.range, migration.lastmod
            ),
            lambda reply: Answer.NOT_DONE if reply["shard"] == migration.donor else Answer.DONE,
        )

    async def _ask_config_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self._ask_config()

    async def _decided_by_config(self, command: dict[str, Any], read: Callable[[dict[str, Any]], Answer]) -> Event:
        if not self._is_primary():
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

    async def _stop_capture(self) -> None:
        self._release()

    async def _unblock(self) -> None:
        """The signal goes first: from then on no older routing is used here, nor on any member that has it."""
        self._signal()
        self._shard.ownership.unblock(self.migration.namespace)

    def _signal(self) -> None:
        if self._floor is None:
            self._shard.ownership.forget(self.migration.namespace)
            return
        try:
            self._shard.records.write(
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
        except CommandError as error:
            raise Lost(error.message) from error

    async def _persist_decision(self) -> Event:
        document = Coordinator(self.migration, self._machine.decision).document()
        while True:
            try:
                await self._shard.records.committed(self._shard.records.write((COORDINATORS, document)))
            except CommandError as error:
                if error.code != Code.WriteConcernFailed or not self._is_primary():
                    raise Lost(error.message) from error
            else:
                return Persisted()

    async def _answer(self) -> None:
        committed = self._machine.decision is Decision.COMMITTED
        if not self.finished.done():
            if committed:
                self.finished.set_result(None)
            else:
                reason = f"the chunk did not move: {self._machine.reason}"
                self.finished.set_exception(CommandError(Code.OperationFailed, reason))
        times = {f"step {n} of {len(self._steps)}": state.name for n, (state, _) in enumerate(self._steps, start=1)}
        note = "success" if committed else "aborted"
        await self._log("moveChunk.from", {**times, "to": self.migration.recipient, "note": note})

    async def _resolve_recipient(self) -> Event:
        decision = self._machine.decision
        assert decision is not None, "only a decision is told"
        command = {"_recvChunkResolve": 1, "migrationId": self.migration.id, "decision": decision.value}
        try:
            await self._ask_recipient(command | {"ns": self.migration.namespace}, retry=True)
        except (CommandError, NetworkError) as error:
            if isinstance(error, CommandError) and error.code == Code.ShardNotFound:
                return RecipientResolved(heard=True)
            if not self._is_primary():
                raise Lost(str(error)) from error
            LOG.info("The recipient has not heard the decision", ns=self.migration.namespace, reason=str(error))
            return RecipientResolved(heard=False)
        return RecipientResolved(heard=True)

    async def _resolve_recipient_later(self) -> Event:
        await asyncio.sleep(RETRY_SECONDS)
        return await self._resolve_recipient()

    async def _forget(self) -> Event:
        migration, records = self.migration, self._shard.records
        deletion: Any = migration.id
        if self._machine.decision is Decision.COMMITTED:
            seconds = int(self._node.wall_clock())
            deletion = RangeDeletion.of(migration, pending=False, delayed=True, seconds=seconds).document()
        try:
            await records.committed(records.write((RANGE_DELETIONS, deletion), (COORDINATORS, migration.id)))
        except CommandError as error:
            raise Lost(error.message) from error
        self._shard.deleter.changed()
        return Forgotten()

    # What effects are made of

    def _collection(self) -> Collection:
        collection: Collection | None = self._node.store.collection(self.migration.namespace)
        if collection is None or collection.uuid != self.migration.uuid.as_uuid():
            raise CommandError(Code.NamespaceNotFound, f"{self.migration.namespace} was dropped")
        return collection

    def _check_capture(self) -> Capture:
        if self._capture is None or self._capture.overflowed:
            raise CommandError(Code.ExceededMemoryLimit, "the range changes faster than it can be moved")
        return self._capture

    async def _push_history(self) -> None:
        """The retryable writes executed here since the last call, in batches."""
        store = self._node.store
        after, self._told_until = self._told_until, store.last_optime.timestamp
        batch: list[bytes] = []
        size = 0
        for statement in executed(store, self.migration.namespace, after, self._node.wall_clock()):
            batch.append(bson.encode(statement.fields()))
            size += len(batch[-1])
            if len(batch) == CHANGES_AT_ONCE or size > BATCH_BYTES:
                await self._push_statements(batch)
                batch, size = [], 0
        if batch:
            await self._push_statements(batch)

    async def _push_statements(self, batch: list[bytes]) -> None:
        self._batches += 1
        command = {
            "_recvChunkStatements": 1,
            "migrationId": self.migration.id,
            "number": Int64(self._batches),
        }
        await self._ask_recipient(bson.encode(command), sequences={"statements": batch})

    async def _push(self, reload: list[bytes], gone: list[Value], *, majority: bool) -> None:
        self._batches += 1
        command: dict[str, Any] = {
            "_recvChunkDocuments": 1,
            "migrationId": self.migration.id,
            "number": Int64(self._batches),
            "majority": majority,
        }
        raw = bson.encode(command)
        if gone:
            ids = array_from(gone)
            body = raw[4:-1] + b"\x04deleted\0" + ids
            raw = (len(body) + 5).to_bytes(4, "little") + body + b"\0"
        await self._ask_recipient(raw, sequences={"documents": reload} if reload else None)

    async def _ask_recipient(
        self, command: dict[str, Any] | bytes, *, retry: bool = False, sequences: dict[str, list[bytes]] | None = None
    ) -> bytes:
        if self._client is None:
            self._client = await self._shard.client_of(self.migration.recipient)
        return await self._client.command("admin", command, retry=retry, sequences=sequences, timeout=REQUEST_SECONDS)

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
