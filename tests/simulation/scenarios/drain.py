"""A cluster whose shards are drained, removed and added again beside clients and moves, with the balancer at work.

A shard that was removed owns nothing and holds nothing; one that comes again begins anew, as the operator had dropped
what was left of databases on it.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from mongos.balancer import balancer
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.moments import COORDINATION, MIGRATION, ROUTING
from tests.simulation.process import Incarnation
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moments import KINDS
from tests.simulation.scenarios.moves import KEYS, NAME, Documents, anomalies, move_about
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

DRAIN_SECONDS = 30.0
"""What a shard needs at most to lose a few small chunks, or to be added."""
FAILOVER_SECONDS = 60.0
"""What the faults of a schedule add to that."""
REMOVED = "shard2"
HELD_AT = ("ddl applying", "ddl committing", "ddl releasing")
"""Moments at which all shards are held."""
ROUNDS = (1.0, 0.3)
"""Seconds between rounds of the balancer: idle, busy."""


async def a_cluster(world: World) -> SimulatedCluster:
    """Three shards, each with chunks; the balancer is off until a schedule begins."""
    usual = balancer.ROUND_SECONDS, balancer.BUSY_ROUND_SECONDS
    balancer.ROUND_SECONDS, balancer.BUSY_ROUND_SECONDS = ROUNDS
    try:
        cluster = SimulatedCluster(world, shards=3, members=2)
        await cluster.start()
        points = list(range(50, KEYS, 50))
        await cluster.shard_collection(points)
        for point in points[1::4]:
            await cluster.admin({"moveChunk": COLLECTION, "find": {"k": point}, "to": "shard2"})
    finally:
        balancer.ROUND_SECONDS, balancer.BUSY_ROUND_SECONDS = usual
    return cluster


class Operator:
    """Drains shards and adds them again until it is over; the last drain comes to its end all the same."""

    def __init__(self, cluster: SimulatedCluster, dice: random.Random, patience: float) -> None:
        self.cluster = cluster
        self.dice = dice
        self.patience = patience
        self.over = False

    async def run(self) -> None:
        while not self.over:
            shard = self.dice.choice(sorted(self.cluster.shards))
            await self.remove(shard)
            await self.check_gone(shard)
            self.cluster.world.counts["removed"] = self.cluster.world.counts.get("removed", 0) + 1
            await self.add(shard)

    async def define(self, pause: float) -> None:
        """Change definitions beside: a shard is removed in the midst of some of these."""
        index = {"createIndexes": NAME, "indexes": [{"key": {"later": 1}, "name": "later"}]}
        statements: list[tuple[str, dict[str, Any]]] = [
            ("test", index),
            ("test", {"dropIndexes": NAME, "index": "later"}),
            ("admin", {"shardCollection": "test.other", "key": {"k": 1}}),
            ("test", {"drop": "other"}),
            ("other", {"insert": "some", "documents": [{"k": 1}]}),
            ("other", {"dropDatabase": 1}),
        ]
        while not self.over:
            database, command = self.dice.choice(statements)
            await self.admin(command, database)
            await asyncio.sleep(self.dice.expovariate(1 / pause))

    async def remove(self, shard: str) -> None:
        end = self.cluster.world.now + self.patience
        reply = None
        while reply is None or reply["state"] != "completed":
            if self.cluster.world.now > end:
                raise Broken(f"{shard} is not drained in {self.patience:g} s: {reply}")
            if self.dice.random() < 0.1:
                point = self.dice.randrange(KEYS)
                await self.admin({"moveChunk": COLLECTION, "find": {"k": point}, "to": shard})
            answer = await self.admin({"removeShard": shard})
            reply = reply if answer is None else answer
            for database in (answer or {}).get("dbsToMove", ()):
                others = [name for name in sorted(self.cluster.shards) if name != shard]
                await self.admin({"movePrimary": database, "to": self.dice.choice(others)})
            await asyncio.sleep(self.dice.uniform(0.05, 0.3))

    async def check_gone(self, shard: str) -> None:
        """Once its removal was acknowledged no router shows it, and no chunk is its."""
        chunks = await self.until_answered({"find": "chunks", "filter": {"shard": shard}}, "config")
        if chunks["cursor"]["firstBatch"]:
            raise Broken(f"{shard} was removed and owns {chunks['cursor']['firstBatch']}")

    async def add(self, shard: str) -> None:
        """What is left there of databases is dropped, as it must be, then the shard is added."""
        members = self.cluster.shards[shard]
        end = self.cluster.world.now + self.patience
        while True:
            primary = members.primary()
            try:
                if primary is not None:
                    for database in ("test", "other"):
                        drop = {"dropDatabase": 1, "writeConcern": {"w": "majority"}}
                        await members.command(primary, database, drop)
                    await self.cluster.admin({"addShard": f"{shard}/{','.join(members.hosts)}", "name": shard})
                    return
            except (CommandError, NetworkError) as error:
                self.cluster.world.tell("operator", f"adds {shard}: {error!r}"[:200])
                if self.cluster.world.now > end:
                    raise Broken(f"{shard} is not added in {self.patience:g} s: {error}") from error
            await asyncio.sleep(0.3)

    async def admin(self, command: dict[str, Any], database: str = "admin") -> Any:
        """The reply, None where it failed."""
        world = self.cluster.world
        try:
            async with asyncio.timeout(20.0):
                reply = await self.cluster.admin(command, database, on=self.dice.choice(self.cluster.routers))
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell("operator", f"{command}: {error!r}"[:200])
            return None
        told = {name: value for name, value in reply.items() if name in ("state", "remaining")}
        world.tell("operator", f"{command}: done {told}")
        return reply

    async def until_answered(self, command: dict[str, Any], database: str) -> Any:
        """The reply, whatever it takes."""
        while True:
            reply = await self.admin({**command, "readConcern": {"level": "majority"}}, database)
            if reply is not None:
                return reply
            await asyncio.sleep(0.2)


async def draining(
    world: World, cluster: SimulatedCluster, *, kinds: Sequence[str] = (), count: int = 0, seconds: float = 2.5,
    pause: float = 0.1,
) -> None:  # fmt: skip
    """Clients, an operator who removes and adds shards, another who moves chunks; perhaps faults."""
    balancer.ROUND_SECONDS, balancer.BUSY_ROUND_SECONDS = ROUNDS
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    await cluster.admin({"balancerStart": 1})
    nemesis = ClusterNemesis(cluster)
    nemesis.plan((*MIGRATION, *COORDINATION, *ROUTING), kinds, count)
    dice = world.client_dice
    documents = Documents()
    work = Workload(world, lambda: of_routers(cluster.routers, random.Random(dice.getrandbits(64))), clients=2)
    work.start(documents.act)
    patience = DRAIN_SECONDS + (FAILOVER_SECONDS if count else 0.0)
    operator = Operator(cluster, random.Random(dice.getrandbits(64)), patience)
    over: list[bool] = []
    working = [
        asyncio.ensure_future(operator.run()),
        asyncio.ensure_future(operator.define(pause)),
        asyncio.ensure_future(move_about(cluster, random.Random(dice.getrandbits(64)), over, pause=0.3)),
    ]
    await asyncio.sleep(seconds)
    nemesis.end()
    operator.over = True
    over.append(True)
    await asyncio.gather(*working)
    await work.stop()
    while await operator.admin({"balancerStop": 1}) is None:
        await asyncio.sleep(0.2)
    await cluster.settled()
    judge(await anomalies(cluster, work))
    await no_leaks(cluster, cursors=not count)
    world.counts |= {"operations": len(work.history), "faults": nemesis.done}


async def a_held_cluster(world: World) -> SimulatedCluster:
    """Three shards of one, of which the last one owns nothing."""
    cluster = SimulatedCluster(world, shards=3, members=1, configs=1)
    await cluster.start()
    await cluster.shard_collection([KEYS // 2])
    return cluster


async def removing(world: World, cluster: SimulatedCluster) -> None:
    """A shard is removed while a change of definitions holds it, and the coordinator does not reach it. It lets go by
    itself, and can be added again.
    """
    dice, network = world.fault_dice, world.network
    coordinator, removed = (cluster.shards[name].machines[0].name for name in ("shard0", REMOVED))
    operator = Operator(cluster, random.Random(dice.getrandbits(64)), DRAIN_SECONDS)
    moments, held = [dice.choice(HELD_AT)], asyncio.Event()

    def part(_process: Incarnation, moment: str) -> None:
        if moment in moments:
            moments.clear()
            network.cut |= {(coordinator, removed), (removed, coordinator)}
            held.set()

    await cluster.admin({"removeShard": REMOVED})
    world.moments.append(part)
    change = dice.choice((("test", {"drop": NAME}), ("test", {"dropDatabase": 1})))
    changed = asyncio.ensure_future(operator.admin(change[1], change[0]))
    await asyncio.wait_for(held.wait(), DRAIN_SECONDS)
    await operator.remove(REMOVED)
    await changed
    await asyncio.sleep(dice.uniform(0.0, FAILOVER_SECONDS))
    network.heal()
    await operator.add(REMOVED)
    await cluster.settled()
    await cluster.shard_collection([KEYS // 2])
    await cluster.admin({"moveChunk": COLLECTION, "find": {"k": 0}, "to": REMOVED})
    await cluster.settled()
    await no_leaks(cluster, cursors=False)


SCENARIOS = (
    Scenario(
        name="drain",
        what="three shards: two are drained, removed and added again beside clients and moves",
        topology=a_cluster,
        run=draining,
    ),
    Scenario(
        name="drain-ddl",
        what="the same; definitions change all the time",
        topology=a_cluster,
        run=functools.partial(draining, pause=0.01),
    ),
    Scenario(
        name="drain-held",
        what="three shards: one is removed while a change of definitions holds it, and is added again",
        topology=a_held_cluster,
        run=removing,
    ),
    Scenario(
        name="drain-moments",
        what="the same; faults at the states of the migrations",
        topology=a_cluster,
        run=functools.partial(draining, kinds=KINDS, count=3),
    ),
)
