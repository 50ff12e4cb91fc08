"""A chunk comes to a shard whose secondaries hear late that a majority has its last documents.

They have these documents, and a router knows that the chunk is theirs. A read of what a majority has, at a time that
they know to be committed, must show all that was acknowledged before that time on the old owner.
"""

from __future__ import annotations

import asyncio
import functools
import random
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.history import History
from tests.simulation.clients import Client, Refused, Target, Unknown, quietly
from tests.simulation.moments import GIVEN_AWAY
from tests.simulation.process import Incarnation
from tests.simulation.scenarios import moves
from tests.simulation.scenarios.handover import a_small_cluster
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster, of_routers
from tests.simulation.world import Broken, World

SECONDS = 1.2
CUT_SECONDS = (0.005, 0.05)
"""How long the secondaries of the new owner hear nothing of their primary, once it has all."""
WRITERS = 3
SECURED = "recipient secured"


class Clients:
    """All use one router, which knows of each handover at once."""

    def __init__(self, cluster: SimulatedCluster, dice: random.Random) -> None:
        self.over = False
        self.given_away = asyncio.Event()
        self._cluster = cluster
        self._dice = dice
        self._router = cluster.routers[0]
        self._acknowledged: set[str] = set()
        self._times: dict[str, Any] = {}
        """Of the last reply to a write."""

    def _ask(self) -> Target:
        return of_routers([self._router], random.Random(self._dice.getrandbits(64)))

    async def write(self, number: int) -> None:
        """Insert documents of the chunk that moves."""
        world, dice, count = self._cluster.world, random.Random(self._dice.getrandbits(64)), 0
        writer = Client(number, History(clock=lambda: world.now), self._ask(), dice)
        while not self.over:
            count += 1
            key = f"{number}-{count}"
            command = {"insert": moves.NAME, "documents": [{"_id": key, "k": 0, "tags": []}]}
            try:
                await writer.write(command, "majority", retryable=True)
            except (Refused, Unknown):
                continue
            self._acknowledged.add(key)
            self._times = writer.times
            await asyncio.sleep(dice.uniform(0.0, 0.002))

    async def make_noise(self, database: str) -> None:
        """Have the log of the database's shard move on."""
        ask = self._ask()
        while not self.over:
            await quietly(ask(database, {"insert": "noise", "documents": [{}]}))
            await asyncio.sleep(self._dice.uniform(0.0, 0.002))

    async def read(self) -> None:
        """At each handover, from a secondary."""
        cluster, router = self._cluster, self._router
        while not self.over:
            await self.given_away.wait()
            self.given_away.clear()
            expected, time = set(self._acknowledged), self._times["operationTime"]
            command = {
                "find": moves.NAME, "filter": {"k": 0}, "batchSize": 100_000, "$readPreference": {"mode": "secondary"},
                "readConcern": {"level": "majority", "afterClusterTime": time},
                "$clusterTime": self._times["$clusterTime"],
            }  # fmt: skip
            try:
                await cluster.admin({"flushRouterConfig": 1}, on=router)
                reply = await cluster.admin(command, "test", on=router)
            except (CommandError, NetworkError) as error:
                cluster.world.tell("reader", repr(error)[:200])
                continue
            cluster.world.counts["reads"] = cluster.world.counts.get("reads", 0) + 1
            if missing := expected - {each["_id"] for each in reply["cursor"]["firstBatch"]}:
                raise Broken(f"a read after {time} does not show {sorted(missing)}")


async def reading(world: World, cluster: SimulatedCluster) -> None:
    dice, network = random.Random(world.client_dice.getrandbits(64)), world.network
    network.base, network.jitter = dice.choice(((3e-4, 5e-4), (3e-4, 2e-3)))
    clients = Clients(cluster, dice)

    def come(process: Incarnation, moment: str) -> None:
        if moment == GIVEN_AWAY:
            clients.given_away.set()
        if moment == SECURED:
            mine = next(each for each in cluster.sets if process.machine in each.machines)
            network.cut |= {(process.machine.name, each.name) for each in mine.machines if each is not process.machine}
            world.after(dice.uniform(*CUT_SECONDS), functools.partial(network.heal, resets=0.0))

    working = [clients.write(number) for number in range(WRITERS)]
    for shard in cluster.shards:
        await cluster.admin({"enableSharding": f"on_{shard}", "primaryShard": shard})
        working.append(clients.make_noise(f"on_{shard}"))
    world.moments.append(come)
    running = [asyncio.ensure_future(each) for each in working]
    reader = asyncio.ensure_future(clients.read())
    end, shards = world.now + SECONDS, sorted(cluster.shards)
    while world.now < end and not reader.done():
        shards.reverse()
        await quietly(cluster.admin({"moveChunk": moves.COLLECTION, "find": {"k": 0}, "to": shards[0]}))
    clients.over = True
    clients.given_away.set()
    await reader
    await asyncio.gather(*running)
    world.moments.clear()
    await cluster.settled()


SCENARIOS = (
    Scenario(
        name="handover-uncommitted",
        what="two shards of three: secondaries of the new owner hear late what of a chunk is committed",
        topology=functools.partial(a_small_cluster, members=3),
        run=reading,
    ),
)
