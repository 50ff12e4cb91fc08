"""Sending the range: the recipient is made ready, gets what a snapshot holds, then what has changed since."""

from __future__ import annotations

import asyncio

from docstore.node.node import DataNode
from docstore.sharding.donor import RecipientPrepares
from docstore.sharding.migration import Migration
from mongod.migration.donor.clone_source import CloneSource, collection_of, source_of
from mongod.migration.donor.recipient_link import RecipientLink
from mongod.migration.range_cloner import cloner_of
from mongod.migration.session_history import SessionHistory, range_concern, read_batch


class Cloning:
    """One migration's. What raises CommandError or NetworkError here ends the migration."""

    def __init__(self, node: DataNode, migration: Migration, recipient: RecipientLink) -> None:
        self._node = node
        self._migration = migration
        self._recipient = recipient
        self._source: CloneSource | None = None
        self._ahead: asyncio.Task[tuple[list[bytes], bool]] | None = None
        """The next batch of the snapshot, read while the recipient stores the one before."""
        self._history = SessionHistory(node.store, range_concern(migration))

    async def start_recipient(self) -> RecipientPrepares:
        """Tell it of the migration, with the collection's definition. NamespaceNotFound."""
        collection = collection_of(self._node, self._migration)
        cloner = cloner_of(self._node, collection)
        return await self._recipient.start(collection, None if cloner is None else cloner.mark(collection))

    def start_capture(self) -> None:
        """Capture changes from here on, and take the snapshot."""
        self._source = source_of(self._node, self._migration)

    def stop_capture(self) -> None:
        """Again is the same as once."""
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
        batch, exhausted = await (self._ahead or source.next_batch())
        self._ahead = None
        if not exhausted:
            self._ahead = asyncio.ensure_future(source.next_batch())
            self._ahead.add_done_callback(lambda task: task.cancelled() or task.exception())
        if batch:
            await self._recipient.push_clone(batch)
        return exhausted

    async def send_changes(self, *, majority: bool) -> int:
        """Send some captured changes with the retryable writes that made them; how many are left. With `majority` the
        recipient is asked even when there are none."""
        assert self._source is not None, "the capture has begun"
        present, gone = self._source.take_changes()
        await self._send_history()
        if present or gone or majority:
            await self._recipient.push_changes(present, gone, majority=majority)
        return self._source.left()

    async def _send_history(self) -> None:
        """Send the retryable writes that were executed up to now."""
        until, has_more = self._node.store.last_optime, True
        while has_more:
            statements, has_more = await read_batch(self._node, lambda: self._history.next_page(until))
            await self._recipient.push_statements(statements)
