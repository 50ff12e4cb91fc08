"""Which state a read gets that asks for more than the newest: one at a cluster time, one that a majority has (rule
17)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import bson

from docstore.bson.optime import OpTime, unpack_timestamp
from docstore.commands.concerns import ReadLevel
from docstore.errors import Code, CommandError
from docstore.replicaset.snapshots import MajoritySnapshots
from docstore.replicaset.waiting import Waiters
from docstore.replication.state import State

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern
    from docstore.storage.engine import Reader

    View = tuple[Reader, Callable[[], None]]


class Reading:
    """The readers of one member that wait. Deadlines are in monotonic seconds."""

    def __init__(self, store: Store, state: Callable[[], State]) -> None:
        self._store = store
        self._state = state
        self._snapshots = MajoritySnapshots(store.engine)
        self._waiters = Waiters()

    def progressed(self, last: OpTime, commit_point: OpTime, *, keep: bool) -> None:
        """The log or the commit point has moved. `keep`: the state is one that members may read."""
        if keep:
            self._snapshots.note(last, commit_point)
        self._waiters.wake()

    def close(self) -> None:
        self._snapshots.close()

    async def open(self, concern: ReadConcern | None, deadline: float | None) -> View:
        """(state, call to release it). Errors: MaxTimeMSExpired, InvalidOptions."""
        after = 0
        if concern is not None and concern.after_cluster_time is not None:
            after = concern.after_cluster_time
            await self._wait_cluster_time(after, deadline)
        if concern is None or concern.level is not ReadLevel.MAJORITY:
            snapshot = self._store.engine.snapshot()
            return snapshot, snapshot.close
        while True:
            opened = self._snapshots.open()
            commit_point = self._state().commit_point
            if opened is not None:
                position, snapshot, release = opened
                if position >= min(commit_point, self._store.last_optime) and position.timestamp >= after:
                    return snapshot, release
                release()
            await self._wait_commit_beyond(commit_point, deadline)

    async def _wait_cluster_time(self, after: int, deadline: float | None) -> None:
        oplog = self._store.oplog
        assert oplog is not None
        if after > oplog.cluster_time:
            raise CommandError(
                Code.InvalidOptions,
                "readConcern afterClusterTime value must not be greater than the current clusterTime. Requested "
                f"clusterTime: {unpack_timestamp(after)}; current clusterTime: {unpack_timestamp(oplog.cluster_time)}",
            )
        if self._state().writable and oplog.last.timestamp < after:
            # Nothing will come by itself: an idle primary moves its own log to the time that was asked for.
            with self._store.unit() as unit:
                unit.noop(bson.encode({"msg": "periodic noop"}))
                unit.commit()
        await self._wait(lambda: oplog.last.timestamp >= after, deadline)

    async def _wait_commit_beyond(self, commit_point: OpTime, deadline: float | None) -> None:
        await self._wait(lambda: self._state().commit_point > commit_point, deadline)

    async def _wait(self, condition: Callable[[], bool], deadline: float | None) -> None:
        limit = None if deadline is None else deadline - time.monotonic()
        if not await self._waiters.wait(condition, limit):
            raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
