"""Sets of which a member loses its disk, or falls off the others' logs, and starts from nothing under its old name."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from contextlib import suppress

from docstore.errors import CommandError
from docstore.key_layout import timestamp_key
from docstore.net import NetworkError
from docstore.optime import OpTime
from docstore.storage import Family
from tests.simulation.clients import Client, of_set
from tests.simulation.faults import Nemesis
from tests.simulation.process import Machine
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge, report, surroundings
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, any_operation, final_state
from tests.simulation.world import Broken, World

OPLOG_BYTES = 30_000
KINDS = ("kill", "kill", "isolate", "pause", "slow link", "one way")


async def loses_its_disk(world: World, members: SimulatedSet) -> None:
    """The primary and one other acknowledge what the third lacks; that other loses its disk, the primary goes away.

    The third and the one without a disk are a majority, and together hold less than was acknowledged.
    """
    await _is_damaged(world, members, lambda loser: loser.wipe())


async def is_repaired(world: World, members: SimulatedSet) -> None:
    """As `loses_its_disk`, but the disk is repaired, which leaves less on it than its member has acknowledged."""
    await _is_damaged(world, members, lambda loser: loser.repair(world.fault_dice.randint(1, 40)))


async def _is_damaged(world: World, members: SimulatedSet, harm: Callable[[Machine], None]) -> None:
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
    for act in dice.sample((lambda: _go_away(world, nemesis, primary), lambda: harm(loser)), 2):
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


async def with_a_short_log(world: World) -> SimulatedSet:
    made = SimulatedSet(world, "set", 3, oplog_bytes=OPLOG_BYTES)
    await made.start()
    return made


async def falls_off(world: World, members: SimulatedSet) -> None:
    """A member is away for longer than the others keep their log: it keeps its data, until an operator gives it up."""
    surroundings(world)
    dice = world.fault_dice
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=2)
    work.start()
    await asyncio.sleep(dice.uniform(0.1, 0.3))
    primary = members.primary()
    assert primary is not None
    away = dice.choice([machine for machine in members.machines if machine is not primary])
    last = _last(members, away)
    if dice.random() < 0.5:
        away.kill()
    else:
        world.network.partition([[away.name], [name for name in world.machines if name != away.name]])
        last = _last(members, away)
    if dice.random() < 0.5:
        nemesis.strike(dice.choice(("kill", "pause", "slow disk")), primary)
    await _fill_past(members, away, last)
    nemesis.end()
    # What was under way to it when it was cut off may have brought it far enough.
    await members.until(lambda: members.recovering(away) or members.at_rest(), 20.0, f"{away.name} is too stale")
    if members.recovering(away):
        if not away.disk.contents.get(Family.OPLOG, timestamp_key(last.timestamp)):
            raise Broken(f"{away.name} has given up its log up to {last}, and nobody asked it to")
        away.wipe()
        away.start()
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, members, nemesis, work)
    judge([*anomalies(work.history, final), *await members.anomalies()])


def _last(members: SimulatedSet, machine: Machine) -> OpTime:
    replica_set = members.replica_set(machine)
    assert replica_set is not None
    return replica_set._oplog.last


async def _fill_past(members: SimulatedSet, away: Machine, last: OpTime) -> None:
    """Write until nobody who is there holds what follows that entry."""
    ask = of_set(members.name, members.hosts)
    for number in range(400):
        oldest = [replica_set._oplog.first for machine, replica_set in members.members() if machine is not away]
        if len(oldest) > 1 and all(first > last for first in oldest):
            return
        documents = [{"_id": f"{number} {n}", "text": "x" * 2000} for n in range(10)]
        with suppress(NetworkError, CommandError):
            command = {"insert": "filling", "documents": documents, "writeConcern": {"w": "majority", "wtimeout": 1000}}
            await ask("test", command, retry=False, timeout=2.0)
        await asyncio.sleep(0.02)
    raise Broken("the logs are not cut")


SCENARIOS = (
    Scenario(
        name="lost-disk",
        what="a member that acknowledged what another lacks loses its disk, and the primary goes away",
        topology=functools.partial(a_set, size=3),
        run=loses_its_disk,
    ),
    Scenario(
        name="repaired",
        what="a member that acknowledged what another lacks is repaired, and the primary goes away",
        topology=functools.partial(a_set, size=3),
        run=is_repaired,
    ),
    Scenario(
        name="falls-off",
        what="a member is away for longer than the others keep their log, and is copied anew",
        topology=with_a_short_log,
        run=falls_off,
    ),
)
