"""Majority snapshots: states that no rollback can undo (rule 17).

A snapshot is taken after each step of the oplog, so that the state still exists when the commit point reaches it. If
the commit point stays between two snapshots, a reader makes the state there from the later one and stores it here
(`earlier_state`, `keep`). Invariants, once the oplog has made a step:

* The list is strictly ascending and never empty. If there are snapshots at or below the commit point, only the newest
  of them is kept, as the first.
* At most `MAX_KEPT` are kept. Beyond that, every second one above the commit point is dropped, so the steps get
  coarser, but the newest and the first stay.
* A snapshot with readers outlives its place in the list until the last reader has released it.
* If many leave the list at once, only a few are released at a time, because each release merges the writes since it.
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
    """A snapshot with the number of its holders; the list counts as one."""

    __slots__ = ("holders", "optime", "snapshot")

    def __init__(self, optime: OpTime, snapshot: Snapshot) -> None:
        self.optime = optime
        self.snapshot = snapshot
        self.holders = 1

    def release(self) -> None:
        self.holders -= 1
        if self.holders == 0:
            self.snapshot.close()


def _let_go_once(shared: _SharedSnapshot) -> Callable[[], None]:
    """Add a holder; return its release function, which is idempotent."""
    shared.holders += 1
    return once(shared.release)


class _SnapshotShare:
    """A shared snapshot for one holder: `close` releases it."""

    def __init__(self, snapshot: Snapshot, close: Callable[[], None]) -> None:
        self.get = snapshot.get
        self.items = snapshot.items
        self.keys = snapshot.keys
        self.values = snapshot.values
        self.close = close


def state_before(snapshot: Snapshot, release: Callable[[], None], optime: OpTime, at: int = 0) -> EarlierState | None:
    """Return the state at `optime`, to be made from a later one, which it owns; None if the undo records are gone.

    `at`: see `EarlierState`.
    """
    owned_snapshot = _SnapshotShare(snapshot, release)
    try:
        return EarlierState(owned_snapshot, optime, at)
    except UnrecoverableRollback:
        owned_snapshot.close()
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
        """Take a snapshot for the oplog's end `last`, and advance the commit point."""
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
        """Release a few snapshots that have left the list; return True if there are more."""
        for _ in range(min(_RELEASED_AT_ONCE, len(self._leaving))):
            self._leaving.popleft().release()
        return bool(self._leaving)

    @property
    def committed(self) -> OpTime:
        """The position of the newest committed snapshot, or NULL_OPTIME if there is none."""
        if not self._kept or self._kept[0].optime > self._commit_point:
            return NULL_OPTIME
        return self._kept[0].optime

    def open(self) -> tuple[OpTime, Snapshot, Callable[[], None]] | None:
        """Return (position, the state at `committed`, release function), or None if there is none."""
        if self.committed == NULL_OPTIME:
            return None
        shared = self._kept[0]
        return shared.optime, shared.snapshot, _let_go_once(shared)

    def earlier_state(self, optime: OpTime) -> EarlierState | None:
        """Return the state at `optime`, to be made from the oldest later one; None if the undo records are gone."""
        later = next((snapshot for snapshot in self._kept if snapshot.optime > optime), None)
        return None if later is None else state_before(later.snapshot, _let_go_once(later), optime)

    def keep(self, optime: OpTime, state: Snapshot) -> None:
        """Add a state that was made; `optime` is at or below the commit point."""
        assert optime <= self._commit_point, (optime, self._commit_point)
        if self.committed >= optime:
            state.close()
        else:
            position = sum(snapshot.optime < optime for snapshot in self._kept)
            self._kept.insert(position, _SharedSnapshot(optime, state))
            self._forget_passed()

    def _forget_passed(self) -> None:
        """Release all committed snapshots except the newest."""
        count = bisect_right(self._kept, self._commit_point, key=_optime_of)
        for snapshot in self._kept[: max(count - 1, 0)]:
            snapshot.release()
        del self._kept[: max(count - 1, 0)]

    def close(self) -> None:
        """Release all snapshots without readers."""
        self._drop(lambda _held: True)
        while self._leaving:
            self._leaving.popleft().release()

    def _drop(self, doomed: Callable[[_SharedSnapshot], bool]) -> None:
        self._leaving.extend(snapshot for snapshot in self._kept if doomed(snapshot))
        self._kept = [snapshot for snapshot in self._kept if not doomed(snapshot)]
