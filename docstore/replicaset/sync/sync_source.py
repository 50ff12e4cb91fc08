"""Follower of a sync source: initial sync if there are no data, then tailing of its oplog, with rollback on divergence.

* One source at a time: a new one starts only when the task of the former has ended.
* The next batch is requested before the current one is applied, so the source never waits for the applier.
* A source that rolls back may continue to return entries that do not follow the own oplog. These always differ in term
  (a term has one primary, which only appends). So at every change of term the source's rollback id is checked before
  the entry is applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.rollback import UnrecoverableRollback
from docstore.errors import CommandError
from docstore.log import component
from docstore.net.errors import NetworkError
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.driver import stop_the_process
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.apply import Applier
from docstore.replicaset.sync.initial_sync import InitialSync
from docstore.replicaset.sync.oplog_fetch import AttemptFailed
from docstore.replicaset.sync.progress import SyncProgress
from docstore.replicaset.sync.remote import RemoteMember
from docstore.replicaset.sync.rollback import NoCommonPoint, find_common_point, roll_back
from docstore.replicaset.sync.rollback_files import RollbackFiles
from docstore.replicaset.sync.sync_counts import SyncCounts
from docstore.replication.following import copy_counts
from docstore.replication.matching import Verdict, judge
from docstore.replication.messages import CatchUpEnded, Drained, Event, FollowerState, SourceFailed
from docstore.replication.state import State
from docstore.replication.states import MemberState, Role
from docstore.storage import DiskFull

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.net.pool import Pool

LOG = component("REPL")
RETRY_SECONDS = 1.0
TOO_STALE_SECONDS = 60.0
MAX_AWAIT_SECONDS = 5.0


class Member(Protocol):
    """The interface that the follower needs of its member."""

    @property
    def state(self) -> State: ...

    def deliver(self, event: Event) -> None:
        """Deliver an event to the core."""

    def log_advanced(self) -> None:
        """Report and flush applied entries."""

    def log_cut(self) -> None:
        """Report that a rollback has cut the oplog."""

    def initial_sync_done(self) -> None:
        """Report that the copy is complete: the oplog counts from now on."""


class SyncSourceFollower:
    """Follows the sync source that the core chooses."""

    def __init__(
        self,
        member: Member,
        store: Store,
        local: LocalState,
        pool: Pool,
        *,
        flush: Callable[[], Awaitable[None]],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        dbpath: Path,
    ) -> None:
        self._member = member
        self._store = store
        self._local = local
        self._pool = pool
        self._flush = flush
        self._clock = clock
        self._wall_clock = wall_clock
        self._directory = dbpath
        self.counts = SyncCounts()
        self._applier = Applier(
            store, clock=clock, wall_clock=wall_clock, progressed=member.log_advanced, counts=self.counts
        )
        self._task: asyncio.Task[None] | None = None
        self._runner: asyncio.Task[None] | None = None
        self._next: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._may_apply = asyncio.Event()
        self._may_apply.set()
        self.needs_initial_sync = local.initial_sync or store.last_optime == NULL_OPTIME
        self.progress = SyncProgress(wall_clock)

    def follow(self, source: str | None) -> None:
        """End the current work, then fetch from `source`."""
        self._replace(None if source is None else lambda: self._run(source))

    def drain(self, term: int) -> None:
        """End the current work at the next entry boundary, then report `Drained` to the core.

        Entries fetched but not applied may be dropped: they were never reported, and their other holders keep them.
        """

        async def tell() -> None:
            self._member.deliver(Drained(term=term))

        self._replace(tell)

    def hold(self, holding: bool) -> None:
        """Stop applying entries while `holding`."""
        if holding:
            self._may_apply.clear()
        else:
            self._may_apply.set()

    async def stop(self) -> None:
        """End the current work."""
        self._replace(None)
        if self._runner is not None:
            await self._runner

    def _replace(self, work: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        self._next = work
        if self._task is not None:
            self._task.cancel()
        if self._runner is None and work is not None:
            self._runner = asyncio.get_running_loop().create_task(self._work(), name="sync")

    async def _work(self) -> None:
        """Run pieces of work in sequence, each to its end, cancelled or not."""
        while self._next is not None:
            work, self._next = self._next, None
            self._task = asyncio.get_running_loop().create_task(work())
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                stop_the_process(asyncio.get_running_loop(), error)
            self._task = None
        self._runner = None

    async def _run(self, source: str) -> None:
        seconds, reason = RETRY_SECONDS, ""
        try:
            settings = self._member.state.config
            assert settings is not None
            remote = RemoteMember(
                self._pool,
                source,
                timeout=max(settings.settings.election_timeout, RETRY_SECONDS),
                replica_set_id=settings.settings.replica_set_id,
                counts=self.counts,
            )
            if self.needs_initial_sync:
                # Nothing is deleted here on behalf of another set's member.
                await remote.rollback_id()
                await self._initial_sync(remote)
            seconds, reason = await self._tail(remote)
        except (NetworkError, CommandError, DiskFull) as error:
            reason = str(error)
        except AttemptFailed as error:
            reason = str(error)
            self.progress.fail(reason)
        LOG.info("Sync source given up", source=source, reason=reason)
        if reason:
            self._member.deliver(SourceFailed(peer=source, seconds=seconds, reason=reason))

    async def _initial_sync(self, remote: RemoteMember) -> None:
        attempt = InitialSync(
            self._store,
            self._local,
            remote,
            flush=self._flush,
            clock=self._clock,
            progress=self.progress,
            directory=self._directory,
            counts=lambda last: copy_counts(self._member.state, last),
        )
        await attempt.run()
        self.counts.initial_syncs += 1
        self.needs_initial_sync = False
        self._member.initial_sync_done()

    async def _tail(self, remote: RemoteMember) -> tuple[float, str]:
        """Fetch and apply until something ends it; return (seconds to avoid the source, reason)."""
        config = self._member.state.config
        assert config is not None
        rollback_id = await remote.rollback_id()
        own_last = self._store.last_optime
        await_seconds = min(MAX_AWAIT_SECONDS, config.settings.election_timeout / 2)
        async with aclosing(remote.tail(own_last, await_seconds)) as tail:
            return await self._follow_tail(remote, rollback_id, own_last, tail)

    async def _follow_tail(
        self, remote: RemoteMember, rollback_id: int, own_last: OpTime, tail: AsyncIterator[list[bytes]]
    ) -> tuple[float, str]:
        entries = await anext(tail)
        first = entry_optime(entries[0]) if entries else None
        if first != own_last:
            verdict = judge(
                own_last,
                first,
                source_oldest=await remote.first_optime() or NULL_OPTIME,
                source_last=await remote.last_optime() or NULL_OPTIME,
            )
            if verdict is not Verdict.FETCH:
                return await self._part(verdict, remote, rollback_id)
        if self._member.state.follower_state is MemberState.RECOVERING:
            self._member.deliver(FollowerState(state=MemberState.SECONDARY))
        await self._apply_all(remote, rollback_id, entries[1:], tail)
        return 0.0, "the source closed its cursor"

    async def _apply_all(
        self, remote: RemoteMember, rollback_id: int, entries: list[bytes], tail: AsyncIterator[list[bytes]]
    ) -> None:
        while True:
            following = asyncio.ensure_future(anext(tail, None))
            try:
                self.counts.buffer(entries)
                await self._may_apply.wait()
                await self.apply_fetched(remote, rollback_id, entries)
                self.counts.buffer([])
                batch = await following
            except BaseException:
                self.counts.buffer([])
                following.cancel()
                await asyncio.wait([following])
                raise
            if batch is None:
                return
            entries = batch

    async def apply_fetched(self, remote: RemoteMember, rollback_id: int, entries: list[bytes]) -> None:
        """Apply entries of a source whose rollback id was `rollback_id` when fetching began.

        Errors: AttemptFailed if it has rolled back since.
        """
        me = self._member.state.me
        delay = 0 if me is None else me.delay_seconds
        while entries:
            term = self._store.last_optime.term
            same = 0
            # The last entry's term covers all before it: terms never fall.
            if entry_optime(entries[-1]).term == term:
                same = len(entries)
            else:
                while entry_optime(entries[same]).term == term:
                    same += 1
            if same == 0:
                if await remote.rollback_id() != rollback_id:
                    raise AttemptFailed("the source has rolled back")
                new_term = entry_optime(entries[0]).term
                same = sum(entry_optime(entry).term == new_term for entry in entries)
            await self._applier.apply(entries[:same], delay_seconds=delay)
            entries = entries[same:]

    async def _part(self, verdict: Verdict, remote: RemoteMember, rollback_id: int) -> tuple[float, str]:
        state = self._member.state
        if verdict is Verdict.TOO_STALE:
            if state.role is Role.FOLLOWER:
                self._stay_in_recovering(remote, "the source no longer has the entries that follow our last one")
            return TOO_STALE_SECONDS, "we are too stale for the source"
        if verdict is Verdict.OTHER_SOURCE:
            return RETRY_SECONDS, "the source is behind us"
        if verdict is Verdict.ASK_AGAIN:
            return 0.0, "the source has come further meanwhile"
        if state.role is Role.LEADER:
            self._member.deliver(CatchUpEnded(term=state.term))
            return RETRY_SECONDS, "the source's log parts from ours while catching up"
        if state.role is Role.CANDIDATE:
            return RETRY_SECONDS, "the source's log parts from ours during an election"
        following = state.follower_state
        self._member.deliver(FollowerState(state=MemberState.ROLLBACK))
        try:
            return await self._roll_back(remote, rollback_id)
        except (NoCommonPoint, UnrecoverableRollback) as error:
            if self.needs_initial_sync:
                following = MemberState.STARTUP2
                return 0.0, "rolled back by a new initial sync"
            following = MemberState.RECOVERING
            self._stay_in_recovering(remote, str(error))
            return TOO_STALE_SECONDS, "there is no way back to the source's log"
        finally:
            self._member.deliver(FollowerState(state=following))

    def _stay_in_recovering(self, remote: RemoteMember, reason: str) -> None:
        """Stay in RECOVERING and keep the data: others may have lost them, so only an operator may give them up."""
        LOG.error(
            "Too stale to follow, staying in RECOVERING. The data is kept; to sync anew, start with an empty database "
            "directory",
            source=remote.address,
            reason=reason,
            lastEntry=str(self._store.last_optime),
        )
        if self._member.state.follower_state is not MemberState.ROLLBACK:
            self._member.deliver(FollowerState(state=MemberState.RECOVERING))

    async def _roll_back(self, remote: RemoteMember, rollback_id: int) -> tuple[float, str]:
        """Roll back.

        Errors: NoCommonPoint, UnrecoverableRollback; AttemptFailed if the source is rolling back itself.
        """
        commit_point: OpTime = self._member.state.commit_point
        last = self._store.last_optime
        LOG.info("Our log parts from the source's, looking for where", source=remote.address, lastEntry=str(last))
        try:
            common = await find_common_point(self._store, remote)
        except NoCommonPoint as error:
            oldest = await remote.first_optime()
            await self._check_rollback_id(remote, rollback_id)
            if oldest is not None and oldest.timestamp <= self._local.copied_until.timestamp:
                # Its oplog reaches back to the end of the copy, and has another entry there.
                await self._copy_anew(error)
            raise
        await self._check_rollback_id(remote, rollback_id)
        try:
            await roll_back(
                self._store,
                self._local,
                common,
                commit_point=commit_point,
                files=RollbackFiles(self._directory / "rollback", self._wall_clock()),
                clock=self._clock,
                flush=self._flush,
            )
        except UnrecoverableRollback as error:
            if common < self._local.copied_until:
                await self._copy_anew(error)
            raise
        finally:
            self._member.log_cut()
        return 0.0, "rolled back"

    async def _copy_anew(self, error: Exception) -> None:
        """Start another initial sync, in place of a rollback of entries that came with the last one.

        They are not committed, or the source would have them. The data are only a copy, so copying the source again is
        the same as rolling back.
        """
        LOG.warning("Cannot roll back behind the initial sync, starting over with another", reason=str(error))
        self._local.write_initial_sync(True)
        await self._flush()
        self.needs_initial_sync = True

    @staticmethod
    async def _check_rollback_id(remote: RemoteMember, rollback_id: int) -> None:
        if await remote.rollback_id() != rollback_id:
            raise AttemptFailed("the source has rolled back")
