"""What clients have written to cells and read of them, and whether, cell by cell, it can have been so.

All writes have timestamps of their own, so what a cell holds is known by one number: the timestamp of the newest write,
with the value or the deletion that it left. `check` holds a history against what quorums promise: an acknowledged write
is seen by every read that begins after it, and of two reads one after another the second sees no less.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

NOTHING = 0
"""What a cell holds that nobody has written."""


@dataclass(slots=True)
class Write:
    """`end` is None for a write that was not acknowledged: it may have happened at any time since, or never."""

    cell: Any
    timestamp: int
    start: float
    end: float | None = None
    removes: bool = False


@dataclass(slots=True)
class Read:
    """`seen`: the timestamp of the value that was there; None where there was none."""

    cell: Any
    seen: int | None
    start: float
    end: float


@dataclass(slots=True)
class History:
    """Written by many threads. `name`: of the row whose cells it is about."""

    name: str
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    _timestamps: Any = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, cell: Any, *, removes: bool = False) -> Write:
        """A write that begins now; set its `end` when it has been acknowledged."""
        with self._lock:
            write = Write(cell, next(self._timestamps), monotonic(), removes=removes)
            self.writes.append(write)
            return write

    def read(self, cell: Any, seen: int | None, start: float) -> None:
        """A read that began at `start` and has ended now."""
        self.reads.append(Read(cell, seen, start, monotonic()))

    def check(self) -> list[str]:
        """What cannot have been."""
        writes, reads = defaultdict(list), defaultdict(list)
        for write in self.writes:
            writes[write.cell].append(write)
        for read in self.reads:
            reads[read.cell].append(read)
        return [fault for cell, found in reads.items() for fault in _faults(writes[cell], found)]


def _faults(writes: list[Write], reads: list[Read]) -> list[str]:
    faults = []
    by_timestamp = {write.timestamp: write for write in writes}
    known = [(write.end, write.timestamp) for write in writes if write.end is not None]
    known += [(read.end, read.seen) for read in reads if read.seen is not None]
    floors = _running_maximum(known)
    for read in reads:
        floor = _floor(floors, read.start)
        if read.seen is None:
            # A deletion has to have been there; which one cannot be seen.
            newest = [w.timestamp for w in writes if w.removes and w.timestamp >= floor and w.start < read.end]
            if floor and not newest:
                faults.append(f"{read}: the write of {floor} is lost")
            continue
        written = by_timestamp.get(read.seen)
        if written is None or written.removes or written.start > read.end:
            faults.append(f"{read}: nobody has written that")
        if read.seen < floor:
            faults.append(f"{read}: {by_timestamp[floor]} was there before")
    return faults


def _running_maximum(events: list[tuple[float, int]]) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    highest = NOTHING
    for end, timestamp in sorted(events):
        highest = max(highest, timestamp)
        found.append((end, highest))
    return found


def _floor(floors: list[tuple[float, int]], start: float) -> int:
    """The newest timestamp that was certainly there at that time."""
    low, high = 0, len(floors)
    while low < high:
        middle = (low + high) // 2
        if floors[middle][0] < start:
            low = middle + 1
        else:
            high = middle
    return floors[low - 1][1] if low else NOTHING
