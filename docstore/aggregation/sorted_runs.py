"""Sorting (key, data) pairs by key, in runs: each is sorted at one go and they are merged as they are handed out.

Pairs with equal keys stay in the order in which they came. What does not fit in memory is written outside as sorted
runs, where that is allowed.
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
"""Pairs sorted at one go: a few milliseconds."""

RUN_BYTES = 4 * 1024 * 1024
"""Bytes of pairs sorted at one go."""

_AHEAD_BYTES = 1024 * 1024
"""Bytes of runs on disk that are in memory while they are merged."""

PER_PAIR = 160
"""Bytes of memory that a pair costs besides its own."""

_key = itemgetter(0)

Pair = tuple[bytes, bytes]
Keyed = TypeVar("Keyed", bound=tuple[Any, ...])

_FORGOTTEN = 1024


class SortedRuns:
    """Pairs being sorted for the stage `name`."""

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
        """Take pairs in. Errors: QueryExceededMemoryLimitNoDiskUseAllowed."""
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
        """Write one run, which takes a few milliseconds; the next pairs write the next one."""
        spill = self._environment.spill
        if spill is None:
            raise memory_exceeded(self._name, min(self._environment.memory_limit, BUFFERS.limit))
        if not self._runs:
            self._close_run()
        run = self._runs.pop(0)
        self._hold(-size_of(run))
        self._written.append(spill.write(run))

    def merged(self) -> Iterator[Pair]:
        """All pairs in order. Nothing may be added afterwards."""
        return chain.from_iterable(self.pieces())

    def pieces(self) -> Iterator[list[Pair]]:
        """As `merged`, some pairs at a time, or none: each piece takes a few milliseconds."""
        self._close_run()
        while self._runs and self._buffers.crowded and self._environment.spill is not None:
            self._make_room()
            yield []
        kept = self._given_back()
        if self._written:
            merged = merged_from_outside(self._written, chain.from_iterable(kept))
            kept = _gathered(merged)
        yield from kept

    def _given_back(self) -> Iterator[list[Pair]]:
        """What is in memory, in order; it counts as held until it is asked for."""
        for piece in few_at_a_time(merged_pieces(self._runs)):
            self._hold(-size_of(piece))
            yield piece


def _gathered(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    """Some pairs at a time, of a bounded size."""
    piece: list[Pair] = []
    size = 0
    for pair in pairs:
        piece.append(pair)
        size += len(pair[1])
        if len(piece) == _FORGOTTEN or size >= GIVEN_BYTES:
            yield piece
            piece, size = [], 0
    yield piece


def merged_from_outside(runs: Sequence[Run], kept: Iterator[Pair]) -> Iterator[Pair]:
    """The pairs of runs that were written, and behind equal ones those that were kept; large data is read last."""
    ahead = _AHEAD_BYTES // len(runs)
    merged: Iterator[tuple[bytes, Unread]] = heapq.merge(*(run.unread(ahead) for run in runs), kept, key=_key)
    return ((key, data if isinstance(data, bytes) else data()) for key, data in merged)


def merged_runs(runs: list[list[Keyed]]) -> Iterator[Keyed]:
    """As `merged_pieces`, one by one."""
    return chain.from_iterable(merged_pieces(runs))


def merged_pieces(runs: list[list[Keyed]]) -> Iterator[list[Keyed]]:
    """The members of sorted runs in the order of their first parts, equal ones in the order of the runs.

    A part of each run is taken at a time, up to a key that all of them can go to, and these parts are sorted: that
    takes a few milliseconds, and a fraction of what a comparison of the heads for every pair would take. What has been
    taken is gone from the runs: to let go of everything in the end would take long.
    """
    left = [(run, 0) for run in runs if run]
    while len(left) > 1:
        share = max(1, RUN_LENGTH // len(left))
        border = min(run[min(at + share, len(run)) - 1][0] for run, at in left)
        below: list[Keyed] = []
        equal: list[list[Keyed]] = []
        following: list[tuple[list[Keyed], int]] = []
        for run, at in left:
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
        left = following
    for run, at in left:
        for start in range(at, len(run), _FORGOTTEN):
            part = run[start : start + _FORGOTTEN]
            _forget(run, start, start + len(part))
            yield part


def few_at_a_time(pieces: Iterator[list[Keyed]]) -> Iterator[list[Keyed]]:
    """The members of pieces, of which those that have been given are gone."""
    for piece in pieces:
        for start in range(0, len(piece), CLOCK_EVERY):
            few = piece[start : start + CLOCK_EVERY]
            _forget(piece, start, start + len(few))
            yield few


def _forget(run: list[Keyed], at: int, end: int) -> None:
    """Let go of the members [at, end), which are not looked at again."""
    run[at:end] = cast("list[Keyed]", [None] * (end - at))


def size_of(pairs: list[Pair]) -> int:
    """The memory that pairs take, in bytes."""
    return pair_bytes(pairs) + PER_PAIR * len(pairs)
