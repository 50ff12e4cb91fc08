"""States for reads beyond the newest one: at a cluster time, or majority-committed (rule 17)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

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
"""Seconds that a majority read waits for the commit point to reach a snapshot before it makes the state itself."""

SLICE_SECONDS = 0.002
_BETWEEN_RELEASES_SECONDS = 0.01


class ReadConcernWaiters:
    """The waiting readers of one member, and the `leases` of states. Deadlines are in monotonic seconds."""

    def __init__(
        self, store: Store, state: Callable[[], State], advance_primary: Callable[[int], Coroutine[Any, Any, None]]
    ) -> None:
        """`advance_primary`: have the primary's oplog reach a packed cluster time; until cancelled."""
        self._store = store
        self._state = state
        self._advance_primary = advance_primary
        self._snapshots = MajoritySnapshots(store.engine)
        self.leases = SnapshotLeases(time.monotonic)
        self._waiters = Waiters()
        self._making = asyncio.Lock()
        self._releasing: asyncio.Handle | None = None

    def progressed(self, last: OpTime, commit_point: OpTime, *, keep: bool) -> None:
        """Note a new end of the oplog or a new commit point. `keep`: the current state may be read.

        Otherwise an initial sync is rebuilding it, and older snapshots may be of an oplog that no longer exists
        anywhere.
        """
        if keep:
            self._snapshots.note(last, commit_point)
        else:
            self._snapshots.close()
        self.leases.expire()
        self._waiters.wake()
        self._release()

    def wake(self) -> None:
        """Wake the waiters after this member has become primary, or has stepped down."""
        self._waiters.wake()

    def _release(self) -> None:
        """Release unneeded snapshots step by step until none is left, also while the oplog does not grow."""
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
        """Return the packed timestamp of the newest state if a read gets that state without waiting; else None.

        It predicts the result of `open` or `open_snapshot`. For read concern "snapshot" the state is kept for later
        requests of its time.
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
        """Return (state, release function). Errors: MaxTimeMSExpired, InvalidOptions, those of `open_linearizable`."""
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
        """Return (position, committed state, release function).

        The state contains everything committed before the call, and waits for `after`. On a primary that includes
        writes acknowledged by earlier primaries. Errors: MaxTimeMSExpired; InterruptedDueToReplStateChange if it steps
        down before it knows of these.
        """
        new_in_term = self._state().term if self._new_in_its_term() else None
        await self._wait(lambda: self._committed().timestamp >= max(after, 1) and not self._new_in_its_term(), deadline)
        if new_in_term is not None and self._state().commit_point.term < new_in_term:
            raise CommandError(Code.InterruptedDueToReplStateChange, "the node is no longer the primary that it was")
        committed_now = self._committed()
        if not await self._waiters.wait(
            lambda: self._snapshots.committed >= committed_now, _limit(deadline, PATIENCE_SECONDS)
        ):
            await self._take_back(committed_now)
        await self._wait(lambda: self._snapshots.committed >= committed_now, deadline)
        opened = self._snapshots.open()
        assert opened is not None, "a committed state stays until there is a later one"
        return opened

    def _committed(self) -> OpTime:
        """Return the newest entry here that will not be rolled back."""
        return min(self._state().commit_point, self._store.last_optime)

    def _new_in_its_term(self) -> bool:
        """Return True on a primary that does not know yet which of its predecessors' entries are committed.

        It knows once an entry of its own term is committed.
        """
        state = self._state()
        return state.writable and state.commit_point.term < state.term

    async def _take_back(self, optime: OpTime) -> None:
        """Make the committed state at `optime`, if the undo records allow.

        Waiting is not enough: the next snapshot may never be committed, as the majority may be gone.
        """
        state = await _build_state(self._snapshots.earlier_state(optime), None)
        if state is not None:
            self._snapshots.keep(optime, state)

    async def open_snapshot(
        self, concern: ReadConcern, deadline: float | None
    ) -> tuple[int, Reader, Callable[[], None]]:
        """Return (packed timestamp, majority-committed state at it, release function).

        Without `atClusterTime` it is the newest such state. States are kept for a while for repeated requests; other
        states of the last minutes are made from undo records. Errors: InvalidOptions, MaxTimeMSExpired, SnapshotTooOld
        for a state that can no longer be made.
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
            # One at a time, because each may use the memory of many undo records.
            if not self.leases.has(at):
                await self._lease_past(at, deadline)
            return at, *self.leases.open(at)

    async def _lease_past(self, at: int, deadline: float | None) -> None:
        """Keep the state at `at`, a time before the oplog's end: that of the last entry up to `at`.

        It waits until it is certain that no entry lies in between. Errors: MaxTimeMSExpired, SnapshotTooOld.
        """
        oplog = self._store.oplog
        assert oplog is not None
        # Transactions with a commit time before their entry's must be included too.
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
            state = await _build_state(state_before(snapshot, release, entry_optime(entry), at), deadline)
        if state is None:
            raise CommandError(
                Code.SnapshotTooOld,
                f"Read timestamp {unpack_timestamp(at)} is older than the oldest available timestamp.",
            )
        self.leases.keep(at, state, state.close, state.undo_bytes)

    def _is_delayed(self, at: int) -> bool:
        """Return True if a transaction prepared by `at` may be committed as of `at` or before, by a later entry."""
        sessions = self._store.sessions
        return sessions.is_prepared_at(at) or sessions.last_delayed > at

    async def _lease_present(self, at: int, deadline: float | None) -> None:
        """Keep the present state as the one at `at`.

        Later writes here have later timestamps. Once a majority has an entry at or after `at`, no later primary can
        write at or before it. Errors: those of `_wait_committed`.
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
        """Return the newest state, once no other member can have been primary when it was taken.

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
        if oplog.last.timestamp < after:
            # An idle set receives no entries: its primary advances the oplog to the requested time.
            if self._state().writable:
                self._write_noop("periodic noop")
                await self._wait(lambda: oplog.last.timestamp >= after, deadline)
            else:
                asking = asyncio.ensure_future(self._advance_primary(after))
                try:
                    await self._wait(lambda: oplog.last.timestamp >= after, deadline)
                finally:
                    asking.cancel()
        await self._wait_decided(after, deadline)

    async def _wait_decided(self, at: int, deadline: float | None) -> None:
        """Wait for the outcome of all transactions prepared at `at` or before.

        Those committed as of `at` or before belong to the state.
        """
        sessions = self._store.sessions
        if sessions.is_prepared_at(at):
            await self._wait(lambda: not sessions.is_prepared_at(at), deadline)

    def _write_noop(self, message: str) -> None:
        with self._store.unit() as unit:
            unit.noop(bson.encode({"msg": message}))
            unit.commit()

    async def _wait_committed(self, optime: OpTime, term: int, deadline: float | None) -> None:
        """Wait until an entry written as the primary of `term` is committed.

        A later term's commit point does not prove it: the entry may have been rolled back. Errors:
        InterruptedDueToReplStateChange, MaxTimeMSExpired.
        """
        committed = False

        def settled() -> bool:
            nonlocal committed
            state = self._state()
            committed = committed or (state.term == term and state.commit_point >= optime)
            return committed or state.term != term or not state.writable

        await self._wait(settled, deadline)
        if not committed:
            raise CommandError(Code.InterruptedDueToReplStateChange, "the node is no longer the primary that it was")

    async def _wait(self, condition: Callable[[], bool], deadline: float | None) -> None:
        if not await self._waiters.wait(condition, _limit(deadline)):
            raise CommandError(Code.MaxTimeMSExpired, "operation exceeded time limit")


async def _build_state(state: EarlierState | None, deadline: float | None) -> EarlierState | None:
    """Make the state in slices and return it; None if the undo records are gone. Errors: MaxTimeMSExpired."""
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
    """Return the seconds to wait until the deadline, at most `most`; None: no limit."""
    remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
    return remaining if most is None else most if remaining is None else min(remaining, most)
