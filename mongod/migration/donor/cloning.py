"""Transfer of a migration's data: prepares the recipient, sends a snapshot, then the changes since."""

from __future__ import annotations

import asyncio

from docstore.node.node import DataNode
from docstore.sharding.donor import RecipientPrepares
from docstore.sharding.migration import AnyMigration, DatabaseMigration, Migration
from docstore.sharding.recipient_messages import CollectionChanges
from mongod.migration.donor.clone_source import CloneBatch, CloneSource, DocumentSource, collection_of
from mongod.migration.donor.database_source import DatabaseSource
from mongod.migration.donor.recipient_link import RecipientLink
from mongod.migration.range_cloner import cloner_of
from mongod.migration.session_history import SessionHistory, concern_of, read_batch


class Cloning:
    """The transfer of one migration. A CommandError or NetworkError raised here ends the migration."""

    def __init__(self, node: DataNode, migration: AnyMigration, recipient: RecipientLink) -> None:
        self._node = node
        self._migration = migration
        self._recipient = recipient
        self._source: CloneSource | None = None
        self._ahead: asyncio.Task[CloneBatch] | None = None
        """The next batch of the snapshot, read while the recipient stores the one before."""
        self._history = SessionHistory(node.store, concern_of(migration))

    async def start_recipient(self) -> RecipientPrepares:
        """Announce the migration to the recipient, for a chunk with the collection's definition. NamespaceNotFound."""
        if isinstance(self._migration, DatabaseMigration):
            return await self._recipient.start_database(self._migration)
        collection = collection_of(self._node, self._migration)
        cloner = cloner_of(self._node, collection)
        mark = None if cloner is None else cloner.mark(collection)
        return await self._recipient.start(self._migration, collection, mark)

    def start_capture(self) -> None:
        """Capture changes from here on, and take the snapshot."""
        node, migration = self._node, self._migration
        if isinstance(migration, DatabaseMigration):
            self._source = DatabaseSource(node, migration)
        else:
            self._source = _range_source(node, migration)

    def stop_capture(self) -> None:
        """Stop the capture. Idempotent."""
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None
        if self._source is not None:
            self._source.close()
            self._source = None

    async def send_clone(self) -> bool:
        """Send a batch of the snapshot; whether it was the last."""
        source = self._source
        assert source is not None, "the capture has begun"
        await self._recipient.push_collections(source.new_definitions())
        batch = await (self._ahead or source.next_batch())
        self._ahead = None
        if not batch.is_last:
            self._ahead = asyncio.ensure_future(source.next_batch())
            self._ahead.add_done_callback(lambda task: task.cancelled() or task.exception())
        if batch.documents:
            await self._recipient.push_clone(batch.namespace, batch.documents)
        return batch.is_last

    async def send_changes(self, *, majority: bool) -> int:
        """Send some captured changes with the retryable writes that made them; how many are left. With `majority` the
        recipient is asked even when there are none.

        A round sends changes of as many collections as have some. So the history and the wait for a majority, which
        take the longest, cost the same for many collections as for one.
        """
        assert self._source is not None, "the capture has begun"
        batches = self._source.take_changes()
        await self._recipient.push_collections(self._source.new_definitions())
        await self._send_history()
        if majority or any(batch.documents or batch.removed_ids for batch in batches):
            await self._push(batches, majority=majority)
        return self._source.unsent_count()

    async def _push(self, batches: list[CollectionChanges], *, majority: bool) -> None:
        if isinstance(self._migration, DatabaseMigration):
            await self._recipient.push_database_changes(batches, majority=majority)
            return
        (changes,) = batches
        await self._recipient.push_changes(changes, majority=majority)

    async def _send_history(self) -> None:
        """Send the retryable writes that were executed up to now."""
        until, has_more = self._node.store.last_optime, True
        while has_more:
            statements, has_more = await read_batch(self._node, lambda: self._history.next_page(until))
            await self._recipient.push_statements(statements)


def _range_source(node: DataNode, migration: Migration) -> CloneSource:
    """Return the source of a chunk. Errors: NamespaceNotFound, IndexNotFound."""
    collection = collection_of(node, migration)
    cloner = cloner_of(node, collection)
    return DocumentSource(node, migration) if cloner is None else cloner.source(migration, collection)
