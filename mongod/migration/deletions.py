"""Deletion of data that this shard does not own (any more), according to durable documents: ranges
(`config.rangeDeletions`), and collections of databases with another primary shard (`config.databaseDeletions`).

Invariants:

- nothing is deleted while its document is `pending`, before its delay is over, or while the routing shows any of it
  as owned here;
- the document is removed after the last of its documents, so the next primary continues an interrupted deletion;
- an incoming migration that overlaps waits until the document is removed;
- change streams see no event: the documents are on another shard.

Queries that began before the migration read from snapshots and see their documents to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from uuid import UUID

from docstore.collection.collection import Collection
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.node.node import DataNode
from docstore.sharding.migration import (
    DATABASE_DELETIONS,
    RANGE_DELETIONS,
    AnyMigration,
    DatabaseDeletion,
    Deletion,
    Migration,
    RangeDeletion,
)
from mongod.migration.range_operations import RangeRemoval
from mongod.migration.records import MigrationRecords
from mongod.migration.shard_filter import RangeShardFilter
from mongod.migration.tunables import Tunables

LOG = component("MIGRATE")
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 5.0
_USERS_SECONDS = 2.0


class RangeDeleter:
    """Deletes one range at a time on the primary of a shard."""

    def __init__(
        self, node: DataNode, records: MigrationRecords, shard_filter: RangeShardFilter, tunables: Tunables
    ) -> None:
        self._node = node
        self._records = records
        self._shard_filter = shard_filter
        self._tunables = tunables
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._put_off: dict[bytes, float] = {}

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="range deleter")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def changed(self) -> None:
        """A document was written, or this member has become primary: look again."""
        self._put_off.clear()
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_clear(self, migration: AnyMigration, seconds: float) -> None:
        """Wait until no deletion overlaps the migration. ExceededTimeLimit after that many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._overlaps(migration):
            if loop.time() >= deadline:
                raise CommandError(Code.ExceededTimeLimit, f"documents of {migration} are still to be deleted here")
            await self._wait_change(min(_LOOK_SECONDS, deadline - loop.time()))

    def _overlaps(self, migration: AnyMigration) -> bool:
        records, name = self._records, migration.namespace
        if isinstance(migration, Migration):
            return records.is_leaving(name, bytes(migration.uuid)) or any(
                record.uuid == migration.uuid and record.range.overlaps(migration.range)
                for record in records.deletions()
            )
        return any(record.namespace == name for record in records.database_deletions()) or any(
            record.migration.namespace == name for record in records.coordinators()
        )

    async def wait_done(self, identity: Any) -> None:
        """Wait until the deletion that belongs to a migration is done."""
        while self._records.deletion(identity) is not None:
            await self._wait_change(_LOOK_SECONDS)

    async def _wait_change(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def _run(self) -> None:
        while True:
            changed = self._changed
            due, wait = self._next()
            if due is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), wait)
                continue
            try:
                if isinstance(due, DatabaseDeletion):
                    await self._drop(due)
                else:
                    await self._delete(due)
            except CommandError as error:
                LOG.info("Deletion put off", ns=due.namespace, range=str(due), reason=str(error))
                self._put_off[bytes(due.id)] = asyncio.get_running_loop().time() + _RETRY_SECONDS

    def _next(self) -> tuple[Deletion | None, float]:
        """Return (a deletion that is due, or None; seconds until the next check)."""
        try:
            self._node.replication.check_write()
        except CommandError:
            return None, _LOOK_SECONDS
        now, soonest = self._node.wall_clock(), _LOOK_SECONDS
        deletions: list[Deletion] = [*self._records.deletions(), *self._records.database_deletions()]
        for deletion in deletions:
            if deletion.pending or self._put_off.get(bytes(deletion.id), 0.0) > asyncio.get_running_loop().time():
                continue
            delay = deletion.written.time + (self._tunables.orphan_delay if deletion.delayed else 0.0) - now
            if delay <= 0:
                return deletion, 0.0
            soonest = min(soonest, delay)
        return None, soonest

    async def _delete(self, deletion: RangeDeletion) -> None:
        node = self._node
        await self._check_not_owned(deletion)
        removed = 0
        removal = RangeRemoval(node, deletion.key, deletion.range)
        while (collection := self._collection(deletion)) is not None:
            node.replication.check_write()
            count = removal.step(collection, self._tunables.delete_batch)
            if count == 0:
                break
            removed += count
            await asyncio.sleep(self._tunables.delete_pause)
        await self._records.committed(node.store.last_optime)
        await self._records.committed(self._records.write((RANGE_DELETIONS, deletion.id)))
        LOG.info("Range deleted", ns=deletion.namespace, range=str(deletion.range), documents=removed)
        self._wake()

    async def _drop(self, deletion: DatabaseDeletion) -> None:
        node = self._node
        for uuid in sorted(deletion.uuids):
            stored = node.store.catalog.by_uuid(UUID(bytes=uuid))
            if stored is None:
                continue
            routing = await self._shard_filter.refresh(stored.ns)
            owns = routing.collection is not None and self._shard_filter.shard_name in routing.collection.chunks.shards
            if owns or (routing.collection is None and not routing.foreign):
                text = f"the routing shows {stored.ns} as owned here"
                raise CommandError(Code.ConflictingOperationInProgress, text)
            await self._await_users(stored.ns)
            node.replication.check_write()
            with node.store.unit(from_migrate=True) as unit:
                node.store.drop_collection(unit, stored.ns)
                unit.commit()
            await node.pause()
        await self._records.committed(node.store.last_optime)
        await self._records.committed(self._records.write((DATABASE_DELETIONS, deletion.id)))
        LOG.info("Database deleted", ns=deletion.namespace, collections=len(deletion.uuids))
        self._wake()

    async def _await_users(self, namespace: str) -> None:
        """Wait for transactions that have been refused here since the collection has gone, but have not ended yet."""
        claims, give_up = self._node.store.claims, asyncio.get_running_loop().time() + _USERS_SECONDS
        claims.begin_waiting(namespace)
        try:
            while (holder := claims.holder(namespace)) is not None:
                remaining = give_up - asyncio.get_running_loop().time()
                if remaining <= 0:
                    return
                await asyncio.wait([asyncio.ensure_future(holder.over())], timeout=remaining)
        finally:
            claims.end_waiting(namespace)

    def _collection(self, deletion: RangeDeletion) -> Collection | None:
        """Return the collection of the range by its uuid, under its current name."""
        return self._node.store.catalog.by_uuid(deletion.uuid.as_uuid())

    async def _check_not_owned(self, deletion: RangeDeletion) -> None:
        stored = self._collection(deletion)
        if stored is None:
            return
        metadata = await self._shard_filter.refresh(stored.ns)
        collection = metadata.collection
        if collection is None or collection.uuid != deletion.uuid:
            return
        if collection.chunks.owns_any(self._shard_filter.shard_name, deletion.range):
            raise CommandError(Code.ConflictingOperationInProgress, "the routing shows the range as owned here")
