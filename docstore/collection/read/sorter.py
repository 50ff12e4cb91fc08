"""In-memory sort, one slice at a time, for orders that no index provides.

- With a limit, only the first `limit` documents are kept.
- Without one, sorted runs are built as documents arrive and merged as they leave, so that no step takes long. Runs that
  exceed memory are spilled, where that is allowed.
- The sort is stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from operator import itemgetter
from typing import Generic, NamedTuple, TypeVar, cast

from docstore.aggregation.sorted_runs import PER_PAIR, RUN_BYTES, few_at_a_time, merged_from_outside, merged_pieces
from docstore.aggregation.stage import Run, Spill
from docstore.buffers import BUFFERS, OperationBuffers
from docstore.collection.limits import MAX_TOP_DOCUMENTS
from docstore.errors import Code, CommandError
from docstore.kernel.scan.pairs import items_of, key_bytes, sorted_pairs
from docstore.query.metadata import Order

MAX_BYTES = 100 * 1024 * 1024

_RUN = 4_096

T = TypeVar("T")


class SortMemory(NamedTuple):
    """The room of a sort. `spill` writes runs to disk, for items that are bytes; `buffers` accounts for memory."""

    spill: Spill | None = None
    buffers: OperationBuffers | None = None


IN_MEMORY = SortMemory()


class Sorter(Generic[T]):
    """Sorts items by the sort keys of their documents; `limit` 0: no limit."""

    def __init__(self, pattern: Order, limit: int, memory: SortMemory = IN_MEMORY) -> None:
        self.pattern = pattern
        self._spill = memory.spill
        self._buffers = memory.buffers or OperationBuffers()
        self._written: list[Run] = []
        self._limit = limit if limit <= MAX_TOP_DOCUMENTS else 0
        self._open: list[tuple[bytes, T]] = []
        self._runs: list[list[tuple[bytes, T]]] = []
        self._run_bytes: list[int] = []
        self._bytes = self._open_bytes = 0
        self._worst: bytes | None = None
        self.cut = False
        """True if items were dropped for the limit."""

    def add(self, pairs: list[tuple[bytes, T]], size: int) -> None:
        """Add (sort key, item) pairs; `size`: bytes of their documents.

        Errors: QueryExceededMemoryLimitNoDiskUseAllowed above 100 MiB, or above the shared budget, if it cannot spill.
        """
        worst = self._worst
        if worst is not None and pairs:
            mean = size // len(pairs)
            count, pairs = len(pairs), [pair for pair in pairs if pair[0] < worst]
            self.cut = self.cut or len(pairs) < count
            size = mean * len(pairs)
        self._open += pairs
        size += key_bytes(pairs) + PER_PAIR * len(pairs)
        self._open_bytes += size
        self._hold(size)
        if self._limit:
            if len(self._open) >= 2 * self._limit + 16 or self._bytes > MAX_BYTES:
                self._cut()
            if self._bytes <= MAX_BYTES:
                return
            # The first `limit` items exceed memory: sort and spill all items that may still be among them.
            self._limit = 0
        crowded = self._buffers.crowded and self._bytes > RUN_BYTES
        if len(self._open) >= _RUN or self._open_bytes >= RUN_BYTES or self._bytes > MAX_BYTES:
            self._close_run()
        if self._bytes > MAX_BYTES or crowded:
            self._make_room()

    def _hold(self, size: int) -> None:
        self._bytes += size
        self._buffers.change(size)

    def _close_run(self) -> None:
        self._runs.append(sorted_pairs(self._open))
        self._run_bytes.append(self._open_bytes)
        self._open, self._open_bytes = [], 0

    def _make_room(self) -> None:
        """Spill the oldest run, which takes a few milliseconds."""
        if self._spill is None:
            limit = min(MAX_BYTES, BUFFERS.limit)
            raise CommandError(
                Code.QueryExceededMemoryLimitNoDiskUseAllowed,
                f"Executor error during find command :: caused by :: Sort exceeded memory limit of {limit} bytes, "
                "but did not opt in to external sorting.",
            )
        if not self._runs:
            self._close_run()
        run = cast("list[tuple[bytes, bytes]]", self._runs.pop(0))
        self._hold(-self._run_bytes.pop(0))
        self._written.append(self._spill.write(run))

    def _cut(self) -> None:
        count = len(self._open)
        if count < self._limit:
            return
        self._open = sorted_pairs(self._open)
        del self._open[self._limit :]
        self._worst = self._open[-1][0]
        self.cut = self.cut or count > self._limit
        # Item sizes are not recorded individually.
        size = self._open_bytes * len(self._open) // count
        self._hold(size - self._open_bytes)
        self._open_bytes = size

    def result(self) -> Iterator[T]:
        """Return the items in order. No items may be added afterwards. Errors: as `add`."""
        self._open = sorted_pairs(self._open)
        if self._limit:
            self.cut = self.cut or len(self._open) > self._limit
            del self._open[self._limit :]
        self._close_run()
        while self._runs and self._buffers.crowded and (self._spill is not None or self._bytes > RUN_BYTES):
            self._make_room()
        pieces = self._given_back()
        if self._written:
            pairs = cast("Iterator[tuple[bytes, bytes]]", chain.from_iterable(pieces))
            written = merged_from_outside(self._written, pairs)
            return cast("Iterator[T]", map(itemgetter(1), written))
        return chain.from_iterable(map(items_of, pieces))

    def _given_back(self) -> Iterator[list[tuple[bytes, T]]]:
        """Yield the items in memory in order. Their memory is released as they are requested."""
        runs, self._runs = self._runs, []
        remaining = sum(map(len, runs))
        for piece in few_at_a_time(merged_pieces(runs)):
            if remaining:
                self._hold(-(self._bytes * len(piece) // remaining))
                remaining -= len(piece)
            yield piece
