"""Results of several shards as one: merged, cut to skip and limit, finished by the router's stages.

With a sort the merge is ordered: each part is in order, so the least of the first documents is the next. Without one
the parts are taken as they come, a batch at a time.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from docstore.aggregation.streams import GIVEN_BYTES, Feed, Stream
from docstore.deferred_free import free_later
from docstore.errors import CommandError
from docstore.net.scheduling.scheduler import STEP_SECONDS, Scheduler
from mongos.merge.remote import RemoteCursor
from mongos.routing.cache import UNAVAILABLE_CODES

SLICE_DOCUMENTS = 2048


@dataclass(frozen=True, slots=True)
class Finish:
    """The router's half of an aggregation: `stream` reads the documents put into `feed`, the merged halves of the
    shards.

    `pending` is awaited when the stream has a feed but yields nothing: it reads other collections. `close` releases
    the stages' resources outside memory, and their reads.
    """

    feed: Feed
    stream: Stream
    pending: Callable[[], Awaitable[None]]
    close: Callable[[], None]


class Order(Protocol):
    """The order of the parts and of the merged result."""

    def sort_key(self, raw: bytes) -> bytes:
        """Return the bytes by which a document sorts."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """The router's work on merged documents: order, `skip`, `limit` (0: none), `project` each."""

    sort: Order | None = None
    skip: int = 0
    limit: int = 0
    project: Callable[[bytes], bytes] | None = None


class MergedCursor:
    """Returns the merged documents in batches. `discard(remotes)` closes the unfinished parts.

    The merge pauses between its steps according to `scheduler`.
    """

    def __init__(
        self,
        remotes: Sequence[RemoteCursor],
        shape: Shape,
        discard: Callable[[Sequence[RemoteCursor]], Any],
        *,
        scheduler: Scheduler,
        finish: Finish | None = None,
        partial: bool | None = None,
    ) -> None:
        """`partial`: None if all shards must answer; else whether results of one are missing already."""
        self.partial = partial
        self._remotes = list(remotes)
        self._shape = shape
        self._discard = discard
        self._clock = scheduler.clock
        self._pause = scheduler.pause
        self._finish = finish
        self._heap: list[tuple[bytes, int, bytes]] | None = None
        self._ready: list[bytes] = []
        self._to_skip = shape.skip
        self._left = shape.limit or None
        self._merged_all = False
        self._done = False

    def close(self) -> None:
        if self._finish is not None:
            self._finish.close()
            free_later(self._finish.stream)
            self._finish = None
        self._discard([remote for remote in self._remotes if not remote.exhausted])

    @property
    def alone(self) -> RemoteCursor | None:
        """Return the only part if its documents can pass unchanged and none is buffered; else None."""
        if len(self._remotes) != 1 or self._finish is not None or self._ready or self._left is not None:
            return None
        if self.partial is not None:
            return None
        plain = not self._to_skip and self._shape.project is None
        return self._remotes[0] if plain and self._remotes[0].place[0] else None

    async def next_batch(self, max_documents: int, max_bytes: int) -> tuple[list[bytes], bool]:
        """Return at most this many documents and bytes, at least one document if any is left, and whether they were
        the last.
        """
        batch: list[bytes] = []
        size = 0
        until = self._clock() + STEP_SECONDS
        while len(batch) < max_documents:
            if not self._ready:
                if self._done:
                    break
                if self._clock() >= until:
                    await self._pause()
                    until = self._clock() + STEP_SECONDS
                await self._produce()
                continue
            room = max_documents - len(batch)
            ready_bytes = sum(map(len, self._ready)) if len(self._ready) <= room else max_bytes + 1
            if size + ready_bytes <= max_bytes:
                size += ready_bytes
                batch += self._ready
                self._ready = []
                continue
            count = 0
            for document in self._ready[:room]:
                if size + len(document) > max_bytes and batch:
                    break
                batch.append(document)
                size += len(document)
                count += 1
            del self._ready[:count]
            if count < room and self._ready:
                break
        return batch, self._done and not self._ready

    async def _produce(self) -> None:
        """Pass one slice of merged documents through skip, limit and the finishing stages into `_ready`."""
        if self._finish is not None and await self._advance(self._finish):
            return
        if not self._merged_all:
            merged = await self._merge_slice()
            merged = self._cut(merged)
            if self._shape.project is not None:
                merged = [self._shape.project(document) for document in merged]
            if self._left == 0:
                self._merged_all = True
            if self._finish is None:
                self._ready = merged
                self._done = self._merged_all
                return
            self._finish.feed.append(merged)
            if self._merged_all:
                self._finish.feed.end()

    async def _advance(self, finish: Finish) -> bool:
        """A step of the finishing stages; False when they need more of the merged documents first."""
        self._ready, self._done = finish.stream.next_batch(self._clock() + STEP_SECONDS)
        if self._ready or self._done:
            return True
        if finish.feed.hungry:
            return False
        await finish.pending()
        return True

    def _cut(self, documents: list[bytes]) -> list[bytes]:
        if self._to_skip:
            skipped = min(self._to_skip, len(documents))
            self._to_skip -= skipped
            documents = documents[skipped:]
        if self._left is not None:
            documents = documents[: self._left]
            self._left -= len(documents)
        return documents

    async def _merge_slice(self) -> list[bytes]:
        if self._shape.sort is not None and len(self._remotes) > 1:
            return await self._ordered_slice(self._shape.sort)
        while self._remotes:
            for position, remote in enumerate(self._remotes):
                if remote.documents:
                    documents = list(remote.documents)
                    remote.documents.clear()
                    self._remotes.append(self._remotes.pop(position))
                    return documents
            if await self._fill(self._remotes[0]):
                continue
            self._remotes.pop(0)
        self._merged_all = True
        return []

    async def _fill(self, remote: RemoteCursor) -> bool:
        """Return what `remote.fill` does. If partial results are allowed, an unreachable shard counts as ended."""
        try:
            return await remote.fill()
        except CommandError as error:
            if self.partial is None or error.code not in UNAVAILABLE_CODES:
                raise
        remote.abandon()
        self.partial = True
        return False

    async def _ordered_slice(self, sort: Order) -> list[bytes]:
        if self._heap is None:
            self._heap = []
            for number, remote in enumerate(self._remotes):
                await self._enter(sort, number, remote)
        documents: list[bytes] = []
        size = 0
        limit = SLICE_DOCUMENTS if self._left is None else min(SLICE_DOCUMENTS, self._to_skip + self._left)
        while self._heap and len(documents) < limit and size < GIVEN_BYTES:
            _, number, document = self._heap[0]
            documents.append(document)
            size += len(document)
            remote = self._remotes[number]
            if remote.documents:
                following = remote.documents.popleft()
                heapq.heapreplace(self._heap, (sort.sort_key(following), number, following))
            else:
                heapq.heappop(self._heap)
                await self._enter(sort, number, remote)
        self._merged_all = not self._heap
        return documents

    async def _enter(self, sort: Order, number: int, remote: RemoteCursor) -> None:
        assert self._heap is not None
        if await self._fill(remote):
            document = remote.documents.popleft()
            heapq.heappush(self._heap, (sort.sort_key(document), number, document))
