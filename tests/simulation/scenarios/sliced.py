"""A set whose primary steps down or dies while statements over many documents are half-way.

Each is done in many slices. Whoever sent one is not told that nothing has been done when something has, or he would
send it to the next primary: no document is met twice.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Hashable

import bson

from tests.checkers.durability import check_inserts
from tests.checkers.history import Kind, Operation
from tests.checkers.many import check_many
from tests.simulation.clients import Client, of_set, quietly
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge
from tests.simulation.scenarios.membership import ask_primary
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

NAME, SOURCE, COPY = "many", "source", "copy"
COUNT = 120
CHANGES = 4


async def act(client: Client, work: Workload) -> None:
    """One operation of one client."""
    kind = client.dice.random()
    if kind < 0.15:
        await replace(client)
    elif kind < 0.3:
        await insert(client, f"{client.number}-{work.value()}")
    else:
        await (update_many if kind < 0.65 else merge)(client, work.value())


async def update_many(client: Client, tag: int) -> None:
    operation = client.history.invoke(client.number, Kind.UPDATE_MANY, NAME, tag, w="majority")
    update = {"q": {}, "u": {"$push": {"tags": tag}}, "multi": True}
    await client.record(operation, client.write({"update": NAME, "updates": [update]}, "majority"))


async def merge(client: Client, tag: int) -> None:
    """The same by a pipeline, for what is in `SOURCE`."""
    operation = client.history.invoke(client.number, Kind.UPDATE_MANY, SOURCE, tag, w="majority")
    change = [{"$set": {"tags": {"$concatArrays": ["$tags", [tag]]}}}]
    stage = {"into": NAME, "on": "_id", "whenMatched": change, "whenNotMatched": "discard"}
    await client.record(
        operation, client.write({"aggregate": SOURCE, "pipeline": [{"$merge": stage}], "cursor": {}}, "majority")
    )


async def replace(client: Client) -> None:
    """A pipeline's results in the place of others."""
    await quietly(client.write({"aggregate": SOURCE, "pipeline": [{"$out": COPY}], "cursor": {}}, "majority"))


async def insert(client: Client, key: str) -> None:
    operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
    command = {"insert": NAME, "documents": [{"_id": key, "tags": []}]}
    await client.record(operation, client.write(command, "majority", retryable=True))


def concerns(operation: Operation, key: Hashable) -> bool:
    """A pipeline is about the documents that were there in the beginning."""
    return operation.key != SOURCE or isinstance(key, int)


async def stepping_down(world: World, members: SimulatedSet) -> None:
    dice = world.fault_dice
    world.hiccups = dice.choice((0.01, 0.03))
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-3, 2e-2)))
    for name in (NAME, SOURCE):
        documents = [{"_id": number, "tags": []} for number in range(COUNT)]
        primary = members.primary()
        assert primary is not None
        await members.command(primary, "test", {"insert": name, "documents": documents, "writeConcern": {"w": 3}})
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=3)
    for number in range(COUNT):
        work.history.ok(work.history.invoke(-1, Kind.INSERT, number, w="majority"))
    work.start(act)
    for _ in range(CHANGES):
        await asyncio.sleep(dice.uniform(0.1, 0.6))
        primary = members.primary()
        if primary is not None and dice.random() < 0.5:
            primary.kill()
            world.after(dice.uniform(0.1, 0.5), primary.start)
            continue
        force = dice.random() < 0.3
        command = {"replSetStepDown": 2, "secondaryCatchUpPeriodSecs": 0 if force else 1, "force": force}
        world.tell("operator", f"asks for a step-down, force={force}")
        await ask_primary(members, command)
    await work.stop()
    world.hiccups = 0.0
    await members.settled()
    find = {"find": NAME, "readConcern": {"level": "majority"}, "batchSize": 100_000}
    reply = bson.decode(await of_set(members.name, members.hosts)("test", find, retry=True, timeout=20.0))
    final = {each["_id"]: each["tags"] for each in reply["cursor"]["firstBatch"]}
    world.counts |= {
        "operations": len(work.history),
        "acknowledged": sum(each.ok for each in work.history),
        "elections": members.invariants.elections,
    }
    primary = members.primary()
    assert primary is not None
    listed = await members.command(primary, "test", {"listCollections": 1, "nameOnly": True})
    names = {each["name"] for each in listed["cursor"]["firstBatch"]}
    if names - {NAME, SOURCE, COPY}:
        raise Broken(f"what $out began is still there: {names}")
    judge(
        [
            *check_inserts(work.history, set(final)),
            *check_many(work.history, final, concerns=concerns),
            *await members.anomalies(),
        ]
    )


SCENARIOS = (
    Scenario(
        name="sliced",
        what="a set of three whose primaries go while updates and merges of many are half-way",
        topology=functools.partial(a_set, size=3),
        run=stepping_down,
    ),
)
