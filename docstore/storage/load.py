"""Many new entries that come together: `Load` of the engine contract, but for how they get into the engine.

Entries wait in sorted runs. What is written below their range meanwhile is noted and comes after them, so that it
stands in the end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping

from docstore.storage.engine import Batch, Family, Urgency

_PIECE_KEYS = 8_192
"""About how many keys are merged at one go."""

_JOINED = 4
"""Runs of which one is made: pieces of a few long runs are sorted with fewer comparisons than those of many."""

_BATCH_ENTRIES = 1_024


class SortedRuns:
    """Entries with distinct keys, of which those that are added together are sorted at once. `size`: in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self.values: dict[bytes, bytes] = {}
        """Those that may not be empty, by key."""
        self._runs: list[tuple[list[bytes], int]] = []
        self._short = 0

    def add(self, keys: list[bytes], values: Mapping[bytes, bytes]) -> None:
        if not keys:
            return
        keys.sort()
        self.size += sum(map(len, keys))
        if values:
            self.size += sum(map(len, values.values()))
            self.values.update(values)
        self._runs.append((keys, 0))
        self._short += 1
        if self._short == _JOINED:
            joined = [key for run, _ in self._runs[-_JOINED:] for key in run]
            joined.sort()
            self._runs[-_JOINED:] = [(joined, 0)]
            self._short = 0

    def take(self) -> list[bytes]:
        """The next keys in order; none at the end."""
        runs = self._runs
        if not runs:
            return []
        share = max(1, _PIECE_KEYS // len(runs))
        # No run has more than its share of keys up to this one.
        last = min(keys[min(place + share, len(keys)) - 1] for keys, place in runs)
        taken: list[bytes] = []
        self._runs = []
        for keys, place in runs:
            end = place
            if keys[place] <= last:
                end = bisect_right(keys, last, place, min(place + share, len(keys)))
                taken += keys[place:end]
            if end < len(keys):
                self._runs.append((keys, end))
        taken.sort()
        return taken


class Later:
    """What has been written to [`start`, `end`) of a family since a load began, as a batch."""

    def __init__(self, family: Family, start: bytes, end: bytes) -> None:
        self._family = family
        self._start = start
        self._end = end
        self.batch = Batch()
        # It was accepted once, whatever room there is now.
        self.batch.urgency = Urgency.CONSENSUS

    def note(self, batch: Batch) -> None:
        """A batch has been written."""
        family, low, high = self._family, self._start, self._end
        for of, start, end in batch.ranges:
            if of is family and start < high and low < end:
                self.batch.delete_range(of, max(start, low), min(end, high))
        noted = self.batch.changes[family]
        for key, value in batch.changes[family].items():
            if low <= key < high:
                noted[key] = value


class BatchLoad:
    """Satisfies `Load` by batches, for engines to which a sorted file would be nothing else."""

    def __init__(
        self, loads: list[BatchLoad], write: Callable[[Batch], None], family: Family, start: bytes, end: bytes
    ) -> None:
        """`loads`: those that the engine tells of each write; `write` is how it writes."""
        self.later = Later(family, start, end)
        self._loads = loads
        self._write = write
        self._family = family
        self._entries: dict[bytes, bytes] = {}
        loads.append(self)

    def add(self, keys: list[bytes], values: Mapping[bytes, bytes]) -> None:
        self._entries.update(dict.fromkeys(keys, b""))
        self._entries.update(values)

    @property
    def full(self) -> bool:
        return len(self._entries) >= _BATCH_ENTRIES

    def step(self, deadline: float) -> bool:
        self.abandon()
        batch = Batch()
        batch.changes[self._family].update(self._entries)
        for family, start, end in self.later.batch.ranges:
            batch.delete_range(family, start, end)
        batch.changes[self._family].update(self.later.batch.changes[self._family])
        self._write(batch)
        return True

    def abandon(self) -> None:
        if self in self._loads:
            self._loads.remove(self)
