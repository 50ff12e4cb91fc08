"""A cluster whose collections are made, sharded, indexed, replaced and dropped by two routers at once, under faults.

Whatever was refused or cut off half-way: in the end every router and every owner knows the same collections, with the
same options and indexes, and what is written through one router is seen through the other.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from tests.checkers.history import Anomaly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.process import Machine
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SETTINGS, SimulatedCluster
from tests.simulation.world import Broken, World

NAMES = ("one", "two")
KEYS = 100
OPERATOR_SECONDS = 20.0
KINDS = ("kill", "power", "isolate", "pause", "die at write", "slow link")
ALL_STATEMENTS = (
    "shard", "shard", "split", "drop", "drop database", "index", "index", "drop index", "insert", "insert", "insert",
    "move", "move", "out",
)  # fmt: skip
BESIDE_MOVES = (
    "shard", "shard", "split", "drop", "index", "index", "drop index", "insert", "insert", "move", "move", "move",
)  # fmt: skip
WITH_PRIMARIES = (
    "shard", "split", "drop", "index", "drop index", "insert", "insert", "move", "out", "keep", "keep", "keep",
    "move primary", "rename",
)  # fmt: skip
KEPT = "kept"
"""A collection that is neither sharded nor dropped."""
MAJORITY = {"writeConcern": {"w": "majority"}}


async def a_cluster(
    world: World, members: int = 2, configs: int = 3, config_settings: Mapping[str, Any] = SETTINGS
) -> SimulatedCluster:
    cluster = SimulatedCluster(world, members=members, configs=configs)
    await cluster.start(config_settings)
    await cluster.admin({"enableSharding": "test", "primaryShard": "shard0"})
    documents = [{"_id": number, "k": number, "source": True} for number in range(5)]
    await cluster.admin({"insert": "source", "documents": documents, **MAJORITY}, "test")
    for name in NAMES:
        await cluster.shard_collection([KEYS // 2], f"test.{name}")
    return cluster


class Operator:
    """Sends statements through one router, whatever comes of them."""

    def __init__(self, cluster: SimulatedCluster, machine: Machine, dice: random.Random, number: int) -> None:
        self._cluster = cluster
        self._machine = machine
        self.dice = dice
        self.number = number
        self._count = 0
        self.kept: list[str] = []
        """What was inserted into `KEPT` and acknowledged."""
        self.over = False

    async def run(self, statements: Sequence[str]) -> None:
        while not self.over:
            database, command = self.statement(self.dice.choice(statements), self.dice.choice(NAMES))
            await self.send(database, command)
            await asyncio.sleep(self.dice.expovariate(1 / 0.05))

    async def send(self, database: str, command: dict[str, Any]) -> dict[str, Any] | None:
        """The reply, None where it was refused or did not come."""
        world = self._cluster.world
        told = f"{self._machine.name}: {_brief(command)}"
        world.tell(f"ddl{self.number}", told)
        try:
            async with asyncio.timeout(OPERATOR_SECONDS):
                reply = await self._cluster.admin(command, database, on=self._machine)
                if "writeErrors" in reply or "writeConcernError" in reply:
                    raise CommandError(Code.OperationFailed, str(reply)[:200])
            world.tell(f"ddl{self.number}", f"{told}: done")
            if command.get("insert") == KEPT:
                self.kept.append(command["documents"][0]["_id"])
            world.counts["statements"] = world.counts.get("statements", 0) + 1
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell(f"ddl{self.number}", f"{told}: {error!r}"[:240])
            return None
        return dict(reply)

    def statement(self, kind: str, name: str) -> tuple[str, dict[str, Any]]:
        """(database, command)."""
        dice, namespace = self.dice, f"test.{name}"
        index = f"index{dice.randrange(2)}"
        match kind:
            case "shard":
                return "admin", {"shardCollection": namespace, "key": {"k": 1}}
            case "split":
                return "admin", {"split": namespace, "middle": {"k": KEYS // 2}}
            case "drop":
                return "test", {"drop": name}
            case "drop database":
                return "test", {"dropDatabase": 1}
            case "index":
                fields = {"key": {index: 1}, "name": index, "sparse": dice.random() < 0.5}
                return "test", {"createIndexes": name, "indexes": [fields]}
            case "drop index":
                return "test", {"dropIndexes": name, "index": index}
            case "move":
                return "admin", {
                    "moveChunk": namespace,
                    "find": {"k": dice.choice((1, KEYS - 1))},
                    "to": dice.choice(("shard0", "shard1")),
                }
            case "move primary":
                return "admin", {"movePrimary": "test", "to": dice.choice(("shard0", "shard1"))}
            case "rename":
                to = dice.choice([other for other in NAMES if other != name])
                over = dice.random() < 0.7
                return "admin", {"renameCollection": namespace, "to": f"test.{to}", "dropTarget": over}
            case "keep":
                name = KEPT
            case "out":
                return "test", {"aggregate": "source", "pipeline": [{"$out": name}], "cursor": {}}
        self._count += 1
        document = {"_id": f"{self.number}-{self._count}", "k": dice.randrange(KEYS)}
        return "test", {"insert": name, "documents": [document], **MAJORITY}


def _brief(command: dict[str, Any]) -> str:
    return str({name: value for name, value in command.items() if name not in ("writeConcern", "cursor")})


async def changing(
    world: World, cluster: SimulatedCluster, *, statements: Sequence[str], kinds: Sequence[str], count: int,
    moments: Sequence[str] = (),
) -> None:  # fmt: skip
    """Two operators, perhaps faults, where there are `moments` at these; then both routers must agree on everything."""
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (3e-4, 2e-3), (5e-4, 5e-3)))
    nemesis = ClusterNemesis(cluster)
    if moments:
        nemesis.plan(moments, kinds, count)
    operators = [
        Operator(cluster, machine, random.Random(world.client_dice.getrandbits(64)), number)
        for number, machine in enumerate(2 * cluster.routers)
    ]
    running = [asyncio.ensure_future(each.run(statements)) for each in operators]
    if count and not moments:
        await nemesis.run(3.0, kinds, count=count)
    else:
        await asyncio.sleep(3.0)
    nemesis.end()
    for operator in operators:
        operator.over = True
    await asyncio.gather(*running)
    await cluster.settled()
    world.counts |= {"faults": nemesis.done}
    judge([*await anomalies(cluster), *await lost(cluster, {id_ for each in operators for id_ in each.kept})])
    await no_leaks(cluster, cursors=not count)


async def anomalies(cluster: SimulatedCluster) -> list[Anomaly]:
    """What routers and shards see differently."""
    found: list[Anomaly] = []
    for name in NAMES:
        expected = set()
        for writer in cluster.routers:
            for key in (1, KEYS - 1):
                document = {"_id": f"last {writer.name} {key}", "k": key}
                await _eventually(cluster, writer, {"insert": name, "documents": [document], **MAJORITY})
                expected.add(document["_id"])
        for reader in cluster.routers:
            seen = [each["_id"] for each in await cluster.all_documents(reader, "test", name)]
            missing = sorted(expected - set(seen))
            if missing:
                found.append(Anomaly("invisible", f"{reader.name} does not show {missing} of test.{name}"))
            if len(seen) != len(set(seen)):
                found.append(Anomaly("visible twice", f"{reader.name} shows test.{name} with {sorted(map(str, seen))}"))
        records = await cluster.primary_documents(cluster.config, "config", "collections")
        if any(each["_id"] == f"test.{name}" and not each.get("dropped") for each in records):
            found += await cluster.ownership(expected, f"test.{name}")
        index = {"createIndexes": name, "indexes": [{"key": {"last": 1}, "name": "last"}]}
        await _eventually(cluster, cluster.routers[0], index)
    found += await cluster.catalogs()
    return found + await cluster.member_anomalies()


async def lost(cluster: SimulatedCluster, kept: set[str]) -> list[Anomaly]:
    """What is not there any more of `KEPT`, or on a shard that is not the primary one."""
    found: list[Anomaly] = []
    (record,) = await cluster.primary_documents(cluster.config, "config", "databases")
    for reader in cluster.routers:
        seen = {each["_id"] for each in await cluster.all_documents(reader, "test", KEPT)}
        if missing := sorted(kept - seen):
            found.append(Anomaly("lost", f"{reader.name} does not show {missing} of {KEPT}"))
    for name, members in cluster.shards.items():
        if name != record["primary"] and (left := await cluster.primary_documents(members, "test", KEPT)):
            found.append(Anomaly("left behind", f"{name} still has {len(left)} documents of {KEPT}"))
    return found


async def _eventually(cluster: SimulatedCluster, router: Machine, command: dict[str, Any]) -> None:
    """What must succeed now that nothing is wrong any more."""
    end = cluster.world.now + 30.0
    while True:
        try:
            reply = await cluster.admin(command, "test", on=router)
            if "writeErrors" not in reply:
                return
            error: Any = reply["writeErrors"]
        except (CommandError, NetworkError) as refused:
            error = refused
        if cluster.world.now > end:
            raise Broken(f"{router.name} still refuses {_brief(command)}: {error}")
        await asyncio.sleep(0.5)


SCENARIOS = (
    Scenario(
        name="ddl",
        what="two routers make, shard, index, replace and drop the same collections",
        topology=a_cluster,
        run=functools.partial(changing, statements=ALL_STATEMENTS, kinds=(), count=0),
    ),
    Scenario(
        name="ddl-faults",
        what="the same under faults",
        topology=a_cluster,
        run=functools.partial(changing, statements=ALL_STATEMENTS, kinds=KINDS, count=2),
    ),
    Scenario(
        name="ddl-primaries",
        what="the database's primary shard changes beside all of that, under faults",
        topology=a_cluster,
        run=functools.partial(changing, statements=WITH_PRIMARIES, kinds=KINDS, count=1),
    ),
    Scenario(
        name="ddl-moves",
        what="indexes and drops of collections beside moves",
        topology=a_cluster,
        run=functools.partial(
            changing,
            statements=BESIDE_MOVES,
            kinds=(),
            count=0,
        ),
    ),
)
