"""Routers read the definitions of all keyspaces while members, shards and the config servers are away in turn.

System tables are what a driver reads before anything else (`mongos.widecolumn.cluster_schema`): reading them takes a
bounded time and never fails. What a router has once shown it shows again, whoever is away; one that has shown nothing
yet shows what any member holds. In the end all routers show what there is.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import copy_context
from typing import Any

from mongos.widecolumn.cluster_schema import READING_SECONDS, SILENT_SECONDS, ClusterSchema, LenientReader
from tests.checkers.history import Anomaly
from tests.simulation.clients import quietly
from tests.simulation.interpreter import CURRENT
from tests.simulation.process import Machine
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import World

KEYSPACES = {"ks0": "shard0", "ks1": "shard1"}
FAMILIES = ("F", "G")
ROUNDS = 3
MOST_SECONDS = 2 * READING_SECONDS + 0.2
"""Of one reading: the databases' shards, then those shards side by side."""
UP_SECONDS = 2.0
"""A machine that has run for so long is one that others can read from."""
Shown = dict[str, set[str]]


class Readers:
    """One on each router that stays, as that of a process does, and one after the other that knows nothing yet."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.over = False
        self.anomalies: list[Anomaly] = []
        self.readings = self.fresh = 0
        self.lasting = {machine: LenientReader(machine.process.node) for machine in cluster.routers}  # type: ignore[union-attr]
        self._since: dict[Machine, float] = dict.fromkeys(cluster.machines, 0.0)

    def back(self, machine: Machine) -> None:
        """Start a machine that was away."""
        machine.start()
        self._since[machine] = self.world.now

    async def read(self, machine: Machine, reader: LenientReader) -> Shown:
        """Return the families of each keyspace; that it takes too long or fails is an anomaly."""

        async def shown() -> Shown:
            schema = ClusterSchema(reader)
            names = [keyspace.name for keyspace in await schema.keyspaces()]
            return {name: {each.definition.name for each in await schema.families(name)} for name in names}

        began = self.world.now
        context = copy_context()
        context.run(CURRENT.set, machine.process)
        try:
            found = await self.world.loop.create_task(shown(), context=context)
        except Exception as error:
            self.anomalies.append(Anomaly("a reading of definitions fails", f"{machine.name}: {error!r}"))
            return {}
        if self.world.now - began > MOST_SECONDS:
            took = f"{machine.name} took {self.world.now - began:.2f} s"
            self.anomalies.append(Anomaly("a reading of definitions is not bounded", took))
        self.readings += 1
        return found

    async def run(self, dice: random.Random) -> None:
        """Read again and again."""
        while not self.over:
            machine = dice.choice(self.cluster.routers)
            if dice.random() < 0.5:
                self._expect(await self.read(machine, self.lasting[machine]), KEYSPACES, f"{machine.name} again")
            else:
                assert machine.process is not None, "routers stay"
                before = self._readable()
                shown = await self.read(machine, LenientReader(machine.process.node))
                both = {name: shard for name, shard in self._readable().items() if name in before}
                self._expect(shown, both, f"{machine.name} at first")
                self.fresh += bool(both)
            await asyncio.sleep(dice.expovariate(1 / 0.2))

    def _readable(self) -> dict[str, str]:
        """Return the keyspaces that a member holds which can be asked, if a config server says where they are."""
        up = {each for each in self.cluster.machines if each.ready and self.world.now - self._since[each] > UP_SECONDS}
        if self.cluster.config.machines[0] not in up:
            return {}
        return {name: shard for name, shard in KEYSPACES.items() if up & set(self.cluster.shards[shard].machines)}

    def _expect(self, shown: Shown, names: dict[str, str], whose: str) -> None:
        for name in names:
            if not shown.get(name, set()).issuperset(FAMILIES):
                self.anomalies.append(Anomaly("a keyspace is not shown", f"{whose} shows {shown} and not {name}"))


async def keyspaces(world: World) -> SimulatedCluster:
    cluster = SimulatedCluster(world, configs=1)
    await cluster.start()
    for name, shard in KEYSPACES.items():
        await cluster.admin({"enableSharding": name, "primaryShard": shard})
        await cluster.admin({"createKeyspace": name})
        for family in FAMILIES:
            await cluster.admin({"createColumnFamily": family}, name)
    await cluster.settled()
    return cluster


async def reading(world: World, cluster: SimulatedCluster) -> None:
    """Read beside absences and definitions that come and go."""
    dice, readers = world.fault_dice, Readers(cluster)
    expected: list[Shown] = [{name: set(FAMILIES) for name in KEYSPACES}]
    for machine in cluster.routers:
        readers._expect(await readers.read(machine, readers.lasting[machine]), KEYSPACES, machine.name)
    tasks = [asyncio.ensure_future(readers.run(random.Random(world.client_dice.getrandbits(64)))) for _ in range(2)]
    for number in range(ROUNDS):
        name = dice.choice(sorted(KEYSPACES))
        statement: dict[str, Any] = {"createColumnFamily": f"H{number}"}
        changing = asyncio.ensure_future(quietly(cluster.admin(statement, name, on=dice.choice(cluster.routers))))
        await asyncio.sleep(dice.uniform(0.0, 0.3))
        away = _victims(cluster, dice)
        for machine in away:
            machine.kill("an absence")
        await asyncio.sleep(dice.uniform(0.5, 4.0))
        for machine in away:
            readers.back(machine)
        done = await changing
        # One of unknown outcome may be there.
        expected = [
            {**each, name: each[name] | more}
            for each in expected
            for more in ([{f"H{number}"}] if done is not None else [{f"H{number}"}, set()])
        ]
        await asyncio.sleep(dice.uniform(0.5, 2.5))
    readers.over = True
    await asyncio.gather(*tasks)
    await cluster.settled()
    await asyncio.sleep(SILENT_SECONDS + 0.1)
    for machine, lasting in readers.lasting.items():
        assert machine.process is not None, "routers stay"
        for reader in (lasting, LenientReader(machine.process.node)):
            shown = await readers.read(machine, reader)
            if shown not in expected:
                readers.anomalies.append(Anomaly("not what there is", f"{machine.name} shows {shown}: {expected}"))
    judge(readers.anomalies)
    world.counts |= {"readings": readers.readings, "readable at first": readers.fresh}


def _victims(cluster: SimulatedCluster, dice: random.Random) -> list[Machine]:
    """Return who goes away together: the primary of a shard, all members but one or all, or the config servers."""
    kind = dice.choice(("primary", "all but one", "all but one", "shard", "config"))
    members = cluster.config if kind == "config" else cluster.shards[dice.choice(sorted(cluster.shards))]
    primary = members.primary()
    if kind == "primary" and primary is not None:
        return [primary]
    stays = dice.choice(members.machines) if kind == "all but one" else None
    return [machine for machine in members.machines if machine is not stays]


SCENARIOS = (
    Scenario(
        name="schemas",
        what="two shards of three: routers read all definitions while shards are away",
        topology=keyspaces,
        run=reading,
    ),
)
