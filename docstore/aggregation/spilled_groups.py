"""Spilled groups: written as rows sorted by key, and merged at the end.

The groups spilled at one time form one run. It is written in pieces of a few milliseconds each: after `give`, call
`write` until it returns False.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from operator import itemgetter

from docstore.aggregation.sorted_runs import merged_runs
from docstore.aggregation.stage import Run, Spill
from docstore.deferred_free import free_later

_PIECE = 512
_SORTED = 4096
"""Keys sorted at once."""

Row = tuple[bytes, bytes]
"""(group identity: equal bytes for equal groups, encoded group)."""

RowsOf = Callable[[list[bytes]], list[Row]]
"""Returns the rows of groups, given their keys."""


class SpilledGroups:
    """Rows being spilled, and rows on disk."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._runs: list[list[Run]] = []
        self._leaving: deque[tuple[Iterator[None], RowsOf]] = deque()

    def give(self, keys: Iterable[bytes], rows_of: RowsOf) -> None:
        """Queue groups for writing; they must not change any more."""
        self._runs.append([])
        self._leaving.append((self._pieces(iter(keys), rows_of, self._runs[-1]), rows_of))

    def _pieces(self, keys: Iterator[bytes], rows_of: RowsOf, run: list[Run]) -> Iterator[None]:
        """Write the groups to the run, yielding every few milliseconds."""
        sorted_keys: list[list[tuple[bytes]]] = []
        while part := [(key,) for key in islice(keys, _SORTED)]:
            part.sort()
            sorted_keys.append(part)
            yield
        ordered = merged_runs(sorted_keys)
        while piece := [key for (key,) in islice(ordered, _PIECE)]:
            run.append(self._spill.write(rows_of(piece)))
            yield

    def write(self) -> bool:
        """Continue writing for a few milliseconds; False if nothing was left."""
        while self._leaving:
            if next(self._leaving[0][0], _ENDED) is not _ENDED:
                return True
            free_later(self._leaving.popleft())
        return False

    def merged(self) -> Iterator[list[bytes]]:
        """Yield the rows of each group, in key order, once all are written."""
        current: bytes | None = None
        rows: list[bytes] = []
        runs = [chain.from_iterable(piece.records() for piece in run) for run in self._runs]
        for key, row in heapq.merge(*runs, key=itemgetter(0)):
            if key == current:
                rows.append(row)
                continue
            if rows:
                yield rows
            current, rows = key, [row]
        if rows:
            yield rows


_ENDED = object()
