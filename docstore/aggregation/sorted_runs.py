"""External merge sort of (key, data) pairs: runs are sorted in memory, and merged as they are read.

The sort is stable. Runs that exceed memory are spilled, if allowed.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar, cast

from docstore.aggregation.stage import Environment, Run, Unread, memory_exceeded
from docstore.aggregation.streams import CLOCK_EVERY, GIVEN_BYTES
from docstore.buffers import BUFFERS
from docstore.kernel.scan.pairs import pair_bytes, sorted_pairs

RUN_LENGTH = 8192
"""Pairs per run, sorted in a few milliseconds."""

RUN_BYTES = 4 * 1024 * 1024
"""Bytes per run."""

_AHEAD_BYTES = 1024 * 1024
"""Bytes of spilled runs in memory during a merge."""

PER_PAIR = 160
"""Bytes of memory that a pair takes besides its own."""

_key = itemgetter(0)

Pair = tuple[bytes, bytes]
Keyed = TypeVar("Keyed", bound=tuple[Any, ...])

_FORGOTTEN = 1024


class SortedRuns:
    """The sort of the stage `name`."""

    def __init__(self, name: str, environment: Environment) -> None:
        self._name = name
        self._environment = environment
        self._buffers = environment.buffers
        self._open: list[Pair] = []
        self._open_bytes = 0
        self._runs: list[list[Pair]] = []
        self._written: list[Run] = []
        self._held = 0

    def add(self, pairs: list[Pair]) -> None:
        """Add pairs. Errors: QueryExceededMemoryLimitNoDiskUseAllowed."""
        self._open += pairs
        size = size_of(pairs)
        self._open_bytes += size
        self._hold(size)
        if len(self._open) >= RUN_LENGTH or self._open_bytes >= RUN_BYTES:
            self._close_run()
        if self._held > self._environment.memory_limit or (self._buffers.crowded and self._held > RUN_BYTES):
            self._make_room()

    def _hold(self, size: int) -> None:
        self._held += size
        self._buffers.change(size)

    def _close_run(self) -> None:
        self._runs.append(sorted_pairs(self._open))
        self._open, self._open_bytes = [], 0

    def _make_room(self) -> None:
        """Spill one run, which takes a few milliseconds; the next call spills the next one."""
        spill = self._environment.spill
        if spill is None:
            raise memory_exceeded(self._name, min(self._environment.memory_limit, BUFFERS.limit))
        if not self._runs:
            self._close_run()
        run = self._runs.pop(0)
        self._hold(-size_of(run))
        self._written.append(spill.write(run))

    def merged(self) -> Iterator[Pair]:
        """Yield all pairs in order. No pairs may be added afterwards."""
        return chain.from_iterable(self.pieces())

    def pieces(self) -> Iterator[list[Pair]]:
        """Yield the pairs in order in lists, possibly empty; each takes a few milliseconds."""
        self._close_run()
        while self._runs and self._buffers.crowded and self._environment.spill is not None:
            self._make_room()
            yield []
        pair_lists = self._given_back()
        if self._written:
            merged = merged_from_outside(self._written, chain.from_iterable(pair_lists))
            pair_lists = _gathered(merged)
        yield from pair_lists

    def _given_back(self) -> Iterator[list[Pair]]:
        """Yield the pairs in memory in order. Their memory is released as they are requested."""
        for piece in few_at_a_time(merged_pieces(self._runs)):
            self._hold(-size_of(piece))
            yield piece


def _gathered(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    """Yield the pairs in lists of bounded size."""
    piece: list[Pair] = []
    size = 0
    for pair in pairs:
        piece.append(pair)
        size += len(pair[1])
        if len(piece) == _FORGOTTEN or size >= GIVEN_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def merged_from_outside(runs: Sequence[Run], memory_pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Merge spilled runs with the pairs in memory, which come last among equal keys. Large data is read lazily."""
    readahead = _AHEAD_BYTES // len(runs)
    merged: Iterator[tuple[bytes, Unread]] = heapq.merge(
        *(run.unread(readahead) for run in runs), memory_pairs, key=_key
    )
    return ((key, data if isinstance(data, bytes) else data()) for key, data in merged)


def merged_runs(runs: list[list[Keyed]]) -> Iterator[Keyed]:
    """Yield the members of sorted runs in order, as `merged_pieces` but singly."""
    return chain.from_iterable(merged_pieces(runs))


def merged_pieces(runs: list[list[Keyed]]) -> Iterator[list[Keyed]]:
    """Merge sorted runs by the first part of their members; equal ones in the order of the runs.

    Each step takes a slice of every run up to a common key, and sorts the slices together. That takes a few
    milliseconds, a fraction of comparing the heads for every pair. Members are removed from the runs as they are taken:
    freeing all of them at the end would take long.
    """
    remaining_runs = [(run, 0) for run in runs if run]
    while len(remaining_runs) > 1:
        share = max(1, RUN_LENGTH // len(remaining_runs))
        border = min(run[min(at + share, len(run)) - 1][0] for run, at in remaining_runs)
        below: list[Keyed] = []
        equal: list[list[Keyed]] = []
        following: list[tuple[list[Keyed], int]] = []
        for run, at in remaining_runs:
            if run[at][0] > border:
                following.append((run, at))
                continue
            begin = bisect_left(run, border, at, key=_key)
            end = bisect_right(run, border, begin, key=_key)
            below += run[at:begin]
            equal.append(run[begin:end])
            _forget(run, at, end)
            if end < len(run):
                following.append((run, end))
        yield sorted_pairs(below)
        del below
        yield from filter(None, equal)
        del equal
        remaining_runs = following
    for run, at in remaining_runs:
        for start in range(at, len(run), _FORGOTTEN):
            part = run[start : start + _FORGOTTEN]
            _forget(run, start, start + len(part))
            yield part


def few_at_a_time(pieces: Iterator[list[Keyed]]) -> Iterator[list[Keyed]]:
    """Yield the members of the pieces in small lists, freeing those already yielded."""
    for piece in pieces:
        for start in range(0, len(piece), CLOCK_EVERY):
            batch = piece[start : start + CLOCK_EVERY]
            _forget(piece, start, start + len(batch))
            yield batch


def _forget(run: list[Keyed], at: int, end: int) -> None:
    """Free the members [at, end) of a run, which are not read again."""
    run[at:end] = cast("list[Keyed]", [None] * (end - at))


def size_of(pairs: list[Pair]) -> int:
    """Return the memory of the pairs in bytes."""
    return pair_bytes(pairs) + PER_PAIR * len(pairs)
