"""Moves of a database to another primary shard that fail, and what is left of them.

A shard that is to get the database dies while it receives it and is away until the move is given up: its copy must go.
Another one has asked for the commit and dies before the config servers hear of it, and they hear of it late, when its
next process has given the move up: the database must stay where it is written.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from mongod.ddl.primary_moves import PATIENCE_SECONDS
from tests.simulation.clients import DATABASE
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.process import Incarnation
from tests.simulation.scenarios.definitions import all_up
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moves import NAME
from tests.simulation.scenarios.primaries import Documents, a_cluster, anomalies, left_behind
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

RECEIVED_AT = ("donor catching up", "donor critical", "donor handing over")
"""Moments at which the new primary shard has a copy that is not its own."""
LATE_SECONDS = (0.03, 0.4)
"""How late the request for a commit comes: its shard is up again by then."""


async def unfinished(world: World, cluster: SimulatedCluster) -> None:
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    documents = [{"_id": number, "k": number, "tags": []} for number in range(dice.randint(1, 300))]
    await cluster.admin({"insert": NAME, "documents": documents}, DATABASE)
    (receiver,) = cluster.shards["shard1"].machines
    moments = [dice.choice(RECEIVED_AT)]

    def die(_process: Incarnation, moment: str) -> None:
        if moment in moments:
            moments.clear()
            receiver.kill("the new primary shard goes")

    world.moments.append(die)
    if await _moved(cluster, "shard1"):
        raise Broken("a database has gone to a shard that is down")
    await asyncio.sleep(dice.uniform(0.0, PATIENCE_SECONDS))
    receiver.start()
    await cluster.settled()
    judge([*await left_behind(cluster, NAME), *await cluster.member_anomalies()])
    shown = await cluster.all_documents(cluster.routers[0], DATABASE, NAME)
    if len(shown) != len(documents):
        raise Broken(f"{len(shown)} documents of {len(documents)} are shown")
    await no_leaks(cluster, cursors=False)


async def late(world: World, cluster: SimulatedCluster) -> None:
    dice, network = world.fault_dice, world.network
    documents = Documents()
    (donor,), (config,) = cluster.shards["shard0"].machines, cluster.config.machines
    path, moments = (donor.name, config.name), ["donor committing"]
    delay = dice.uniform(*LATE_SECONDS)

    def hold_back(_process: Incarnation, moment: str) -> None:
        if moment in moments:
            moments.clear()
            network.slow[path] = delay
            world.after(0.001, die)

    def die() -> None:
        network.slow.pop(path)
        donor.kill("has asked for the commit")
        donor.start()

    world.moments.append(hold_back)
    numbers = random.Random(world.client_dice.getrandbits(64))
    work = Workload(
        world, lambda: of_routers(cluster.routers, random.Random(numbers.getrandbits(64))), clients=documents.clients
    )
    work.start(documents.act)
    await asyncio.sleep(0.2)
    await _moved(cluster, "shard1")
    await asyncio.sleep(1.0)
    work.over = True
    all_up(cluster)
    await work.stop()
    await cluster.settled()
    judge(await anomalies(cluster, work, documents))
    await no_leaks(cluster, cursors=False)


async def _moved(cluster: SimulatedCluster, shard: str) -> bool:
    """Whether the move succeeded, as far as is told."""
    command: dict[str, Any] = {"movePrimary": DATABASE, "to": shard}
    try:
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            await cluster.admin(command, on=cluster.routers[0])
    except (CommandError, NetworkError, TimeoutError) as error:
        cluster.world.tell("operator", f"{command}: {error!r}"[:200])
        return False
    return True


SCENARIOS = (
    Scenario(
        name="primaries-unfinished",
        what="two shards of one: that which is to get a database dies with half of it, until the move is given up",
        topology=a_cluster,
        run=unfinished,
    ),
    Scenario(
        name="primaries-late",
        what="two shards of one: the commit of a move of a database comes when it was given up",
        topology=a_cluster,
        run=late,
    ),
)
