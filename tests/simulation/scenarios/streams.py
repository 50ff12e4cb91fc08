"""Change streams beside writes, elections, restarts, rollbacks: what they tell, applied to an empty copy, is the data.

Each follower reads from one member after the other, and goes on where it was by the last token that it has.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from bson.int64 import Int64

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.change_events import Copy
from tests.simulation.clients import of_set, quietly
from tests.simulation.process import Machine
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, final_state
from tests.simulation.world import Broken, World

CLIENTS = 3
FOLLOWERS = 2
ROUNDS = 3
CATCH_UP_SECONDS = 20.0
_ANY = {"$readPreference": {"mode": "secondaryPreferred"}}


class Follower:
    """Reads the changes of the database and applies them."""

    def __init__(self, world: World, members: SimulatedSet, start: Any) -> None:
        self.copy = Copy()
        self._world = world
        self._members = members
        self._place: dict[str, Any] = {"startAtOperationTime": start}

    async def follow(self) -> None:
        """Read until cancelled."""
        dice = self._world.client_dice
        while True:
            machine = dice.choice(self._members.machines)
            try:
                await self._read(machine, dice.randint(1, 12))
            except (CommandError, NetworkError):
                await asyncio.sleep(0.02)

    async def _read(self, machine: Machine, batches: int) -> None:
        dice = self._world.client_dice
        pipeline = [{"$changeStream": self._place}]
        size = {"batchSize": dice.choice((0, 1, 3, 100))}
        reply = await self._members.command(
            machine, "test", {"aggregate": 1, "pipeline": pipeline, "cursor": size, **_ANY}
        )
        self._take(reply["cursor"], "firstBatch")
        for _ in range(batches):
            command = {"getMore": Int64(reply["cursor"]["id"]), "collection": "$cmd.aggregate", "maxTimeMS": 50}
            more = await self._members.command(machine, "test", {**command, "batchSize": dice.choice((1, 2, 100))})
            self._take(more["cursor"], "nextBatch")

    def _take(self, cursor: dict[str, Any], batch: str) -> None:
        for event in cursor[batch]:
            self._world.tell("follower", f"{event['operationType']} {event.get('documentKey')}")
            self.copy.take(event)
        self._place = {"resumeAfter": cursor["postBatchResumeToken"]}


async def streams(world: World, members: SimulatedSet) -> None:
    dice, network = world.fault_dice, world.network
    world.hiccups = dice.choice((0.0, 0.02, 0.2))
    primary = members.primary()
    assert primary is not None
    start = (await members.command(primary, "admin", {"ping": 1}))["operationTime"]
    followers = [Follower(world, members, start) for _ in range(FOLLOWERS)]
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
    end = world.now + CATCH_UP_SECONDS
    while any(each.copy.differences(final) for each in followers) and world.now < end:
        await asyncio.sleep(0.1)
        for task in following:
            if task.done():
                task.result()
    for task in following:
        task.cancel()
    world.counts |= {"events": followers[0].copy.taken, "rollbacks": members.invariants.rollbacks}
    for each in followers:
        judge(each.copy.anomalies)
        differences = each.copy.differences(final)
        if differences:
            raise Broken("what a change stream told is not what there is:\n" + "\n".join(differences))


SCENARIOS = (
    Scenario(
        name="streams",
        what="a set of three: change streams beside writes, elections, restarts and rollbacks",
        topology=functools.partial(a_set, size=3),
        run=streams,
    ),
)
