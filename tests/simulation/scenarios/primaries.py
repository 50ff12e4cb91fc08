"""A database gets another primary shard again and again while clients use what is not sharded of it.

Answers are lost in some scenarios, so writes are sent again, some of them to the shard that has got the database
meanwhile: each happens once. In others nothing goes wrong, so no statement may fail, however long it is. Followers of a
collection and of the database keep a copy by what change streams tell. Shards have one member: cheap, so that much of
it meets.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from tests.checkers.durability import check_inserts
from tests.checkers.history import Anomaly, History
from tests.checkers.many import check_many
from tests.simulation.clients import DATABASE, Client
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.followers import Follower, judge_copies
from tests.simulation.moments import DATABASE_MOVED
from tests.simulation.process import Incarnation, Machine
from tests.simulation.routed import Routers, Times, act, clients_of, final_of
from tests.simulation.scenarios import handover, moves
from tests.simulation.scenarios.definitions import Disturb, all_up, deaths, nothing
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.membership import ask_primary
from tests.simulation.scenarios.moves import NAME
from tests.simulation.scenarios.transactions import LIFETIME_SECONDS, short_lives
from tests.simulation.scenarios.transactions_ddl import EXPIRY_SECONDS
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster, of_routers
from tests.simulation.transactions import anomalies as transaction_anomalies
from tests.simulation.transactions import prepare, report
from tests.simulation.workloads import Workload
from tests.simulation.world import Broken, World

LOST = (0.0, 0.01, 0.03)
"""How many of the messages take their connection with them."""
READ_SECONDS = 1.0
"""The longest that a read outside of transactions waits for anybody where nothing goes wrong."""
SPLIT = {"transfers": ("t2", "t4", "t7")}
"""The sharded collection of the bank, and where it is split: what moves money writes on both shards."""
TAKEN_SECONDS = 25.0
"""How soon a router must be able to use a database whose old primary shard is down: it has known no other, and waits
for that one to have a primary again.
"""
MANY_SECONDS = 0.8
MOVE_SECONDS = 1.8
"""The longest that a move takes beside transactions, of which none stays open for so long unless it waits itself."""
EXPIRY_MOVE_SECONDS = LIFETIME_SECONDS + EXPIRY_SECONDS
"""The same beside transactions of which some are abandoned: a move waits until they expire."""


async def a_cluster(world: World) -> SimulatedCluster:
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    await cluster.admin({"enableSharding": DATABASE, "primaryShard": "shard0"})
    await cluster.admin({"createIndexes": NAME, "indexes": [{"key": {"k": 1}, "name": "k"}]}, DATABASE)
    return cluster


async def a_bank(world: World) -> SimulatedCluster:
    """The bank on one shard, but for `SPLIT`."""
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    await cluster.admin({"enableSharding": DATABASE, "primaryShard": "shard0"})
    await prepare(Routers(cluster, world.client_dice, Times()))
    for name, points in SPLIT.items():
        await cluster.admin({"shardCollection": f"{DATABASE}.{name}", "key": {"_id": 1}})
        for point in points:
            await cluster.admin({"split": f"{DATABASE}.{name}", "middle": {"_id": point}})
        for point in points[::2]:
            await cluster.admin({"moveChunk": f"{DATABASE}.{name}", "find": {"_id": point}, "to": "shard1"})
    await cluster.settled()
    return cluster


class Documents(moves.Documents):
    """Any statement may fail."""

    refused: Sequence[Anomaly] = ()
    clients = 4
    forgetful = 0.0
    lost = LOST


class ManyDocuments(handover.ManyDocuments):
    """Nothing goes wrong: no statement over many may fail, or meet less than there is."""

    lost: Sequence[float] = (0.0,)
    clients = 5


async def for_a_while(_world: World, _cluster: SimulatedCluster, _history: History) -> None:
    await asyncio.sleep(MANY_SECONDS)


async def move_primary(
    cluster: SimulatedCluster, dice: random.Random, over: Callable[[], bool], pause: float, longest: float
) -> list[Anomaly]:
    """To one shard, to the other one, whatever comes of it. Returns the moves that took more than `longest` seconds."""
    world, found = cluster.world, list[Anomaly]()
    while not over():
        for shard in dice.sample(sorted(cluster.shards), 2):
            began = world.now
            try:
                async with asyncio.timeout(15.0):
                    await cluster.admin({"movePrimary": DATABASE, "to": shard}, on=dice.choice(cluster.routers))
                world.tell("operator", f"made {shard} the primary shard")
                world.counts["moves"] = world.counts.get("moves", 0) + 1
            except (CommandError, NetworkError, TimeoutError) as error:
                world.tell("operator", f"{shard} as the primary shard: {error!r}"[:200])
            if world.now - began > longest:
                found.append(Anomaly("a move waits", f"{shard} was the primary shard after {world.now - began:.2f} s"))
            await asyncio.sleep(dice.expovariate(1 / pause))
    return found


async def followers_of(cluster: SimulatedCluster, collection: str) -> list[Follower]:
    """One of the collection, one of its database, which begin now."""
    start = (await cluster.admin({"ping": 1}))["$clusterTime"]["clusterTime"]

    async def ask(machine: Machine, database: str, command: dict[str, Any]) -> Any:
        return await cluster.admin(command, database, on=machine)

    return [
        Follower(cluster.world, cluster.routers, ask, start, collection=name, batches=40) for name in (collection, None)
    ]


async def moving(
    world: World, cluster: SimulatedCluster, *, kind: type[Documents | ManyDocuments] = Documents,
    disturb: Disturb = nothing, delay: int = 0,
) -> None:  # fmt: skip
    """`delay`: how many seconds the old copy stays."""
    for members in cluster.shards.values() if delay else ():
        await ask_primary(members, {"setParameter": 1, "orphanCleanupDelaySecs": delay})
    dice, documents = world.fault_dice, kind()
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    lost = dice.choice(documents.lost)
    numbers = random.Random(world.client_dice.getrandbits(64))
    forget = functools.partial(handover.forget, documents.forgetful, random.Random(numbers.getrandbits(64)))
    world.moments.append(forget)
    followers = [] if kind is ManyDocuments else await followers_of(cluster, NAME)
    following = [asyncio.ensure_future(each.follow()) for each in followers]
    world.network.reset_probability = lost
    routers = iter(range(1 << 30))

    def target() -> Any:
        # A transaction is with one router.
        machines = cluster.routers if kind is Documents else [cluster.routers[next(routers) % len(cluster.routers)]]
        return of_routers(machines, random.Random(numbers.getrandbits(64)))

    work = Workload(world, target, clients=documents.clients)
    work.start(documents.act)
    over: list[bool] = []
    mover = random.Random(numbers.getrandbits(64))
    operator = asyncio.ensure_future(move_primary(cluster, mover, lambda: bool(over), 0.02, math.inf))
    await disturb(world, cluster, work.history)
    world.network.reset_probability = 0.0
    all_up(cluster)
    over.append(True)
    work.over = True
    await operator
    await work.stop()
    await cluster.settled()
    final = await cluster.all_documents(cluster.routers[0], DATABASE, NAME)
    await judge_copies(world, followers, following, {NAME: final})
    judge([*documents.refused, *await anomalies(cluster, work, documents)])
    await no_leaks(cluster, cursors=False)
    world.counts |= {"operations": len(work.history), "acknowledged": sum(each.ok for each in work.history)}


async def anomalies(cluster: SimulatedCluster, work: Workload, documents: Documents | ManyDocuments) -> list[Anomaly]:
    """What is lost, met twice, or on both shards."""
    shown = await cluster.all_documents(cluster.routers[0], DATABASE, NAME)
    final = {each["_id"]: each["tags"] for each in shown}
    concerns = documents.concerns if isinstance(documents, ManyDocuments) else lambda _operation, _id: True
    found = [*check_inserts(work.history, set(final)), *check_many(work.history, final, concerns=concerns)]
    return found + await left_behind(cluster, NAME) + await cluster.member_anomalies()


async def left_behind(cluster: SimulatedCluster, *names: str) -> list[Anomaly]:
    """What is on a shard that is not the primary one."""
    found: list[Anomaly] = []
    (record,) = await cluster.primary_documents(cluster.config, "config", "databases")
    for shard, members in cluster.shards.items():
        for name in names:
            if shard != record["primary"] and (left := await cluster.primary_documents(members, DATABASE, name)):
                found.append(Anomaly("left behind", f"{shard} still has {len(left)} documents of {name}"))
    return found


async def watch(cluster: SimulatedCluster, over: Callable[[], bool]) -> list[Anomaly]:
    """Read outside of transactions, again and again: who waits for a transaction is no reader."""
    world, dice, found = cluster.world, random.Random(cluster.world.client_dice.getrandbits(64)), list[Anomaly]()
    while not over():
        began = world.now
        reply = await cluster.admin({"find": "accounts", "limit": 1}, DATABASE, on=dice.choice(cluster.routers))
        if world.now - began > READ_SECONDS:
            found.append(Anomaly("a read waits", f"{world.now - began:.2f} s"))
        if len(reply["cursor"]["firstBatch"]) != 1:
            found.append(Anomaly("not shown", "there are accounts throughout"))
        await asyncio.sleep(dice.expovariate(1 / 0.02))
    return found


async def transacting(world: World, cluster: SimulatedCluster) -> None:
    """Transactions, snapshots of earlier times, followers, and a reader who must not wait."""
    dice = world.fault_dice
    world.hiccups = dice.choice((0.0, 0.005))
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (3e-4, 2e-3)))
    followers = await followers_of(cluster, "accounts")
    before = {name: await cluster.all_documents(cluster.routers[0], DATABASE, name) for name in ("accounts", "holders")}
    for each in followers:
        each.copy.begin_with(before if each is followers[1] else {"accounts": before["accounts"]})
    following = [asyncio.ensure_future(each.follow()) for each in followers]
    for shard in cluster.shards.values():
        await short_lives(shard)
    work, together = clients_of(cluster, clients=4)
    abandons = dice.choice((0.0, 0.3))

    async def act_or_abandon(client: Client, work: Workload) -> None:
        client.abandons = abandons
        await act(client, work)

    work.start(act_or_abandon)
    longest = EXPIRY_MOVE_SECONDS if abandons else MOVE_SECONDS
    mover = random.Random(world.client_dice.getrandbits(64))
    operator = asyncio.ensure_future(move_primary(cluster, mover, lambda: work.over, 0.1, longest))
    watching = asyncio.ensure_future(watch(cluster, lambda: work.over))
    await asyncio.sleep(3.0)
    work.over = True
    found = [*await watching, *await operator]
    await work.stop()
    await cluster.settled()
    final, misplaced = await final_of(cluster)
    report(world, work.history, final)
    told = transaction_anomalies(work.history, final)
    # Who has not heard of a time may be shown what was before it.
    found += misplaced + [each for each in told if together or each.kind != "stale snapshot"]
    judge([*found, *await cluster.catalogs(), *await cluster.member_anomalies()])
    await judge_copies(world, followers[:1], following[:1], {"accounts": final["accounts"]})
    await judge_copies(world, followers[1:], following[1:], final)
    await no_leaks(cluster, cursors=False)


async def left_alone(world: World, cluster: SimulatedCluster) -> None:
    """The old primary shard goes when the database has changed hands, and stays away for long. The database is used on
    the new one; when the old one is back, it lets go of what it has.
    """
    dice = world.fault_dice
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    router = cluster.routers[0]
    documents = [{"_id": number, "k": number, "tags": []} for number in range(dice.randint(1, 300))]
    await cluster.admin({"insert": NAME, "documents": documents}, DATABASE)
    for each in cluster.routers:
        await cluster.all_documents(each, DATABASE, NAME)
    old = cluster.shards["shard0"].machines[0]
    gone: list[bool] = []

    def go(process: Incarnation, moment: str) -> None:
        if moment == DATABASE_MOVED and not gone:
            gone.append(True)
            delay = dice.choice((0.0, 0.0, 0.002, 0.01, 0.05))
            asyncio.get_running_loop().call_later(delay, old.kill, "the old primary shard goes")

    world.moments.append(go)
    moved = asyncio.ensure_future(_quietly(cluster.admin({"movePrimary": DATABASE, "to": "shard1"}, on=router)))
    await cluster.config.until(lambda: bool(gone) and not old.running, 20.0, "the database to change hands")
    went = world.now
    using = [
        _within(
            world, went + TAKEN_SECONDS, each, cluster, {"insert": NAME, "documents": [{"_id": each.name, "tags": []}]}
        )
        for each in cluster.routers
    ]
    await asyncio.gather(*using)
    index = {"createIndexes": NAME, "indexes": [{"key": {"tags": 1}, "name": "tags"}]}
    await _within(world, world.now + READ_SECONDS, router, cluster, index)
    for number in range(5):
        began = world.now
        update = {"q": {"_id": router.name}, "u": {"$push": {"tags": number}}}
        await cluster.admin({"update": NAME, "updates": [update]}, DATABASE, on=dice.choice(cluster.routers))
        shown = await cluster.all_documents(dice.choice(cluster.routers), DATABASE, NAME)
        expected = len(documents) + len(cluster.routers)
        if len(shown) != expected or world.now - began > READ_SECONDS:
            raise Broken(f"{len(shown)} documents of {expected} are shown after {world.now - began:.2f} s")
        await asyncio.sleep(dice.uniform(0.0, 2.0))
    old.start()
    world.moments.clear()
    await moved
    await cluster.settled()
    judge([*await left_behind(cluster, NAME), *await cluster.member_anomalies()])
    await _within(world, world.now + 30.0, router, cluster, {"movePrimary": DATABASE, "to": "shard0"}, "admin")
    await cluster.settled()
    judge(await left_behind(cluster, NAME))
    await no_leaks(cluster, cursors=False)


async def _quietly(work: Awaitable[Any]) -> None:
    try:
        await work
    except (CommandError, NetworkError):
        return


async def _within(
    world: World, end: float, on: Machine, cluster: SimulatedCluster, command: dict[str, Any],
    database: str = DATABASE,
) -> None:  # fmt: skip
    """Ask until it succeeds. Errors: Broken where that is too late."""
    while True:
        try:
            async with asyncio.timeout(max(end - world.now, 0.1)):
                reply = await cluster.admin(command, database, on=on)
            errors = reply.get("writeErrors")
            if not errors or errors[0]["code"] == Code.DuplicateKey:
                return
            error: Any = errors
        except (CommandError, NetworkError, TimeoutError) as refused:
            error = refused
        if world.now > end:
            raise Broken(f"{command} is refused for too long: {error!r}")
        await asyncio.sleep(0.1)


SCENARIOS = (
    Scenario(
        name="primaries",
        what="two shards of one: a database's primary shard changes while clients write it and answers are lost",
        topology=a_cluster,
        run=moving,
    ),
    Scenario(
        name="primaries-deaths",
        what="the same while shards and the config server die and are back at once",
        topology=a_cluster,
        run=functools.partial(moving, disturb=deaths),
    ),
    Scenario(
        name="primaries-many",
        what="two shards of one: a database's primary shard changes while statements over many documents are half-way",
        topology=a_cluster,
        run=functools.partial(moving, kind=ManyDocuments, disturb=for_a_while),
    ),
    Scenario(
        name="primaries-back",
        what="two shards of one: a database comes back while the old copy is still there, which stays for a second",
        topology=a_cluster,
        run=functools.partial(moving, delay=1),
    ),
    Scenario(
        name="primaries-transactions",
        what="the same beside transactions, some over both shards, and snapshots of earlier times",
        topology=a_bank,
        run=transacting,
    ),
    Scenario(
        name="primaries-away",
        what="the old primary shard is down when the database has changed hands, and stays down",
        topology=a_cluster,
        run=left_alone,
    ),
)
