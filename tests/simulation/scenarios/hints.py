"""Cells of three column families are written at ANY and QUORUM while shards have no primary, so routers keep hints.

Hints are carried out when a shard is back: to a primary that its members do not follow, into a column family that has
been truncated or made anew meanwhile, late, by a router that was down itself. In the end every hint is done, what was
acknowledged is there, and what was deleted or cleared has not come back (`tests.harness.cell_history`). All the while a
shard that is back has its hints soon, whatever the other one does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import bson
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.net import NetworkError, Pool
from docstore.widecolumn.node.keyspaces import wide_of
from mongos.widecolumn.hints.rows import rows_of_command
from tests.harness.cell_history import History, Write
from tests.simulation.process import Machine
from tests.simulation.programs import address
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import Broken, World

KEYSPACE = "ks"
CLEARED, BRIEF, LASTING = FAMILIES = "F", "G", "H"
"""Column families: one that is cleared, one whose tombstones go after seconds, one to which nothing happens."""
BRIEF_GRACE_SECONDS = 1
KEYS = tuple(f"k{number}" for number in range(6))
COLUMNS = ("a", "b")
PATIENCE_MS = 700
HINTS_SECONDS = 15.0
"""A shard that has had a primary for so long has all hints that had been kept for it before."""
DONE_SECONDS = 40.0
READ_SECONDS = 20.0
"""Connections over a link that was cut may wait for answers as long as that."""
Cell = tuple[str, str, str]
"""(column family, row key, column)"""


async def a_cluster(world: World) -> SimulatedCluster:
    cluster = SimulatedCluster(world, configs=1, hints=True)
    await cluster.start()
    await cluster.admin({"createKeyspace": KEYSPACE})
    await cluster.admin({"createColumnFamily": CLEARED}, KEYSPACE)
    await cluster.admin({"createColumnFamily": LASTING}, KEYSPACE)
    await cluster.admin({"createColumnFamily": BRIEF, "gcGraceSeconds": BRIEF_GRACE_SECONDS}, KEYSPACE)
    for machine in cluster.routers:
        for family in FAMILIES:
            for key in KEYS:
                await cluster.admin(_slice(family, key, "ONE"), KEYSPACE, on=machine)
    return cluster


def _slice(family: str, key: str, level: str) -> dict[str, Any]:
    predicate: dict[str, Any] = {"sliceRange": {}}
    return {"wcGetSlice": family, "key": key, "predicate": predicate, "consistency": level, "maxTimeMS": PATIENCE_MS}


class Clients:
    """Clients of the cluster's routers, and what they were told."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.histories = {name: History(name, clock=lambda: self.world.now) for name in FAMILIES}
        self.hinted: list[Write] = []
        self.over = False
        self.counts = {"acknowledged": 0, "hinted": 0, "reads": 0}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, count: int) -> None:
        for _ in range(count):
            dice = random.Random(self.world.client_dice.getrandbits(64))
            self._tasks.append(asyncio.ensure_future(self._work(dice)))
        self._tasks.append(asyncio.ensure_future(self._clear(random.Random(self.world.client_dice.getrandbits(64)))))

    async def stop(self) -> None:
        self.over = True
        await asyncio.gather(*self._tasks)

    async def _work(self, dice: random.Random) -> None:
        pool = Pool(application="client", connect_timeout=1.0)
        while not self.over:
            machine = dice.choice(self.cluster.routers)
            family, key = dice.choices(FAMILIES, (40, 20, 40))[0], dice.choice(KEYS)
            if dice.random() < 0.3:
                await self.read(pool, machine, family, key)
            else:
                removes = dice.random() < (0.5 if family == BRIEF else 0.15)
                # What is hinted is mostly to be written, what is certain to be deleted.
                level = dice.choice(("QUORUM", "QUORUM", "ANY") if removes else ("QUORUM", "ANY", "ANY"))
                await self._write(pool, machine, (family, key, dice.choice(COLUMNS)), level, removes=removes)
            await asyncio.sleep(dice.expovariate(1 / 0.15))

    async def _write(self, pool: Pool, machine: Machine, cell: Cell, level: str, *, removes: bool) -> None:
        family, key, column = cell
        write = self.histories[family].write(cell, removes=removes)
        command: dict[str, Any] = {"wcRemove" if removes else "wcInsert": family, "key": key, "column": column}
        if not removes:
            command["value"] = "v"
        command |= {"timestamp": Int64(write.timestamp), "consistency": level, "maxTimeMS": PATIENCE_MS}
        try:
            reply = bson.decode(await pool.command(address(machine.name), KEYSPACE, command, timeout=5.0))
        except (CommandError, NetworkError):
            return
        write.end = self.world.now
        self.counts["acknowledged"] += 1
        if level == "ANY":
            # One member has it, or a router: the next primary may not.
            write.weak = True
            if reply.get("hinted"):
                self.world.tell("client", f"{machine.name} keeps {cell} of {write.timestamp}")
                self.hinted.append(write)
                self.counts["hinted"] += 1

    async def sweep(self, machine: Machine) -> None:
        """Delete all cells of the brief family, as far as that can be done."""
        pool = Pool(application="client", connect_timeout=1.0)
        cells = [(BRIEF, key, column) for key in KEYS for column in COLUMNS]
        await asyncio.gather(*(self._write(pool, machine, cell, "QUORUM", removes=True) for cell in cells))

    async def fill(self, machine: Machine) -> None:
        """Write all cells of the family that is cleared, as far as that can be done."""
        pool = Pool(application="client", connect_timeout=1.0)
        cells = [(CLEARED, key, column) for key in KEYS for column in COLUMNS]
        await asyncio.gather(*(self._write(pool, machine, cell, "QUORUM", removes=False) for cell in cells))

    async def read_all(self, machine: Machine) -> None:
        """Read all rows of the family that is cleared, as far as that can be done."""
        pool = Pool(application="client", connect_timeout=1.0)
        await asyncio.gather(*(self.read(pool, machine, CLEARED, key) for key in KEYS))

    async def read(self, pool: Pool, machine: Machine, family: str, key: str) -> bool:
        """A row at QUORUM; whether it could be read."""
        start = self.world.now
        try:
            raw = await pool.command(address(machine.name), KEYSPACE, _slice(family, key, "QUORUM"), timeout=5.0)
        except (CommandError, NetworkError):
            return False
        columns = {column["name"].decode(): column["timestamp"] for column in bson.decode(raw)["columns"]}
        for column in COLUMNS:
            self.histories[family].read((family, key, column), columns.get(column), start)
        self.counts["reads"] += 1
        return True

    async def _clear(self, dice: random.Random) -> None:
        """An operator who truncates a family, or drops it and makes it anew."""
        while not self.over:
            await asyncio.sleep(dice.uniform(0.5, 4.0))
            machine = dice.choice(self.cluster.routers)
            if dice.random() < 0.6:
                await self.truncate(machine)
                continue
            await self.drop(machine)

    async def drop(self, machine: Machine) -> None:
        """Drop the family that is cleared, and make it anew."""
        clearance = self.histories[CLEARED].clear()
        dropped = await self._admin({"dropColumnFamily": CLEARED}, machine)
        await self.make(machine)
        if dropped:
            # One that was given up may come at any time.
            clearance.end = self.world.now

    async def truncate(self, machine: Machine) -> None:
        """Truncate the family that is cleared, whatever comes of it."""
        clearance = self.histories[CLEARED].clear()
        if await self._admin({"wcTruncate": CLEARED}, machine):
            clearance.end = self.world.now

    async def make(self, machine: Machine) -> None:
        """Have the family be there that is cleared."""
        while not await self._admin({"createColumnFamily": CLEARED}, machine):
            await asyncio.sleep(0.3)

    async def _admin(self, command: dict[str, Any], machine: Machine) -> bool:
        try:
            async with asyncio.timeout(6.0):
                reply = await self.cluster.admin(command, KEYSPACE, on=machine)
        except CommandError as error:
            self.world.tell("operator", f"{command}: {error!r}"[:200])
            return error.code == Code.NamespaceExists
        except (NetworkError, TimeoutError) as error:
            self.world.tell("operator", f"{command}: {error!r}"[:200])
            return False
        self.world.tell("operator", f"{command}: {reply}"[:200])
        return "writeConcernError" not in reply


class Watch:
    """Looks at the hints of routers: those of a shard that is back for long must be done."""

    def __init__(self, cluster: SimulatedCluster, owners: dict[str, str]) -> None:
        self.cluster = cluster
        self._owners = owners
        self._since: dict[str, float] = {}
        """When each thing that hints need came up, since when it has stayed."""

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(0.25)

    def disturbed(self, *names: str) -> None:
        """Something happens to these shards or routers."""
        for name in names:
            self._since.pop(name, None)

    def _look(self) -> None:
        now = self.cluster.world.now
        parts = {name: members.primary() is not None for name, members in self.cluster.shards.items()}
        parts |= {machine.name: machine.ready for machine in self.cluster.routers}
        for name, is_up in parts.items():
            if is_up:
                self._since.setdefault(name, now)
            else:
                self._since.pop(name, None)
        for machine in self.cluster.routers:
            if machine.name in self._since:
                self._check(machine)

    def _check(self, machine: Machine) -> None:
        now, wall = self.cluster.world.now, machine.wall()
        for hint in pending(machine):
            shard = self._shard_of(hint.command)
            if shard is None or shard not in self._since:
                continue
            waited = min(now - self._since[shard], now - self._since[machine.name], wall - hint.at)
            if waited > HINTS_SECONDS:
                raise Broken(
                    f"{machine.name} has kept a hint for {shard} for {waited:.1f} s: {bson.decode(hint.command)}"
                )

    def _shard_of(self, command: bytes) -> str | None:
        ((_, key),) = rows_of_command(command)
        family = next(iter(bson.decode(command).values()))
        # A family that is made anew lies elsewhere.
        return None if family == CLEARED or key is None else self._owners[key.decode()]


def pending(machine: Machine) -> list[Any]:
    """The hints that a router keeps."""
    router = None if machine.process is None else machine.process.node
    if router is None or router.hints is None or not machine.ready:
        return []
    log = router.hints._log
    return [hint for ref in log.pending() if (hint := log.read(ref)) is not None]


async def owners_of_rows(cluster: SimulatedCluster) -> dict[str, str]:
    """The shard of each row of families that are not cleared: they are spread alike."""
    owners: dict[str, str] = {}
    for key in KEYS:
        command = {"wcInsert": BRIEF, "key": key, "column": "owner", "value": "v", "consistency": "ALL"}
        await cluster.admin(command, KEYSPACE)
        for name, members in cluster.shards.items():
            primary = members.primary()
            assert primary is not None, "nothing has happened yet"
            assert primary.process is not None, "it runs"
            node = primary.process.node.node
            family = wide_of(node).find(KEYSPACE, BRIEF)
            assert family is not None, "it is spread over all shards"
            if family.collection.count > sum(owner == name for owner in owners.values()):
                owners[key] = name
    return owners


async def kept(world: World, cluster: SimulatedCluster) -> None:
    dice = world.fault_dice
    names = sorted(cluster.shards)
    victims = dice.choice((names, names, names[:1], names[1:]))

    async def outages(clients: Clients, watch: Watch) -> None:
        long = [number > 0 and dice.random() < 0.6 for number in range(len(victims))]
        await asyncio.gather(
            *(outage(clients, watch, name, long=lasts) for name, lasts in zip(victims, long, strict=True))
        )

    await among_clients(world, cluster, outages)


async def held(world: World, cluster: SimulatedCluster) -> None:
    """A column family is dropped while a shard is down for long; the other one, which is back soon, holds its rows."""
    dice = world.fault_dice
    brief, lasting = sorted(cluster.shards)

    async def outages(clients: Clients, watch: Watch) -> None:
        away = asyncio.ensure_future(outage(clients, watch, lasting, long=True))
        dropping = asyncio.ensure_future(clients.drop(dice.choice(cluster.routers)))
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        await outage(clients, watch, brief, long=False)
        await dropping
        await away

    await among_clients(world, cluster, outages)


async def remade(world: World, cluster: SimulatedCluster) -> None:
    """A column family is truncated, or dropped and made anew, again and again, while members are behind."""
    dice = world.fault_dice
    clients = Clients(cluster)
    for _ in range(dice.randint(4, 8)):
        for members in cluster.shards.values():
            late = dice.choice(members.machines)
            for one in members.machines:
                lag = dice.uniform(0.05, 0.3) if one is late else 0.0
                for other in members.machines:
                    if one is not other:
                        world.network.slow[one.name, other.name] = world.network.slow[other.name, one.name] = lag
        machine = dice.choice(cluster.routers)
        await clients.fill(machine)
        await (clients.truncate(machine) if dice.random() < 0.3 else clients.drop(machine))
        await clients.read_all(machine)
    world.network.slow.clear()
    await judge(cluster, clients)


async def among_clients(
    world: World, cluster: SimulatedCluster, outages: Callable[[Clients, Watch], Awaitable[None]]
) -> None:
    """Run outages beside clients; in the end all hints are done and what was acknowledged is there."""
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (1e-3, 5e-3)))
    watch = Watch(cluster, await owners_of_rows(cluster))
    watching = asyncio.ensure_future(watch.run())
    collecting = asyncio.ensure_future(collect(cluster))
    clients = Clients(cluster)
    clients.start(4)
    await asyncio.sleep(0.3)
    await outages(clients, watch)
    await asyncio.sleep(dice.uniform(1.0, 4.0))
    await clients.stop()
    for machine in world.machines.values():
        machine.start()
    await cluster.settled()
    await clients.make(cluster.routers[0])
    end = world.now + DONE_SECONDS
    while any(pending(machine) for machine in cluster.routers):
        if watching.done():
            watching.result()
        if world.now > end:
            raise Broken(f"hints are pending after {DONE_SECONDS:g} s")
        await asyncio.sleep(0.2)
    watching.cancel()
    collecting.cancel()
    await judge(cluster, clients)


async def collect(cluster: SimulatedCluster) -> None:
    """Have every member look for what is dead once a second, after a restart too."""
    while True:
        for members in cluster.shards.values():
            for machine, _ in members.members():
                assert machine.process is not None, "it is a member that runs"
                wide_of(machine.process.node.node).settings.collection_seconds = 1
        await asyncio.sleep(0.2)


async def outage(clients: Clients, watch: Watch, name: str, *, long: bool) -> None:
    """A shard is down. When it is back its primary may be alone for a while; a router may be down then."""
    cluster, world, dice = clients.cluster, clients.world, clients.world.fault_dice
    members = cluster.shards[name]
    for machine in members.machines:
        machine.kill("an outage of the shard")
    # One that lasts shows whether hints of the other one wait.
    await asyncio.sleep(dice.uniform(22.0, 25.0) if long else dice.uniform(1.5, 5.0))
    router = dice.choice(cluster.routers) if dice.random() < 0.4 else None
    if router is not None:
        router.kill("an outage of a router")
    pairs = [(one.name, other.name) for one in members.machines for other in members.machines if one is not other]
    lonely = dice.random() < 0.7
    if lonely:
        # What the next primary takes on is not with the others yet when it is cut off.
        world.network.slow.update(dict.fromkeys(pairs, dice.uniform(0.05, 0.15)))
    for machine in members.machines:
        machine.start()
    await members.until(lambda: members.primary() is not None, 30.0, "a primary after the outage")
    primary = members.primary()
    if lonely and primary is not None:
        await asyncio.sleep(dice.uniform(0.0, 0.15))
        cuts = {pair for pair in pairs if primary.name in pair}
        world.tell("fault", f"{primary.name} is cut off from the other members")
        world.network.cut |= cuts
        # What it takes away meanwhile is there again with the next primary.
        truncating = asyncio.ensure_future(clients.truncate(dice.choice(cluster.routers)))
        await asyncio.sleep(dice.uniform(2.5, 5.0))
        world.network.cut -= cuts
        world.tell("fault", f"{primary.name} is heard again")
        await truncating
    for pair in pairs:
        world.network.slow.pop(pair, None)
    watch.disturbed(name)
    if router is not None:
        # What it has kept comes when the tombstones that hide it are gone.
        await clients.sweep(next(machine for machine in cluster.routers if machine is not router))
        await asyncio.sleep(dice.uniform(BRIEF_GRACE_SECONDS + 1.5, BRIEF_GRACE_SECONDS + 4.0))
        router.start()


async def judge(cluster: SimulatedCluster, clients: Clients) -> None:
    """Read everything a last time through every router, and hold it against what clients were told."""
    world = cluster.world
    for write in clients.hinted:
        if write.cell[0] != BRIEF:
            write.weak, write.seen_from = False, world.now
    await asyncio.sleep(0.1)
    pool = Pool(application="client", connect_timeout=1.0)
    for machine in cluster.routers:
        for family in FAMILIES:
            for key in KEYS:
                end = world.now + READ_SECONDS
                while not await clients.read(pool, machine, family, key):
                    if world.now > end:
                        raise Broken(f"{machine.name} does not read {family} {key} in the end")
    world.counts |= {"operations": sum(len(history.writes) for history in clients.histories.values()), **clients.counts}
    faults = [fault for history in clients.histories.values() for fault in history.check()]
    if faults:
        raise Broken("\n".join(faults[:5]))


SCENARIOS = (
    Scenario(
        name="hints",
        what="two shards of three: writes at ANY are kept as hints while shards are down, beside truncations and drops",
        topology=a_cluster,
        run=kept,
    ),
    Scenario(
        name="hints-held",
        what="the same, while a drop of a column family waits for a shard that is down",
        topology=a_cluster,
        run=held,
    ),
    Scenario(
        name="families-remade",
        what="two shards of three: a column family is cleared and made anew while members are behind",
        topology=a_cluster,
        run=remade,
    ),
)
