"""Clients send the fields that processes send each other, to routers and to shards, while chunks move and primaries go.

Such a field is unknown to whoever is no process, and a request with one has no effect, whomever it is sent to. What
routers themselves ask of shards is never refused for its fields: pipelines that are split give what they are to give.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.net import NetworkError, Pool
from docstore.net.link import Link
from tests.checkers.history import Anomaly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.programs import address
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moves import KEYS, NAME, POINTS, a_cluster, move_about
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster
from tests.simulation.world import World

DATABASE = COLLECTION.partition(".")[0]
DOCUMENTS = 40
SECONDS = 3.0
KINDS = ("kill", "blink", "step down", "resets")
UNKNOWN_FIELD = 40415
_ALL = {"min": b"\x00", "max": b"\xff"}
_GROUP = {"_id": None, "n": {"$sum": "$n"}, "all": {"$sum": 1}}
_BUCKET = {"groupBy": "$k", "boundaries": [0, KEYS], "output": {"n": {"$sum": "$n"}, "all": {"$sum": 1}}}
_INTERNAL: tuple[tuple[dict[str, Any], int], ...] = (
    ({"aggregate": NAME, "pipeline": [], "cursor": {}, "fromMongos": True}, UNKNOWN_FIELD),
    ({"aggregate": NAME, "pipeline": [{"$group": _GROUP | {"$willBeMerged": True}}], "cursor": {}}, 40234),
    ({"aggregate": NAME, "pipeline": [{"$sample": {"size": 3, "$willBeMerged": True}}], "cursor": {}}, 28748),
    ({"aggregate": NAME, "pipeline": [{"$bucket": _BUCKET | {"$unsorted": True}}], "cursor": {}}, 40197),
    ({"find": NAME, "batchBytes": 1000}, UNKNOWN_FIELD),
    ({"insert": NAME, "documents": [{"k": 1, "n": 1}], "intoOutput": True}, UNKNOWN_FIELD),
    ({"delete": NAME, "deletes": [{"q": {}, "limit": 0}], "statementCounts": True}, UNKNOWN_FIELD),
    (
        {"update": NAME, "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}], "within": [_ALL]},
        UNKNOWN_FIELD,
    ),
)
"""Requests of somebody who knows the fields, with the error that a server gives that does not know them."""
_PIPELINES: tuple[list[dict[str, Any]], ...] = (
    [{"$group": _GROUP}],
    [{"$bucket": _BUCKET}],
    [{"$sample": {"size": DOCUMENTS}}, {"$group": _GROUP}],
    [{"$sort": {"n": 1}}, {"$group": _GROUP}],
)
_REFUSALS = {code for _, code in _INTERNAL}


class _Driver(Pool):
    """A client that greets as what it is."""

    async def _say(self, link: Link, deadline: float, command: dict[str, Any]) -> bytes:
        if "client" in command:
            command["client"]["driver"] = {"name": "driver", "version": "1"}
        return await super()._say(link, deadline, command)


class _Clients:
    """Strangers that send internal fields, and others whose pipelines are split."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.over = False
        self.anomalies: list[Anomaly] = []
        self.refused = self.summed = 0

    async def intrude(self, dice: random.Random) -> None:
        pool = _Driver(application="client", connect_timeout=1.0)
        while not self.over:
            command, code = dice.choice(_INTERNAL)
            shard = self._cluster.shards[dice.choice(sorted(self._cluster.shards))].primary()
            machine = dice.choice((*self._cluster.routers, *([] if shard is None else (shard, shard))))
            try:
                reply: Any = bson.decode(await pool.command(address(machine.name), DATABASE, command, timeout=5.0))
            except CommandError as error:
                reply = error
                self.refused += error.code == code
            except NetworkError:
                reply = None
            if reply is not None and not isinstance(reply, CommandError):
                self.anomalies.append(
                    Anomaly("a client may send what processes send", f"{machine.name} answers {command}: {reply}")
                )
            await asyncio.sleep(dice.expovariate(1 / 0.05))

    async def sum_up(self, dice: random.Random) -> None:
        pool = _Driver(application="client", connect_timeout=1.0)
        while not self.over:
            await self.ask(pool, address(dice.choice(self._cluster.routers).name), dice.choice(_PIPELINES))
            await asyncio.sleep(dice.expovariate(1 / 0.1))

    async def ask(self, pool: Pool, router: str, pipeline: list[Mapping[str, Any]]) -> bool:
        """Whether the router has answered; what is wrong with its answer is an anomaly."""
        command = {"aggregate": NAME, "pipeline": pipeline, "cursor": {}, "readConcern": {"level": "majority"}}
        try:
            reply = bson.decode(await pool.command(router, DATABASE, command, timeout=5.0))
        except NetworkError:
            return False
        except CommandError as error:
            if error.code in _REFUSALS:
                self.anomalies.append(Anomaly("a process is refused its fields", f"{pipeline}: {error!r}"))
            return False
        self.summed += 1
        shown = [{name: row[name] for name in ("n", "all")} for row in reply["cursor"]["firstBatch"]]
        if shown != [{"n": 0, "all": DOCUMENTS}]:
            self.anomalies.append(Anomaly("a request that is refused has an effect", f"{pipeline} gives {shown}"))
        return True


async def documents(world: World) -> SimulatedCluster:
    cluster = await a_cluster(world)
    rows = [{"_id": number, "k": number * KEYS // DOCUMENTS, "n": 0} for number in range(DOCUMENTS)]
    await cluster.admin({"insert": NAME, "documents": rows, "writeConcern": {"w": "majority"}}, DATABASE)
    await cluster.settled()
    return cluster


async def intruding(world: World, cluster: SimulatedCluster) -> None:
    """Intruders and clients beside moves and a fault; then every router sums up."""
    assert POINTS, "the chunks are on both shards"
    dice, nemesis, clients = world.client_dice, ClusterNemesis(cluster), _Clients(cluster)
    works = [clients.intrude, clients.intrude, clients.sum_up, clients.sum_up]
    tasks = [asyncio.ensure_future(work(random.Random(dice.getrandbits(64)))) for work in works]
    over: list[bool] = []
    mover = asyncio.ensure_future(move_about(cluster, random.Random(dice.getrandbits(64)), over, pause=0.3))
    await nemesis.run(SECONDS, KINDS, count=1)
    nemesis.end()
    over.append(True)
    clients.over = True
    await asyncio.gather(mover, *tasks)
    await cluster.settled()
    for machine in cluster.routers:
        pool = _Driver(application="client", connect_timeout=1.0)
        for pipeline in _PIPELINES:
            if not await clients.ask(pool, address(machine.name), pipeline):
                clients.anomalies.append(Anomaly("no answer in the end", f"{machine.name} to {pipeline}"))
        await pool.close()
    judge(clients.anomalies)
    judge(await cluster.member_anomalies())
    await no_leaks(cluster, cursors=False)
    world.counts |= {"refused": clients.refused, "summed": clients.summed, "faults": nemesis.done}


SCENARIOS = (
    Scenario(
        name="internal-fields",
        what="two shards of three: clients send the fields that processes send each other",
        topology=documents,
        run=intruding,
    ),
)
