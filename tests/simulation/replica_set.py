"""A replica set of simulated machines: making one, waiting for it, and what must be true of it in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.key_layout import SESSION_PREFIX, after_prefix
from docstore.net import NetworkError, Pool
from docstore.node.process.settings import ClusterRole
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replication.states import MemberState
from docstore.storage import Family
from tests.checkers.history import Anomaly
from tests.checkers.members import check_converged, check_counts, check_hashes, check_sessions_agree
from tests.simulation.invariants import SetInvariants
from tests.simulation.leaks import leaks
from tests.simulation.process import Machine
from tests.simulation.programs import PORT, address, data_node
from tests.simulation.world import Broken, World

SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200, "catchUpTimeoutMillis": 2000}
LIVELY_SECONDS = 40.0
"""After the last fault has ended a set must have come to rest in this time."""
LEAK_SECONDS = 8.0
"""No operation of a client takes longer, even if the client has given it up."""


class SimulatedSet:
    """`machines` hold its members and spare machines that no configuration names yet."""

    def __init__(
        self, world: World, name: str, size: int, *, role: ClusterRole = ClusterRole.NONE, spares: int = 0,
        prefix: str = "m", oplog_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.world = world
        self.name = name
        self.size = size
        self.role = role
        self.parameters: dict[str, str] = {}
        program = data_node(name, role, oplog_bytes=oplog_bytes, parameters=self.parameters)
        self.machines = [world.machine(f"{prefix}{number}", program) for number in range(size + spares)]
        self.invariants = SetInvariants(world, name, self.machines)
        self.pool = Pool(application="administrator", connect_timeout=1.0)

    @property
    def hosts(self) -> list[str]:
        return [address(machine.name) for machine in self.machines[: self.size]]

    async def start(self, members: Sequence[Mapping[str, Any]] = (), settings: Mapping[str, Any] = SETTINGS) -> None:
        """Start all machines and initiate; `members` says what is special about each. Returns with a primary."""
        for machine in self.machines:
            machine.start()
        await self.until(lambda: all(machine.ready for machine in self.machines), 10.0, "machines started")
        config: dict[str, Any] = {"_id": self.name, "settings": dict(settings)}
        config["members"] = [
            {"_id": number, "host": host, **(members[number] if number < len(members) else {})}
            for number, host in enumerate(self.hosts)
        ]
        if self.role is ClusterRole.CONFIG:
            config["configsvr"] = True
        await self.pool.command(self.hosts[0], "admin", {"replSetInitiate": config})
        await self.settled()

    # Looking in from outside

    def replica_set(self, machine: Machine) -> ReplicaSet | None:
        """The member on that machine, if its process runs one."""
        if not machine.ready or machine.process is None or machine.process.node is None:
            return None
        replication = machine.process.node.node.replication
        return replication if isinstance(replication, ReplicaSet) else None

    def members(self) -> list[tuple[Machine, ReplicaSet]]:
        """Those that run."""
        found = ((machine, self.replica_set(machine)) for machine in self.machines)
        return [(machine, replica_set) for machine, replica_set in found if replica_set is not None]

    def primary(self) -> Machine | None:
        """The writable primary of the highest term."""
        writable = [(rs.membership.state.term, m.name, m) for m, rs in self.members() if rs.membership.state.writable]
        return max(writable)[2] if writable else None

    def secondary(self) -> Machine | None:
        found = [m for m, rs in self.members() if rs.membership.state.member_state is MemberState.SECONDARY]
        return self.world.fault_dice.choice(found) if found else None

    def recovering(self, machine: Machine) -> bool:
        """Whether the member on that machine follows nobody and does not serve."""
        replica_set = self.replica_set(machine)
        return replica_set is not None and replica_set.membership.state.member_state is MemberState.RECOVERING

    def recovered(self, machine: Machine) -> bool:
        """Whether the member on that machine serves reads."""
        replica_set = self.replica_set(machine)
        serving = (MemberState.PRIMARY, MemberState.SECONDARY)
        return replica_set is not None and replica_set.membership.state.member_state in serving

    def at_rest(self) -> bool:
        """Whether there is one primary, and everybody has all that it has."""
        primary = self.primary()
        if primary is None:
            return False
        leader = self.replica_set(primary)
        assert leader is not None
        state = leader.membership.state
        config, last = state.config, leader._oplog.last
        assert config is not None
        named = {member.host: member for member in config.members}
        if state.commit_point != last or any(member.newly_added for member in config.members):
            return False
        if state.me is not None and any(m.effective_priority > state.me.effective_priority for m in config.members):
            return False  # That member will take over.
        for machine, replica_set in self.members():
            member = named.get(f"{machine.name}:{PORT}")
            if member is None or machine is primary or member.arbiter_only:
                continue
            other = replica_set.membership.state
            if other.member_state is not MemberState.SECONDARY or replica_set._oplog.last != last:
                return False
            if other.commit_point != last or other.config_version != config.config_version:
                return False
        return len(self.members()) >= len(named) and self._all_fetch_from(primary)

    def _all_fetch_from(self, primary: Machine) -> bool:
        """Whether what members fetch comes from the primary, over whichever others."""
        sources = {address(machine.name): rs.membership.state.sync_source.host for machine, rs in self.members()}
        for host, replica_set in [(address(machine.name), rs) for machine, rs in self.members()]:
            me = replica_set.membership.state.me
            reached: str | None = host
            for _ in sources:
                reached = reached if reached == address(primary.name) else sources.get(reached or "")
            if me is not None and me.data_bearing and reached != address(primary.name):
                return False
        return True

    async def until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Errors: Broken when that takes longer."""
        end = self.world.now + seconds
        while not condition():
            if self.world.now > end:
                raise Broken(f"not in {seconds:g} s: {what}; {self.picture()}")
            await asyncio.sleep(0.02)

    async def settled(self, seconds: float = LIVELY_SECONDS) -> None:
        """Liveness: one primary, and everybody has all that it has, a while after the last fault."""
        await self.until(self.at_rest, seconds, f"the set {self.name} at rest")

    def picture(self) -> str:
        """For a failure's message."""
        shown = []
        for machine in self.machines:
            replica_set = self.replica_set(machine)
            if replica_set is None:
                shown.append(f"{machine.name}: down")
                continue
            state = replica_set.membership.state
            shown.append(
                f"{machine.name}: {state.member_state.label} term {state.term} last {replica_set._oplog.last} "
                f"committed {state.commit_point} source {state.sync_source.host}"
            )
        return "; ".join(shown)

    # The end

    async def command(self, machine: Machine, database: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Of an administrator, over a connection of its own."""
        pool = Pool(application="administrator", connect_timeout=1.0)
        return bson.decode(await pool.command(address(machine.name), database, command, timeout=10.0))

    async def anomalies(self, databases: Sequence[str] = ("test",)) -> list[Anomaly]:
        """What members hold differently, once the set is at rest."""
        before, hashes = None, dict[str, dict[str, str]]()
        # A request that was long on its way writes even now.
        while before != (positions := self._positions()):
            await self.settled()
            before = self._positions()
            hashes = {machine: await self._hashes(machine, databases) for machine in before}
        found = [*check_converged(positions), *check_hashes(hashes), *self._miscounted(databases)]
        found += check_sessions_agree(self._sessions(list(positions)))
        return [*found, *(await self.leaks() if self.role is ClusterRole.NONE else ())]

    def _positions(self) -> dict[str, str]:
        """The newest operation of each member that holds data."""
        primary = self.replica_set(self.primary() or self.machines[0])
        config = None if primary is None else primary.membership.state.config
        positions = {}
        for machine, replica_set in self.members():
            member = None if config is None else config.member_at(address(machine.name))
            if member is not None and not member.arbiter_only:
                positions[machine.name] = str(replica_set._oplog.last)
        return positions

    async def _hashes(self, name: str, databases: Sequence[str]) -> dict[str, str]:
        """Of all collections of the member of that name. Errors: Broken where it does not tell."""
        machine = next(each for each in self.machines if each.name == name)
        hashes: dict[str, str] = {}
        for database in databases:
            try:
                reply = await self.command(machine, database, {"dbHash": 1})
            except (CommandError, NetworkError) as error:
                raise Broken(f"no dbHash of {name}: {error}") from error
            hashes |= {f"{database}.{each}": md5 for each, md5 in reply["collections"].items()}
        return hashes

    async def leaks(self) -> list[Anomaly]:
        """What members still hold some seconds after the last client has ended."""
        end = self.world.now + LEAK_SECONDS
        while found := leaks(self.members(), len(self.world.machines)):
            if self.world.now > end:
                return found
            await asyncio.sleep(0.1)
        return []

    def _sessions(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """What each of these members knows of the newest write of every session, by session."""
        first, end = SESSION_PREFIX, after_prefix(SESSION_PREFIX)
        return {
            machine.name: {key.hex(): row.hex() for key, row in machine.disk.contents.items(Family.META, first, end)}
            for machine, _ in self.members()
            if machine.name in names
        }

    def _miscounted(self, databases: Sequence[str]) -> list[Anomaly]:
        """Members count their documents as they write them: fast counts are exact."""
        counted: dict[str, tuple[int, int]] = {}
        for machine, _ in self.members():
            assert machine.process is not None
            store = machine.process.node.node.store
            for namespace in (each for database in databases for each in store.namespaces(database)):
                collection = store.collection(namespace)
                held = sum(1 for _ in collection.documents(store.engine))
                counted[f"{namespace} of {machine.name}"] = (collection.count, held)
        return check_counts(counted)
