"""Sets of which a member loses its disk, or falls off the others' logs, and starts from nothing under its old name."""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import Client, of_set
from tests.simulation.faults import Nemesis
from tests.simulation.process import Machine
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge, report, surroundings
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, any_operation, final_state
from tests.simulation.world import World

KINDS = ("kill", "kill", "isolate", "pause", "slow link", "one way")


async def loses_its_disk(world: World, members: SimulatedSet) -> None:
    """The primary and one other acknowledge what the third lacks; that other loses its disk, the primary goes away.

    The third and the one without a disk are a majority, and together hold less than was acknowledged.
    """
    surroundings(world)
    dice, network = world.fault_dice, world.network
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=2)
    work.start(dice.choice((any_operation, _insert)))
    await asyncio.sleep(dice.uniform(0.1, 0.3))
    primary = members.primary()
    assert primary is not None
    others = [machine for machine in members.machines if machine is not primary]
    behind = dice.choice(others)
    loser = next(machine for machine in others if machine is not behind)
    network.partition([[behind.name], [name for name in world.machines if name != behind.name]])
    await asyncio.sleep(dice.uniform(0.1, 0.5))
    for act in dice.sample((lambda: _go_away(world, nemesis, primary), loser.wipe), 2):
        act()
        await asyncio.sleep(dice.choice((0.0, 0.0, 0.05)))
    network.heal()
    world.after(dice.uniform(0.02, 1.0), loser.start)
    if dice.random() < 0.5:
        nemesis.at_moment(dice.choice(("copying", "cloned", "applying")), dice.choice(KINDS))
    await asyncio.sleep(dice.uniform(2.0, 6.0))
    nemesis.end()
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, members, nemesis, work)
    judge([*anomalies(work.history, final), *await members.anomalies()])


def _go_away(world: World, nemesis: Nemesis, machine: Machine) -> None:
    """For longer than an election and a copy take."""
    if world.fault_dice.random() < 0.7:
        machine.kill()
        world.after(world.fault_dice.uniform(2.0, 6.0), machine.start)
    else:
        nemesis.strike("isolate", machine)


async def _insert(client: Client, work: Workload) -> None:
    await client.insert("inserts", work.value(), "majority")


SCENARIOS = (
    Scenario(
        name="lost-disk",
        what="a member that acknowledged what another lacks loses its disk, and the primary goes away",
        topology=functools.partial(a_set, size=3),
        run=loses_its_disk,
    ),
)
