"""Sets of three and five under crashes, losses of power, partitions, pauses, bad clocks, with all kinds of clients."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from docstore.key_layout import timestamp_key
from docstore.storage import Family
from tests.checkers.history import Anomaly
from tests.simulation.clients import Client, of_set
from tests.simulation.faults import MOMENTS, Nemesis
from tests.simulation.programs import address
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state, rolled_back
from tests.simulation.world import Broken, World

ALL = (
    "kill", "power", "power of all", "isolate", "halves", "one way", "bridge", "pause", "die at write", "slow disk",
    "slow link", "clock", "clock far", "resets", "duplicates",
)  # fmt: skip
WITHOUT_POWER = tuple(kind for kind in ALL if kind not in ("power", "power of all", "die at write"))


async def a_set(world: World, size: int, members: Sequence[Mapping[str, Any]] = ()) -> SimulatedSet:
    made = SimulatedSet(world, "set", size)
    await made.start(members)
    return made


def surroundings(world: World) -> None:
    """In some schedules long work is done in short slices, with others in between; in some all links are long."""
    world.hiccups = world.fault_dice.choice((0.0, 0.01, 0.03))
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (3e-4, 5e-4), (2e-3, 2e-2)))


async def under_faults(
    world: World,
    members: SimulatedSet,
    *,
    kinds: Sequence[str],
    seconds: float,
    count: int,
    clients: int = 3,
    moments: Sequence[str] = MOMENTS,
    operator: Callable[[SimulatedSet, Workload], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Clients work, faults come and end, all comes to rest, and what was said is compared with what is there.

    `operator` works beside the clients until the workload is over.
    """
    surroundings(world)
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=clients)
    work.start()
    operating = None if operator is None else asyncio.ensure_future(operator(members, work))
    await nemesis.run(seconds, kinds, count=count, moments=moments)
    nemesis.end()
    await work.stop()
    if operating is not None:
        await operating
    await members.settled()
    # Those of the beginning may all have been removed.
    final = await final_state(of_set(members.name, [address(machine.name) for machine in members.machines]))
    found = [*anomalies(work.history, final), *await members.anomalies()]
    found += rolled_back(work.history, final, world, lost_with_power(members))
    report(world, members, nemesis, work)
    judge(found)


def report(world: World, members: SimulatedSet, nemesis: Nemesis, work: Workload) -> None:
    """What happened how often."""
    world.counts |= {
        "operations": len(work.history),
        "acknowledged": sum(each.ok for each in work.history),
        "faults": nemesis.done,
        "elections": members.invariants.elections,
        "rollbacks": members.invariants.rollbacks,
    }


def judge(found: Sequence[Anomaly]) -> None:
    if found:
        raise Broken("\n".join(str(each) for each in found))


async def crossing_votes(world: World, members: SimulatedSet) -> None:
    """Over long links several members run at once, and who votes or runs loses its power and is back at once."""
    surroundings(world)
    dice, network = world.fault_dice, world.network
    network.base, network.jitter = dice.choice(((0.005, 0.03), (0.02, 0.08), (0.05, 0.15)))
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=2)
    work.start()
    await asyncio.sleep(0.3)
    for _ in range(4):
        primary = members.primary()
        for _ in range(3):
            nemesis.at_moment(dice.choice(("voter", "voter", "candidate", "leader", "primary")), "blink")
        if primary is not None:
            nemesis.strike(dice.choice(("kill", "pause", "isolate", "power")), primary)
        await asyncio.sleep(dice.uniform(1.2, 3.0))
    nemesis.end()
    network.base, network.jitter = 3e-4, 5e-4
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, members, nemesis, work)
    found = [*anomalies(work.history, final), *await members.anomalies()]
    judge([*found, *rolled_back(work.history, final, world, lost_with_power(members))])


def lost_with_power(members: SimulatedSet) -> list[bytes]:
    """Entries of the log that some member's disk had not synced."""
    return [entry for machine in members.machines for entry in machine.disk.lost]


async def one_is_ahead(world: World, members: SimulatedSet) -> None:
    """The primary dies when one member alone has its last writes: whoever is elected fetches these first."""
    surroundings(world)
    dice, network = world.fault_dice, world.network
    network.base, network.jitter = 3e-4, 5e-4
    primary = members.primary()
    assert primary is not None
    others = [machine for machine in members.machines if machine is not primary]
    ahead = dice.choice(others)
    behind = [machine.name for machine in others if machine is not ahead]
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=2)

    async def insert(client: Client, work: Workload) -> None:
        await client.insert("inserts", work.value(), 1)

    work.start(insert)
    await asyncio.sleep(0.1)
    # The others hear that the primary lives, and that late, but nothing of its log.
    network.cut.update((name, primary.name) for name in behind)
    network.cut.update((primary.name, name) for name in behind)
    network.cut.update((name, ahead.name) for name in behind)
    network.cut.update((ahead.name, name) for name in behind)
    await asyncio.sleep(dice.uniform(0.1, 0.4))
    leader = members.replica_set(primary)
    assert leader is not None
    primary.kill()
    await asyncio.sleep(0.05)
    held = members.replica_set(ahead)
    assert held is not None
    last = held._oplog.last
    network.heal()
    await work.stop()
    await members.until(lambda: members.primary() is not None, 20.0, "a new primary")
    winner = members.primary()
    assert winner is not None
    log = winner.disk.contents.get(Family.OPLOG, timestamp_key(last.timestamp))
    primary.start()
    await members.settled()
    if log is None:
        raise Broken(f"{winner.name} takes writes without {last}, which {ahead.name} had and could have given")


def _scenario(name: str, what: str, topology: Callable[[World], Coroutine[Any, Any, Any]], **how: Any) -> Scenario:
    return Scenario(name=name, what=what, topology=topology, run=functools.partial(under_faults, **how))


SCENARIOS = (
    _scenario(
        "elections",
        "a set of three: every fault",
        functools.partial(a_set, size=3),
        kinds=ALL,
        seconds=6.0,
        count=3,
    ),
    _scenario(
        "rollbacks",
        "a set of three: partitions and kills, nothing is lost from any disk",
        functools.partial(a_set, size=3),
        kinds=WITHOUT_POWER,
        seconds=6.0,
        count=3,
    ),
    _scenario(
        "five",
        "a set of five: every fault",
        functools.partial(a_set, size=5),
        kinds=ALL,
        seconds=6.0,
        count=4,
    ),
    Scenario(
        name="votes",
        what="a set of five over long links: candidates meet, voters forget what was not on disk",
        topology=functools.partial(a_set, size=5),
        run=crossing_votes,
    ),
    Scenario(
        name="catch-up",
        what="a set of five whose primary dies when one member alone has its last writes",
        topology=functools.partial(a_set, size=5),
        run=one_is_ahead,
    ),
)
