"""A replica set member as the node uses it: permission to write and read, hello, write concerns.

`membership` (the core, its driver and its sync source), `write_concern` (waiting writers) and `read` (waiting readers)
do the work. This module combines them into the node's interface, which `Standalone` has too. All waiters are woken by
events; `_changed` is called after each of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from docstore.commands.concerns import DEFAULT_WRITE_CONCERN, MAJORITY
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.errors import NetworkError
from docstore.optime import NULL_OPTIME, OpTime, unpack_timestamp
from docstore.replicaset.cluster_times import MemberTimes
from docstore.replicaset.concern_defaults import ConcernDefaults
from docstore.replicaset.flusher import GroupFlusher
from docstore.replicaset.hello import hello_fields, topology_seen
from docstore.replicaset.membership import MemberIdentity, Membership
from docstore.replicaset.oplog_limits import OplogLimits
from docstore.replicaset.read.read_concern import ReadConcernWaiters
from docstore.replicaset.waiters import Waiters
from docstore.replicaset.write_concern import WriteConcernWaiters
from docstore.replication.messages import StepDown
from docstore.replication.progress import Acknowledgement, check_satisfiable
from docstore.replication.states import MemberState, PrimaryState

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.commands.concerns import ReadConcern, ReadPreference, WriteConcern
    from docstore.net.pool import Pool
    from docstore.security.time_proofs import TimeProofs
    from docstore.storage.engine import Engine, Reader

LOG = component("REPL")
HAND_OVER_SECONDS = 10.0
HAND_OVER_SENT_SECONDS = 0.5
_ADVANCE_SECONDS = 5.0
_BEFORE_ADVANCE_SECONDS = 0.01
"""What a busy primary takes at most to send the entry that a secondary's reader waits for."""
_BETWEEN_ADVANCES_SECONDS = 1.0


class ReplicaSet:
    """One member.

    Create it with the store; start it before the listener accepts; call `hand_over` while the listener still serves,
    and `stop` when it no longer does.

    * `leases`: states that `snapshot_reader` has returned and can return again without waiting.
    * `watchers` are called when the commit point advances; `awaiting` return True if someone waits for that.
    """

    _closing = False

    def __init__(
        self,
        *,
        engine: Engine,
        store: Store,
        pool: Pool,
        identity: MemberIdentity,
        oplog_bytes: int,
        on_step_down: Callable[[], None],
        on_primary: Callable[[], None],
        proofs: TimeProofs | None = None,
    ) -> None:
        """`on_step_down` kills operations that need a primary; `on_primary` resumes an earlier primary's unfinished
        work, before clients may write. `proofs` sign the times of replies.
        """
        self.set_name = identity.set_name
        self.host = identity.host
        self._store, self.concern_defaults = store, ConcernDefaults(store)
        self._oplog = store.attach_oplog(oplog_bytes)
        self._process_id = identity.process_id
        self.flusher = GroupFlusher(engine.flush, position=lambda: store.last_optime)
        self.membership = Membership(
            identity,
            store,
            pool,
            self.flusher,
            on_change=self._changed,
            on_stepped_down=on_step_down,
            on_primary=on_primary,
        )
        self.oplog_limits = OplogLimits(self._oplog, self.membership.local, time.time)
        self._acknowledging = WriteConcernWaiters(
            lambda: self.membership.state, self.flusher, time.monotonic, in_log=self._oplog.holds
        )
        self._reading = ReadConcernWaiters(
            store, lambda: self.membership.state, lambda after: _advance_primary(self.membership, after)
        )
        self.leases = self._reading.leases
        self._events, self._topology = Waiters(), Waiters()
        self._tails: list[asyncio.Future[None]] = []
        self._topology_counter = 0
        self._appearance: tuple[object, ...] = ()
        self._shown = MemberState.STARTUP
        self._noted = (NULL_OPTIME, NULL_OPTIME)
        self.watchers: list[Callable[[], None]] = []
        self.awaiting: list[Callable[[], bool]] = []
        self._reign = (0, False)
        pool.times = times = MemberTimes(self._oplog, lambda: self.membership.state.config is not None, proofs)
        self.gossip = times.gossip
        self.started = time.monotonic()

    async def start(self) -> None:
        """Restore durable state and begin heartbeats."""
        self._store.watchers.append(self._committed)
        await self.membership.start()

    async def hand_over(self, seconds: float = HAND_OVER_SECONDS, *, leaving: bool = False) -> CommandError | None:
        """Step down if primary, once a secondary can take over; return the error if none could within `seconds`.

        Secondaries can catch up only while the listener serves them; only reachable ones are waited for. From then on a
        member that is `leaving` rejects hello with ShutdownInProgress, also a waiting one.
        """
        refused = await _stop_being_primary(self.membership, seconds)
        if leaving:
            self._closing = True
            self._topology_counter += 1
            self._topology.wake()
        return refused

    async def stop(self) -> None:
        """Hand over to a secondary that is up to date, if any; end all activity; flush."""
        await self.hand_over(0.0)
        await self.membership.stop()
        if self._committed in self._store.watchers:
            self._store.watchers.remove(self._committed)
        self._reading.close()
        await self.flusher.stop()

    @property
    def defaults_to_majority(self) -> bool:
        """True if a write without a write concern waits for a majority (rule 16)."""
        config = self.membership.state.config
        return config is not None and config.defaults_to_majority

    @property
    def default_write_concern(self) -> WriteConcern:
        """The write concern of a write that has none."""
        concern = self.concern_defaults.write
        # The document on config servers is the cluster's: its default applies to writes on shards only.
        if concern is not None and not self.membership.identity.config_server:
            return concern
        return MAJORITY if self.defaults_to_majority else DEFAULT_WRITE_CONCERN

    def data_bearing_voters(self) -> int:
        """Return the number of voting members with data."""
        config = self.membership.state.config
        return 0 if config is None else sum(member.data_bearing for member in config.voters)

    def check_satisfiable(self, concern: WriteConcern) -> None:
        """Reject a write concern that the configuration can never satisfy.

        Errors: UnsatisfiableWriteConcern, UnknownReplWriteConcern.
        """
        config = self.membership.state.config
        if config is not None:
            check_satisfiable(Acknowledgement(w=concern.w, journal=False), config)

    def check_write(self) -> None:
        """Require that this member is the writable primary. Errors: NotWritablePrimary (10107)."""
        if self.membership.core.state.primary_state is not PrimaryState.WRITABLE:
            raise CommandError(Code.NotWritablePrimary, "not primary")

    def check_read(self, read_preference: ReadPreference | None) -> None:
        """Require that the read may run here.

        Errors: NotPrimaryNoSecondaryOk (13435), NotPrimaryOrSecondary (13436).
        """
        state = self.membership.core.state
        if state.primary_state is PrimaryState.WRITABLE:
            return
        if not state.member_state.readable:
            raise CommandError(Code.NotPrimaryOrSecondary, "node is not in primary or recovering state")
        if read_preference is None or not read_preference.secondary_ok:
            raise CommandError(Code.NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")

    def hello(self) -> dict[str, Any]:
        """Return the set's fields of a hello reply; `isreplicaset` before initiation.

        The legacy command renames isWritablePrimary to ismaster.
        """
        if self._closing:
            raise CommandError(Code.ShutdownInProgress, "The server is in quiesce mode and will shut down")
        state = self.membership.state
        return hello_fields(state, self._store.last_optime, state.commit_point)

    def topology_version(self) -> dict[str, Any]:
        """Return `{processId, counter}`; the counter grows with each change that hello shows."""
        return {"processId": self._process_id, "counter": Int64(self._topology_counter)}

    def state_version(self) -> dict[str, Any]:
        """Return the topology version, for errors about a change of state."""
        return self.topology_version()

    async def wait_topology_change(self, counter: int, timeout: float) -> None:
        """Return when the counter is no longer `counter`, or after `timeout` seconds."""
        await self._topology.wait(lambda: self._topology_counter != counter, timeout)

    @property
    def committed(self) -> OpTime:
        """The newest entry here that will not be rolled back."""
        return min(self.membership.state.commit_point, self._store.last_optime)

    async def wait_oplog(self, after: int, timeout: float) -> None:
        """Return when the oplog has an entry later than the packed timestamp `after`, or after `timeout` seconds.

        Tailing cursors on local.oplog.rs wait here.
        """
        loop = asyncio.get_running_loop()
        if self._oplog.last.timestamp > after or timeout <= 0:
            return
        tail: asyncio.Future[None] = loop.create_future()
        self._tails.append(tail)
        timer = loop.call_later(timeout, _wake, tail)
        try:
            await tail
        finally:
            timer.cancel()
            if tail in self._tails:
                self._tails.remove(tail)

    async def wait_write(
        self, optime: OpTime | None, write_concern: WriteConcern, deadline: float | None
    ) -> dict[str, Any] | None:
        """Wait for the write concern; return a writeConcernError document if it fails, else None."""
        config = self.membership.state.config
        journaled = write_concern.j or (write_concern.w == "majority" and config is not None and config.journal_default)
        if not journaled:
            # Otherwise nothing is gained before the flush ends, which is reported anyway.
            self.membership.report_soon()
        return await self._acknowledging.wait(optime, write_concern, deadline)

    async def reader(
        self, read_concern: ReadConcern | None, deadline: float | None
    ) -> tuple[Reader, Callable[[], None]]:
        """Return (snapshot for the read concern, release function).

        It waits for afterClusterTime, and for a majority read until there is a state at the commit point. Errors:
        MaxTimeMSExpired.
        """
        return await self._reading.open(read_concern, deadline)

    def newest_state(self, read_concern: ReadConcern) -> int | None:
        """Return the packed timestamp of the newest state if a read gets that state without waiting; else None.

        It predicts the result of `reader` and `snapshot_reader`.
        """
        return self._reading.newest(read_concern)

    async def snapshot_reader(
        self, read_concern: ReadConcern, deadline: float | None
    ) -> tuple[int, Reader, Callable[[], None]]:
        """Return (packed timestamp, majority-committed state at it, release function), for read concern "snapshot"."""
        return await self._reading.open_snapshot(read_concern, deadline)

    def observe_cluster_time(self, time: int) -> None:
        """Implement `docstore.commands.host.Host`."""
        if self.membership.state.config is not None:
            self._oplog.observe(time)

    async def wait_for(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Check a condition on the core's state after each event; return False after `timeout` seconds."""
        return await self._events.wait(condition, timeout)

    def _committed(self, optime: OpTime | None) -> None:
        """Wake tailing cursors and schedule a report, after each write of the store, in the writer's step."""
        self.flusher.touched(soon=any(awaits() for awaits in self.awaiting))
        if self._tails:
            tails, self._tails = self._tails, []
            for tail in tails:
                _wake(tail)
        self.membership.committed(optime)

    def _changed(self) -> None:
        """Wake all waiters after an event of the core."""
        state = self.membership.state
        noted = (self._store.last_optime, state.commit_point)
        if noted != self._noted:
            former, self._noted = self._noted, noted
            has_all_data = state.follower_state is not MemberState.STARTUP2
            if has_all_data and min(noted) != NULL_OPTIME:
                self._store.discard_undo(min(noted))
            self._reading.progressed(*noted, keep=has_all_data)
            if min(noted) != min(former):
                for watcher in self.watchers:
                    watcher()
        reign = (state.term, state.writable)
        if reign != self._reign:
            self._reign = reign
            self._reading.wake()
        self._acknowledging.wake()
        self._events.wake()
        appearance = topology_seen(state)
        if appearance != self._appearance:
            self._appearance = appearance
            if state.member_state is not self._shown:
                before, self._shown = self._shown, state.member_state
                LOG.info("Replica set state transition", newState=self._shown.name, oldState=before.name)
            self._topology_counter += 1
            self._topology.wake()


async def _stop_being_primary(membership: Membership, seconds: float) -> CommandError | None:
    state = membership.state
    if not state.writable or not state.peers:
        return None
    LOG.info("Handing over before shutdown")
    wait = seconds if any(peer.up for peer in state.peers.values()) else 0.0
    refused: CommandError | None = None
    try:
        await membership.request(
            lambda token: StepDown(seconds=max(60.0, wait), catch_up_seconds=wait, while_reachable=True, token=token)
        )
    except CommandError as refusal:
        LOG.info("No hand-over", reason=refusal.message)
        refused = refusal
    await membership.driver.sent(HAND_OVER_SENT_SECONDS)
    return refused


async def _advance_primary(membership: Membership, after: int) -> None:
    """Ask the primary, whichever member it is by then, for reads after a cluster time until cancelled.

    Before it answers one it writes an entry of that time.
    """
    concern = {"level": "local", "afterClusterTime": unpack_timestamp(after)}
    command = {"find": "startup_log", "limit": 1, "readConcern": concern}
    await asyncio.sleep(_BEFORE_ADVANCE_SECONDS)
    while True:
        primary = membership.state.primary
        if primary is not None:
            with suppress(NetworkError, CommandError):
                await membership.pool.command(primary.host, "local", command, timeout=_ADVANCE_SECONDS)
        await asyncio.sleep(_BETWEEN_ADVANCES_SECONDS)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
