"""Sets whose members change: added, removed, replaced under the same id, asked to step down, strangers among them."""

from __future__ import annotations

import asyncio
import functools
import random
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.net import NetworkError, Pool
from tests.simulation.clients import quietly
from tests.simulation.faults import COPYING
from tests.simulation.programs import address
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import WITHOUT_POWER, under_faults
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

KINDS = ("kill", "isolate", "halves", "one way", "pause", "slow link", "blink", "die at write")
DOCUMENTS = 150
STALE_SECONDS = 5.0
"""So long in RECOVERING is for good."""
MENDING_SECONDS = 20.0


async def with_spares(world: World) -> SimulatedSet:
    """A set of three with documents, and two machines that are in no set."""
    made = SimulatedSet(world, "set", 3, spares=2)
    await made.start()
    await _fill(made, "m0", DOCUMENTS)
    await made.settled()
    return made


async def with_strangers(world: World) -> tuple[SimulatedSet, SimulatedSet]:
    """Two sets of one name that know nothing of each other; both have documents."""
    ours = SimulatedSet(world, "set", 3)
    theirs = SimulatedSet(world, "set", 1, prefix="stranger")
    await asyncio.gather(ours.start(), theirs.start())
    await _fill(ours, "m0", 5)
    await _fill(theirs, "stranger0", 5)
    await ours.settled()
    return ours, theirs


async def _fill(members: SimulatedSet, machine: str, count: int) -> None:
    documents = [{"_id": number, "text": f"{machine} {number} " * 20} for number in range(count)]
    command = {"insert": "filling", "documents": documents, "writeConcern": {"w": "majority"}}
    await members.pool.command(address(machine), "test", command)


async def ask_primary(members: SimulatedSet, command: dict[str, Any]) -> dict[str, Any] | None:
    """Run on the primary; None where there is none or it says no."""
    primary = members.primary()
    if primary is None:
        return None
    pool = Pool(application="operator", connect_timeout=1.0)
    try:
        reply = bson.decode(await pool.command(address(primary.name), "admin", command, timeout=4.0))
    except (CommandError, NetworkError) as error:
        members.world.tell("operator", f"{next(iter(command))}: {error}"[:300])
        return None
    finally:
        await pool.close()
    return reply


async def change_members(members: SimulatedSet, work: Workload) -> None:
    """Add, remove, replace under the same id, give priorities: whatever is refused is refused."""
    dice = random.Random(members.world.fault_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / 0.25))
        found = await ask_primary(members, {"replSetGetConfig": 1})
        if found is None:
            continue
        config = found["config"]
        _change(config, [address(machine.name) for machine in members.machines], dice)
        config["version"] += 1
        hosts = [(each["_id"], each["host"], each["votes"]) for each in config["members"]]
        members.world.tell("operator", f"asks for {hosts}")
        if await ask_primary(members, {"replSetReconfig": config, "maxTimeMS": 3000}) is not None:
            members.world.counts["reconfigurations"] = members.world.counts.get("reconfigurations", 0) + 1
    await _empty_the_stale(members)


async def _empty_the_stale(members: SimulatedSet) -> None:
    """The log of a fresh copy is short: who was away when it was made may find that it cannot follow."""
    since: dict[str, float] = {}
    end = members.world.now + MENDING_SECONDS
    while members.world.now < end and not members.at_rest():
        for machine in members.machines:
            if not members.recovering(machine):
                since.pop(machine.name, None)
            elif members.world.now - since.setdefault(machine.name, members.world.now) > STALE_SECONDS:
                members.world.tell("operator", f"empties {machine.name}")
                machine.wipe()
                machine.start()
        await asyncio.sleep(0.1)


def _change(config: dict[str, Any], hosts: list[str], dice: random.Random) -> None:
    named = config["members"]
    free = [host for host in hosts if host not in [each["host"] for each in named]]
    kind = dice.choice(("add", "remove", "replace", "replace all", "swap", "priority", "votes"))
    if kind == "add" and free:
        used = {each["_id"] for each in named}
        number = dice.choice([number for number in range(8) if number not in used])
        named.append({"_id": number, "host": dice.choice(free)})
        named[-1].update(votes=1, priority=1)
    elif kind == "remove" and len(named) > 1:
        named.remove(dice.choice(named))
    elif kind == "replace" and free:
        dice.choice(named)["host"] = dice.choice(free)
    elif kind == "replace all":
        # Every id keeps its place, and nobody is who it was.
        for each, host in zip(named, dice.sample(hosts, len(named)), strict=True):
            each["host"] = host
    elif kind == "swap" and len(named) > 1:
        one, other = dice.sample(named, 2)
        one["host"], other["host"] = other["host"], one["host"]
    elif kind == "votes" and len(named) > 2:
        each = dice.choice(named)
        each["votes"] = 1 - each["votes"]
        each["priority"] = each["votes"]
    else:
        dice.choice(named)["priority"] = dice.choice((1, 2, 3))


async def grow(members: SimulatedSet, work: Workload) -> None:
    """One machine after the other joins and copies everything."""
    for number, machine in enumerate(members.machines[3:], start=3):
        while not work.over:
            found = await ask_primary(members, {"replSetGetConfig": 1})
            if found is not None:
                config = found["config"]
                if address(machine.name) in [each["host"] for each in config["members"]]:
                    break
                config["version"] += 1
                config["members"].append({"_id": number, "host": address(machine.name)})
                await ask_primary(members, {"replSetReconfig": config, "maxTimeMS": 3000})
            await asyncio.sleep(0.2)


async def hand_over(members: SimulatedSet, work: Workload) -> None:
    """Ask the primary to step down now and then, some times by force."""
    dice = random.Random(members.world.fault_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / 0.7))
        force = dice.random() < 0.3
        catch_up = 0 if force else dice.choice((1, 1, 0))
        command = {"replSetStepDown": 2, "secondaryCatchUpPeriodSecs": catch_up, "force": force}
        members.world.tell("operator", f"asks for a step-down, force={force}")
        await ask_primary(members, command)


async def _without(members: SimulatedSet, stranger: str, hosts: list[str]) -> None:
    """Take out who was added while nobody could ask him who he is."""
    for _ in range(100):
        found = await ask_primary(members, {"replSetGetConfig": 1})
        if found is not None:
            config = found["config"]
            if stranger not in [each["host"] for each in config["members"]]:
                return
            config["version"] += 1
            config["members"] = [each for each in config["members"] if each["_id"] < len(hosts)]
            for each in config["members"]:
                each["host"] = hosts[each["_id"]]
            await ask_primary(members, {"replSetReconfig": config, "maxTimeMS": 3000})
        await asyncio.sleep(0.2)


async def strangers(world: World, built: tuple[SimulatedSet, SimulatedSet]) -> None:
    """An operator adds a member of another set of the same name: it stays what it is, and it vouches for nothing."""
    ours, theirs = built
    stranger = theirs.machines[0]

    async def add(members: SimulatedSet, work: Workload) -> None:
        for _ in range(6):
            found = await ask_primary(members, {"replSetGetConfig": 1})
            if found is not None:
                config = found["config"]
                config["version"] += 1
                if world.fault_dice.random() < 0.5:
                    config["members"].append({"_id": 7, "host": address(stranger.name)})
                else:
                    world.fault_dice.choice(config["members"])["host"] = address(stranger.name)
                await ask_primary(members, {"replSetReconfig": config, "maxTimeMS": 1500})
            await asyncio.sleep(0.2)
        await _without(members, address(stranger.name), ours.hosts)

    await under_faults(world, ours, kinds=("kill", "isolate", "pause"), seconds=2.0, count=2, clients=2, operator=add)
    reply = await quietly(theirs.command(stranger, "test", {"count": "filling", "query": {"text": {"$regex": "^str"}}}))
    if reply is None or reply["n"] != 5:
        raise Broken(f"the stranger has lost its own documents: {reply}")


SCENARIOS = (
    Scenario(
        name="reconfig",
        what="members are added, removed and replaced under the same ids, under faults",
        topology=with_spares,
        run=functools.partial(under_faults, kinds=KINDS, seconds=5.0, count=2, clients=2, operator=change_members),
    ),
    Scenario(
        name="initial-sync",
        what="machines join one after the other and copy everything, under faults",
        topology=with_spares,
        run=functools.partial(
            under_faults, kinds=KINDS, seconds=4.0, count=4, clients=2, operator=grow, moments=COPYING
        ),
    ),
    Scenario(
        name="step-down",
        what="a set of three whose primary is asked to step down again and again",
        topology=with_spares,
        run=functools.partial(under_faults, kinds=WITHOUT_POWER, seconds=4.0, count=2, clients=3, operator=hand_over),
    ),
    Scenario(
        name="strangers",
        what="a member of another set of the same name is added",
        topology=with_strangers,
        run=strangers,
    ),
)
