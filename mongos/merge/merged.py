"""Results of several shards as one: merged, cut to skip and limit, finished by the router's stages.

With a sort the merge is ordered: each part is in order, so the least of the first documents is the next. Without one
the parts are taken as they come, a batch at a time.

A merge goes as far as it can without waiting (`MergedCursor.take`), and on from there: where the shards have answered
with all they have, the step in which the last of them does so is enough.
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
from mongos.limits import MAX_JOINED_BYTES
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
        documents: Sequence[bytes] = (),
    ) -> None:
        """`partial`: None if all shards must answer; else whether results of one are missing already. `documents`: come
        first, and are all without parts.
        """
        self.partial = partial
        self._remotes = list(remotes)
        self._shape = shape
        self._discard = discard
        self._clock = scheduler.clock
        self._pause = scheduler.pause
        self._finish = finish
        # Whether the finishing stages have anything to read.
        self._is_fed = False
        self._heap: list[tuple[bytes, int, bytes]] | None = None
        # The parts whose next document is not in the heap.
        self._entering: list[tuple[int, RemoteCursor]] = []
        # The part that the merge waits for, or whether the finishing stages wait for other collections.
        self._wanted: RemoteCursor | None = None
        self._is_pending = False
        # The documents of the next batch so far, and their bytes.
        self._begun: tuple[list[bytes], int] = ([], 0)
        self._ready = list(documents)
        self._to_skip = shape.skip
        self._left = shape.limit or None
        self._merged_all = False
        self._done = bool(documents) and not remotes

    def close(self) -> None:
        if self._finish is not None:
            self._finish.close()
            free_later(self._finish.stream)
            self._finish = None
        unread = [remote for remote in self._remotes if not remote.exhausted]
        if unread:
            self._discard(unread)

    @property
    def has_stages(self) -> bool:
        """True if the router's stages finish the results."""
        return self._finish is not None

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
        the last. Errors: those of the shards and of the finishing stages.
        """
        while True:
            found = self.take(max_documents, max_bytes, self._clock() + STEP_SECONDS)
            if found is not None:
                return found
            await self._wait()

    def take(self, max_documents: int, max_bytes: int, until: float) -> tuple[list[bytes], bool] | None:
        """Return the result of `next_batch` if it can be made without waiting for a shard, before `until`.

        Else None: the next call continues from that position. Errors: those of the finishing stages.
        """
        self._wanted, self._is_pending = None, False
        batch, size = self._begun
        while len(batch) < max_documents:
            if not self._ready:
                if self._done:
                    break
                if self._clock() >= until or not self._produce(until):
                    self._begun = batch, size
                    return None
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
        self._begun = [], 0
        return batch, self._done and not self._ready

    def hold(self) -> None:
        """Count what the parts have buffered, if they are kept longer than a step."""
        for remote in self._remotes:
            remote.hold()

    async def _wait(self) -> None:
        """Wait for what the merge has stopped at."""
        self.hold()
        if self._wanted is not None:
            await self._fill(self._wanted)
        elif self._is_pending and self._finish is not None:
            await self._finish.pending()
        else:
            await self._pause()

    def _produce(self, until: float) -> bool:
        """Pass one slice of merged documents through skip, limit and the finishing stages into `_ready`; False if
        something must be awaited first. The stages stop at `until`.
        """
        finish = self._finish
        if finish is not None and self._is_fed:
            self._ready, self._done = finish.stream.next_batch(until)
            if self._ready or self._done:
                return True
            if not finish.feed.hungry:
                self._is_pending = True
                return False
        if not self._merged_all:
            merged = self._merge_slice()
            if merged is None:
                return False
            merged = self._cut(merged)
            if self._shape.project is not None:
                merged = list(map(self._shape.project, merged))
            if self._left == 0 or not self._remotes:
                self._merged_all = True
            if finish is None:
                self._ready = merged
                self._done = self._merged_all
            else:
                self._is_fed = True
                finish.feed.append(merged)
                if self._merged_all:
                    finish.feed.end()
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

    def _merge_slice(self) -> list[bytes] | None:
        """Return the next documents in order; None if those of the part `_wanted` must arrive first."""
        remotes = self._remotes
        if self._shape.sort is not None and len(remotes) > 1:
            return self._ordered_slice(self._shape.sort)
        documents: list[bytes] = []
        empty, filled = [], []
        for remote in remotes:
            if not remote.documents:
                empty.append(remote)
                continue
            documents += remote.documents
            remote.documents.clear()
            filled.append(remote)
        # Those that had none are next, and those at their end are not kept.
        for remote in remotes:
            if remote.is_last:
                remote.release()
        self._remotes = remotes = [remote for remote in (*empty, *filled) if not remote.is_last]
        if documents:
            return documents
        if remotes:
            self._wanted = remotes[0]
            return None
        self._merged_all = True
        return []

    async def _fill(self, remote: RemoteCursor) -> None:
        """Wait for documents of the part. If partial results are allowed, an unreachable shard counts as ended."""
        try:
            await remote.fill()
        except CommandError as error:
            if self.partial is None or error.code not in UNAVAILABLE_CODES:
                raise
            remote.abandon()
            self.partial = True

    def _ordered_slice(self, sort: Order) -> list[bytes] | None:
        heap = self._heap
        if heap is None:
            if self._is_whole():
                return self._sorted(sort)
            heap = self._heap = []
            self._entering = list(enumerate(self._remotes))
        documents: list[bytes] = []
        size = 0
        limit = SLICE_DOCUMENTS if self._left is None else min(SLICE_DOCUMENTS, self._to_skip + self._left)
        while len(documents) < limit and size < GIVEN_BYTES and self._all_entered(sort, heap) and heap:
            _, number, document = heap[0]
            documents.append(document)
            size += len(document)
            remote = self._remotes[number]
            if remote.documents:
                following = remote.documents.popleft()
                heapq.heapreplace(heap, (sort.sort_key(following), number, following))
            else:
                heapq.heappop(heap)
                self._entering.append((number, remote))
        if self._entering and not documents:
            return None
        self._merged_all = not heap and not self._entering
        return documents

    def _all_entered(self, sort: Order, heap: list[tuple[bytes, int, bytes]]) -> bool:
        """Put the next documents of the parts that have none in the heap there; False if one must be awaited."""
        while self._entering:
            number, remote = self._entering[-1]
            if remote.documents:
                document = remote.documents.popleft()
                heapq.heappush(heap, (sort.sort_key(document), number, document))
            elif remote.is_last:
                remote.release()
            else:
                self._wanted = remote
                return False
            self._entering.pop()
        return True

    def _is_whole(self) -> bool:
        """True if all parts are here entirely, and small."""
        return all(remote.is_last for remote in self._remotes) and (
            sum(sum(map(len, remote.documents)) for remote in self._remotes) <= MAX_JOINED_BYTES
        )

    def _sorted(self, sort: Order) -> list[bytes]:
        """Return all documents of the parts in order."""
        documents = [document for remote in self._remotes for document in remote.documents]
        for remote in self._remotes:
            remote.documents.clear()
            remote.release()
        keys = list(map(sort.sort_key, documents))
        self._merged_all = True
        return [documents[position] for position in sorted(range(len(keys)), key=keys.__getitem__)]
