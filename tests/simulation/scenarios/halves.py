"""A collection is dropped, and the shards die half-way: one has dropped its part, the other one is away for long.

What began to be dropped is dropped: however long a shard is away, the collection is there in the end as it was, or not
at all, and can be made again.
"""

from __future__ import annotations

import asyncio
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from mongod.ddl.driver import PATIENCE_SECONDS
from tests.checkers.history import Anomaly
from tests.simulation.process import Incarnation
from tests.simulation.scenarios import ddl
from tests.simulation.scenarios.definitions import a_small_cluster
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import World

MOMENT = "ddl applying"


async def dropping(world: World, cluster: SimulatedCluster) -> None:
    """`shard0` coordinates. It dies when it has dropped its part, and is back at once; the other shard is away for
    longer than anybody who is to be held is waited for.
    """
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    (near,), (far,) = (members.machines for members in cluster.shards.values())
    near.restart_after = far.restart_after = None
    keys = [dice.randrange(ddl.KEYS) for _ in range(20)] + [1, ddl.KEYS - 1]
    documents = [{"_id": number, "k": key} for number, key in enumerate(keys)]
    name = dice.choice(ddl.NAMES)
    await cluster.admin({"insert": name, "documents": documents, **ddl.MAJORITY}, "test")
    applying: list[bool] = []

    def come(process: Incarnation, moment: str) -> None:
        if moment == MOMENT and not applying:
            applying.append(True)
            far.kill("away for long")

    world.moments.append(come)
    drop = dice.choice(({"drop": name}, {"dropDatabase": 1}))
    asked = asyncio.ensure_future(_outcome(cluster, drop))
    await cluster.config.until(lambda: bool(applying), 20.0, "the collection to be dropped")
    await _dropped(cluster, name)
    near.kill("has dropped its part")
    await asyncio.sleep(dice.uniform(0.0, 1.0))
    near.start()
    await asyncio.sleep(dice.uniform(1.0, 2.0) * PATIENCE_SECONDS)
    far.start()
    world.moments.clear()
    told = await asked
    world.tell("operator", f"{drop}: {told}")
    await cluster.settled()
    found: list[Anomaly] = []
    for router in cluster.routers:
        try:
            shown = await cluster.all_documents(router, "test", name)
        except CommandError as error:
            found.append(Anomaly("half dropped", f"{router.name} does not show the collection: {error}"))
            continue
        if 0 < len(shown) < len(documents) or (told == "done" and shown):
            text = f"{router.name} shows {len(shown)} of {len(documents)} documents; the drop: {told}"
            found.append(Anomaly("half dropped", text))
    judge(found)
    judge(await ddl.anomalies(cluster))


async def _dropped(cluster: SimulatedCluster, name: str) -> None:
    """Return in the step in which the coordinator's shard has its part no more, or soon after."""
    process = cluster.shards["shard0"].machines[0].process
    assert process is not None
    store = process.node.node.store
    await cluster.config.until(
        lambda: store.collection(f"test.{name}") is None, 20.0, "the first shard to drop its part"
    )


async def _outcome(cluster: SimulatedCluster, command: dict[str, Any]) -> str:
    try:
        async with asyncio.timeout(ddl.OPERATOR_SECONDS):
            await cluster.admin(command, "test")
    except (CommandError, NetworkError, TimeoutError) as error:
        return repr(error)
    return "done"


SCENARIOS = (
    Scenario(
        name="drops-halves",
        what="two shards of one die when the first has dropped its part; the other one is away for long",
        topology=a_small_cluster,
        run=dropping,
    ),
)
