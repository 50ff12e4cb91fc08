"""A running member: the core with its driver, its oplog and its sync source.

It performs the core's decisions: fetch, drain, first entry of a term. After each turn of the loop that changed the
oplog, it reports the oplog's state to the core. `on_change` is called after every event: replies to waiting clients,
snapshots and hello depend on it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
from bson.objectid import ObjectId

from docstore.collection.oplog.oplog import INITIATION
from docstore.log import component
from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.addresses import local_hosts, own_hosts
from docstore.replicaset.driver import Driver
from docstore.replicaset.flusher import GroupFlusher
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.sync.sync_source import SyncSourceFollower
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.core import Core
from docstore.replication.messages import BecamePrimary, Event, FollowerState, Progress, Recognized
from docstore.replication.state import State
from docstore.replication.states import MemberState, PrimaryState, Role

if TYPE_CHECKING:
    from docstore.collection.store import Store
    from docstore.net.pool import Pool

LOG = component("REPL")
REPORT_SECONDS = 0.002
FIRST_SEARCH_SECONDS = 0.1
LAST_SEARCH_SECONDS = 30.0
"""A member missing from its configuration asks the hosts if they are itself, at growing intervals up to this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """Identity of this process. `own_addresses`: every "name:port" by which a configuration may refer to it."""

    set_name: str
    host: str
    """"name:port" as others reach it."""
    own_addresses: frozenset[str]
    dbpath: Path
    config_server: bool = False
    process_id: ObjectId = field(default_factory=ObjectId)


class Membership:
    """A member; created before the loop runs, started on it.

    `syncing` and `driver` are set once `start` has returned.
    """

    driver: Driver
    syncing: SyncSourceFollower

    def __init__(
        self,
        identity: MemberIdentity,
        store: Store,
        pool: Pool,
        flusher: GroupFlusher,
        *,
        on_change: Callable[[], None],
        on_stepped_down: Callable[[], None],
        on_primary: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.store = store
        self.pool = pool
        self.flusher = flusher
        self.local = LocalState(store)
        self._on_change = on_change
        self._on_stepped_down = on_stepped_down
        self._on_primary = on_primary
        self._dice = random.Random()
        self._report_timer: asyncio.TimerHandle | None = None
        self._report_wanted = False
        self._reported = (NULL_OPTIME, NULL_OPTIME)
        self._searching = False
        self.core: Core

    @property
    def state(self) -> State:
        return self.core.state

    async def start(self) -> None:
        """Restore term, vote, configuration and an unfinished initial sync from disk, and start."""
        assert self.store.oplog is not None
        self.store.oplog.writable = False
        await self.flusher.wait_flushed()
        config, identity = self.local.config, self.identity
        hosts = set(identity.own_addresses)
        if config is not None:
            hosts |= await local_hosts([m.host for m in config.members], hosts)
        cut_off = self.local.initial_sync
        last = NULL_OPTIME if cut_off else self.store.last_optime
        loop = asyncio.get_running_loop()
        self.core = Core(
            identity.set_name,
            rng=self._dice.random,
            own_hosts=hosts,
            config=config,
            vote=self.local.vote,
            last_op=last,
            now=loop.time(),
        )
        self._reported = (last, last)
        self.syncing = SyncSourceFollower(
            self,
            self.store,
            self.local,
            self.pool,
            flush=self.flush,
            clock=loop.time,
            wall_clock=time.time,
            dbpath=identity.dbpath,
        )
        self.driver = Driver(self.core, self, self.local, self.pool, flush=self.flush)
        self.flusher.subscribe(lambda _durable: self.report_progress())
        self.after()
        self.driver.start()

    async def stop(self) -> None:
        """End all activity; the oplog stays as it is."""
        await self.syncing.stop()
        await self.driver.close()

    async def flush(self) -> None:
        """Return when all writes are on disk."""
        await self.flusher.wait_flushed()

    def deliver(self, event: Event) -> None:
        """Deliver an event without a reply to the core."""
        self.driver.deliver(event)

    def request(self, make_event: Callable[[int], Event]) -> asyncio.Future[Any]:
        """Deliver a request or command, created with a token, to the core; return the future reply.

        The reply is set already if the core replies at once. Errors: CommandError, also as the reply.
        """
        return self.driver.ask(make_event)

    def committed(self, optime: OpTime | None) -> None:
        """Schedule a report of the oplog's end after a committed unit.

        One report covers further writes until then, and the end of a running flush. Callers in a hurry use
        `report_soon`.
        """
        if optime is not None and self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(REPORT_SECONDS, self._report_due)

    def _report_due(self) -> None:
        self._report_timer = None
        if self.state.role is not Role.LEADER or not self.flusher.is_flushing:
            # A primary needs no news of its own oplog before the end of the flush, which is reported.
            self.report_progress()

    def report_soon(self) -> None:
        """Report at the next turn of the loop, because a caller waits for the written entries."""
        if not self._report_wanted and self.store.last_optime != self._reported[0]:
            self._report_wanted = True
            asyncio.get_running_loop().call_soon(self.report_progress)

    def report_progress(self) -> None:
        """Report the end of the oplog and its durable position to the core, if changed."""
        self._report_wanted = False
        if self._report_timer is not None:
            self._report_timer.cancel()
            self._report_timer = None
        if self.syncing.needs_initial_sync:
            return
        applied = self.store.last_optime
        reached = (applied, min(self.flusher.durable, applied))
        if reached != self._reported:
            self._reported = reached
            self.deliver(Progress(applied=reached[0], durable=reached[1]))

    # Effects that the driver delegates

    def follow(self, source: str | None) -> None:
        self.syncing.follow(source)

    def drain(self, term: int) -> None:
        self.syncing.drain(term)

    def become_primary(self, term: int) -> None:
        """Write the first entry of the term; from then on clients may write.

        The entries fetched last are reported first: they may be of a later term, which ends this one.
        """
        self.report_progress()
        state = self.state
        if state.term != term or state.primary_state is not PrimaryState.DRAINING:
            return
        assert self.store.oplog is not None
        self.store.oplog.term, self.store.oplog.writable = term, True
        self._on_primary()
        with self.store.unit() as unit:
            unit.noop(bson.encode({"msg": "new primary"}))
            unit.commit()
        self.report_progress()
        self.deliver(BecamePrimary(term=term))
        self.flusher.flush_soon()
        LOG.info("Transition to primary complete; database writes are now permitted", term=term)

    def stepped_down(self, term: int, reason: str) -> None:
        assert self.store.oplog is not None
        self.store.oplog.writable = False
        LOG.info("Stepping down", term=term, reason=reason)
        self._on_stepped_down()

    def after(self) -> None:
        """Leave STARTUP once there is a configuration, then call `on_change`."""
        state = self.state
        if state.config is not None and state.follower_state is MemberState.STARTUP:
            arbiter = state.me is not None and state.me.arbiter_only
            initial_state = (
                MemberState.STARTUP2 if self.syncing.needs_initial_sync and not arbiter else MemberState.SECONDARY
            )
            self.deliver(FollowerState(state=initial_state))
            return
        if state.me is None and state.config is not None and not self._searching:
            self._searching = True
            self.driver.spawn(self._search())
        if self.local.copied_until is not NULL_OPTIME and self.local.copied_until <= state.commit_point:
            # From here on every entry that may have to be undone has its undo record.
            self.local.write_initial_sync(False)
        self._on_change()

    async def find_own_hosts(self, config: ReplicaSetConfig) -> None:
        """Find the hosts of this process in a configuration that is about to be installed."""
        proposed = [member.host for member in config.members]
        hosts = await own_hosts(proposed, self.state.own_hosts, self.pool, self.identity.process_id)
        if not hosts <= self.state.own_hosts:
            self.deliver(Recognized(hosts=frozenset(hosts)))

    async def _search(self) -> None:
        """Repeat the search for own hosts while there is none: some can be recognised only once the listener runs."""
        last_config: ReplicaSetConfig | None = None
        while (config := self.state.config) is not None and self.state.me is None:
            if config is not last_config:
                last_config, pause = config, FIRST_SEARCH_SECONDS
            await self.find_own_hosts(config)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_SEARCH_SECONDS)
        self._searching = False

    # Reports of the sync source follower

    def log_advanced(self) -> None:
        """Flush applied entries: others wait for them to be on disk here."""
        self.flusher.flush_soon()

    def log_cut(self) -> None:
        """Report a rollback's cut of the oplog."""
        self.flusher.rewind(self.store.last_optime)
        self.report_progress()

    def initial_sync_done(self) -> None:
        """Report a complete and durable copy, and become SECONDARY."""
        self.report_progress()
        self.deliver(FollowerState(state=MemberState.SECONDARY))

    def seed_log(self) -> OpTime:
        """Write the first entry of a new set's oplog, unless there are entries; return the optime."""
        assert self.store.oplog is not None
        if self.store.last_optime == NULL_OPTIME:
            self.store.oplog.term, self.store.oplog.writable = 0, True
            with self.store.unit() as unit:
                unit.noop(bson.encode({"msg": INITIATION}))
                unit.commit()
            self.store.oplog.writable = False
        self.syncing.needs_initial_sync = False
        return self.store.last_optime
