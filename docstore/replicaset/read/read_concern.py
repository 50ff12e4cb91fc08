"""Which state a read gets that asks for more than the newest: one at a cluster time, one that a majority has (rule
17)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import bson

from docstore.collection.oplog.earlier_state import EarlierState
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.rollback import UnrecoverableRollback
from docstore.commands.concerns import ReadLevel
from docstore.errors import Code, CommandError
from docstore.optime import OpTime, unpack_timestamp
from docstore.replicaset.read.majority_snapshots import MajoritySnapshots, state_before
from docstore.replicaset.read.snapshot_leases import SnapshotLeases
from docstore.replicaset.waiters import Waiters
from docstore.replication.state import State

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern
    from docstore.storage.engine import Reader, Snapshot

    View = tuple[Reader, Callable[[], None]]

PATIENCE_SECONDS = 0.05
"""How long a majority read waits for the commit point to reach a snapshot before it makes the state that it needs."""

SLICE_SECONDS = 0.002
_BETWEEN_RELEASES_SECONDS = 0.01


class ReadConcernWaiters:
    """The readers of one member that wait, and the `leases` of states. Deadlines are in monotonic seconds."""

    def __init__(self, store: Store, state: Callable[[], State]) -> None:
        self._store = store
        self._state = state
        self._snapshots = MajoritySnapshots(store.engine)
        self.leases = SnapshotLeases(time.monotonic)
        self._waiters = Waiters()
        self._making = asyncio.Lock()
        self._releasing: asyncio.Handle | None = None

    def progressed(self, last: OpTime, commit_point: OpTime, *, keep: bool) -> None:
        """The log or the commit point has moved. `keep`: the state is one that members may read.

        Else it is being made anew by an initial sync, and what was kept may be of a log that nobody has any more.
        """
        if keep:
            self._snapshots.note(last, commit_point)
        else:
            self._snapshots.close()
        self.leases.expire()
        self._waiters.wake()
        self._release()

    def wake(self) -> None:
        """This member has become primary, or is it no longer."""
        self._waiters.wake()

    def _release(self) -> None:
        """Let go of snapshots that nobody needs until none is left, also while the log stands still."""
        if self._releasing is not None:
            self._releasing.cancel()
            self._releasing = None
        if self._snapshots.release_some():
            self._releasing = asyncio.get_running_loop().call_later(_BETWEEN_RELEASES_SECONDS, self._release)

    def close(self) -> None:
        if self._releasing is not None:
            self._releasing.cancel()
        self.leases.close()
        self._snapshots.close()

    def newest(self, concern: ReadConcern) -> int | None:
        """The packed timestamp of the newest state, where that is the one that `open` or `open_snapshot` would give
        without a wait; None where they have to look closer.

        For read concern "snapshot" the state is kept for those who ask for its time again.
        """
        at = self._store.last_optime.timestamp
        after = concern.after_cluster_time
        if after is not None and (after > at or self._store.sessions.is_prepared_at(after)):
            return None
        if concern.level is ReadLevel.MAJORITY or concern.level is ReadLevel.SNAPSHOT:
            if self._snapshots.committed != self._store.last_optime or self._new_in_its_term():
                return None
        elif concern.level is ReadLevel.LINEARIZABLE:
            return None
        if concern.level is ReadLevel.SNAPSHOT:
            if concern.at_cluster_time not in (None, at) or self._is_delayed(at):
                return None
            if not self.leases.has(at):
                opened = self._snapshots.open()
                assert opened is not None, "there is a committed state"
                self.leases.keep(at, *opened[1:])
        return at

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

    async def _open_majority(self, after: int, deadline: float | None) -> tuple[OpTime, Snapshot, Callable[[], None]]:
        """(position, committed state, release): everything is in it that was committed when the call was made, and
        `after`, which is waited for. On a primary that includes what earlier primaries have acknowledged.

        Errors: MaxTimeMSExpired; InterruptedDueToReplStateChange where it is primary no longer before it knew that.
        """
        new_in_term = self._state().term if self._new_in_its_term() else None
        await self._wait(lambda: self._committed().timestamp >= max(after, 1) and not self._new_in_its_term(), deadline)
        if new_in_term is not None and self._state().commit_point.term < new_in_term:
            raise CommandError(Code.InterruptedDueToReplStateChange, "the node is no longer the primary that it was")
        wanted = self._committed()
        if not await self._waiters.wait(
            lambda: self._snapshots.committed >= wanted, _limit(deadline, PATIENCE_SECONDS)
        ):
            await self._take_back(wanted)
        await self._wait(lambda: self._snapshots.committed >= wanted, deadline)
        opened = self._snapshots.open()
        assert opened is not None, "a committed state stays until there is a later one"
        return opened

    def _committed(self) -> OpTime:
        """The newest entry here that will not be rolled back."""
        return min(self._state().commit_point, self._store.last_optime)

    def _new_in_its_term(self) -> bool:
        """Whether this member is a primary that does not know yet how far the log of its predecessors is committed: it
        does once an entry of its own term is.
        """
        state = self._state()
        return state.writable and state.commit_point.term < state.term

    async def _take_back(self, wanted: OpTime) -> None:
        """Make the committed state at `wanted`, if there is a way back to it.

        The next snapshot may never be committed: the majority may be gone.
        """
        state = await _made(self._snapshots.earlier_state(wanted), None)
        if state is not None:
            self._snapshots.keep(wanted, state)

    async def open_snapshot(
        self, concern: ReadConcern, deadline: float | None
    ) -> tuple[int, Reader, Callable[[], None]]:
        """(packed timestamp, the majority's state at it, release).

        Without `atClusterTime` the newest such state. What was read is kept for a while for those who ask for it again;
        other states of the last minutes are made anew from undo records.
        Errors: InvalidOptions, MaxTimeMSExpired, SnapshotTooOld for a state that cannot be made any more.
        """
        at = concern.at_cluster_time
        if at is None:
            after = concern.after_cluster_time or 0
            if after:
                await self._wait_cluster_time(after, deadline)
            position, snapshot, release = await self._open_majority(after, deadline)
            if not self._is_delayed(position.timestamp):
                self.leases.keep(position.timestamp, snapshot, release)
                return position.timestamp, *self.leases.open(position.timestamp)
            release()
            at = position.timestamp
        if self.leases.has(at):
            return at, *self.leases.open(at)
        oplog = self._store.oplog
        assert oplog is not None
        if self._state().writable:
            await self._wait_decided(at, deadline)
        if self._state().writable and oplog.last.timestamp <= at <= oplog.cluster_time:
            await self._lease_present(at, deadline)
            return at, *self.leases.open(at)
        await self._wait_cluster_time(at, deadline, name="atClusterTime")
        await self._wait(lambda: self._committed().timestamp >= at, deadline)
        await self._wait_decided(at, deadline)
        async with self._making:
            # One at a time: each may take the memory of many undo records.
            if not self.leases.has(at):
                await self._lease_past(at, deadline)
            return at, *self.leases.open(at)

    async def _lease_past(self, at: int, deadline: float | None) -> None:
        """Keep the state at `at`, which the log has passed: that of the newest entry that is not later, once it is
        committed that there is none between. Errors: MaxTimeMSExpired, SnapshotTooOld.
        """
        oplog = self._store.oplog
        assert oplog is not None
        # What counts as of an earlier time than it was written at must be there too.
        newest = self._store.last_optime.timestamp if self._is_delayed(at) else at
        position, snapshot, release = await self._open_majority(newest, deadline)
        entry = next(oplog.scan_back(snapshot, at + 1), None)
        if entry is not None and entry_optime(entry) == position:
            self.leases.keep(at, snapshot, release)
            return
        state = None
        if entry is None:
            release()
        else:
            state = await _made(state_before(snapshot, release, entry_optime(entry), at), deadline)
        if state is None:
            raise CommandError(
                Code.SnapshotTooOld,
                f"Read timestamp {unpack_timestamp(at)} is older than the oldest available timestamp.",
            )
        self.leases.keep(at, state, state.close, state.undo_bytes)

    def _is_delayed(self, at: int) -> bool:
        """Whether something behind `at` may count as written at `at` or before: what was prepared by then."""
        sessions = self._store.sessions
        return sessions.is_prepared_at(at) or sessions.last_delayed > at

    async def _lease_present(self, at: int, deadline: float | None) -> None:
        """Keep the present state as that of `at`.

        Whatever is written here from now on gets a later timestamp. That no later primary writes at `at` or before it
        is certain once a majority has an entry that is not earlier. Errors: those of `_wait_committed`.
        """
        term = self._state().term
        snapshot = self._store.engine.snapshot()
        try:
            if self._store.last_optime.timestamp < at:
                self._write_noop("snapshot read")
            await self._wait_committed(self._store.last_optime, term, deadline)
        except BaseException:
            snapshot.close()
            raise
        self.leases.keep(at, snapshot, snapshot.close)

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
            self._write_noop("linearizable read")
            await self._wait_committed(self._store.last_optime, term, deadline)
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
            self._write_noop("periodic noop")
        await self._wait(lambda: oplog.last.timestamp >= after, deadline)
        await self._wait_decided(after, deadline)

    async def _wait_decided(self, at: int, deadline: float | None) -> None:
        """Wait until it is known of every transaction that was prepared at `at` or before how it ends: one that is
        committed as of `at` or before belongs to what is read.
        """
        sessions = self._store.sessions
        if sessions.is_prepared_at(at):
            await self._wait(lambda: not sessions.is_prepared_at(at), deadline)

    def _write_noop(self, message: str) -> None:
        with self._store.unit() as unit:
            unit.noop(bson.encode({"msg": message}))
            unit.commit()

    async def _wait_committed(self, wanted: OpTime, term: int, deadline: float | None) -> None:
        """Wait for an entry that we have written as the primary of `term` to be committed.

        A later term's commit point says nothing of it: that entry may have been rolled back.
        Errors: InterruptedDueToReplStateChange, MaxTimeMSExpired.
        """
        committed = False

        def settled() -> bool:
            nonlocal committed
            state = self._state()
            committed = committed or (state.term == term and state.commit_point >= wanted)
            return committed or state.term != term or not state.writable

        await self._wait(settled, deadline)
        if not committed:
            raise CommandError(Code.InterruptedDueToReplStateChange, "the node is no longer the primary that it was")

    async def _wait(self, condition: Callable[[], bool], deadline: float | None) -> None:
        if not await self._waiters.wait(condition, _limit(deadline)):
            raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")


async def _made(state: EarlierState | None, deadline: float | None) -> EarlierState | None:
    """The state when it has been made, in slices; None where there is no way back. Errors: MaxTimeMSExpired."""
    if state is None:
        return None
    try:
        done = False
        while not done:
            await asyncio.sleep(0)
            if deadline is not None and time.monotonic() > deadline:
                raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")
            done = state.step(time.monotonic, time.monotonic() + SLICE_SECONDS)
    except UnrecoverableRollback:
        state.close()
        return None
    except BaseException:
        state.close()
        raise
    return state


def _limit(deadline: float | None, most: float | None = None) -> float | None:
    """How many seconds to wait: until the deadline, and at most so many."""
    left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
    return left if most is None else most if left is None else min(left, most)
