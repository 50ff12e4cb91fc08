"""Two members run in one term; whoever has voted or won dies at once and is back before the other asks for its vote.

Both are told to run without a dry run; the disk of one is slow, so that its requests come late. What a member has
promised and does not remember is then asked of it again.
"""

from __future__ import annotations

import asyncio
import functools

from tests.simulation.clients import quietly
from tests.simulation.process import Incarnation, Machine
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.world import World

ROUNDS = 3


class _Blink:
    """Takes the power from who comes to a moment, or kills it, and starts it again soon."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.moment = ""

    def hear(self, process: Incarnation, name: str) -> None:
        if name == self.moment:
            self.moment = ""
            delay = self._world.fault_dice.choice((0.0, 0.0003, 0.001, 0.003, 0.01, 0.03))
            self._world.after(delay, self._end, process.machine)

    def _end(self, machine: Machine) -> None:
        dice = self._world.fault_dice
        if dice.random() < 0.5:
            machine.kill()
        else:
            machine.lose_power()
        self._world.counts["faults"] = self._world.counts.get("faults", 0) + 1
        self._world.after(dice.uniform(0.002, 0.03), machine.start)


async def same_term(world: World, members: SimulatedSet) -> None:
    dice, network = world.fault_dice, world.network
    blink = _Blink(world)
    members.invariants.listeners.append(blink.hear)
    for _ in range(ROUNDS):
        network.base, network.jitter = dice.choice(((3e-4, 5e-4), (2e-3, 1e-2), (5e-3, 3e-2)))
        primary = members.primary()
        others = [machine for machine in members.machines if machine is not primary]
        dice.shuffle(others)
        early, late = others[:2]
        late.disk.seconds = dice.choice((0.03, 0.1, 0.3))
        if dice.random() < 0.7:
            network.cut.update(((early.name, late.name), (late.name, early.name)))
        blink.moment = dice.choice(("voter", "leader"))
        for machine in (late, early):
            running = asyncio.ensure_future(quietly(members.command(machine, "admin", {"replSetStepUp": 1})))
            running.add_done_callback(lambda done: done.exception())
            await asyncio.sleep(dice.choice((0.0, 0.0005, 0.003)))
        await asyncio.sleep(dice.uniform(0.5, 1.0))
        blink.moment = ""
        late.disk.seconds = 0.0005
        network.base, network.jitter = 3e-4, 5e-4
        network.heal()
        await members.settled()
    world.counts |= {"elections": members.invariants.elections}
    judge(await members.anomalies())


SCENARIOS = (
    Scenario(
        name="same-term",
        what="a set of three: two run in one term, voters and winners die and are back at once",
        topology=functools.partial(a_set, size=3),
        run=same_term,
    ),
)
