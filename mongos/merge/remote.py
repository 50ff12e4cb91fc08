"""One shard's part of a result: the documents of its cursor, a batch ahead of the reader."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from bson.int64 import Int64

from docstore.buffers import BUFFERS, OperationBuffers
from docstore.errors import CommandError
from docstore.namespace import split_namespace
from docstore.net import NetworkError
from mongos.limits import MAX_CROWDED_BATCH_BYTES
from mongos.routing.requests import ShardReply, cursor_of
from mongos.routing.shards import Shard, unreachable

_BATCH_BYTES = 4 * 1024 * 1024


Options = Callable[[], Mapping[str, Any]]


def batch_bytes() -> int:
    """Return the maximal bytes of a shard's batch that is to be merged."""
    return MAX_CROWDED_BATCH_BYTES if BUFFERS.held >= BUFFERS.limit else _BATCH_BYTES


class RemoteCursor:
    """The documents of one shard in its order.

    The next batch is requested as soon as the one before has arrived, unless memory is short; both count as held
    until they are used up, the first one from `hold` on. `options`: returns fields of every getMore (the session). The
    cursor exists on one member, and ends with it.
    """

    __slots__ = (
        "_address", "_ahead", "_ahead_bytes", "_batch_size", "_buffers", "_first_bytes", "_held", "_id", "_is_large",
        "_options", "documents", "namespace", "shard",
    )  # fmt: skip

    def __init__(self, shard: Shard, answer: ShardReply, *, batch_size: int | None, options: Options = dict) -> None:
        first = cursor_of(answer.body)
        self.shard = shard
        self.documents: deque[bytes] = deque(first.documents)
        self.namespace = first.namespace
        self._address = answer.address
        self._id = first.id
        self._batch_size = batch_size
        self._options = options
        self._buffers: OperationBuffers | None = None
        self._ahead: asyncio.Task[bytes] | None = None
        self._ahead_bytes = 0
        self._held = 0
        self._first_bytes = len(answer.body)
        self._is_large = False

    @property
    def exhausted(self) -> bool:
        """No documents here and none to come."""
        return not self.documents and not self._id

    @property
    def is_last(self) -> bool:
        """No documents to come."""
        return not self._id

    @property
    def place(self) -> tuple[int, str]:
        """Return (cursor id, address of its member). The id is 0 if documents are buffered or requested, or batches
        are large.
        """
        unread = not self.documents and self._ahead is None and not self._is_large
        return (self._id if unread else 0), self._address

    def passed(self, cursor_id: int, *, large: bool) -> None:
        """Note that the next batch was passed on unchanged: the cursor has this id now, 0 at its end."""
        self._id = cursor_id
        self._is_large = large
        self._hold(0)

    async def fill(self) -> bool:
        """Buffer at least one document; False at the end. Errors: those of the shard, HostUnreachable."""
        if not self.documents:
            self._hold(0)
        while not self.documents and self._id:
            self._read_ahead()
            assert self._ahead is not None
            try:
                body = await self._ahead
            except NetworkError as error:
                raise unreachable(self.shard.name, self._address, error) from error
            except CommandError:
                self._id = 0
                raise
            finally:
                self._ahead = None
                self._change(-self._ahead_bytes)
            reply = cursor_of(body)
            self._id = reply.id
            self.documents.extend(reply.documents)
            self._hold(len(body))
            if reply.documents and BUFFERS.held < BUFFERS.limit:
                self._read_ahead()
        return bool(self.documents)

    def _hold(self, size: int) -> None:
        self._change(size - self._held)
        self._held = size

    def _change(self, size: int) -> None:
        if self._buffers is None:
            self._buffers = OperationBuffers()
        self._buffers.change(size)

    def _read_ahead(self) -> None:
        if self._id and self._ahead is None:
            db, collection = split_namespace(self.namespace)
            self._ahead_bytes = batch_bytes()
            command: dict[str, Any] = {"getMore": Int64(self._id), "collection": collection, **self._options()}
            if self._batch_size is not None:
                command["batchSize"] = self._batch_size
            command["batchBytes"] = self._ahead_bytes
            self._change(self._ahead_bytes)
            self._ahead = asyncio.ensure_future(self.shard.at(self._address, db, command))

    def hold(self) -> None:
        """Count its first batch, if it is kept longer than the step in which it has arrived."""
        if self._buffers is None and self.documents:
            self._hold(self._first_bytes)

    def release(self) -> None:
        """Note that all its documents are used up, and none are to come."""
        if self._buffers is not None:
            self._buffers.close()

    def abandon(self) -> None:
        """End here, although the member cannot be told."""
        self._id = 0
        self.release()

    async def kill(self) -> None:
        """End the shard's cursor, at once or after the batch under way. If the shard is unreachable, the cursor times
        out.
        """
        self.documents.clear()
        self.release()
        prefetch, self._ahead = self._ahead, None
        cursor_id, self._id = self._id, 0
        if cursor_id:
            db, collection = split_namespace(self.namespace)
            with contextlib.suppress(NetworkError, CommandError):
                await self.shard.end_cursor(self._address, db, collection, cursor_id)
        if prefetch is not None:
            await asyncio.wait([prefetch])
            if not prefetch.cancelled():
                prefetch.exception()
