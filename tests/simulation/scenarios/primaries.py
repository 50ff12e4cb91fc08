"""A database gets another primary shard again and again while clients write what is not sharded, each until it knows.

Answers are lost, so writes are sent again, some of them to the shard that has got the database meanwhile. Each happens
once. Shards have one member: cheap, so that much of it meets.
"""

from __future__ import annotations

import asyncio
import functools
import random

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.durability import check_inserts
from tests.checkers.history import Anomaly
from tests.checkers.many import check_many
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.scenarios.definitions import Disturb, all_up, deaths, nothing
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moves import NAME, Documents
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import World

LOST = (0.0, 0.01, 0.03)
"""How many of the messages take their connection with them."""


async def a_cluster(world: World) -> SimulatedCluster:
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    await cluster.admin({"enableSharding": "test", "primaryShard": "shard0"})
    return cluster


async def move_primary(cluster: SimulatedCluster, dice: random.Random, over: list[bool]) -> None:
    """To one shard, to the other one, whatever comes of it."""
    world = cluster.world
    while not over:
        for shard in dice.sample(sorted(cluster.shards), 2):
            try:
                async with asyncio.timeout(15.0):
                    await cluster.admin({"movePrimary": "test", "to": shard}, on=dice.choice(cluster.routers))
                world.tell("operator", f"made {shard} the primary shard")
                world.counts["moves"] = world.counts.get("moves", 0) + 1
            except (CommandError, NetworkError, TimeoutError) as error:
                world.tell("operator", f"{shard} as the primary shard: {error!r}"[:200])
            await asyncio.sleep(dice.expovariate(1 / 0.02))


async def moving(world: World, cluster: SimulatedCluster, *, disturb: Disturb = nothing) -> None:
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    world.network.reset_probability = dice.choice(LOST)
    numbers = random.Random(world.client_dice.getrandbits(64))
    work = Workload(world, lambda: of_routers(cluster.routers, random.Random(numbers.getrandbits(64))), clients=4)
    work.start(Documents().act)
    over: list[bool] = []
    operator = asyncio.ensure_future(move_primary(cluster, random.Random(numbers.getrandbits(64)), over))
    await disturb(world, cluster, work.history)
    world.network.reset_probability = 0.0
    all_up(cluster)
    over.append(True)
    await operator
    await work.stop()
    await cluster.settled()
    judge(await anomalies(cluster, work))
    await no_leaks(cluster, cursors=False)
    world.counts |= {"operations": len(work.history), "acknowledged": sum(each.ok for each in work.history)}


async def anomalies(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
    """What is lost, met twice, or on both shards."""
    shown = await cluster.all_documents(cluster.routers[0], "test", NAME)
    final = {each["_id"]: each["tags"] for each in shown}
    found = [*check_inserts(work.history, set(final)), *check_many(work.history, final)]
    (record,) = await cluster.primary_documents(cluster.config, "config", "databases")
    for name, members in cluster.shards.items():
        if name != record["primary"] and (left := await cluster.primary_documents(members, "test", NAME)):
            found.append(Anomaly("left behind", f"{name} still has {len(left)} documents"))
    return found + await cluster.member_anomalies()


SCENARIOS = (
    Scenario(
        name="primaries",
        what="two shards of one: a database's primary shard changes while clients write it and answers are lost",
        topology=a_cluster,
        run=moving,
    ),
    Scenario(
        name="primaries-deaths",
        what="the same while shards and the config server die and are back at once",
        topology=a_cluster,
        run=functools.partial(moving, disturb=deaths),
    ),
)
