"""Change streams through routers beside moves of chunks and a shard that is added: what they tell, applied to an empty
copy, is the data.

A new shard gets chunks at once, so its changes come as soon as it is there. Followers are on both routers, of the
collection and of its database.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.followers import Follower, judge_copies
from tests.simulation.process import Machine
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moves import KEYS, KINDS, NAME, POINTS, Documents, anomalies, move_about
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import World

CLIENTS = 3
_ADD_SECONDS = 20.0


async def a_cluster(world: World, *, members: int = 1, configs: int = 1) -> SimulatedCluster:
    """Two shards, and a set that is none yet."""
    cluster = SimulatedCluster(world, members=members, configs=configs, spares=1)
    await cluster.start()
    await cluster.shard_collection(list(POINTS))
    return cluster


async def add(cluster: SimulatedCluster, dice: random.Random, over: list[bool]) -> None:
    """An operator who adds the shard and gives it a chunk, again and again until both are done."""
    world = cluster.world
    await asyncio.sleep(dice.uniform(0.1, 0.8))
    while not over:
        try:
            async with asyncio.timeout(_ADD_SECONDS):
                if cluster.spares:
                    world.tell("operator", "adds a shard")
                    await cluster.add_spare()
                move = {"moveChunk": COLLECTION, "find": {"k": dice.randrange(KEYS)}, "to": max(cluster.shards)}
                await cluster.admin(move, on=dice.choice(cluster.routers))
                world.tell("operator", f"{move}: done")
                return
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell("operator", f"adds a shard: {error!r}"[:200])
        await asyncio.sleep(0.05)


async def streaming(
    world: World, cluster: SimulatedCluster, *, seconds: float, kinds: Sequence[str] = (), count: int = 0
) -> None:
    """Clients, moves, a new shard, perhaps faults; then the copies must be the data."""
    world.hiccups = world.fault_dice.choice((0.0, 0.005))
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (5e-4, 5e-3), (1e-3, 2e-2)))
    dice, over = world.client_dice, list[bool]()
    start = (await cluster.admin({"ping": 1}))["$clusterTime"]["clusterTime"]

    async def ask(machine: Machine, database: str, command: dict[str, Any]) -> Any:
        return await cluster.admin(command, database, on=machine)

    followers = [
        Follower(world, cluster.routers, ask, start, collection=collection, shard_key=("k",), batches=40)
        for collection in (NAME, None)
    ]
    following = [asyncio.ensure_future(each.follow()) for each in followers]
    nemesis = ClusterNemesis(cluster)
    work = Workload(world, lambda: of_routers(cluster.routers, random.Random(dice.getrandbits(64))), clients=CLIENTS)
    work.start(Documents().act)
    operators = [
        asyncio.ensure_future(move_about(cluster, random.Random(dice.getrandbits(64)), over)),
        asyncio.ensure_future(add(cluster, random.Random(dice.getrandbits(64)), over)),
    ]
    if count:
        await nemesis.run(seconds, kinds, count=count)
    else:
        await asyncio.sleep(seconds)
    nemesis.end()
    over.append(True)
    await asyncio.gather(*operators)
    await work.stop()
    await cluster.settled()
    final = await cluster.all_documents(cluster.routers[0], "test", NAME)
    await judge_copies(world, followers, following, {NAME: final})
    judge(await anomalies(cluster, work))
    await no_leaks(cluster, cursors=False)
    world.counts |= {"operations": len(work.history), "faults": nemesis.done, "shards": len(cluster.shards)}


SCENARIOS = (
    Scenario(
        name="routed-streams",
        what="change streams through two routers while chunks move and a shard is added",
        topology=a_cluster,
        run=functools.partial(streaming, seconds=2.0),
    ),
    Scenario(
        name="routed-streams-faults",
        what="the same on sets of three; every fault",
        topology=functools.partial(a_cluster, members=3, configs=3),
        run=functools.partial(streaming, seconds=4.0, kinds=KINDS, count=2),
    ),
)
