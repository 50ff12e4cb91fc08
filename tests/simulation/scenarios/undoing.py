"""A primary that has taken writes alone for a while comes back and rolls back, and dies in the midst of it.

What it had on disk before is then in the database or in rollback files: it alone loses its power, and not before it
has brought everything to disk. Documents that it has removed come back too, perhaps into a process that has never seen
them; those that are written next must not stand in their places.
"""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import Client, of_set, quietly
from tests.simulation.process import Incarnation
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state, rolled_back
from tests.simulation.world import World

CLIENTS = 4
LEFT = 6
"""Documents that nobody but the administrator touches."""


async def write(client: Client, work: Workload) -> None:
    client.seconds = 2.0
    if client.dice.random() < 0.5:
        await client.append("y", work.value(), 1)
    else:
        await client.insert("inserts", f"{client.number}-{work.value()}", 1)


def _numbered(first: int) -> list[dict[str, int]]:
    return [{"_id": first + number} for number in range(LEFT)]


async def undoing(world: World, members: SimulatedSet) -> None:
    dice, network = world.fault_dice, world.network
    old = members.primary()
    assert old is not None
    safe = {"w": "majority"}
    await members.command(old, "test", {"insert": "left", "documents": _numbered(0), "writeConcern": safe})
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=CLIENTS)
    work.start(write)
    await asyncio.sleep(dice.uniform(0.05, 0.2))
    others = [machine for machine in members.machines if machine is not old]
    network.partition([[old.name, *(f"client{number}" for number in range(CLIENTS))], [each.name for each in others]])
    removed = {"q": {"_id": {"$gte": dice.randrange(LEFT)}}, "limit": 0}
    await quietly(members.command(old, "test", {"delete": "left", "deletes": [removed], "writeConcern": {"w": 1}}))
    await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
    await asyncio.sleep(dice.uniform(0.2, 0.8))
    work.over = True
    await asyncio.sleep(0.4)
    if dice.random() < 0.5:
        old.lose_power()
        old.start()
    # Everything is on its disk by now. Long work comes in short slices: many groups are undone one by one.
    world.hiccups = dice.choice((0.03, 0.2, 0.5))
    left = [dice.randint(1, 3)]

    def undone(process: Incarnation, name: str) -> None:
        if name == "undo" and left[0]:
            left[0] -= 1
            world.after(dice.choice((0.0, 0.0005, 0.002, 0.01, 0.05)), dies)

    def dies() -> None:
        old.lose_power()
        world.after(dice.uniform(0.02, 0.3), old.start)

    members.invariants.listeners.append(undone)
    if dice.random() < 0.4:
        old.disk.die_at_write = old.disk.writes + dice.randint(1, 12)
    network.heal()
    await work.stop()
    await asyncio.sleep(1.0)
    left[0], old.disk.die_at_write = 0, None
    world.hiccups = 0.0
    old.start()
    await members.settled()
    primary = members.primary()
    assert primary is not None
    await members.command(primary, "test", {"insert": "left", "documents": _numbered(100), "writeConcern": safe})
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    world.counts |= {"operations": len(work.history), "rollbacks": members.invariants.rollbacks}
    judge([*anomalies(work.history, final), *await members.anomalies(), *rolled_back(work.history, final, world)])


SCENARIOS = (
    Scenario(
        name="undoing",
        what="a set of three: a primary that was alone rolls back, and loses its power in the midst of it",
        topology=functools.partial(a_set, size=3),
        run=undoing,
    ),
)
