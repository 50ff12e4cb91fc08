"""Disks are slow, and a majority loses its power at the same time: what was acknowledged was on disk, or is elsewhere.

The third member comes back only when the others have gone on without it.
"""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import Client, of_set
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state
from tests.simulation.world import World


async def insert(client: Client, work: Workload) -> None:
    client.seconds = 2.0
    await client.insert("inserts", f"{client.number}-{work.value()}", "majority")


async def unsynced(world: World, members: SimulatedSet) -> None:
    dice = world.fault_dice
    world.network.base, world.network.jitter = 3e-4, 5e-4
    primary = members.primary()
    assert primary is not None
    away = primary if dice.random() < 0.7 else dice.choice(members.machines)
    others = [machine for machine in members.machines if machine is not away]
    for machine in others:
        machine.disk.seconds = dice.choice((0.03, 0.1, 0.4))
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=3)
    work.start(insert)
    await asyncio.sleep(dice.uniform(0.2, 0.7))
    away.kill()
    for machine in others:
        machine.lose_power()
        world.after(dice.uniform(0.01, 0.1), machine.start)
    await asyncio.sleep(0.2)
    for machine in others:
        machine.disk.seconds = 0.0005
    await members.until(lambda: members.primary() is not None, 20.0, "a primary of two")
    await asyncio.sleep(dice.uniform(0.0, 0.2))
    away.start()
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    world.counts |= {"operations": len(work.history), "acknowledged": sum(each.ok for each in work.history)}
    judge([*anomalies(work.history, final), *await members.anomalies()])


SCENARIOS = (
    Scenario(
        name="unsynced",
        what="a set of three whose disks are slow: a majority loses its power at once",
        topology=functools.partial(a_set, size=3),
        run=unsynced,
    ),
)
