"""Retryable writes are sent again late, by another router, when their documents have moved: each is executed once.

Chunks, or the database, go from shard to shard all the time. What a shard knows of the writes of before is put to the
test: logs are short, members are copied anew and become primary, primaries are cut off with what nobody else has and
roll it back. A refusal is good (nobody knows any more); a second execution, or an answer that claims what is not
there, is not.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from bson.binary import Binary
from bson.int64 import Int64

from tests.checkers.history import Anomaly, Kind
from tests.checkers.retries import check_retries
from tests.simulation.clients import Client, Refused, Unknown, quietly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.process import Incarnation, Machine
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.moves import KEYS, NAME, POINTS, move_about
from tests.simulation.scenarios.primaries import move_primary
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster, of_routers
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

SHORT_LOG_BYTES = 15_000
DOCUMENTS = 12
SERIES = "series"
OTHERS = "others"
LATE_SECONDS = 20.0
SESSIONS = 1000
MAX_READS = 600
"""In one turn of the loop."""
BASE = datetime(2026, 1, 1, tzinfo=UTC)
LOST = (0.0, 0.01, 0.05)
"""How many of the messages take their connection with them."""
Disturb = Callable[[World, SimulatedCluster, ClusterNemesis], Awaitable[None]]


async def a_cluster(
    world: World, *, shards: int = 2, members: int = 1, oplog_bytes: int | None = None
) -> SimulatedCluster:
    """Documents with lists that are sharded, and others that are not; two shards have two chunks of the former."""
    cluster = SimulatedCluster(world, shards=shards, members=members, configs=1, oplog_bytes=oplog_bytes)
    await cluster.start()
    await cluster.shard_collection(list(POINTS))
    documents = [{"_id": n, "k": n * KEYS // DOCUMENTS, "tags": []} for n in range(DOCUMENTS)]
    for name in (NAME, OTHERS):
        command = {"insert": name, "documents": documents, "writeConcern": {"w": "majority"}}
        await cluster.admin(command, "test")
    return cluster


async def a_database(world: World, *, members: int = 1, oplog_bytes: int | None = None) -> SimulatedCluster:
    """The same without shards' parts, and measurements."""
    cluster = SimulatedCluster(world, members=members, configs=1, oplog_bytes=oplog_bytes)
    await cluster.start()
    await cluster.admin({"enableSharding": "test", "primaryShard": "shard0"})
    documents = [{"_id": n, "k": n, "tags": []} for n in range(DOCUMENTS)]
    for name in (NAME, OTHERS):
        command = {"insert": name, "documents": documents, "writeConcern": {"w": "majority"}}
        await cluster.admin(command, "test")
    await cluster.admin({"create": SERIES, "timeseries": {"timeField": "t", "metaField": "m"}}, "test")
    return cluster


@dataclass(slots=True)
class Write:
    """One that may be sent again. It puts `value` into the lists of `keys`; `due`: when it is next sent."""

    client: int
    command: dict[str, Any]
    keys: list[Any]
    value: int
    due: float


class Retries:
    """What clients have sent. `series`: whether there are measurements."""

    def __init__(self, world: World, *, series: bool) -> None:
        self._world = world
        self._series = series
        self.writes: list[Write] = []
        self._sessions: dict[int, list[dict[str, Any]]] = {}

    async def act(self, client: Client, work: Workload) -> None:
        """Something new, or something old again."""
        due = [each for each in self.writes if each.client == client.number and each.due <= self._world.now]
        if due and client.dice.random() < 0.6:
            await self.send(client, client.dice.choice(due))
        else:
            await self._begin(client, work)

    async def _begin(self, client: Client, work: Workload) -> None:
        dice, value = client.dice, work.value()
        sessions = self._sessions.setdefault(client.number, [])
        if len(sessions) < 2 or dice.random() < 0.4:
            sessions.append({"lsid": {"id": Binary(UUID(int=dice.getrandbits(128)).bytes, 4)}, "txnNumber": Int64(0)})
        session = dice.choice(sessions[-4:])
        session["txnNumber"] = Int64(session["txnNumber"] + 1)
        command, keys = self._command(dice, value)
        write = Write(client.number, {**command, **session}, keys, value, 0.0)
        self.writes.append(write)
        await self.send(client, write)

    def _command(self, dice: random.Random, value: int) -> tuple[dict[str, Any], list[Any]]:
        number, kind = dice.randrange(DOCUMENTS), dice.random()
        push = {"$push": {"tags": value}}
        where = {"k": number if self._series else number * KEYS // DOCUMENTS}
        if self._series and kind < 0.4:
            measured = [{"t": BASE + timedelta(seconds=value), "m": number, "tag": value, "part": n} for n in range(3)]
            return {"insert": SERIES, "documents": measured}, [(SERIES, n) for n in range(3)]
        if kind < 0.55:
            where = {"_id": number} if dice.random() < 0.3 else where
            return {"update": NAME, "updates": [{"q": where, "u": push}]}, [(NAME, number)]
        if kind < 0.75:
            command = {"findAndModify": NAME, "query": where, "update": push, "new": dice.random() < 0.5}
            return command, [(NAME, number)]
        operations = [{"update": place, "filter": where, "updateMods": push} for place in (1, 0)]
        for each in operations[:1]:
            each["filter"] = {"_id": number}
        command = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": f"test.{NAME}"}, {"ns": f"test.{OTHERS}"}]}
        return command, [(OTHERS, number), (NAME, number)]

    async def send(self, client: Client, write: Write, *, repeatable: bool = False) -> None:
        """One attempt, by some router."""
        w = "majority" if repeatable or client.dice.random() < 0.5 else 1
        write.due = self._world.now + client.dice.choice((0.05, 0.3, 1.0, 3.0))
        number = int(write.command["txnNumber"])
        operations = [
            client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, write.value, w=w, retryable=number)
            for key in write.keys
        ]
        try:
            whole = {**write.command, "writeConcern": {"w": w, "wtimeout": 2000}}
            reply = await client.command(whole, repeatable=repeatable)
        except (Refused, Unknown):
            # Another attempt may have executed it, or may yet.
            return
        count = self._count(write, reply)
        for operation in operations:
            client.history.ok(operation, count)

    @staticmethod
    def _count(write: Write, reply: dict[str, Any]) -> int:
        """How many documents an attempt was told of, for each that there are."""
        if "findAndModify" in write.command:
            value = reply["value"]
            image = value is not None and (write.value in value["tags"]) == write.command["new"]
            return int(reply["lastErrorObject"]["n"]) if image else 0
        total = reply["nModified"] if "update" in write.command else reply.get("nModified", reply.get("n"))
        return int(total) // len(write.keys) if int(total) % len(write.keys) == 0 else -1

    async def send_all(self, client: Client) -> None:
        """All that was ever sent, once more."""
        for write in self.writes:
            await self.send(client, write, repeatable=True)


async def late(
    world: World, cluster: SimulatedCluster, *, disturb: Disturb, seconds: float, clients: int = 4,
    series: bool = False, lost: Sequence[float] = LOST,
) -> None:  # fmt: skip
    """Clients, moves and whatever else disturbs; then everything once more."""
    dice = world.client_dice
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    world.network.reset_probability = world.fault_dice.choice(lost)
    nemesis = ClusterNemesis(cluster)
    retries = Retries(world, series=series)
    work = Workload(world, lambda: of_routers(cluster.routers, random.Random(dice.getrandbits(64))), clients=clients)
    work.start(retries.act)
    over: list[bool] = []
    operator = random.Random(dice.getrandbits(64))
    moving = (
        move_primary(cluster, operator, lambda: bool(over), 0.02, math.inf)
        if series
        else move_about(cluster, operator, over, pause=0.1)
    )
    mover = asyncio.ensure_future(moving)
    ending = asyncio.ensure_future(asyncio.sleep(seconds))
    await disturb(world, cluster, nemesis)
    await ending
    nemesis.end()
    over.append(True)
    await mover
    await work.stop()
    await cluster.settled()
    await asyncio.sleep(LATE_SECONDS)
    last = Client(99, work.history, of_routers(cluster.routers, random.Random(dice.getrandbits(64))), world.client_dice)
    await retries.send_all(last)
    judge(await anomalies(cluster, work, series=series))
    await no_leaks(cluster, cursors=False)
    world.counts |= {
        "operations": len(work.history),
        "acknowledged": sum(each.ok for each in work.history),
        "faults": nemesis.done,
    }


async def anomalies(cluster: SimulatedCluster, work: Workload, *, series: bool) -> list[Anomaly]:
    """What was executed twice, or claimed; and what members hold differently."""
    final: dict[Any, list[int]] = {}
    for name in (NAME, OTHERS):
        for each in await cluster.all_documents(cluster.routers[0], "test", name):
            final[name, each["_id"]] = each["tags"]
    if series:
        for each in await cluster.all_documents(cluster.routers[0], "test", SERIES):
            final.setdefault((SERIES, each["part"]), []).append(each["tag"])
    return [*check_retries(work.history, final), *await cluster.member_anomalies()]


# What disturbs


async def nothing(_world: World, _cluster: SimulatedCluster, _nemesis: ClusterNemesis) -> None:
    """Logs that are cut are enough."""


async def cut_off(world: World, cluster: SimulatedCluster, nemesis: ClusterNemesis) -> None:
    """A donor's primary is cut off from its set, for longer than an election takes, while the recipient prepares: what
    it alone has it sends, and rolls it back.
    """
    dice = world.fault_dice

    def come(process: Incarnation, moment: str) -> None:
        if moment == "donor preparing" and not nemesis.over and not world.network.cut and dice.random() < 0.3:
            nemesis.done += 1
            world.after(dice.uniform(0.0, 0.01), cut, process.machine)

    def cut(machine: Machine) -> None:
        members = next(each for each in cluster.shards.values() if machine in each.machines)
        world.tell("nemesis", f"cuts {machine.name} off from the other members of {members.name}")
        for other in members.machines:
            if other is not machine:
                world.network.cut |= {(machine.name, other.name), (other.name, machine.name)}
        world.after(dice.uniform(2.5, 4.0), world.network.heal)

    world.moments.append(come)


async def copy_anew(world: World, cluster: SimulatedCluster, nemesis: ClusterNemesis) -> None:
    """A member that loses its disk is copied anew and becomes primary: it has the sessions, but not what they wrote."""
    dice = world.fault_dice
    for _ in range(2):
        await asyncio.sleep(dice.uniform(0.2, 0.6))
        members = cluster.shards[dice.choice(sorted(cluster.shards))]
        nemesis.done += 1
        await _copy(world, members, dice.choice([each for each in members.machines if each is not members.primary()]))


async def _copy(world: World, members: SimulatedSet, machine: Machine) -> None:
    world.tell("nemesis", f"takes the disk of {machine.name}")
    machine.wipe()
    await asyncio.sleep(world.fault_dice.uniform(0.0, 0.2))
    machine.start()
    await members.until(lambda: _is_secondary(members, machine), 30.0, f"{machine.name} is copied")
    await quietly(members.command(machine, "admin", {"replSetStepUp": 1}))
    await asyncio.sleep(world.fault_dice.uniform(0.5, 1.5))


def _is_secondary(members: SimulatedSet, machine: Machine) -> bool:
    replica_set = members.replica_set(machine)
    return replica_set is not None and replica_set.hello().get("secondary", False)


# Many sessions


async def with_many_sessions(world: World) -> SimulatedCluster:
    """Each has written once."""
    cluster = await a_cluster(world)
    for number in range(SESSIONS):
        await cluster.admin(_of_session(number), "test", on=cluster.routers[number % 2])
    return cluster


def _of_session(number: int) -> dict[str, Any]:
    document = number % DOCUMENTS
    update = {"q": {"k": document * KEYS // DOCUMENTS}, "u": {"$push": {"tags": number}}}
    session = {"lsid": {"id": Binary(UUID(int=number).bytes, 4)}, "txnNumber": Int64(number % 3)}
    return {"update": NAME, "updates": [update], "writeConcern": {"w": "majority"}, **session}


class Reads:
    """The most rows and entries that a process has read in one turn of the loop."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world = world
        self._turn = self._count = self.most = 0
        assert machine.process is not None
        engine: Any = machine.process.node.node.engine
        get, items = engine.get, engine.items

        def counting_get(*arguments: Any) -> Any:
            self._note()
            return get(*arguments)

        def counting_items(*arguments: Any) -> Any:
            for item in items(*arguments):
                self._note()
                yield item

        engine.get, engine.items = counting_get, counting_items
        engine.keys = lambda *arguments: (key for key, _ in counting_items(*arguments))

    def _note(self) -> None:
        if self._turn != self._world.loop.steps:
            self._turn, self._count = self._world.loop.steps, 0
        self._count += 1
        self.most = max(self.most, self._count)


async def many_sessions(world: World, cluster: SimulatedCluster) -> None:
    """Chunks of the first shard move, no turn of its loop is long, and nothing that is sent again is executed again.

    What a recipient stores it stores in slices of time, which does not pass here.
    """
    dice = world.client_dice
    reads = Reads(world, cluster.shards["shard0"].machines[0])
    for point in dice.sample((POINTS[0] - 1, POINTS[1]), 2):
        command = {"moveChunk": COLLECTION, "find": {"k": point}, "to": "shard1"}
        await cluster.admin(command, on=dice.choice(cluster.routers))
    if reads.most > MAX_READS:
        raise Broken(f"{reads.most} rows and entries were read in one turn of the loop")
    await cluster.settled()
    await asyncio.sleep(LATE_SECONDS)
    for number in dice.sample(range(SESSIONS), 40):
        reply = await cluster.admin(_of_session(number), "test", on=dice.choice(cluster.routers))
        if reply.get("retriedStmtIds") != [0]:
            raise Broken(f"session {number} was told {reply}")
    final = await cluster.all_documents(cluster.routers[0], "test", NAME)
    tags = sorted(tag for each in final for tag in each["tags"])
    if tags != list(range(SESSIONS)):
        raise Broken(f"{len(tags)} writes were executed, of {len(set(tags))} sessions out of {SESSIONS}")
    world.counts["most reads"] = reads.most


SCENARIOS = (
    Scenario(
        name="retries-short-log",
        what="three shards of one with short logs: chunks move, and writes are sent again late by another router",
        topology=functools.partial(a_cluster, shards=3, oplog_bytes=SHORT_LOG_BYTES),
        run=functools.partial(late, disturb=nothing, seconds=4.0),
    ),
    Scenario(
        name="retries-rollback",
        what="two shards of three: donors are cut off and roll back, chunks move again, and writes are sent again late",
        topology=functools.partial(a_cluster, members=3),
        run=functools.partial(late, disturb=cut_off, seconds=9.0),
    ),
    Scenario(
        name="retries-copied",
        what="two shards of three: members are copied anew and become primary, chunks move, and writes are sent late",
        topology=functools.partial(a_cluster, members=3),
        run=functools.partial(late, disturb=copy_anew, seconds=3.0, lost=(0.0,)),
    ),
    Scenario(
        name="retries-primaries",
        what="two shards of one with short logs: the database moves, writes and measurements are sent again late",
        topology=functools.partial(a_database, oplog_bytes=SHORT_LOG_BYTES),
        run=functools.partial(late, disturb=nothing, seconds=3.0, series=True),
    ),
    Scenario(
        name="retries-many-sessions",
        what="two shards of one: chunks move, and sessions are many; no turn of the loop reads much of them",
        topology=with_many_sessions,
        run=many_sessions,
    ),
)
