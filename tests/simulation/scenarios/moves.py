"""A cluster of two shards whose chunks move while clients write by id, by key and to all, under faults."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.durability import check_inserts
from tests.checkers.history import Anomaly, Kind, Operation
from tests.checkers.many import Concerns, check_many
from tests.simulation.clients import Client
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import World

KEYS = 400
POINTS = (100, 200, 300)
NAME = COLLECTION.partition(".")[2]


async def a_cluster(world: World, members: int = 3) -> SimulatedCluster:
    cluster = SimulatedCluster(world, members=members)
    await cluster.start()
    await cluster.shard_collection(list(POINTS))
    return cluster


class Documents:
    """What the clients know of the documents of `COLLECTION`, which have a number `k` and a list of tags."""

    def __init__(self) -> None:
        self.known: list[str] = []

    async def act(self, client: Client, work: Workload) -> None:
        """One operation of one client."""
        dice = client.dice
        kind = dice.random()
        if kind < 0.3 or not self.known:
            await self.insert(client, work)
        elif kind < 0.65:
            await self.update_by_id(client, work, dice.choice(self.known))
        elif kind < 0.75:
            await self.update_many(client, work)
        elif kind < 0.85:
            await self.delete(client, self.known.pop(dice.randrange(len(self.known))))
        else:
            await self.find_all(client)

    async def insert(self, client: Client, work: Workload) -> None:
        key = f"{client.number}-{work.value()}"
        operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
        command = {"insert": NAME, "documents": [self.document(client, key)]}
        await client.record(operation, client.write(command, "majority", retryable=True))
        if operation.ok:
            operation.result = None
            self.known.append(key)

    def document(self, client: Client, key: str) -> dict[str, Any]:
        """One to be inserted."""
        return {"_id": key, "k": client.dice.randrange(KEYS), "tags": []}

    async def update_by_id(self, client: Client, work: Workload, key: str) -> None:
        tag = work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, tag, w="majority")
        await self._update(client, operation, {"_id": key}, tag, multi=False)

    async def update_many(self, client: Client, work: Workload) -> None:
        tag = work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_MANY, NAME, tag, w="majority")
        await self._update(client, operation, {}, tag, multi=True)

    @staticmethod
    async def _update(client: Client, operation: Operation, where: dict[str, Any], tag: int, *, multi: bool) -> None:
        update = {"q": where, "u": {"$push": {"tags": tag}}, "multi": multi}

        async def work() -> int:
            command = {"update": NAME, "updates": [update]}
            return int((await client.write(command, "majority", retryable=not multi))["n"])

        await client.record(operation, work())

    async def delete(self, client: Client, key: str) -> None:
        operation = client.history.invoke(client.number, Kind.DELETE, key, w="majority")

        async def work() -> int:
            command = {"delete": NAME, "deletes": [{"q": {"_id": key}, "limit": 1}]}
            return int((await client.write(command, "majority", retryable=True))["n"])

        await client.record(operation, work())

    async def find_all(self, client: Client) -> None:
        await self.find(client, None)

    def reading(self, _client: Client) -> dict[str, Any]:
        """How a find reads, so that it sees all that was acknowledged before."""
        return {"readConcern": {"level": "majority"}}

    async def hesitate(self, _client: Client) -> None:
        """Before a find is sent that has begun."""

    async def find(self, client: Client, number: int | None) -> None:
        """All documents, or those of one shard key."""
        operation = client.history.invoke(client.number, Kind.FIND_ALL, NAME, number, read_concern="majority")
        where = {} if number is None else {"k": number}

        async def work() -> list[str]:
            command = {"find": NAME, "filter": where, "batchSize": 100_000, "projection": {"_id": 1}}
            command |= self.reading(client)
            await self.hesitate(client)
            reply = await client.command(command)
            return [each["_id"] for each in reply["cursor"]["firstBatch"]]

        await client.record(operation, work())


async def move_about(cluster: SimulatedCluster, dice: random.Random, over: list[bool], *, pause: float = 0.05) -> None:
    """An operator who moves and splits chunks at random, whatever comes of it."""
    world = cluster.world
    while not over:
        point, shard = dice.randrange(KEYS), dice.choice(sorted(cluster.shards))
        command: dict[str, Any] = {"moveChunk": COLLECTION, "find": {"k": point}, "to": shard}
        if dice.random() < 0.15:
            command = {"split": COLLECTION, "middle": {"k": point}}
        told = f"{'moves' if 'to' in command else 'splits'} the chunk of {point}"
        try:
            async with asyncio.timeout(15.0):
                world.tell("operator", told + (f" to {shard}" if "to" in command else ""))
                await cluster.admin(command, on=dice.choice(cluster.routers))
                world.tell("operator", f"{told}: done")
                world.counts["moves"] = world.counts.get("moves", 0) + ("to" in command)
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell("operator", f"{told}: {error!r}"[:200])
        await asyncio.sleep(dice.expovariate(1 / pause))


async def moving(
    world: World, cluster: SimulatedCluster, *, kinds: Sequence[str], count: int, seconds: float, clients: int = 3,
    moments: Sequence[str] = (),
) -> None:  # fmt: skip
    """Clients and moves, perhaps faults, where there are `moments` at these; then all must be where it belongs."""
    world.hiccups = world.fault_dice.choice((0.0, 0.005))
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (5e-4, 5e-3), (1e-3, 2e-2)))
    nemesis = ClusterNemesis(cluster)
    if moments:
        nemesis.plan(moments, kinds, count)
    documents = Documents()
    dice = world.client_dice
    work = Workload(world, lambda: of_routers(cluster.routers, random.Random(dice.getrandbits(64))), clients=clients)
    work.start(documents.act)
    over: list[bool] = []
    mover = asyncio.ensure_future(move_about(cluster, random.Random(dice.getrandbits(64)), over))
    if count and not moments:
        await nemesis.run(seconds, kinds, count=count)
    else:
        await asyncio.sleep(seconds)
    nemesis.end()
    over.append(True)
    await mover
    await work.stop()
    await cluster.settled()
    judge(await anomalies(cluster, work))
    await no_leaks(cluster, cursors=not count)
    world.counts |= {
        "operations": len(work.history),
        "acknowledged": sum(each.ok for each in work.history),
        "faults": nemesis.done,
    }


async def anomalies(
    cluster: SimulatedCluster, work: Workload, *, concerns: Concerns = lambda _operation, _id: True, key: str = "k"
) -> list[Anomaly]:
    """What is not as it must be in the end. `concerns`: see `check_many`; `key`: what the collection is sharded by."""
    history = work.history
    database, _, name = COLLECTION.partition(".")
    final = {each["_id"]: each["tags"] for each in await cluster.all_documents(cluster.routers[0], database, name)}
    deleted = {each.key for each in history if each.kind is Kind.DELETE}
    expected = {each.key for each in history if each.kind is Kind.INSERT and each.ok} - deleted
    found = [*check_inserts(history, set(final)), *check_many(history, final, concerns=concerns)]
    found += await cluster.ownership(expected, key=key)
    found += await cluster.catalogs()
    return found + await cluster.member_anomalies()


KINDS = ("kill", "power", "isolate", "one way", "pause", "die at write", "slow disk", "slow link", "clock", "resets")

SCENARIOS = (
    Scenario(
        name="moves",
        what="two shards of three: chunks move while clients write, nothing else happens",
        topology=a_cluster,
        run=functools.partial(moving, kinds=(), count=0, seconds=2.0),
    ),
    Scenario(
        name="moves-faults",
        what="two shards of three: chunks move while clients write and every fault comes",
        topology=a_cluster,
        run=functools.partial(moving, kinds=KINDS, count=2, seconds=4.0),
    ),
)
