"""Default concerns of a cluster are set while primaries die: finally every member of every shard has the last one.

An acknowledged default holds until another is set. A statement of unknown outcome may or may not have had its effect.
"""

from __future__ import annotations

import asyncio
from typing import Any

from docstore.replicaset.concern_defaults import DOCUMENT_ID
from tests.checkers.history import Anomaly
from tests.simulation.clients import quietly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import World

STATEMENTS = 5
LEARNING_SECONDS = 4.0
KINDS = ("kill", "power", "blink", "step down", "from its set")


async def a_cluster(world: World) -> SimulatedCluster:
    """Two shards of three."""
    cluster = SimulatedCluster(world)
    await cluster.start()
    await cluster.settled()
    return cluster


async def setting(world: World, cluster: SimulatedCluster) -> None:
    """Set several defaults in turn, some while a primary fails."""
    dice, nemesis = world.client_dice, ClusterNemesis(cluster)
    allowed: list[dict[str, Any]] = []
    for number in range(STATEMENTS):
        concern = {"w": dice.choice((1, 2, "majority")), "wtimeout": 1000 + number}
        victim = world.fault_dice.choice(cluster.sets).primary()
        if victim is not None and world.fault_dice.random() < 0.6:
            nemesis.strike(world.fault_dice.choice(KINDS), victim)
        command = {"setDefaultRWConcern": 1, "defaultWriteConcern": concern}
        reply = await quietly(cluster.admin(command, on=dice.choice(cluster.routers)))
        acknowledged = reply is not None and "writeConcernError" not in reply
        allowed = [concern] if acknowledged else [*allowed, concern]
        await asyncio.sleep(dice.uniform(0.1, 2.5))
    nemesis.end()
    await cluster.settled()
    await asyncio.sleep(LEARNING_SECONDS)
    await cluster.settled()
    judge(await _differences(cluster, allowed))
    judge(await cluster.member_anomalies())
    await no_leaks(cluster, cursors=False)
    world.counts |= {"faults": nemesis.done}


async def _differences(cluster: SimulatedCluster, allowed: list[dict[str, Any]]) -> list[Anomaly]:
    """Return the members of shards whose default differs from that of the config servers."""
    settings = await cluster.primary_documents(cluster.config, "config", "settings")
    stored = [document for document in settings if document["_id"] == DOCUMENT_ID]
    kept = stored[0]["defaultWriteConcern"] if stored else None
    if kept not in allowed:
        return [Anomaly("a default concern was lost", f"{kept} is kept, and was set: {allowed}")]
    return [
        Anomaly("a member has another default concern", f"{machine.name} has {shown}, and {kept} was set")
        for members in cluster.shards.values()
        for machine, replica_set in members.members()
        if (shown := replica_set.default_write_concern.document()) != kept
    ]


SCENARIOS = (
    Scenario(
        name="concern-defaults",
        what="two shards of three: default concerns are set through routers while primaries die",
        topology=a_cluster,
        run=setting,
    ),
)
