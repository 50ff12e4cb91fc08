"""A primary is cut off with some of the clients while another member is made primary: what the old one says then.

For up to an election timeout both think that they are it. What the old one tells its clients must be true all the same,
and what it took alone comes into rollback files.
"""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import SECONDARY, Client, of_set, quietly
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state, rolled_back
from tests.simulation.world import World

CLIENTS = 6
ROUNDS = 2


async def act(client: Client, work: Workload) -> None:
    """Reads that claim something, and writes that they might miss or should not have seen."""
    dice, kind = client.dice, client.dice.random()
    client.seconds = 2.0
    if kind < 0.2:
        await client.set_register("a", work.value())
    elif kind < 0.4:
        await client.read_register("a")
    elif kind < 0.55:
        await client.append("x", work.value(), "majority")
    elif kind < 0.8:
        options = {"read_preference": SECONDARY} if dice.random() < 0.3 else {}
        await client.read_list("x", "majority", **options)
    elif kind < 0.9:
        await client.append("y", work.value(), 1)
    else:
        await client.insert("inserts", f"{client.number}-{work.value()}", dice.choice((1, "majority")))


async def deposed(world: World, members: SimulatedSet) -> None:
    dice, network = world.fault_dice, world.network
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=CLIENTS)
    work.start(act)
    for _ in range(ROUNDS):
        await asyncio.sleep(dice.uniform(0.1, 0.3))
        old = members.primary()
        if old is None:
            continue
        others = [machine for machine in members.machines if machine is not old]
        clients = [f"client{number}" for number in range(CLIENTS)]
        dice.shuffle(clients)
        world.tell("nemesis", f"cuts {old.name} off with {clients[:4]}")
        network.partition([[old.name, *clients[:4]], [*(each.name for each in others), *clients[4:]]])
        await asyncio.sleep(dice.choice((0.0, 0.02, 0.2)))
        await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
        await asyncio.sleep(dice.uniform(0.2, 0.9))
        network.heal()
        await members.until(lambda: members.primary() is not None, 20.0, "a primary")
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    world.counts |= {"operations": len(work.history), "rollbacks": members.invariants.rollbacks}
    judge(
        [
            *anomalies(work.history, final),
            *await members.anomalies(),
            *rolled_back(work.history, final, world),
        ]
    )


SCENARIOS = (
    Scenario(
        name="deposed",
        what="a set of three: a primary is cut off with clients while another one is elected",
        topology=functools.partial(a_set, size=3),
        run=deposed,
    ),
)
