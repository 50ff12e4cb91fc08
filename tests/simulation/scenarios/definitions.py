"""Definitions change all the time on shards of one member, beside moves and inserts: cheap, so that much of it meets.

In the end what came after the last drop is there, what was dropped stays away, every chunk can still be moved, and
routers and owners agree (`tests.simulation.scenarios.ddl`). What disturbs that: a shard or the config server dies now
and then and is back at once, and whatever it coordinated goes on; or a shard and a router see only the config server
that has been primary, and what they read there is over.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from unittest import mock

from docstore.errors import CommandError
from docstore.net import NetworkError
from docstore.node.upkeep import periodic
from docstore.sharding.ddl import incarnations
from mongod.migration.upkeep.database_notes import DatabaseNotes
from tests.checkers.drops import check_drops
from tests.checkers.history import History, Kind, Operation
from tests.simulation.clients import quietly
from tests.simulation.moments import COORDINATION
from tests.simulation.process import Incarnation, Machine
from tests.simulation.scenarios import ddl
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SETTINGS, SimulatedCluster
from tests.simulation.world import Broken, World

SECONDS = 2.0
DROPS = (
    "shard", "shard", "shard", "drop", "drop database", "insert", "insert", "insert", "insert", "move", "move", "out",
)  # fmt: skip
NO_DROPS = ("insert", "insert", "insert", "insert", "insert", "insert", "insert", "shard", "move")
INDEXES = (
    "shard", "index", "index", "index", "drop index", "unique", "unique", "insert", "insert", "move", "move", "move",
    "move",
)  # fmt: skip
MOVABLE_SECONDS = 30.0
Disturb = Callable[[World, SimulatedCluster, History], Awaitable[None]]
"""What happens beside; it ends when the schedule does."""


async def a_small_cluster(world: World) -> SimulatedCluster:
    return await ddl.a_cluster(world, members=1, configs=1)


async def a_cluster_of_hasty_configs(world: World) -> SimulatedCluster:
    """A new primary of the config servers does not wait for the one of before until that one has given up."""
    return await ddl.a_cluster(world, members=1, config_settings={**SETTINGS, "catchUpTimeoutMillis": 100})


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


def die_soon(cluster: SimulatedCluster, dice: random.Random) -> None:
    """A shard or the config server dies at one of its next writes, or a coordinator soon after it came to a phase."""
    if dice.random() < 0.4:
        _let_die(dice.choice(cluster.sets).machines[0], dice, 25)
        return
    waits = [dice.choice(COORDINATION)]

    def come(process: Incarnation, moment: str) -> None:
        if moment in waits:
            waits.clear()
            _let_die(process.machine, dice, 4)

    cluster.world.moments.append(come)


def _let_die(machine: Machine, dice: random.Random, most: int) -> None:
    machine.restart_after = dice.uniform(0.02, 0.4)
    machine.disk.die_at_write = machine.disk.writes + dice.randint(1, most)


def all_up(cluster: SimulatedCluster) -> None:
    """Nobody dies any more."""
    cluster.world.moments.clear()
    for machine in cluster.machines:
        machine.disk.die_at_write = None
        machine.start()


async def deaths(world: World, cluster: SimulatedCluster, _history: History, count: int = 3) -> None:
    """So many in the time of a schedule."""
    dice = world.fault_dice
    for _ in range(count):
        await asyncio.sleep(dice.uniform(0.2, 1.6) * SECONDS / count)
        die_soon(cluster, dice)
    await asyncio.sleep(SECONDS / count)


async def nothing(_world: World, _cluster: SimulatedCluster, _history: History) -> None:
    await asyncio.sleep(SECONDS)


async def deposed(world: World, cluster: SimulatedCluster, history: History) -> None:
    """Another config server becomes primary while a shard and a router see the one of before alone. The others drop
    something then, which these two have known.
    """
    dice, network, config = world.fault_dice, world.network, cluster.config
    await asyncio.sleep(dice.uniform(0.05, 0.3))
    old = config.primary()
    if old is None:
        raise Broken("the config servers have no primary")
    others = [machine for machine in config.machines if machine is not old]
    router, far_router = dice.sample(cluster.routers, 2)
    near, far = [cluster.shards["shard1"].machines[0], router], [cluster.shards["shard0"].machines[0], far_router]
    world.tell("nemesis", f"lets {[each.name for each in near]} see no config server but {old.name}")
    for one, other in (*((old, each) for each in (*others, *far)), *((a, b) for a in near for b in others)):
        network.cut |= {(one.name, other.name), (other.name, one.name)}
    await quietly(config.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
    await asyncio.sleep(dice.choice((0.0, 0.02, 0.1)))
    operator = Operator(cluster, far_router, random.Random(dice.getrandbits(64)), 9, history)
    dropping = operator.send(*operator.statement(dice.choice(("drop", "drop database")), dice.choice(ddl.NAMES)))
    dropped = asyncio.ensure_future(dropping)
    await asyncio.sleep(dice.uniform(0.5, 1.9))
    network.heal()
    await config.until(lambda: config.primary() is not None, 20.0, "a primary of the config servers")
    await dropped
    await asyncio.sleep(0.3)


async def joined(world: World, cluster: SimulatedCluster, history: History) -> None:
    """A router has written to a database, and sees a deposed config server alone while the database is dropped. A shard
    joins its note of that, starts again, and sees the deposed server alone, when the router goes on writing.
    """
    with (
        mock.patch.object(incarnations, "MAX_DATABASE_NOTES", 0),
        mock.patch.object(DatabaseNotes, "seconds", 0.0),
        mock.patch.object(periodic, "_LOOK_SECONDS", 0.02),
    ):
        await _joined(world, cluster, history)


async def _joined(world: World, cluster: SimulatedCluster, history: History) -> None:
    dice, network, config = world.fault_dice, world.network, cluster.config
    router, far_router = dice.sample(cluster.routers, 2)
    dropper, *writers = (
        Operator(cluster, machine, random.Random(dice.getrandbits(64)), number, history)
        for number, machine in enumerate((far_router, *6 * [router]))
    )
    for writer in writers:
        for name in ddl.NAMES:
            await writer.send(*writer.statement("insert", name))
    await asyncio.sleep(dice.uniform(1.0, 1.3))
    old = config.primary()
    if old is None:
        raise Broken("the config servers have no primary")
    others = [machine for machine in config.machines if machine is not old]
    near, far = (cluster.shards[name] for name in dice.sample(sorted(cluster.shards), 2))
    shard, far_shard = near.machines[0], far.machines[0]
    _cut(cluster, [old], [*others, shard, far_shard, far_router])
    _cut(cluster, [router], others)
    world.tell("nemesis", f"lets {router.name} see no config server but {old.name}")
    await quietly(config.command(dice.choice(others), "admin", {"replSetStepUp": 1}))
    await dropper.send(*dropper.statement("drop database", ddl.NAMES[0]))
    await asyncio.sleep(dice.uniform(0.05, 0.3))
    notes = await cluster.primary_documents(near, "config", "cache.databases")
    world.counts["joined"] = [note["_id"] for note in notes] == [incarnations.FENCE]
    world.tell("nemesis", f"restarts {shard.name} and lets it see no config server but {old.name}")
    shard.kill()
    network.cut -= {(shard.name, old.name), (old.name, shard.name)}
    _cut(cluster, [shard], others)
    shard.start()
    writing = [asyncio.ensure_future(writer.run(("insert",))) for writer in writers]
    await asyncio.sleep(dice.uniform(0.3, 1.0))
    network.heal()
    for writer in writers:
        writer.over = True
    await asyncio.gather(*writing)
    await config.until(lambda: config.primary() is not None, 20.0, "a primary of the config servers")
    await asyncio.sleep(0.3)


def _cut(cluster: SimulatedCluster, some: Sequence[Machine], others: Sequence[Machine]) -> None:
    for one, other in itertools.product(some, others):
        cluster.world.network.cut |= {(one.name, other.name), (other.name, one.name)}


async def crossing(world: World, cluster: SimulatedCluster, history: History) -> None:
    """Indexes change in the midst of moves that make a shard an owner, or have it own nothing any more."""
    dice, end = random.Random(world.client_dice.getrandbits(64)), world.now + SECONDS
    mover, definer = (Operator(cluster, dice.choice(cluster.routers), dice, number, history) for number in (8, 9))
    while world.now < end:
        namespace, shards = f"test.{dice.choice(ddl.NAMES)}", dice.sample(sorted(cluster.shards), 2)
        moves = [
            {"moveChunk": namespace, "find": {"k": key}, "to": shard} for shard in shards for key in (1, ddl.KEYS - 1)
        ]
        for move in moves[:2]:
            await mover.send("admin", move)
        moved = asyncio.ensure_future(mover.send("admin", moves[2]))
        await asyncio.sleep(dice.uniform(0.0, 0.06))
        await definer.send(*definer.statement(dice.choice(("index", "drop index")), namespace.partition(".")[2]))
        await moved


async def redefining(
    world: World, cluster: SimulatedCluster, *, statements: Sequence[str],
    disturb: Disturb = nothing, per_router: int = 2,
) -> None:  # fmt: skip
    """`per_router`: how many operators there are, at each of the two routers."""
    dice = world.fault_dice
    world.hiccups = dice.choice((0.0, 0.01))
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (3e-4, 2e-3), (5e-4, 5e-3)))
    history = History(clock=lambda: world.now)
    operators = [
        Operator(cluster, machine, random.Random(world.client_dice.getrandbits(64)), number, history)
        for number, machine in enumerate(per_router * cluster.routers)
    ]
    running = [asyncio.ensure_future(each.run(statements)) for each in operators]
    await disturb(world, cluster, history)
    for operator in operators:
        operator.over = True
    all_up(cluster)
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
    """Nothing that was dropped, and nothing left half-way, keeps a chunk where it is or a collection without some."""
    for name in ddl.NAMES:
        index = {"createIndexes": name, "indexes": [{"key": {"k": 1}, "name": "k_1"}]}
        await _succeeds(cluster, index, "test")
        await _succeeds(cluster, {"shardCollection": f"test.{name}", "key": {"k": 1}})
    chunks = await cluster.primary_documents(cluster.config, "config", "chunks")
    records = await cluster.primary_documents(cluster.config, "config", "collections")
    names = {bytes(each["uuid"]): each["_id"] for each in records}
    for chunk in chunks:
        name = names.get(bytes(chunk["uuid"]), "")
        if name.startswith("test."):
            to = next(shard for shard in cluster.shards if shard != chunk["shard"])
            await _succeeds(cluster, {"moveChunk": name, "bounds": [chunk["min"], chunk["max"]], "to": to})


async def _succeeds(cluster: SimulatedCluster, command: dict[str, Any], database: str = "admin") -> None:
    end = cluster.world.now + MOVABLE_SECONDS
    while True:
        try:
            await cluster.admin(command, database)
            return
        except (CommandError, NetworkError) as error:
            if cluster.world.now > end:
                raise Broken(f"what must succeed does not: {command}: {error}") from error
        await asyncio.sleep(0.5)


SCENARIOS = (
    Scenario(
        name="drops",
        what="two shards of one: collections are made, sharded, filled, moved, replaced and dropped",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=DROPS),
    ),
    Scenario(
        name="drops-deaths",
        what="the same while shards and the config server die and are back at once",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=DROPS, disturb=deaths),
    ),
    Scenario(
        name="indexes",
        what="two shards of one: indexes are built, refused and dropped beside moves",
        topology=a_small_cluster,
        run=functools.partial(redefining, statements=INDEXES, disturb=crossing),
    ),
    Scenario(
        name="drops-deposed",
        what="the same while a shard and a router read a deposed config server",
        topology=a_cluster_of_hasty_configs,
        run=functools.partial(redefining, statements=NO_DROPS, disturb=deposed),
    ),
    Scenario(
        name="drops-joined",
        what="a shard reads a deposed config server when its note of a dropped database has been joined with others",
        topology=a_cluster_of_hasty_configs,
        run=functools.partial(redefining, statements=(), disturb=joined, per_router=0),
    ),
)
