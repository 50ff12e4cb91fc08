"""Groups that went out of memory: written as rows, in order of their keys, and merged in the end.

The groups that leave memory at one time become one run, which is written a piece at a time: a piece takes a few
milliseconds, and whoever has given groups away goes on calling `write` until nothing is left.
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
"""Keys that are sorted at one go."""

Row = tuple[bytes, bytes]
"""(bytes that are the same for the same group, what the group was)."""

RowsOf = Callable[[list[bytes]], list[Row]]
"""The rows of groups, given their keys."""


class SpilledGroups:
    """Rows on their way out of memory, and outside."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._runs: list[list[Run]] = []
        self._leaving: deque[tuple[Iterator[None], RowsOf]] = deque()

    def give(self, keys: Iterable[bytes], rows_of: RowsOf) -> None:
        """Groups to be written; they do not change any more."""
        self._runs.append([])
        self._leaving.append((self._pieces(iter(keys), rows_of, self._runs[-1]), rows_of))

    def _pieces(self, keys: Iterator[bytes], rows_of: RowsOf, run: list[Run]) -> Iterator[None]:
        """Steps of a few milliseconds, after which the groups are written to the run."""
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
        """Go on writing for a few milliseconds; False when there was nothing left."""
        while self._leaving:
            if next(self._leaving[0][0], _ENDED) is not _ENDED:
                return True
            free_later(self._leaving.popleft())
        return False

    def merged(self) -> Iterator[list[bytes]]:
        """The rows of each group, once all is written, in the order of the keys."""
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
