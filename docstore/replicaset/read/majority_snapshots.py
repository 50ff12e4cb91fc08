"""Majority snapshots: states that no rollback can take back (rule 17).

A snapshot is taken after each step of the log, so that when the commit point reaches a step its state is still there.
Where it comes to lie between two of them, a reader that must have the state there makes it from the next later one and
leaves it here (`earlier_state`, `keep`). Invariants, once the log has made a step:

* the list rises strictly and is never empty; its first is the newest at or below the commit point if any is, all others
  are above it;
* at most `MAX_KEPT` are kept: when there are more, every second one of those above the commit point goes, so the steps
  get coarser but the newest and the first stay;
* a snapshot that is being read outlives its place in the list until the last reader has released it;
* of many that leave the list at once a few are released at a time: what was written since each is put together then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING

from docstore.collection.oplog.earlier_state import EarlierState
from docstore.collection.oplog.rollback import UnrecoverableRollback
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.read.snapshot_leases import once

if TYPE_CHECKING:
    from docstore.storage.engine import Engine, Snapshot

MAX_KEPT = 256
_RELEASED_AT_ONCE = 8
_optime_of = attrgetter("optime")


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


def _let_go_once(held: _SharedSnapshot) -> Callable[[], None]:
    """One holder more; the call that lets it go, which may be called twice."""
    held.holders += 1
    return once(held.release)


class _Held:
    """A shared snapshot as one of its holders has it: closing it lets it go."""

    def __init__(self, snapshot: Snapshot, close: Callable[[], None]) -> None:
        self.get = snapshot.get
        self.items = snapshot.items
        self.keys = snapshot.keys
        self.values = snapshot.values
        self.close = close


def state_before(snapshot: Snapshot, release: Callable[[], None], optime: OpTime, at: int = 0) -> EarlierState | None:
    """The state at `optime`, still to be made, from a later one, which it owns; None when there is no way back. `at`:
    see `EarlierState`.
    """
    held = _Held(snapshot, release)
    try:
        return EarlierState(held, optime, at)
    except UnrecoverableRollback:
        held.close()
        return None


class MajoritySnapshots:
    """The snapshots of one member."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: list[_SharedSnapshot] = []
        self._leaving: deque[_SharedSnapshot] = deque()
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
        self._forget_passed()
        if len(self._kept) > MAX_KEPT:
            doomed = set(self._kept[1:-1:2])
            self._drop(doomed.__contains__)

    def release_some(self) -> bool:
        """Release a few of those that have left the list; whether there are more."""
        for _ in range(min(_RELEASED_AT_ONCE, len(self._leaving))):
            self._leaving.popleft().release()
        return bool(self._leaving)

    @property
    def committed(self) -> OpTime:
        """The position of the newest committed state that there is, NULL_OPTIME when there is none."""
        if not self._kept or self._kept[0].optime > self._commit_point:
            return NULL_OPTIME
        return self._kept[0].optime

    def open(self) -> tuple[OpTime, Snapshot, Callable[[], None]] | None:
        """(position, the state at `committed`, release); None when there is none."""
        if self.committed == NULL_OPTIME:
            return None
        held = self._kept[0]
        return held.optime, held.snapshot, _let_go_once(held)

    def earlier_state(self, optime: OpTime) -> EarlierState | None:
        """The state at `optime`, still to be made, from the oldest that is later; None when there is no way back."""
        later = next((held for held in self._kept if held.optime > optime), None)
        return None if later is None else state_before(later.snapshot, _let_go_once(later), optime)

    def keep(self, optime: OpTime, state: Snapshot) -> None:
        """Take over a state that has been made; `optime` is at or below the commit point."""
        assert optime <= self._commit_point, (optime, self._commit_point)
        if self.committed >= optime:
            state.close()
        else:
            passed = sum(held.optime < optime for held in self._kept)
            self._kept.insert(passed, _SharedSnapshot(optime, state))
            self._forget_passed()

    def _forget_passed(self) -> None:
        """Of the committed states only the newest is kept."""
        passed = bisect_right(self._kept, self._commit_point, key=_optime_of)
        for held in self._kept[: max(passed - 1, 0)]:
            held.release()
        del self._kept[: max(passed - 1, 0)]

    def close(self) -> None:
        """Let all go that nobody reads."""
        self._drop(lambda _held: True)
        while self._leaving:
            self._leaving.popleft().release()

    def _drop(self, doomed: Callable[[_SharedSnapshot], bool]) -> None:
        self._leaving.extend(held for held in self._kept if doomed(held))
        self._kept = [held for held in self._kept if not doomed(held)]
