"""Sets whose clients have transactions over many documents, beside everything that can happen to a set.

Each snapshot of the bank is one moment, what was acknowledged stays, what was not is seen by nobody, and the lists show
no more than snapshot isolation allows (`tests.simulation.transactions`).
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from docstore.collection.oplog import operations
from tests.simulation.clients import Client, anew, of_set, quietly
from tests.simulation.faults import MOMENTS, Nemesis
from tests.simulation.process import Machine
from tests.simulation.replica_set import SETTINGS, SimulatedSet
from tests.simulation.scenarios.elections import ALL, judge, surroundings
from tests.simulation.schedule import Scenario
from tests.simulation.transactions import (
    anomalies,
    anything,
    append_and_read,
    count,
    final_state,
    prepare,
    read_bank,
    read_outside,
    report,
    take_free_name,
    take_name,
    transfer,
)
from tests.simulation.workloads import Workload
from tests.simulation.world import World

CLIENTS = 5
READERS = 2
"""Those that do nothing else, where some do."""
LIFETIME_SECONDS = 2
"""So long an open transaction that nobody ends may stand in the way of others."""
LARGE = 400
"""The bytes of an oplog entry where transactions are to have several."""

HASTY_WINNERS = {**SETTINGS, "catchUpTimeoutMillis": 50}
"""A winner takes writes before a predecessor that was cut off has noticed that it is one no more."""

Operator = Callable[[World, SimulatedSet, Workload], Coroutine[Any, Any, Any]]


async def a_bank(world: World, *, settings: Mapping[str, Any] = SETTINGS) -> SimulatedSet:
    made = SimulatedSet(world, "set", 3)
    await made.start(settings=settings)
    await prepare(of_set(made.name, made.hosts))
    await made.settled()
    return made


async def transacting(
    world: World,
    members: SimulatedSet,
    *,
    disturb: Operator,
    act: Callable[[Client, Workload], Coroutine[Any, Any, None]] = anything,
    clients: int = CLIENTS,
    also: Sequence[Operator] = (),
) -> None:
    """Clients work while they are disturbed; then all comes to rest and is judged. `also`: what runs beside them, until
    the workload is over, and gives the anomalies that it has found.
    """
    surroundings(world)
    await short_lives(members)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=clients)
    work.start(act)
    operators = [asyncio.ensure_future(each(world, members, work)) for each in also]
    await disturb(world, members, work)
    work.over = True
    found = [anomaly for each in operators for anomaly in await each or ()]
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, work.history, final)
    world.counts |= {"elections": members.invariants.elections, "rollbacks": members.invariants.rollbacks}
    judge([*found, *anomalies(work.history, final), *await members.anomalies()])


async def short_lives(members: SimulatedSet) -> None:
    """Have its members, which are all up, and each that starts later let no transaction stay open for long."""
    members.parameters["transactionLifetimeLimitSeconds"] = str(LIFETIME_SECONDS)
    for machine, _ in members.members():
        await members.command(
            machine, "admin", {"setParameter": 1, "transactionLifetimeLimitSeconds": LIFETIME_SECONDS}
        )


async def faults(
    world: World, members: SimulatedSet, _work: Workload, *, kinds: Sequence[str], count: int, seconds: float = 5.0
) -> None:
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    await nemesis.run(seconds, kinds, count=count, moments=MOMENTS)
    nemesis.end()
    world.counts["faults"] = nemesis.done


async def reigns(world: World, members: SimulatedSet, _work: Workload) -> None:
    """Primaries that are asked to step down and come back at once, or are cut off with some of the clients while
    another one is elected.
    """
    dice, network = world.fault_dice, world.network
    for _ in range(3):
        await asyncio.sleep(dice.uniform(0.1, 0.5))
        old = members.primary()
        if old is None:
            continue
        others = [machine for machine in members.machines if machine is not old]
        kind = dice.random()
        if kind < 0.4:
            world.tell("operator", f"asks {old.name} to step down, and to come back")
            await quietly(
                members.command(old, "admin", {"replSetStepDown": 1, "secondaryCatchUpPeriodSecs": 0, "force": True})
            )
            await quietly(members.command(old, "admin", {"replSetFreeze": 0}))
            await quietly(members.command(old, "admin", {"replSetStepUp": 1}))
        elif kind < 0.6:
            await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
        else:
            _cut_off(world, members, old, dice.sample([f"client{number}" for number in range(CLIENTS)], 3))
            await asyncio.sleep(dice.choice((0.0, 0.02, 0.2)))
            await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
            await asyncio.sleep(dice.uniform(0.2, 0.9))
            network.heal()
        await members.until(lambda: members.primary() is not None, 20.0, "a primary")


async def returns(world: World, members: SimulatedSet, _work: Workload) -> None:
    """A primary steps down, another one takes its place for a moment, and the first one is primary again, with what it
    remembers.
    """
    dice = world.fault_dice
    for _ in range(4):
        await asyncio.sleep(dice.uniform(0.1, 0.3))
        old = members.primary()
        if old is None:
            continue
        other = dice.choice([machine for machine in members.machines if machine is not old])
        for machine in (other, old):
            world.tell("operator", f"makes {machine.name} the primary")
            await quietly(members.command(machine, "admin", {"replSetStepUp": 1}))
            await members.until(lambda: members.primary() is not None, 20.0, "a primary")
            await asyncio.sleep(dice.uniform(0.05, 0.2))


async def _slow_and_hasty(client: Client, work: Workload) -> None:
    """Some take their time between two statements, and others do not."""
    client.hurries = client.number >= READERS
    client.patience = 0.8
    client.seconds = 2.0
    await client.dice.choice((transfer, append_and_read, append_and_read))(client, work)


async def two_primaries(world: World, members: SimulatedSet, _work: Workload) -> None:
    """A primary is cut off, alone or with those that only read. Some of the clients that work with its successor are
    then cut off too, with the old one: they ask it how what they have begun has ended.
    """
    dice, network = world.fault_dice, world.network
    network.base, network.jitter = dice.choice(((3e-4, 5e-4), (1e-3, 1e-3), (2e-3, 3e-3)))
    for _ in range(4):
        await asyncio.sleep(dice.uniform(0.05, 0.2))
        old = members.primary()
        if old is None:
            continue
        others = [machine for machine in members.machines if machine is not old]
        clients = [f"client{number}" for number in range(CLIENTS)]
        along = clients[:READERS] if dice.random() < 0.5 else []
        _cut_off(world, members, old, along)
        await quietly(members.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
        if not along:
            await asyncio.sleep(dice.uniform(0.02, 0.25))
            _cut_off(world, members, old, dice.sample(clients[READERS:], 2))
        await asyncio.sleep(dice.uniform(0.3, 0.9))
        network.heal()
        await members.until(lambda: members.primary() is not None, 20.0, "a primary")


def _cut_off(world: World, members: SimulatedSet, machine: Machine, along: Sequence[str]) -> None:
    """Leave a member to some of the clients."""
    world.tell("nemesis", f"cuts {machine.name} off with {along}")
    here = [machine.name, *along]
    others = [each.name for each in members.machines] + [f"client{number}" for number in range(CLIENTS)]
    world.network.partition([here, [name for name in others if name not in here]])


async def _hasty(client: Client, work: Workload, members: SimulatedSet) -> None:
    client.seconds, client.hurries = 0.3, True
    client.elsewhere = functools.partial(anew, members.name, members.hosts)
    if client.number < READERS:
        await read_bank(client, work)
    else:
        await client.dice.choice((transfer, append_and_read))(client, work)


async def between_two(world: World, members: SimulatedSet) -> None:
    async def act(client: Client, work: Workload) -> None:
        await _hasty(client, work, members)

    await transacting(world, members, disturb=two_primaries, act=act)


async def copies(world: World, members: SimulatedSet, work: Workload) -> None:
    """Members lose their disks and are copied anew, others die in the midst of a write or are cut off."""
    dice = world.fault_dice
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    for _ in range(2):
        await asyncio.sleep(dice.uniform(0.1, 0.6))
        primary = members.primary()
        loser = members.secondary()
        if primary is None or loser is None or loser is primary:
            continue
        loser.wipe()
        world.after(dice.uniform(0.02, 0.3), loser.start)
        for _ in range(dice.randrange(2)):
            moment = dice.choice(("copying", "cloned", "applying", "primary"))
            nemesis.at_moment(moment, dice.choice(("kill", "die at write", "pause")))
        await asyncio.sleep(dice.uniform(0.3, 1.5))
        left = [machine for machine in members.machines if machine is not loser]
        if dice.random() < 0.7:
            nemesis.strike(dice.choice(("kill", "die at write", "die at write", "pause", "isolate")), dice.choice(left))
        await members.until(
            lambda loser=loser: members.recovered(loser),
            60.0,
            f"{loser.name} has its copy",  # type: ignore[misc]
        )
    nemesis.end()


async def deaths_at_writes(world: World, members: SimulatedSet, _work: Workload) -> None:
    """Processes die between two writes to their disks, and are back at once."""
    dice = world.fault_dice
    nemesis = Nemesis(world, members.machines, members.primary)
    members.invariants.listeners.append(nemesis.moment)
    for _ in range(4):
        await asyncio.sleep(dice.uniform(0.1, 0.4))
        primary = members.primary()
        machine = primary if primary is not None and dice.random() < 0.4 else dice.choice(members.machines)
        nemesis.strike(dice.choice(("die at write", "die at write", "kill", "isolate")), machine)
        await asyncio.sleep(dice.uniform(0.2, 1.0))
    nemesis.end()


async def in_pieces(world: World, members: SimulatedSet, *, disturb: Operator) -> None:
    """Each transaction has several entries in the log."""
    operations.MOST_BYTES = world.fault_dice.choice((1, LARGE, 2 * LARGE))
    await transacting(world, members, disturb=disturb, act=_large)


async def _large(client: Client, work: Workload) -> None:
    act = client.dice.choices((transfer, append_and_read, read_bank, read_outside), (40, 30, 15, 15))[0]
    await act(client, work)


async def _contend(client: Client, work: Workload) -> None:
    client.seconds = client.dice.choice((0.1, 5.0))
    act = client.dice.choices(
        (transfer, count, take_name, take_free_name, append_and_read, read_bank), (30, 40, 5, 10, 10, 5)
    )[0]
    await act(client, work)


async def answers_lost(world: World, _members: SimulatedSet, _work: Workload) -> None:
    """Commands come twice, and connections go."""
    dice = world.fault_dice
    for _ in range(3):
        world.network.duplicate_probability = dice.choice((0.1, 0.3))
        world.network.reset_probability = dice.choice((0.0, 0.02))
        await asyncio.sleep(dice.uniform(0.5, 1.5))
    world.network.duplicate_probability = world.network.reset_probability = 0.0


SCENARIOS = (
    Scenario(
        name="transactions",
        what="a set of three whose clients have transactions: every fault",
        topology=a_bank,
        run=functools.partial(transacting, disturb=functools.partial(faults, kinds=ALL, count=3)),
    ),
    Scenario(
        name="transactions-claims",
        what="many clients want the same documents, in transactions and outside; commands come twice, answers are lost",
        topology=a_bank,
        run=functools.partial(transacting, disturb=answers_lost, act=_contend, clients=8),
    ),
    Scenario(
        name="transactions-reigns",
        what="the same; primaries step down and come back, or are cut off with clients",
        topology=functools.partial(a_bank, settings=HASTY_WINNERS),
        run=functools.partial(transacting, disturb=reigns),
    ),
    Scenario(
        name="transactions-returns",
        what="primaries that are replaced for a moment and come back, beside transactions that wait for that long",
        topology=a_bank,
        run=functools.partial(transacting, disturb=returns, act=_slow_and_hasty),
    ),
    Scenario(
        name="transactions-between",
        what="clients go back to a primary that has been deposed, with what they have begun with its successor",
        topology=functools.partial(a_bank, settings=HASTY_WINNERS),
        run=between_two,
    ),
    Scenario(
        name="transactions-pieces",
        what="transactions of several entries; processes die between two writes",
        topology=a_bank,
        run=functools.partial(in_pieces, disturb=deaths_at_writes),
    ),
    Scenario(
        name="transactions-copies",
        what="transactions of several entries beside initial syncs",
        topology=a_bank,
        run=functools.partial(in_pieces, disturb=copies),
    ),
)
