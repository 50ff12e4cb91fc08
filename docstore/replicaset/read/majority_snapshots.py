"""Majority snapshots: states that no rollback can take back (rule 17).

A snapshot is taken after each step of the log, so that when the commit point reaches a step its state is still there.
Invariants, once the log has made a step:

* the list rises strictly and is never empty; its first is the newest at or below the commit point if any is, all others
  are above it;
* at most `MAX_KEPT` are kept: when there are more, every second one of those above the commit point goes, so the steps
  get coarser but the newest and the first stay;
* a snapshot that is being read outlives its place in the list until the last reader has released it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from docstore.optime import NULL_OPTIME, OpTime

if TYPE_CHECKING:
    from docstore.storage.engine import Engine, Snapshot

MAX_KEPT = 256


class _SharedSnapshot:
    """A snapshot and how many hold it: the list counts as one."""

    __slots__ = ("holders", "optime", "snapshot")

    def __init__(self, optime: OpTime, snapshot: Snapshot) -> None:
        self.optime = optime
        self.snapshot = snapshot
        self.holders = 1

    def release(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.snapshot.close()


class MajoritySnapshots:
    """The snapshots of one member."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: list[_SharedSnapshot] = []
        self._last = NULL_OPTIME
        self._commit_point = NULL_OPTIME

    def __len__(self) -> int:
        return len(self._kept)

    def note(self, last: OpTime, commit_point: OpTime) -> None:
        """The log ends in `last` now, and everything up to `commit_point` is committed."""
        self._commit_point = commit_point
        if last < self._last:
            self._drop(lambda held: held.optime > last)
        if not self._kept or last > self._kept[-1].optime:
            self._kept.append(_SharedSnapshot(last, self._engine.snapshot()))
        self._last = last
        passed = sum(held.optime <= commit_point for held in self._kept)
        for held in self._kept[: max(passed - 1, 0)]:
            held.release()
        del self._kept[: max(passed - 1, 0)]
        if len(self._kept) > MAX_KEPT:
            doomed = set(self._kept[1:-1:2])
            self._drop(doomed.__contains__)

    def open(self) -> tuple[OpTime, Snapshot, Callable[[], None]] | None:
        """(position, newest committed state that there is, release); None when none was kept.

        The position is the commit point, or the log's end before it, unless steps were thinned out.
        """
        if not self._kept or self._kept[0].optime > self._commit_point:
            return None
        held = self._kept[0]
        held.holders += 1
        released = False

        def release() -> None:
            nonlocal released
            if not released:
                released = True
                held.release()

        return held.optime, held.snapshot, release

    def close(self) -> None:
        """Let all go that nobody reads."""
        self._drop(lambda _held: True)

    def _drop(self, doomed: Callable[[_SharedSnapshot], bool]) -> None:
        going = [held for held in self._kept if doomed(held)]
        self._kept = [held for held in self._kept if not doomed(held)]
        for held in going:
            held.release()
