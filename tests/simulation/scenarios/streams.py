"""Change streams beside writes, elections, restarts, rollbacks: applied to a copy, what they tell must be the data."""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import of_set, quietly
from tests.simulation.followers import Follower, judge_copies
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, final_state
from tests.simulation.world import World

CLIENTS = 3
FOLLOWERS = 2
ROUNDS = 3


async def streams(world: World, members: SimulatedSet) -> None:
    dice, network = world.fault_dice, world.network
    world.hiccups = dice.choice((0.0, 0.02, 0.2))
    primary = members.primary()
    assert primary is not None
    start = (await members.command(primary, "admin", {"ping": 1}))["operationTime"]
    followers = [Follower(world, members.machines, members.command, start) for _ in range(FOLLOWERS)]
    following = [asyncio.ensure_future(each.follow()) for each in followers]
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=CLIENTS)
    work.start()
    for _ in range(ROUNDS):
        await asyncio.sleep(dice.uniform(0.1, 0.4))
        machine = dice.choice(members.machines)
        if dice.random() < 0.6:
            machine = members.primary() or machine
            others = [each for each in members.machines if each is not machine]
            alone = [machine.name, *(f"client{number}" for number in range(CLIENTS) if dice.random() < 0.7)]
            network.partition([alone, [each.name for each in others]])
            await asyncio.sleep(dice.uniform(0.02, 0.2))
            await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
            await asyncio.sleep(dice.uniform(0.1, 0.5))
            network.heal()
        else:
            machine.kill() if dice.random() < 0.5 else machine.lose_power()
            await asyncio.sleep(dice.uniform(0.02, 0.3))
            machine.start()
    world.hiccups = 0.0
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    world.counts["rollbacks"] = members.invariants.rollbacks
    await judge_copies(world, followers, following, final)


SCENARIOS = (
    Scenario(
        name="streams",
        what="a set of three: change streams beside writes, elections, restarts and rollbacks",
        topology=functools.partial(a_set, size=3),
        run=streams,
    ),
)
