"""Driving the recipient's state machine: what a donor sends is stored here, invisible until the config servers say that
the range is ours.

A session lives in the memory of the primary that began it. Its durable trace is the pending range deletion: after a
crash or failover the donor's requests are refused (the session is not known), the donor aborts, and tells the decision
to whoever is primary then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import bson
from bson.timestamp import Timestamp

from docstore.bson import Value
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.rows import apply_document
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.read.cursors import SLICE_SECONDS
from docstore.sharding.migration import RANGE_DELETIONS, Decision, Migration, RangeDeletion
from docstore.sharding.recipient import Recipient, State
from mongod.migration.changes import log_change
from mongod.migration.donor.clone_source import collection_of
from mongod.migration.history import Statement, remember
from mongod.migration.ranges import delete_some, id_of, in_range
from mongod.migration.rows.held_families import hold_family

LOG = component("MIGRATE")
_SWEEP_BATCH = 256
_INSERT_BATCH = 128
_MERGED_BYTES = 64 * 1024
"""Entries of column families are carried out together in one unit until they have so many bytes."""


class Definition(NamedTuple):
    """The donor's collection. `keyspace`: the options of its keyspace's mark, where it is a column family."""

    options: CollectionOptions
    indexes: list[bytes]
    keyspace: CollectionOptions | None


class RecipientDriver:
    """One migration to this shard."""

    def __init__(self, shard: Any, migration: Migration, definition: Definition) -> None:
        self.migration = migration
        self._shard = shard
        self._node = shard.node
        self._definition = definition
        self._is_home = False
        self._machine = Recipient(migration, self._now())
        self._changed = asyncio.Event()
        self._applying = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._prepare(), name="recipient")

    @property
    def state(self) -> State:
        self._machine.tick(self._now())
        return self._machine.state

    @property
    def reason(self) -> str:
        return self._machine.reason

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def end(self, reason: str) -> None:
        """Take nothing more."""
        self._machine.fail(reason)
        self._task.cancel()
        self._tell()

    async def wait_ready(self, seconds: float) -> None:
        """Return when the preparation has ended, or after that many seconds."""
        self._machine.heard(self._now())
        deadline = self._now() + seconds
        while self.state not in (State.RECEIVING, State.ENDED) and self._now() < deadline:
            try:
                await asyncio.wait_for(self._changed.wait(), deadline - self._now())
            except TimeoutError:
                return

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Preparation

    async def _prepare(self) -> None:
        machine, migration = self._machine, self.migration
        steps: dict[State, Callable[[], Any]] = {
            State.CLEARING: self._clear,
            State.PERSISTING: self._persist,
            State.SWEEPING: self._sweep,
        }
        try:
            while machine.state in steps:
                step = machine.state
                await steps[step]()
                machine.prepared(step)
                machine.heard(self._now())
        except CommandError as error:
            LOG.info("Migration refused", ns=migration.namespace, state=machine.state.name, reason=error.message)
            machine.fail(error.message)
        self._tell()

    async def _clear(self) -> None:
        migration, seconds = self.migration, self._shard.tunables.wait_for_deletion
        await self._shard.deleter.wait_clear(migration.uuid, migration.range, seconds)
        known = await self._shard.shard_filter.refresh(migration.namespace)
        routing = known.routing.collection
        if routing is None or routing.epoch != migration.epoch:
            self._shard.shard_filter.forget(migration.namespace)
            known = await self._shard.shard_filter.refresh(migration.namespace)
            routing = known.routing.collection
        if routing is None or routing.epoch != migration.epoch:
            raise CommandError(Code.StaleEpoch, f"{migration.namespace} is not sharded under the donor's epoch")
        self._is_home = known.routing.primary == migration.recipient
        if routing.chunks.owns_any(migration.recipient, migration.range):
            raise CommandError(Code.ConflictingOperationInProgress, f"{migration.range} is owned here already")

    async def _persist(self) -> None:
        node, migration = self._node, self.migration
        node.replication.check_write()
        self._make_collection()
        await self._make_indexes(collection_of(node, migration))
        seconds = int(node.wall_clock())
        deletion = RangeDeletion.of(migration, pending=True, delayed=False, seconds=seconds)
        records = self._shard.records
        await records.committed(records.write((RANGE_DELETIONS, deletion.document())))

    def _make_collection(self) -> None:
        node, migration, definition = self._node, self.migration, self._definition
        if definition.keyspace is not None and self._is_home:
            collection_of(node, migration)
            return
        if definition.keyspace is not None:
            hold_family(
                node, migration.namespace, migration.uuid.as_uuid(), definition.options, definition.keyspace
            )  # fmt: skip
            return
        collection = node.store.collection(migration.namespace)
        if collection is not None and collection.uuid != migration.uuid.as_uuid():
            if collection.count:
                raise CommandError(Code.InvalidUUID, f"{migration.namespace} is another collection here")
            with node.store.unit() as unit:
                node.store.drop_collection(unit, migration.namespace)
                unit.commit()
            collection = None
        if collection is None:
            with node.store.unit() as unit:
                node.store.create_collection(
                    unit, migration.namespace, definition.options, uuid=migration.uuid.as_uuid()
                )
                unit.commit()

    async def _make_indexes(self, collection: Collection) -> None:
        node = self._node
        missing = [
            spec
            for spec in map(parse_index_spec, self._definition.indexes)
            if not any(index.spec.holds_the_same(spec) for index in collection.indexes.values())
        ]
        if not missing:
            return
        if not collection.count:
            for spec in missing:
                with node.store.unit() as unit:
                    node.store.create_index(unit, collection, spec)
                    unit.commit()
            return
        build = node.store.build_index(collection, missing)
        try:
            while not build.step(node.clock() + SLICE_SECONDS):
                await node.pause()
                node.replication.check_write()
            with node.store.unit() as unit:
                build.finish(unit)
                unit.commit()
        except BaseException:
            build.abort()
            raise

    async def _sweep(self) -> None:
        """Delete what an earlier time has left in the range."""
        node, migration = self._node, self.migration
        swept = 0
        while True:
            node.replication.check_write()
            collection = collection_of(self._node, self.migration)
            count = delete_some(node, collection, migration.key, migration.range, _SWEEP_BATCH)
            if not count:
                break
            swept += count
            await node.pause()
        if swept:
            LOG.info("Leftovers deleted", ns=migration.namespace, range=str(migration.range), documents=swept)

    # Receiving

    async def apply(
        self, number: int, documents: list[bytes], gone: list[Value], *, clone: bool, majority: bool
    ) -> None:
        """Store a batch, each number once. `clone`: none of the documents was sent before.

        Errors: OperationFailed when the migration does not take it; DuplicateKey.
        """
        async with self._applying:
            if self._machine.take(number, self._now()):
                try:
                    if self._definition.keyspace is not None:
                        await self._merge_all(documents)
                    else:
                        if not clone:
                            await self._remove_all(documents, gone)
                        await self._insert_all(documents)
                except CommandError as error:
                    self._machine.fail(error.message)
                    raise
        if majority:
            await self._shard.records.committed(self._node.store.last_optime)
            self._machine.heard(self._now())

    async def remember(self, number: int, statements: list[Statement]) -> None:
        """Take in retryable writes that the donor has executed, each batch once."""
        async with self._applying:
            if not self._machine.take(number, self._now()):
                return
            until = self._node.clock() + SLICE_SECONDS
            for statement in statements:
                self._check()
                remember(self._node.store, statement)
                if self._node.clock() >= until:
                    until = await self._pause()

    async def _remove_all(self, documents: list[bytes], gone: list[Value]) -> None:
        """Make room: what is replaced goes before anything comes, so that values of unique indexes can move between
        documents."""
        collection = collection_of(self._node, self.migration)
        until = self._node.clock() + SLICE_SECONDS
        for identities, keep_outside in ((gone, True), (map(id_of, documents), False)):
            for identity in identities:
                self._remove(collection, identity, keep_outside=keep_outside)
                if self._node.clock() >= until:
                    until = await self._pause()

    async def _insert_all(self, documents: list[bytes]) -> None:
        node = self._node
        collection = collection_of(self._node, self.migration)
        at = 0
        until = node.clock() + SLICE_SECONDS
        while at < len(documents):
            self._check()
            with node.store.unit(from_migrate=True) as unit:
                for raw in documents[at : at + _INSERT_BATCH]:
                    unit.insert(collection, raw)
                unit.commit()
            at += _INSERT_BATCH
            if node.clock() >= until:
                until = await self._pause()

    async def _merge_all(self, entries: list[bytes]) -> None:
        """Do what the entries of a column family say, in their order."""
        node = self._node
        at = 0
        until = node.clock() + SLICE_SECONDS
        while at < len(entries):
            self._check()
            collection = collection_of(node, self.migration)
            size = 0
            with node.store.unit(from_migrate=True) as unit:
                while at < len(entries) and size < _MERGED_BYTES:
                    apply_document(unit, collection, entries[at])
                    size += len(entries[at])
                    at += 1
                unit.commit()
            if node.clock() >= until:
                until = await self._pause()

    async def _pause(self) -> float:
        await self._node.pause()
        self._check()
        return float(self._node.clock()) + SLICE_SECONDS

    def _check(self) -> None:
        """Nothing is written once the migration has ended or this member is not primary."""
        self._node.replication.check_write()
        if self._machine.state is State.ENDED:
            raise CommandError(Code.OperationFailed, f"the migration has ended: {self._machine.reason}")

    def _remove(self, collection: Collection, identity: Value, *, keep_outside: bool) -> None:
        """Remove the document with that `_id` if it is in the range. One outside of it is another document: it stays,
        or (when a document with its `_id` is to be stored) refuses the migration."""
        found = collection.by_id(self._node.engine, identity)
        if found is None:
            return
        record_id, raw = found
        if in_range(self.migration.key, self.migration.range, raw):
            with self._node.store.unit(from_migrate=True) as unit:
                unit.remove(collection, record_id, raw)
                unit.commit()
        elif not keep_outside:
            raise CommandError(
                Code.DuplicateKey, f"this shard has another document with the same _id in {self.migration.namespace}"
            )

    async def secure(self, last: int) -> None:
        """Return when a majority has all that was received, up to batch `last`."""
        if self._machine.secure(last, self._now()):
            await self._shard.records.committed(self._node.store.last_optime)
            self._machine.secured()


async def resolve(shard: Any, identity: Any, namespace: str, decision: Decision) -> None:
    """Make the donor's decision true here; the answer is given when a majority has it. Again is the same as once."""
    ended: RecipientDriver | None = shard.end_reception(identity, decision)
    deletion: RangeDeletion | None = shard.records.deletion(identity)
    change: Any = identity
    if deletion is not None:
        if decision is Decision.ABORTED:
            written = Timestamp(int(shard.node.wall_clock()), 1)
            change = replace(deletion, pending=False, delayed=False, written=written).document()
        shard.records.write((RANGE_DELETIONS, change))
    await shard.records.committed(shard.node.store.last_optime)
    if decision is Decision.COMMITTED:
        shard.shard_filter.forget(namespace)
    shard.deleter.changed()
    if ended is not None:
        note = "success" if decision is Decision.COMMITTED else "aborted"
        await log_change(shard, ended.migration, "moveChunk.to", {"from": ended.migration.donor, "note": note})


def describe(reception: RecipientDriver) -> dict[str, Any]:
    """`{state, reason, ns, min, max}` for the donor and for people."""
    migration = reception.migration
    return {
        "state": reception.state.name.lower(),
        "reason": reception.reason,
        "ns": migration.namespace,
        "min": bson.decode(migration.range.min.raw),
        "max": bson.decode(migration.range.max.raw),
    }
