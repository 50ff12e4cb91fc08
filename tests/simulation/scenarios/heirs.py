"""A set whose primaries die as soon as they have acknowledged something, over long links.

Nobody has told the next primary then that it is committed. What it shows to those who ask for what a majority has must
hold it all the same.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Hashable

import bson

from tests.checkers.durability import check_inserts
from tests.checkers.history import Kind
from tests.checkers.many import check_many
from tests.simulation.clients import Client, of_set
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload
from tests.simulation.world import World

NAME = "many"
DEATHS = 4
LOOK_SECONDS = 0.001


async def act(client: Client, work: Workload) -> None:
    """One operation of one client."""
    if client.dice.random() < 0.4:
        await insert(client, f"{client.number}-{work.value()}")
    else:
        await find_all(client)


async def insert(client: Client, key: str) -> None:
    operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
    command = {"insert": NAME, "documents": [{"_id": key, "tags": []}]}
    await client.record(operation, client.write(command, "majority", retryable=True))


async def find_all(client: Client) -> None:
    operation = client.history.invoke(client.number, Kind.FIND_ALL, NAME, None, read_concern="majority")
    command = {"find": NAME, "projection": {"_id": 1}, "readConcern": {"level": "majority"}, "batchSize": 100_000}

    async def work() -> list[Hashable]:
        reply = await client.command(command, repeatable=True)
        return [each["_id"] for each in reply["cursor"]["firstBatch"]]

    await client.record(operation, work())


async def dying(world: World, members: SimulatedSet) -> None:
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-3, 5e-3), (5e-3, 2e-2)))
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=4)
    work.start(act)
    for _ in range(DEATHS):
        await asyncio.sleep(dice.uniform(0.3, 1.0))
        acknowledged = _acknowledged(work)
        end = world.now + 2.0
        while _acknowledged(work) == acknowledged and world.now < end:
            await asyncio.sleep(LOOK_SECONDS)
        primary = members.primary()
        if primary is not None:
            primary.kill()
            world.after(dice.uniform(0.1, 0.5), primary.start)
    await work.stop()
    await members.settled()
    find = {"find": NAME, "readConcern": {"level": "majority"}, "batchSize": 100_000}
    reply = bson.decode(await of_set(members.name, members.hosts)("test", find, retry=True, timeout=20.0))
    final = {each["_id"]: each["tags"] for each in reply["cursor"]["firstBatch"]}
    world.counts |= {
        "operations": len(work.history),
        "acknowledged": sum(each.ok for each in work.history),
        "elections": members.invariants.elections,
    }
    judge([*check_inserts(work.history, set(final)), *check_many(work.history, final), *await members.anomalies()])


def _acknowledged(work: Workload) -> int:
    return sum(each.ok for each in work.history if each.kind is Kind.INSERT)


SCENARIOS = (
    Scenario(
        name="heirs",
        what="a set of three whose primaries die as soon as they have acknowledged something",
        topology=functools.partial(a_set, size=3),
        run=dying,
    ),
)
