"""What clients have written to cells and read of them, and whether, cell by cell, it can have been so.

All writes have timestamps of their own, so what a cell holds is known by one number: the timestamp of the newest write,
with the value or the deletion that it left. `check` holds a history against what quorums promise: an acknowledged write
is seen by every read that begins after it, and of two reads one after another the second sees no less. What was
acknowledged before a column family was cleared (truncated, or dropped and made anew) does not come back.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

NOTHING = 0
"""What a cell holds that nobody has written."""


@dataclass(slots=True)
class Write:
    """`end` is None for a write that was not acknowledged: it may have happened at any time since, or never.
    `seen_from`: when reads must see it, where that is not when it was acknowledged; `weak`: they need not.
    """

    cell: Any
    timestamp: int
    start: float
    end: float | None = None
    removes: bool = False
    weak: bool = False
    seen_from: float | None = None


@dataclass(slots=True)
class Read:
    """`seen`: the timestamp of the value that was there; None where there was none."""

    cell: Any
    seen: int | None
    start: float
    end: float


@dataclass(slots=True)
class Clearance:
    """All cells are taken away at some time between start and end; `end` is None for one that was not acknowledged."""

    start: float
    end: float | None = None


@dataclass(slots=True)
class History:
    """Written by many threads. `name`: of the row whose cells it is about."""

    name: str
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    clearances: list[Clearance] = field(default_factory=list)
    clock: Callable[[], float] = monotonic
    _timestamps: Any = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, cell: Any, *, removes: bool = False) -> Write:
        """A write that begins now; set its `end` when it has been acknowledged."""
        with self._lock:
            write = Write(cell, next(self._timestamps), self.clock(), removes=removes)
            self.writes.append(write)
            return write

    def read(self, cell: Any, seen: int | None, start: float) -> None:
        """A read that began at `start` and has ended now."""
        self.reads.append(Read(cell, seen, start, self.clock()))

    def clear(self) -> Clearance:
        """A clearance that begins now; set its `end` when it has been acknowledged."""
        self.clearances.append(Clearance(self.clock()))
        return self.clearances[-1]

    def check(self) -> list[str]:
        """What cannot have been."""
        writes, reads = defaultdict(list), defaultdict(list)
        for write in self.writes:
            writes[write.cell].append(write)
        for read in self.reads:
            reads[read.cell].append(read)
        return [fault for cell, found in reads.items() for fault in _faults(writes[cell], found, self.clearances)]


@dataclass(slots=True)
class _Evidence:
    """At `time` the cell held the timestamp or a higher one, by what began at `start`."""

    time: float
    timestamp: int
    start: float


def _faults(writes: list[Write], reads: list[Read], clearances: list[Clearance]) -> list[str]:
    faults = []
    by_timestamp = {write.timestamp: write for write in writes}
    evidence = [
        _Evidence(write.end if write.seen_from is None else write.seen_from, write.timestamp, write.start)
        for write in writes
        if write.end is not None and not write.weak
    ]
    evidence += [_Evidence(read.end, read.seen, read.start) for read in reads if read.seen is not None]
    evidence.sort(key=lambda known: known.timestamp, reverse=True)
    for read in reads:
        floor = _floor(evidence, read, [clearance for clearance in clearances if clearance.start < read.end])
        if read.seen is None:
            # A deletion has to have been there; which one cannot be seen.
            newest = [w.timestamp for w in writes if w.removes and w.timestamp >= floor and w.start < read.end]
            if floor and not newest:
                faults.append(f"{read}: the write of {floor} is lost")
            continue
        written = by_timestamp.get(read.seen)
        if written is None or written.removes or written.start > read.end:
            faults.append(f"{read}: nobody has written that")
        elif any(_separates(clearance, written, read) for clearance in clearances):
            faults.append(f"{read}: {written} came back after the column family had been cleared")
        if read.seen < floor:
            faults.append(f"{read}: {by_timestamp[floor]} was there before")
    return faults


def _floor(evidence: list[_Evidence], read: Read, clearances: list[Clearance]) -> int:
    """The newest timestamp that was certainly there when the read began, by evidence in descending order."""
    last = max((clearance.end or float("inf") for clearance in clearances), default=float("-inf"))
    return next((known.timestamp for known in evidence if known.time < read.start and known.start > last), NOTHING)


def _separates(clearance: Clearance, write: Write, read: Read) -> bool:
    """Return whether the write was certainly there before the clearance, and the read after it."""
    return (
        clearance.end is not None
        and clearance.end < read.start
        and write.end is not None
        and write.end < clearance.start
    )
