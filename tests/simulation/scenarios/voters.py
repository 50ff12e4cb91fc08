"""An operator asks for changes that are too large: several voters at once, which every primary must refuse.

What is asked for is allowed by all other rules, so that one alone stands between the set and two majorities.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from tests.simulation.programs import address
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.membership import ask_primary, with_spares
from tests.simulation.schedule import Scenario
from tests.simulation.world import World

CHANGES = 8


def too_large(config: dict[str, Any], primary: str, spares: list[str], dice: random.Random) -> None:
    """Change a configuration of three."""
    others = [each for each in config["members"] if each["host"] != primary]
    match dice.choice(("remove", "replace", "votes", "swap")):
        case "remove":
            config["members"] = [each for each in config["members"] if each["host"] == primary]
        case "replace":
            for each, host in zip(others, spares, strict=True):
                each["host"] = host
        case "votes":
            for each in others:
                each.update(votes=0, priority=0)
        case _:
            others[0]["host"] = spares[0]
            others[1].update(votes=0, priority=0)


async def voters(world: World, members: SimulatedSet) -> None:
    dice = random.Random(world.fault_dice.getrandbits(64))
    spares = [address(machine.name) for machine in members.machines[members.size :]]
    for _ in range(CHANGES):
        found = await ask_primary(members, {"replSetGetConfig": 1})
        primary = members.primary()
        if found is not None and primary is not None:
            config = found["config"]
            config["version"] += 1
            too_large(config, address(primary.name), spares, dice)
            if await ask_primary(members, {"replSetReconfig": config, "maxTimeMS": 2000}) is not None:
                world.fail(f"a change of several voters was accepted: {config}")
        if primary is not None and dice.random() < 0.3:
            primary.kill()
            world.after(dice.uniform(0.05, 0.5), primary.start)
        await asyncio.sleep(dice.uniform(0.0, 0.5))
    await members.settled()
    judge(await members.anomalies())


SCENARIOS = (
    Scenario(
        name="voters",
        what="a set of three is asked to change several voters at once",
        topology=with_spares,
        run=voters,
    ),
)
