"""Transactions change the shard keys of documents while chunks move between two shards.

A document keeps its shard or the transaction has not happened: a key of another shard's chunk is refused, one of the
same chunk never. In the end each document is once on the shard that owns its key, with all acknowledged changes, and
what the transactions wrote beside it agrees with it.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import bson

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from tests.checkers.durability import check_counters
from tests.checkers.history import Anomaly, Kind
from tests.simulation.clients import DATABASE, Client
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.routed import Routers, Times, clients_of, turn
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.transactions import short_lives
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import Aborted, OpenTransaction, carry_out
from tests.simulation.workloads import Workload
from tests.simulation.world import World

NAMESPACE = f"{DATABASE}.homes"
CHUNK_KEYS = 10
CHUNKS = 4
DOCUMENTS = 8
CLIENTS = 3
SECONDS = 3.0
KINDS = ("kill", "step down", "blink", "pause")


async def homes(world: World) -> SimulatedCluster:
    """Documents by `k` over four chunks on two shards of one member; beside them what counts their changes."""
    cluster = SimulatedCluster(world, members=1, configs=1)
    await cluster.start()
    await cluster.shard_collection([CHUNK_KEYS * number for number in range(1, CHUNKS)], NAMESPACE)
    rows = [{"_id": f"h{number}", "k": 5 * number, "n": 0} for number in range(DOCUMENTS)]
    for name, documents in (("changes", [{"_id": row["_id"], "n": 0} for row in rows]), ("homes", rows)):
        await cluster.admin({"insert": name, "documents": documents}, DATABASE)
    await cluster.settled()
    return cluster


async def change_key(client: Client, work: Workload) -> None:
    """Change the key of one document by one of three forms, and count the change in another document."""
    turn(client)
    dice = client.dice
    home = f"h{dice.randrange(DOCUMENTS)}"
    operation = client.history.invoke(client.number, Kind.ADD, home, 1, w="majority")

    async def body(transaction: OpenTransaction) -> None:
        documents = await transaction.find("homes", {"_id": home})
        if not documents:
            raise Aborted("a snapshot of before the beginning")
        found = documents[0]
        first = found["k"] // CHUNK_KEYS * CHUNK_KEYS
        stays = dice.random() < 0.7
        key = dice.randrange(first, first + CHUNK_KEYS) if stays else dice.randrange(CHUNKS * CHUNK_KEYS)
        query, number = {"_id": home, "k": found["k"]}, found["n"] + 1
        await transaction.change("changes", {"_id": home}, {"$inc": {"n": 1}})
        if stays and dice.random() < 0.3:
            change = {"$set": {"k": key, "n": number}}
            reply = await transaction.run({"findAndModify": "homes", "query": query, "update": change})
            assert reply["lastErrorObject"]["n"] == 1, "the transaction has just read it"
            return
        form = dice.choice(({"k": key, "n": number}, {"$set": {"k": key}, "$inc": {"n": 1}}))
        try:
            assert await transaction.change("homes", query, form) == 1, "the transaction has just read it"
        except Aborted as error:
            for row in error.write_errors:
                if stays or row["code"] != Code.WouldChangeOwningShard:
                    work.world.fail(f"a change of {found} to the key {key} is refused: {row}")
            raise

    await carry_out(client, operation, body)


async def _move(cluster: SimulatedCluster, work: Workload) -> None:
    world = cluster.world
    dice = random.Random(world.client_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / 0.3))
        place, shard = CHUNK_KEYS * dice.randrange(CHUNKS), dice.choice(sorted(cluster.shards))
        command = {"moveChunk": NAMESPACE, "find": {"k": place}, "to": shard}
        try:
            async with asyncio.timeout(15.0):
                await cluster.admin(command, on=dice.choice(cluster.routers))
                world.counts["moves"] = world.counts.get("moves", 0) + 1
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell("operator", f"{command}: {error!r}"[:200])


async def changing(world: World, cluster: SimulatedCluster) -> None:
    """Change keys beside moves and one fault."""
    nemesis = ClusterNemesis(cluster)
    for members in cluster.shards.values():
        await short_lives(members)
    work, _ = clients_of(cluster, clients=CLIENTS)
    work.start(change_key)
    mover = asyncio.ensure_future(_move(cluster, work))
    await nemesis.run(SECONDS, KINDS, count=1)
    nemesis.end()
    await work.stop()
    await mover
    await cluster.settled()
    ask = Routers(cluster, world.client_dice, Times())
    shown = {name: await _shown(ask, name) for name in ("homes", "changes")}
    stored: list[dict[str, Any]] = []
    for members in cluster.shards.values():
        stored += await cluster.primary_documents(members, DATABASE, "homes")
    found = check_counters(work.history, {row["_id"]: row["n"] for row in shown["homes"]})
    if sorted(map(repr, stored)) != sorted(map(repr, shown["homes"])) or len(stored) != DOCUMENTS:
        found.append(Anomaly("not in one place", f"shards hold {stored}, and {shown['homes']} is shown"))
    counts = [{row["_id"]: row["n"] for row in rows} for rows in shown.values()]
    if counts[0] != counts[1]:
        found.append(Anomaly("half a transaction", f"{counts[0]} changes by the documents, {counts[1]} were counted"))
    judge([*found, *await cluster.catalogs()])
    await no_leaks(cluster, cursors=False)
    world.counts |= {"acknowledged": sum(operation.ok for operation in work.history), "faults": nemesis.done}


async def _shown(ask: Routers, name: str) -> list[dict[str, Any]]:
    command = {"find": name, "readConcern": {"level": "majority"}}
    documents: list[dict[str, Any]] = bson.decode(await ask(DATABASE, command, retry=True, timeout=20.0))["cursor"][
        "firstBatch"
    ]
    return documents


SCENARIOS = (
    Scenario(
        name="key-changes",
        what="two shards: transactions change shard keys while chunks move",
        topology=homes,
        run=changing,
    ),
)
