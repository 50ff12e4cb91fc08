"""Sets with members that are not like the others: an arbiter, a hidden one, one that is kept behind on purpose.

Besides what holds of all sets: who cannot be elected never takes writes, an arbiter holds nothing, a hidden member is
named to nobody, a delayed one applies no entry before its time.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.net import NetworkError, Pool
from tests.simulation.clients import of_set
from tests.simulation.faults import Nemesis
from tests.simulation.process import Incarnation, Machine
from tests.simulation.programs import address
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import ALL, judge, report, surroundings, under_faults
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state, rolled_back
from tests.simulation.world import Broken, World

DELAY_SECONDS = 2
MEMBERS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"arbiterOnly": True},
    {"hidden": True, "priority": 0},
    {"hidden": True, "priority": 0, "votes": 0, "secondaryDelaySecs": DELAY_SECONDS},
)
KINDS = tuple(kind for kind in ALL if not kind.startswith("clock"))
"""Without wrong clocks, which make a delay long."""


async def with_all_kinds(world: World) -> SimulatedSet:
    made = SimulatedSet(world, "set", len(MEMBERS))
    await made.start(MEMBERS)
    return made


async def of_all_kinds(world: World, members: SimulatedSet) -> None:
    arbiter, hidden, delayed = members.machines[2:]
    last = [0]

    def check(process: Incarnation) -> None:
        replica_set = members.replica_set(process.machine)
        if replica_set is None:
            return
        if replica_set.membership.core.state.writable:
            world.fail(f"{process.name} takes writes, and cannot be elected")
        newest = replica_set._oplog.last
        if process.machine is arbiter and newest.timestamp:
            world.fail(f"{process.name} is an arbiter and has the entry {newest}")
        if process.machine is delayed and newest.timestamp > last[0]:
            last[0] = newest.timestamp
            if (
                newest.seconds > delayed.wall() - DELAY_SECONDS
                and not replica_set.membership.syncing.needs_initial_sync
            ):
                world.fail(f"{process.name} has applied {newest} before its time")

    for machine in (arbiter, hidden, delayed):
        machine.checks.append(check)
    await under_faults(world, members, kinds=KINDS, seconds=5.0, count=3, clients=2)
    for machine in members.machines:
        reply = await members.command(machine, "admin", {"hello": 1})
        named = {address(each.name) for each in (hidden, delayed)} & {*reply["hosts"], *reply.get("passives", ())}
        if named:
            raise Broken(f"{machine.name} names the hidden {sorted(named)}")
    await _holds_nothing(members, arbiter)


async def _holds_nothing(members: SimulatedSet, arbiter: Machine) -> None:
    node = arbiter.process.node.node if arbiter.process is not None else None
    assert node is not None
    others = [name for name in node.store.databases() if name != "local"]
    if others:
        raise Broken(f"the arbiter {arbiter.name} holds {others}")


async def survivor_goes_on(world: World, members: SimulatedSet) -> None:
    """The two others go away, the last one is made a set of its own by force, and they come back to it.

    What holds of all sets holds here too, as who survives is the primary, which has all that was committed, and nobody
    who knows only the configuration before has a majority to elect anybody.
    """
    surroundings(world)
    dice = world.fault_dice
    nemesis = Nemesis(world, members.machines, members.primary)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=2)
    work.start()
    await asyncio.sleep(dice.uniform(0.2, 0.8))
    survivor = members.primary()
    assert survivor is not None
    nemesis.strike(dice.choice(("slow link", "slow disk", "duplicates")), survivor)
    others = [machine for machine in members.machines if machine is not survivor]
    for other in others:
        other.kill()
        await asyncio.sleep(dice.choice((0.0, 0.05, 0.3)))
    await asyncio.sleep(dice.uniform(0.0, 1.5))
    alone = (await _ask(members, survivor, {"replSetGetConfig": 1}))["config"]
    alone["version"] += 1
    alone["members"] = [each for each in alone["members"] if each["host"] == address(survivor.name)]
    await _ask(members, survivor, {"replSetReconfig": alone, "force": True})
    world.tell("operator", f"has made {survivor.name} a set of its own")
    await members.until(lambda: members.primary() is survivor, 10.0, f"{survivor.name} primary by force")
    nemesis.over = True
    world.network.slow.clear()
    world.network.duplicate_probability = 0.0
    survivor.disk.seconds = 0.0005
    for other in others:
        other.start()
        await members.until(functools.partial(_removed, members, other), 10.0, f"{other.name} out of the set")
        await _add(members, other)
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, members, nemesis, work)
    found = [*anomalies(work.history, final), *await members.anomalies()]
    judge([*found, *rolled_back(work.history, final, world)])


def _removed(members: SimulatedSet, machine: Machine) -> bool:
    replica_set = members.replica_set(machine)
    return replica_set is not None and replica_set.membership.state.me is None


async def _add(members: SimulatedSet, machine: Machine) -> None:
    for _ in range(200):
        primary = members.primary()
        if primary is not None:
            try:
                config = (await _ask(members, primary, {"replSetGetConfig": 1}))["config"]
                if address(machine.name) in [each["host"] for each in config["members"]]:
                    return
                config["version"] += 1
                number = max(each["_id"] for each in config["members"]) + 1
                config["members"].append({"_id": number, "host": address(machine.name)})
                await _ask(members, primary, {"replSetReconfig": config, "maxTimeMS": 3000})
            except (CommandError, NetworkError) as error:
                members.world.tell("operator", f"cannot add {machine.name}: {error}"[:300])
        await asyncio.sleep(0.2)
    raise Broken(f"{machine.name} cannot be added again")


async def _ask(members: SimulatedSet, machine: Machine, command: dict[str, Any]) -> dict[str, Any]:
    pool = Pool(application="operator", connect_timeout=1.0)
    try:
        return bson.decode(await pool.command(address(machine.name), "admin", command, timeout=4.0))
    finally:
        await pool.close()


async def a_set_of_three(world: World) -> SimulatedSet:
    made = SimulatedSet(world, "set", 3)
    await made.start()
    return made


SCENARIOS = (
    Scenario(
        name="all-kinds",
        what="an arbiter, a hidden and a delayed member under every fault but wrong clocks",
        topology=with_all_kinds,
        run=of_all_kinds,
    ),
    Scenario(
        name="forced",
        what="the last member of a set is made one of its own by force, and the others come back",
        topology=a_set_of_three,
        run=survivor_goes_on,
    ),
)
