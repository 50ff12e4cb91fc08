"""Sorting in memory what no index yields in order, a slice at a time.

With a limit only so many documents are kept. Without one, sorted runs are made while documents come in and are
merged while they go out, so that no single step takes long; runs that do not fit in memory are written outside, where
that is allowed. Equal documents keep the order in which they came.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import itemgetter
from typing import Generic, TypeVar, cast

from docstore.aggregation.sorted_runs import merged_runs
from docstore.aggregation.stage import Run, Spill
from docstore.errors import Code, CommandError
from docstore.query.metadata import Order

MAX_BYTES = 100 * 1024 * 1024

_RUN = 4_096
_LARGEST_TOP = 4_096

T = TypeVar("T")

_key = itemgetter(0)


class Sorter(Generic[T]):
    """Sorts items by the sort key of the document that each stands for; `limit` 0 means all are wanted.

    `spill` gives room outside memory, for items that are bytes.
    """

    def __init__(self, pattern: Order, limit: int, spill: Spill | None = None) -> None:
        self.pattern = pattern
        self._spill = spill
        self._written: list[Run] = []
        self._limit = limit if limit <= _LARGEST_TOP else 0
        self._open: list[tuple[bytes, T]] = []
        self._runs: list[list[tuple[bytes, T]]] = []
        self._run_bytes: list[int] = []
        self._bytes = self._open_bytes = 0
        self._worst: bytes | None = None
        self.cut = False
        """Whether something was left out for the limit."""

    def add(self, pairs: list[tuple[bytes, T]], size: int) -> None:
        """Take in items with their sort keys; `size` bytes of documents. QueryExceededMemoryLimitNoDiskUseAllowed above
        100 MiB where there is no room outside.
        """
        worst = self._worst
        self._open += pairs if worst is None else [pair for pair in pairs if pair[0] < worst]
        if self._limit:
            self.cut = self.cut or len(self._open) > self._limit
            if len(self._open) >= 2 * self._limit + 16:
                self._cut()
            return
        self._bytes += size
        self._open_bytes += size
        if len(self._open) >= _RUN or self._bytes > MAX_BYTES:
            self._open.sort(key=_key)
            self._runs.append(self._open)
            self._run_bytes.append(self._open_bytes)
            self._open, self._open_bytes = [], 0
        if self._bytes > MAX_BYTES:
            self._make_room()

    def _make_room(self) -> None:
        """Write the oldest run, which takes a few milliseconds."""
        if self._spill is None:
            raise CommandError(
                Code.QueryExceededMemoryLimitNoDiskUseAllowed,
                f"Executor error during find command :: caused by :: Sort exceeded memory limit of {MAX_BYTES} bytes, "
                "but did not opt in to external sorting.",
            )
        run = cast("list[tuple[bytes, bytes]]", self._runs.pop(0))
        self._bytes -= self._run_bytes.pop(0)
        self._written.append(self._spill.write(run))

    def _cut(self) -> None:
        self._open.sort(key=_key)
        del self._open[self._limit :]
        self._worst = self._open[-1][0]

    def result(self) -> Iterator[T]:
        """The items in order. Nothing may be added afterwards."""
        self._open.sort(key=_key)
        if self._limit:
            del self._open[self._limit :]
        runs, self._runs, self._open = [*self._runs, self._open], [], []
        kept = merged_runs(runs)
        if self._written:
            written = cast("list[Iterator[tuple[bytes, T]]]", [run.records() for run in self._written])
            return map(itemgetter(1), heapq.merge(*written, kept, key=_key))
        return map(itemgetter(1), kept)
