"""The active window of the balancer: two routers leave chunks alone outside of it, and move them within it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from tests.checkers.history import Anomaly
from tests.simulation.clients import DATABASE
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster
from tests.simulation.world import World

CHUNKS = 40
CHUNK_MEGABYTES = 0.004
PAD_BYTES = 3000
CLOSED_SECONDS = 25.0
"""More than two rounds of an idle balancer."""
GRACE_SECONDS = 1.0
"""A move that has begun goes on."""
HOUR = 3600


async def uneven(world: World) -> SimulatedCluster:
    """Many small chunks, all on the first of two shards."""
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    await cluster.admin({"enableSharding": DATABASE, "primaryShard": "shard0"})
    await cluster.admin({"shardCollection": COLLECTION, "key": {"k": 1}})
    for number in range(1, CHUNKS):
        await cluster.admin({"split": COLLECTION, "middle": {"k": number}})
    rows = [{"_id": number, "k": number, "pad": "x" * PAD_BYTES} for number in range(CHUNKS)]
    await cluster.admin({"insert": COLLECTION.partition(".")[2], "documents": rows}, DATABASE)
    await _set(cluster, "chunksize", {"value": CHUNK_MEGABYTES})
    await cluster.settled()
    return cluster


async def _set(cluster: SimulatedCluster, name: str, fields: dict[str, Any]) -> None:
    update = {"q": {"_id": name}, "u": {"$set": fields}, "upsert": True}
    command = {"update": "settings", "updates": [update], "writeConcern": {"w": "majority"}}
    await cluster.admin(command, "config")


def _window(wall: float, start: int, stop: int) -> dict[str, Any]:
    """Return the window that begins and ends so many hours after a moment."""
    times = [time.strftime("%H:%M", time.localtime(wall + hours * HOUR)) for hours in (start, stop)]
    return {"activeWindow": dict(zip(("start", "stop"), times, strict=True))}


async def _on_second(cluster: SimulatedCluster) -> int:
    chunks = await cluster.primary_documents(cluster.config, "config", "chunks")
    return sum(chunk["shard"] == "shard1" for chunk in chunks)


async def balancing(world: World, cluster: SimulatedCluster) -> None:
    """Close the window, open it until some chunks have moved, and close it again."""
    found: list[Anomaly] = []
    wall = cluster.config.machines[0].wall

    async def close(start: int, stop: int) -> None:
        await _set(cluster, "balancer", _window(wall(), start, stop))
        await asyncio.sleep(GRACE_SECONDS)
        before = await _on_second(cluster)
        await asyncio.sleep(CLOSED_SECONDS)
        moved = await _on_second(cluster) - before
        if moved:
            found.append(Anomaly("moved outside of the window", f"{moved} chunks in {CLOSED_SECONDS:g} s"))

    await _set(cluster, "balancer", _window(wall(), 2, 4))
    await cluster.admin({"balancerStart": 1})
    await close(2, 4)
    await _set(cluster, "balancer", _window(wall(), -1, 1))
    end = world.now + 40.0
    while await _on_second(cluster) < 3:
        if world.now > end:
            found.append(Anomaly("not balanced", "no chunks move within the window"))
            break
        await asyncio.sleep(0.1)
    await close(-4, -2)
    world.counts["moves"] = await _on_second(cluster)
    await cluster.admin({"balancerStop": 1})
    await cluster.settled()
    judge([*found, *await cluster.catalogs()])
    await no_leaks(cluster, cursors=False)


SCENARIOS = (
    Scenario(
        name="active-window",
        what="two shards: chunks are balanced within the active window alone",
        topology=uneven,
        run=balancing,
    ),
)
