"""A set whose primaries lose their power and are back before anybody has missed them, as one that follows another.

The end of a process whose machine has lost its power comes over no connection: whoever waits for an answer of it must
hear that another one has its place, and ask that one.
"""

from __future__ import annotations

import asyncio
import functools

from tests.checkers.history import Anomaly
from tests.simulation.clients import Client, of_set
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state
from tests.simulation.world import World

LOSSES = 3
PATIENCE_SECONDS = 30.0
LONGEST_SECONDS = 8.0
"""An election by its time-out, and what there is to be found out about it."""


async def silent(world: World, members: SimulatedSet) -> None:
    dice = world.fault_dice
    late: list[Anomaly] = []

    async def append(client: Client, work: Workload) -> None:
        client.seconds = PATIENCE_SECONDS
        begun = world.now
        await client.append(client.dice.choice("xy"), work.value(), "majority")
        if world.now - begun > LONGEST_SECONDS:
            late.append(Anomaly("late answer", f"client {client.number} waited for {world.now - begun:.1f} s"))

    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=4)
    work.start(append)
    for _ in range(LOSSES):
        await asyncio.sleep(dice.uniform(0.1, 0.5))
        primary = members.primary()
        if primary is not None:
            primary.lose_power()
            world.after(dice.uniform(0.2, 1.5), primary.start)
        await asyncio.sleep(dice.uniform(3.5, 5.0))
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    world.counts |= {"operations": len(work.history), "elections": members.invariants.elections}
    judge([*late, *anomalies(work.history, final), *await members.anomalies()])


SCENARIOS = (
    Scenario(
        name="silent",
        what="a set of three whose primaries lose their power and are back at once, behind another one",
        topology=functools.partial(a_set, size=3),
        run=silent,
    ),
)
