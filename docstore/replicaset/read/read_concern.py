"""Which state a read gets that asks for more than the newest: one at a cluster time, one that a majority has (rule
17)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import bson

from docstore.commands.concerns import ReadLevel
from docstore.errors import Code, CommandError
from docstore.optime import OpTime, unpack_timestamp
from docstore.replicaset.read.majority_snapshots import MajoritySnapshots
from docstore.replicaset.read.snapshot_leases import SnapshotLeases
from docstore.replicaset.waiters import Waiters
from docstore.replication.state import State

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern
    from docstore.storage.engine import Reader

    View = tuple[Reader, Callable[[], None]]


class ReadConcernWaiters:
    """The readers of one member that wait. Deadlines are in monotonic seconds."""

    def __init__(self, store: Store, state: Callable[[], State]) -> None:
        self._store = store
        self._state = state
        self._snapshots = MajoritySnapshots(store.engine)
        self._leases = SnapshotLeases(time.monotonic)
        self._waiters = Waiters()

    def progressed(self, last: OpTime, commit_point: OpTime, *, keep: bool) -> None:
        """The log or the commit point has moved. `keep`: the state is one that members may read."""
        if keep:
            self._snapshots.note(last, commit_point)
        self._leases.expire()
        self._waiters.wake()

    def close(self) -> None:
        self._leases.close()
        self._snapshots.close()

    async def open(self, concern: ReadConcern | None, deadline: float | None) -> View:
        """(state, call to release it). Errors: MaxTimeMSExpired, InvalidOptions, those of `open_linearizable`."""
        if concern is not None and concern.level is ReadLevel.LINEARIZABLE:
            return await self._open_linearizable(deadline)
        after = 0
        if concern is not None and concern.after_cluster_time is not None:
            after = concern.after_cluster_time
            await self._wait_cluster_time(after, deadline)
        if concern is None or concern.level is not ReadLevel.MAJORITY:
            snapshot = self._store.engine.snapshot()
            return snapshot, snapshot.close
        _, committed, release = await self._open_majority(after, deadline)
        return committed, release

    async def _open_majority(self, after: int, deadline: float | None) -> tuple[OpTime, Reader, Callable[[], None]]:
        """(position, newest committed state at or after it, release)."""
        while True:
            opened = self._snapshots.open()
            commit_point = self._state().commit_point
            if opened is not None:
                position, snapshot, release = opened
                if position >= min(commit_point, self._store.last_optime) and position.timestamp >= after:
                    return position, snapshot, release
                release()
            await self._wait_commit_beyond(commit_point, deadline)

    async def open_snapshot(
        self, concern: ReadConcern, deadline: float | None
    ) -> tuple[int, Reader, Callable[[], None]]:
        """(packed timestamp, the majority's state at it, release).

        Without `atClusterTime` the newest such state, which is then kept for a while for those who ask for it again.
        Errors: InvalidOptions, MaxTimeMSExpired, SnapshotTooOld for a state that was not kept.
        """
        at = concern.at_cluster_time
        if at is None:
            after = concern.after_cluster_time or 0
            if after:
                await self._wait_cluster_time(after, deadline)
            position, snapshot, release = await self._open_majority(after, deadline)
            self._leases.keep(position.timestamp, snapshot, release)
            return self._leased(position.timestamp)
        if self._leases.has(at):
            return self._leased(at)
        oplog = self._store.oplog
        assert oplog is not None
        if self._state().writable and oplog.last.timestamp <= at <= oplog.cluster_time:
            await self._lease_present(at, deadline)
            return self._leased(at)
        await self._wait_cluster_time(at, deadline, name="atClusterTime")
        position, snapshot, release = await self._open_majority(at, deadline)
        if position.timestamp != at:
            release()
            raise CommandError(
                Code.SnapshotTooOld, f"the state at {unpack_timestamp(at)} was not kept; read without atClusterTime"
            )
        self._leases.keep(at, snapshot, release)
        return self._leased(at)

    async def _lease_present(self, at: int, deadline: float | None) -> None:
        """Keep the present state as that of `at`: whatever is written from now on gets a later timestamp."""
        wanted = self._store.last_optime
        snapshot = self._store.engine.snapshot()
        try:
            await self._wait(lambda: self._state().commit_point >= wanted, deadline)
        except BaseException:
            snapshot.close()
            raise
        self._leases.keep(at, snapshot, snapshot.close)

    def _leased(self, at: int) -> tuple[int, Reader, Callable[[], None]]:
        snapshot, release = self._leases.open(at)
        return at, snapshot, release

    async def _open_linearizable(self, deadline: float | None) -> View:
        """The newest state, once it is certain that no other member was primary when it was taken.

        Errors: NotWritablePrimary, InterruptedDueToReplStateChange, MaxTimeMSExpired.
        """
        state = self._state()
        if not state.writable:
            raise CommandError(Code.NotWritablePrimary, "cannot read with linearizable read concern on a non-primary")
        term = state.term
        snapshot = self._store.engine.snapshot()
        try:
            with self._store.unit() as unit:
                unit.noop(bson.encode({"msg": "linearizable read"}))
                unit.commit()
            wanted = self._store.last_optime
            await self._wait(lambda: self._state().commit_point >= wanted or self._state().term != term, deadline)
            if self._state().commit_point < wanted:
                raise CommandError(
                    Code.InterruptedDueToReplStateChange, "the node is no longer the primary that it was"
                )
        except BaseException:
            snapshot.close()
            raise
        return snapshot, snapshot.close

    async def _wait_cluster_time(self, after: int, deadline: float | None, name: str = "afterClusterTime") -> None:
        oplog = self._store.oplog
        assert oplog is not None
        if after > oplog.cluster_time:
            raise CommandError(
                Code.InvalidOptions,
                f"readConcern {name} value must not be greater than the current clusterTime. Requested "
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
