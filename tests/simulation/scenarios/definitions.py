"""Definitions change all the time on shards of one member, beside moves and inserts: cheap, so that much of it meets.

In the end what came after the last drop is there, what was dropped stays away, every chunk can still be moved, and
routers and owners agree (`tests.simulation.scenarios.ddl`). In half of the schedules with faults a shard or the config
server dies now and then and is back at once, and whatever it coordinated goes on.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.drops import check_drops
from tests.checkers.history import History, Kind, Operation
from tests.simulation.clients import quietly
from tests.simulation.process import Machine
from tests.simulation.scenarios import ddl
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import Broken, World

SECONDS = 2.0
DROPS = (
    "shard", "shard", "shard", "drop", "drop database", "insert", "insert", "insert", "insert", "move", "move", "out",
)  # fmt: skip
INDEXES = (
    "shard", "index", "index", "index", "drop index", "unique", "unique", "insert", "insert", "move", "move", "move",
    "move",
)  # fmt: skip
MOVABLE_SECONDS = 30.0


async def a_small_cluster(world: World) -> SimulatedCluster:
    return await ddl.a_cluster(world, members=1, configs=1)


class Operator(ddl.Operator):
    """Notes its inserts and drops."""

    def __init__(
        self, cluster: SimulatedCluster, machine: Machine, dice: random.Random, number: int, history: History
    ) -> None:
        super().__init__(cluster, machine, dice, number)
        self._history = history

    def statement(self, kind: str, name: str) -> tuple[str, dict[str, Any]]:
        """See the base."""
        if kind == "unique":
            # Shards of which one has two documents of a key refuse it; the others do not.
            fields = {"key": {"k": 1, "same": 1}, "name": "unique", "unique": True}
            return "test", {"createIndexes": name, "indexes": [fields]}
        database, command = super().statement(kind, name)
        if "insert" in command:
            command["documents"][0]["k"] = self.dice.choice((1, 2, 3, ddl.KEYS - 2, ddl.KEYS - 1))
        return database, command

    async def send(self, database: str, command: dict[str, Any]) -> dict[str, Any] | None:
        """See the base."""
        noted = self._noted(command)
        reply = await super().send(database, command)
        for operation in noted:
            if reply is not None and "writeErrors" not in reply:
                self._history.ok(operation)
        return reply

    def _noted(self, command: dict[str, Any]) -> list[Operation]:
        invoke, number = self._history.invoke, self.number
        match command:
            case {"insert": name, "documents": [document]}:
                return [invoke(number, Kind.INSERT, document["_id"], f"test.{name}", w="majority")]
            case {"drop": name} | {"aggregate": _, "pipeline": [{"$out": name}]}:
                return [invoke(number, Kind.DROP, f"test.{name}")]
            case {"dropDatabase": _}:
                return [invoke(number, Kind.DROP, f"test.{name}") for name in ddl.NAMES]
        return []


async def redefining(world: World, cluster: SimulatedCluster, *, statements: Sequence[str], deaths: int) -> None:
    dice = world.fault_dice
    world.hiccups = dice.choice((0.0, 0.01))
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (3e-4, 2e-3), (5e-4, 5e-3)))
    history = History(clock=lambda: world.now)
    operators = [
        Operator(cluster, machine, random.Random(world.client_dice.getrandbits(64)), number, history)
        for number, machine in enumerate(2 * cluster.routers)
    ]
    running = [asyncio.ensure_future(each.run(statements)) for each in operators]
    for _ in range(deaths):
        await asyncio.sleep(dice.uniform(0.2, 1.6) * SECONDS / deaths)
        machine = dice.choice(cluster.sets).machines[0]
        machine.restart_after = dice.uniform(0.02, 0.4)
        machine.disk.die_at_write = machine.disk.writes + dice.randint(1, 25)
    await asyncio.sleep(SECONDS / max(deaths, 1))
    for operator in operators:
        operator.over = True
    for machine in cluster.machines:
        machine.disk.die_at_write = None
        machine.start()
    await asyncio.gather(*running)
    await cluster.settled()
    shown = await cluster.all_documents(cluster.routers[0], "test", ddl.NAMES[0])
    shown += await cluster.all_documents(cluster.routers[0], "test", ddl.NAMES[1])
    world.counts |= {"noted": len(history)}
    judge(check_drops(history, {each["_id"] for each in shown}))
    judge(await cluster.catalogs())
    for name in ddl.NAMES:
        await quietly(cluster.admin({"dropIndexes": name, "index": "unique"}, "test"))
    judge(await ddl.anomalies(cluster))
    await _all_movable(cluster)


async def _all_movable(cluster: SimulatedCluster) -> None:
    """Nothing that was dropped, and nothing left half-way, keeps a chunk where it is."""
    chunks = await cluster.primary_documents(cluster.config, "config", "chunks")
    records = await cluster.primary_documents(cluster.config, "config", "collections")
    names = {bytes(each["uuid"]): each["_id"] for each in records}
    for chunk in chunks:
        name = names.get(bytes(chunk["uuid"]), "")
        if name.startswith("test."):
            to = next(shard for shard in cluster.shards if shard != chunk["shard"])
            await _moved(cluster, {"moveChunk": name, "bounds": [chunk["min"], chunk["max"]], "to": to})


async def _moved(cluster: SimulatedCluster, command: dict[str, Any]) -> None:
    end = cluster.world.now + MOVABLE_SECONDS
    while True:
        try:
            await cluster.admin(command)
            return
        except (CommandError, NetworkError) as error:
            if cluster.world.now > end:
                raise Broken(f"a chunk can no longer be moved: {command}: {error}") from error
        await asyncio.sleep(0.5)


SCENARIOS = (
    Scenario(
        name="drops",
        what="two shards of one: collections are made, sharded, filled, moved, replaced and dropped",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=DROPS, deaths=0),
    ),
    Scenario(
        name="drops-deaths",
        what="the same while shards and the config server die and are back at once",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=DROPS, deaths=3),
    ),
    Scenario(
        name="indexes",
        what="two shards of one: indexes are built, refused and dropped beside moves",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=INDEXES, deaths=0),
    ),
)
