"""Transactions over two shards beside changes of definitions and moves, where nothing fails: nobody waits for long.

Those who change a collection, or move it, wait for the transactions that use it; a transaction waits for nobody who may
wait for it. So there is no cycle of waiting, and a request that holds nothing is answered as soon as the transactions
before it have ended, which are short here. Nor is a transaction ended by what other sessions do.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from mongos.transactions import registry
from tests.checkers.history import Anomaly
from tests.checkers.waiting import check_patience
from tests.simulation.clients import DATABASE, Client, Refused, Unknown
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.routed import Routers, Times
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import Aborted, OpenTransaction
from tests.simulation.waiting import watch
from tests.simulation.workloads import Workload
from tests.simulation.world import World

CLIENTS = 6
NAMES = ("x", "y")
MIDDLE, KEYS = 50, 100
SECONDS = 4.0
CHANGE_SECONDS = 20.0
MAX_ENDED_TRANSACTIONS = 1
"""So few that routers forget those that have ended all the time."""
LONGEST_SECONDS = 1.0
"""What a request takes that holds nothing, at most."""
THOUGHTS = (0.0, 0.0, 0.005, 0.02)


async def a_database(world: World) -> SimulatedCluster:
    """Two collections over two shards of one member each, and one that is not sharded."""
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    for name in NAMES:
        await make(cluster, name)
    await cluster.admin({"insert": "u", "documents": [{"_id": 0}]}, DATABASE)
    await cluster.settled()
    return cluster


async def make(cluster: SimulatedCluster, name: str) -> None:
    """Have a collection over both shards. Errors: CommandError, NetworkError."""
    await cluster.shard_collection([MIDDLE], f"{DATABASE}.{name}")
    documents = [{"_id": f"{name}{key}", "k": key} for key in range(0, KEYS, 10)]
    await cluster.admin({"insert": name, "documents": documents, "ordered": False}, DATABASE)


class Clients:
    """`waits`: how long each request took of those that hold nothing, in seconds. `ended`: transactions that others
    have ended.
    """

    def __init__(self) -> None:
        self.waits: dict[str, float] = {}
        self.ended: list[Anomaly] = []
        self.committed = 0

    async def act(self, client: Client, work: Workload) -> None:
        """A transaction over several collections and shards, or a request outside of any."""
        assert isinstance(client.ask, Routers), "a client of a cluster"
        client.ask.change()
        if client.dice.random() < 0.4:
            await self._alone(client, work)
        else:
            await self._transact(client, work)

    async def _alone(self, client: Client, work: Workload) -> None:
        command, began = self._statement(client, work), work.world.now
        try:
            await client.command(command)
        except (Refused, Unknown) as error:
            work.world.tell(f"client{client.number}", f"{command}: {error}"[:160])
        self.waits[f"{began:.3f}: {command}"[:100]] = work.world.now - began

    async def _transact(self, client: Client, work: Workload) -> None:
        dice = client.dice
        transaction = OpenTransaction(client, {"level": dice.choice(("local", "snapshot"))})
        try:
            for _ in range(dice.randint(2, 4)):
                await transaction.run(self._statement(client, work))
                await asyncio.sleep(dice.choice(THOUGHTS) * dice.random())
            await transaction.commit()
            self.committed += 1
        except (Aborted, Unknown) as error:
            cause = error.__cause__
            if isinstance(cause, CommandError) and cause.code == Code.NoSuchTransaction:
                self.ended.append(Anomaly("ended by others", repr(cause)))
            await transaction.abort()

    def _statement(self, client: Client, work: Workload) -> dict[str, Any]:
        dice = client.dice
        name, key = dice.choice((*NAMES, *NAMES, "u")), dice.randrange(KEYS)
        kind = dice.random()
        if kind < 0.4:
            return {"find": name, "filter": {"k": key}, "batchSize": 10_000}
        if kind < 0.5:
            return {"find": name, "filter": {}, "batchSize": 10_000}
        return {"insert": name, "documents": [{"_id": f"{client.number} {work.value()}", "k": key}]}


def changes(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """(database, command)"""
    name = dice.choice(NAMES)
    index = {"key": {"n": 1}, "name": "n"}
    statements: Sequence[tuple[str, dict[str, Any]]] = (
        (DATABASE, {"drop": name}),
        (DATABASE, {"dropDatabase": 1}),
        (DATABASE, {"createIndexes": name, "indexes": [index]}),
        (DATABASE, {"dropIndexes": name, "index": "n"}),
        ("admin", {"renameCollection": f"{DATABASE}.{name}", "to": f"{DATABASE}.z", "dropTarget": True}),
        ("admin", {"movePrimary": DATABASE, "to": dice.choice(("shard0", "shard1"))}),
        (DATABASE, {"collMod": name, "validationLevel": "moderate"}),
    )
    return dice.choice(statements)


async def change(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
    """Change definitions, and make anew what is gone, until the workload is over; what took too long."""
    world, anomalies = cluster.world, []
    dice = random.Random(world.client_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / 0.1))
        database, command = changes(dice)
        began = world.now
        try:
            await asyncio.wait_for(cluster.admin(command, database), CHANGE_SECONDS)
            if any(name in command for name in ("drop", "dropDatabase", "renameCollection")):
                for name in NAMES:
                    await make(cluster, name)
        except (CommandError, NetworkError) as error:
            world.tell("operator", f"{command}: {error!r}"[:200])
        except TimeoutError:
            anomalies.append(Anomaly("waits for ever", str(command)))
        world.tell("operator", f"{command}: after {world.now - began:.3f} s")
        world.counts["changes"] = world.counts.get("changes", 0) + 1
    return anomalies


async def move(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
    """Move chunks to and fro, whatever comes of it, until the workload is over."""
    world = cluster.world
    dice = random.Random(world.client_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / 0.1))
        command = {
            "moveChunk": f"{DATABASE}.{dice.choice(NAMES)}", "find": {"k": dice.choice((0, MIDDLE))},
            "to": dice.choice(("shard0", "shard1")),
        }  # fmt: skip
        try:
            await cluster.admin(command, on=dice.choice(cluster.routers))
            world.counts["moves"] = world.counts.get("moves", 0) + 1
        except (CommandError, NetworkError) as error:
            world.tell("operator", f"{command}: {error!r}"[:200])
    return []


async def changing(world: World, cluster: SimulatedCluster) -> None:
    dice, clients = world.client_dice, Clients()
    registry.MAX_ENDED_TRANSACTIONS = MAX_ENDED_TRANSACTIONS
    work = Workload(world, lambda: Routers(cluster, random.Random(dice.getrandbits(64)), Times()), clients=CLIENTS)
    work.start(clients.act)
    operators = [asyncio.ensure_future(act(cluster, work)) for act in (change, move, move, watch)]
    await asyncio.sleep(SECONDS)
    work.over = True
    anomalies = [anomaly for operator in operators for anomaly in await operator]
    await work.stop()
    world.counts |= {"committed": clients.committed, "alone": len(clients.waits)}
    world.counts["longest ms"] = int(1000 * max(clients.waits.values(), default=0))
    judge([*anomalies, *clients.ended, *check_patience(clients.waits, LONGEST_SECONDS)])
    await cluster.settled()
    await no_leaks(cluster, cursors=False)


SCENARIOS = (
    Scenario(
        name="waiting",
        what="transactions over both shards beside changes of definitions and moves, without faults",
        topology=a_database,
        run=changing,
    ),
)
