"""A client of a replica set, which finds and follows its primary.

A command is resent only if that is safe: the member reported that it did nothing (it is not the primary), or the caller
states that the command is idempotent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

import bson

from docstore.commands.concerns import PRIMARY, ReadPreference
from docstore.errors import STATE_CHANGE_CODES, Code, CommandError
from docstore.net.errors import NetworkError
from docstore.net.monitor import Monitor
from docstore.net.pool import Pool
from docstore.net.topology import Member, Topology, member_from_hello, with_round_trip
from docstore.query.value.notation import display_document

NOT_DONE_CODES = frozenset((Code.NotWritablePrimary, Code.NotPrimaryNoSecondaryOk, Code.NotPrimaryOrSecondary))
"""Codes with which a member refuses a command before any effect."""
_NEAR_SECONDS = 0.015
_RETRY_PAUSE_SECONDS = 0.02


class ReplicaSetClient:
    """The client of one set. Monitors its members from the first command until `close`.

    An empty `set_name` accepts the seeds' set, or a standalone node. `on_change` is called after each change of the
    topology.
    """

    def __init__(
        self,
        seeds: Sequence[str],
        set_name: str,
        pool: Pool,
        *,
        on_change: Callable[[ReplicaSetClient], None] = lambda _client: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._topology = Topology(seeds, set_name)
        self.known_primary: str | None = None
        """The current primary's address, if there is one."""
        self._seeds = tuple(seeds)
        self._pool = pool
        self._clock = clock
        self._on_change = on_change
        self._monitors: dict[str, Monitor] = {}
        self._waiters: set[asyncio.Future[None]] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._turn = 0
        self._closed = False

    @property
    def set_name(self) -> str:
        """The set's name; empty if unknown."""
        return self._topology.set_name

    @property
    def topology(self) -> Topology:
        """The current topology, read-only."""
        return self._topology

    @property
    def hosts(self) -> tuple[str, ...]:
        """The members' addresses, sorted."""
        return tuple(sorted(self._topology.members))

    @property
    def connection_string(self) -> str:
        """The connection string `set/host,host`, as in config documents."""
        return f"{self.set_name}/{','.join(self.hosts)}" if self.set_name else ",".join(self.hosts)

    def start(self) -> None:
        """Start the monitors of the members."""
        assert not self._closed, "a closed client is not used again"
        self._watch()

    async def close(self) -> None:
        """Stop the monitors; callers waiting for a member get an error."""
        self._closed = True
        for monitor in list(self._monitors.values()):
            await monitor.stop()
        self._monitors.clear()
        self.known_primary = None
        self._wake()

    async def primary(self, timeout: float) -> str:
        """Return the primary's address. Errors: as `select`."""
        return await self.select(PRIMARY, timeout)

    async def select(self, read_preference: ReadPreference, timeout: float) -> str:
        """Return the address of a member that may serve the read, waiting at most `timeout` seconds.

        Members at similar distance alternate. Errors: FailedToSatisfyReadPreference.
        """
        if not self._monitors and not self._closed:
            self._watch()
        deadline = self._clock() + timeout
        while not self._closed:
            members = self._topology.suitable(read_preference)
            if members:
                return self._one_of(members)
            if not await self._changed(deadline):
                break
        name = self.set_name or ",".join(self._seeds)
        preference_text = display_document(bson.encode(read_preference.document()))
        raise CommandError(
            Code.FailedToSatisfyReadPreference,
            f"Could not find host matching read preference {preference_text} for set {name}",
        )

    def suspect(self, address: str) -> None:
        """Mark a member's state as unknown, and check it at once."""
        if self._topology.suspect(address):
            self._note_primary()
            self._wake()
            self._on_change(self)
        monitor = self._monitors.get(address.lower())
        if monitor is not None:
            monitor.check_now()

    async def command(
        self,
        db: str,
        command: Mapping[str, Any] | bytes,
        *,
        read_preference: ReadPreference = PRIMARY,
        retry: bool = False,
        sequences: Mapping[str, list[bytes]] | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> bytes:
        """Run a command on a member and return the raw reply.

        Refusals without effect are retried until `timeout` (seconds); with `retry` (the command is idempotent) also
        failures with an unknown outcome. Errors: NetworkError; CommandError of the reply unless `check` is False;
        FailedToSatisfyReadPreference.
        """
        deadline = self._clock() + timeout
        while True:
            address = await self.select(read_preference, max(deadline - self._clock(), 0.0))
            remaining_seconds = max(deadline - self._clock(), 0.001)
            try:
                return await self._pool.command(
                    address, db, command, sequences=sequences, timeout=remaining_seconds, check=check
                )
            except NetworkError as error:
                self.suspect(address)
                if not (retry or not error.sent) or self._clock() >= deadline:
                    raise
            except CommandError as error:
                if error.code not in STATE_CHANGE_CODES:
                    raise
                self.suspect(address)
                if not (retry or error.code in NOT_DONE_CODES) or self._clock() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_PAUSE_SECONDS)

    def _one_of(self, members: list[Member]) -> str:
        nearest = members[0].round_trip
        near = [member for member in members if member.round_trip <= nearest + _NEAR_SECONDS]
        self._turn += 1
        return near[self._turn % len(near)].address

    async def _changed(self, deadline: float) -> bool:
        """Wait for news of a member; False at the deadline."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(max(deadline - self._clock(), 0.0)):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiters.discard(waiter)
        return True

    def _note_primary(self) -> None:
        primary = self._topology.primary
        self.known_primary = None if primary is None else primary.address

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _watch(self) -> None:
        """Run exactly one monitor per member."""
        members = self._topology.members
        if not members:
            # No member is left: restart from the seeds, since the set may have been reconfigured.
            self._topology = Topology(self._seeds, self._topology.set_name)
            members = self._topology.members
        for address in members.keys() - self._monitors.keys():
            self._monitors[address] = Monitor(address, self._pool, self._heard, self._clock)
        for address in self._monitors.keys() - members.keys():
            task = asyncio.ensure_future(self._monitors.pop(address).stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)

    def _heard(self, address: str, hello: Mapping[str, Any] | None, round_trip: float) -> None:
        if self._closed:
            return
        member = Member(address) if hello is None else member_from_hello(address, hello, round_trip, self._clock())
        before = self.known_primary
        if self._topology.update(with_round_trip(member, self._topology.members.get(address))):
            self._watch()
            self._note_primary()
            if before not in (None, address, self.known_primary) and before in self._monitors:
                # The former primary may have lost power: then its open requests hang, including the monitor's.
                self._monitors[before].check_now()
            self._wake()
            self._on_change(self)
