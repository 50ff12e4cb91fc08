"""Chunks change hands all the time on shards of one member: cheap, so that what routers see of a move is seen often.

In some schedules the answers of the config servers come late to one of the shards: a router and the recipient know of
the new owner then while the donor waits to hear of it. In all of them one router asks for its routing again and again.
Where clients read from secondaries, one of them looks at each handover: it writes to the new owner by the fresh router
and reads what it wrote by the stale one.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
from collections.abc import Awaitable, Hashable, Sequence
from contextlib import suppress
from typing import Any

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.history import Anomaly, Kind, Operation
from tests.simulation.clients import Client, Refused, Target, Unknown, quietly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.moments import GIVEN_AWAY, ROUTING_READ
from tests.simulation.process import Incarnation, Machine
from tests.simulation.scenarios import moves
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster, of_routers
from tests.simulation.transactions import OpenTransaction
from tests.simulation.workloads import Workload
from tests.simulation.world import World

CHUNKS, WIDTH = 8, 50
"""Every chunk begins at a multiple of the width, where its documents are."""
MOVED = (0, 0, 1, 2)
HOT = (0, 0, 0, 0, 1, 1, 2, 5)
"""Numbers of chunks: those that move, and those that are asked for."""
STAYING = (6, 7)
"""Of chunks that do not move, one on each shard."""
SECONDS = 1.2
ANSWER_SECONDS = 5.0
"""How long an operator waits for an answer: a router whose power has gone says nothing."""
PLENTY = 120
"""Documents, at least, that statements over many change: more on some shard than in one write unit."""


async def a_small_cluster(world: World, members: int = 1, key: str = "k", width: int = WIDTH) -> SimulatedCluster:
    cluster = SimulatedCluster(world, members=members, configs=1)
    await cluster.start()
    await cluster.shard_collection([number * width for number in range(1, CHUNKS)], key=key)
    return cluster


async def keep_fresh(cluster: SimulatedCluster, over: list[bool]) -> None:
    """One router never knows less than the config servers."""
    router = cluster.routers[0]
    while not over:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await cluster.admin({"flushRouterConfig": 1}, on=router)
        except (CommandError, NetworkError, TimeoutError) as error:
            cluster.world.tell("operator", f"flushRouterConfig: {error!r}")
        await asyncio.sleep(0.02)


def forget(often: float, dice: random.Random, process: Incarnation, moment: str) -> None:
    """At some of the moments at which a shard has read its routing, have it forgotten in the next step."""
    if moment == ROUTING_READ and dice.random() < often:
        asyncio.get_running_loop().call_soon(process.node.node.shard_filter.forget, moves.COLLECTION)


class Documents(moves.Documents):
    """Some are on each chunk, and reads of one key go to its owner alone."""

    sharded_by = ("k", WIDTH)
    """The shard key, and how far the beginnings of chunks are from each other."""
    clients = 8
    movers = 1
    """How many move chunks, side by side."""
    lateness = (0.0, 0.02, 0.1)
    """How many seconds later what the config servers say comes to one of the shards."""
    forgetful = 0.0
    """How often a shard forgets the routing as soon as it has read it, as when a move begins just then."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[Hashable, int | None] = {}
        self._own: dict[int, tuple[str, int]] = {}
        """Of each client a document that changes its shard key, and this key as long as the client knows it."""
        self._rekeyings: list[Operation] = []
        self.refused: list[Anomaly] = []
        """What should have been done and was not."""

    def routers(self, cluster: SimulatedCluster) -> list[list[Machine]]:
        """Those that the clients ask, one after another."""
        return [cluster.routers]

    async def look_at_handovers(self, cluster: SimulatedCluster, work: Workload, over: list[bool]) -> None:
        """What goes on beside the clients until it is over."""

    async def anomalies(self, cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
        """What was refused, and what is not as it must be in the end."""
        found = await moves.anomalies(cluster, work, concerns=self.concerns, key=self.sharded_by[0])
        return [*self.refused, *found]

    async def act(self, client: Client, work: Workload) -> None:
        """More of what shows a chunk that is owned by nobody, or by two."""
        kind = client.dice.random()
        if kind < 0.35:
            await self.find(client, client.dice.choice(HOT) * WIDTH)
        elif kind < 0.45:
            await self.find_all(client)
        elif kind < 0.6 or not self.known:
            await self.insert(client, work)
        elif kind < 0.67:
            await self.rekey(client, work)
        else:
            await super().act(client, work)

    def document(self, client: Client, key: str) -> dict[str, Any]:
        """See the base."""
        number = client.dice.choice(HOT) * WIDTH
        self._keys[key] = number
        return {"_id": key, "k": number, "tags": []}

    async def rekey(self, client: Client, work: Workload) -> None:
        """Give the client's own document another shard key, which is refused where that is another shard's."""
        number = client.dice.choice(HOT) * WIDTH
        key, before = self._own.pop(client.number, ("", 0))
        if not key:
            key = f"{client.number}-{work.value()}"
            self._keys[key] = None
            operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
            command: dict[str, Any] = {"insert": moves.NAME, "documents": [{"_id": key, "k": number, "tags": []}]}
        else:
            tag = work.value()
            operation = client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, tag, w="majority")
            change = {"$set": {"k": number}, "$push": {"tags": tag}}
            command = {"update": moves.NAME, "updates": [{"q": {"_id": key, "k": before}, "u": change}]}
            self._rekeyings.append(operation)

        async def write() -> int:
            return int((await client.write(command, "majority", retryable=True))["n"])

        await client.record(operation, write())
        if operation.ok:
            self._own[client.number] = (key, number)
            operation.result = operation.result if operation.kind is Kind.UPDATE_BY_ID else None

    def concerns(self, operation: Operation, key: Hashable) -> bool:
        """Whether an operation over many documents means that one; of one whose key changes only those over all.

        While the shard key of a document changes, an update of many that is begun again for a part of the keys may have
        seen to its new place before and come to its old one afterwards: it means only what stays where it is.
        """
        if operation.kind is Kind.UPDATE_MANY:
            return not any(each.key == key and _overlap(each, operation) for each in self._rekeyings)
        return operation.kind is not Kind.FIND_ALL or operation.value in (None, self._keys[key])


def _overlap(one: Operation, other: Operation) -> bool:
    return one.invoked < other.ended and other.invoked < one.ended


class ManyDocuments(Documents):
    """Changed by statements over many documents, which take a while. Nothing goes wrong, so none may fail.

    Most of the moves that are asked for are refused, because another is under way, but make the donor read its routing.
    """

    movers = 2
    forgetful = 0.5

    async def act(self, client: Client, work: Workload) -> None:
        """See the base. Many in the beginning, and then more and less of them."""
        if client.number < len(STAYING):
            await self.have_others_wait(client, work)
        elif len(self.known) < client.dice.uniform(1.0, 1.3) * PLENTY:
            await self.insert_several(client, work)
        elif client.dice.random() < 0.7:
            await self.update_many(client, work)
        else:
            await self.delete_several(client)

    def routers(self, cluster: SimulatedCluster) -> list[list[Machine]]:
        """See the base. A transaction is with one router."""
        return [[each] for each in cluster.routers]

    async def have_others_wait(self, client: Client, work: Workload) -> None:
        """Have a document of a shard in a transaction for a while: statements over many stop half-way where they meet
        it, and chunks come meanwhile.
        """
        key = f"staying {client.number}"
        if key not in self._keys:
            self._keys[key] = STAYING[client.number] * WIDTH
            operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
            row = {"_id": key, "k": self._keys[key], "tags": []}
            command = {"insert": moves.NAME, "documents": [row]}
            await self._all(client, [operation], client.write(command, "majority", retryable=True), [key])
            return
        tag = work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, tag, w="majority")
        where = {"_id": key, "k": self._keys[key]}
        changing = OpenTransaction(client).change_alone(moves.NAME, where, {"$push": {"tags": tag}}, stays=0.06)
        await client.record(operation, changing)

    async def insert_several(self, client: Client, work: Workload) -> None:
        keys = [f"{client.number}-{work.value()}" for _ in range(PLENTY // 10)]
        operations = [client.history.invoke(client.number, Kind.INSERT, key, w="majority") for key in keys]
        command = {"insert": moves.NAME, "documents": [self.document(client, key) for key in keys]}
        await self._all(client, operations, client.write(command, "majority", retryable=True), keys)
        self.known += keys

    async def update_many(self, client: Client, work: Workload) -> None:
        """See the base."""
        tag = work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_MANY, moves.NAME, tag, w="majority")
        # By the index of the shard key, so that the documents that stay come last.
        update = {"q": {"k": {"$gte": 0}}, "u": {"$push": {"tags": tag}}, "multi": True}
        await self._all(client, [operation], client.write({"update": moves.NAME, "updates": [update]}, "majority"))

    async def delete_several(self, client: Client) -> None:
        client.dice.shuffle(self.known)
        keys, self.known[-PLENTY // 10 :] = self.known[-PLENTY // 10 :], []
        operations = [client.history.invoke(client.number, Kind.DELETE, key, w="majority") for key in keys]
        deletes = [{"q": {"_id": {"$in": keys}}, "limit": 0}]
        if client.dice.random() < 0.5:
            # By statements of one document each.
            deletes = [{"q": {"_id": key}, "limit": 1} for key in keys]
        await self._all(client, operations, client.write({"delete": moves.NAME, "deletes": deletes}, "majority"), keys)

    async def _all(
        self, client: Client, operations: list[Operation], writing: Awaitable[dict[str, Any]], keys: Sequence[str] = ()
    ) -> None:
        """The operations that one command is, for each of the `keys` one. It must succeed, and meet all of these."""
        try:
            reply = await writing
        except (Refused, Unknown) as error:
            self.refused.append(Anomaly("refused beside moves", str(error), tuple(operations[:1])))
            for operation in operations:
                client.history.unknown(operation)
            return
        if keys and reply["n"] != len(keys):
            self.refused.append(Anomaly("not all met", f"{reply['n']} of {len(keys)}", tuple(operations[:1])))
        for operation in operations:
            client.history.ok(operation, None if operation.kind is Kind.INSERT else reply["n"])


class FarDocuments(Documents):
    """Read from secondaries too, which must have got to the time of all that was acknowledged."""

    lateness = (0.0, 0.05, 0.2)

    def __init__(self) -> None:
        super().__init__()
        self._times: dict[str, Any] = {}

    async def act(self, client: Client, work: Workload) -> None:
        """See the base. Now and then the log of the first shard moves on, whatever waits for a chunk there."""
        if client.dice.random() < 0.2:
            await quietly(client.command({"insert": "unsharded", "documents": [{}]}))
        else:
            await super().act(client, work)
        if client.times and (not self._times or client.times["operationTime"] > self._times["operationTime"]):
            self._times = client.times

    async def look_at_handovers(self, cluster: SimulatedCluster, work: Workload, over: list[bool]) -> None:
        """While the donor waits to hear that a chunk is given away, write to the new owner, have the logs of both
        shards go past that, and read from secondaries by the router that knows nothing.
        """
        world, given_away = cluster.world, asyncio.Event()
        world.moments.append(lambda _process, moment: given_away.set() if moment == GIVEN_AWAY else None)
        dice = random.Random(world.client_dice.getrandbits(64))
        fresh, stale = cluster.routers
        writer = Client(self.clients, work.history, of_routers([fresh], dice), dice)
        reader = Client(self.clients + 1, work.history, of_routers([stale], dice), dice)
        for shard in cluster.shards:
            await cluster.admin({"enableSharding": f"on_{shard}", "primaryShard": shard}, on=fresh)
        while not over:
            with suppress(TimeoutError, CommandError, NetworkError):
                await asyncio.wait_for(given_away.wait(), SECONDS)
                given_away.clear()
                await cluster.admin({"flushRouterConfig": 1}, on=fresh)
                chunks = await cluster.primary_documents(cluster.config, "config", "chunks")
                # The donor has got the same major version on a chunk that stays, with the next minor one.
                moved = max(chunks, key=lambda chunk: (chunk["lastmod"].time, -chunk["lastmod"].inc))
                key = f"{writer.number}-{work.value()}"
                least = moved["min"]["k"]
                number = self._keys[key] = least if isinstance(least, int) else 0
                operation = writer.history.invoke(writer.number, Kind.INSERT, key, w="majority")
                command = {"insert": moves.NAME, "documents": [{"_id": key, "k": number, "tags": []}]}
                await writer.record(operation, writer.write(command, "majority", retryable=True))
                operation.result = None
                world.tell("handover", str(operation))
                self._times = writer.times
                for shard in cluster.shards:
                    await cluster.admin({"insert": "noise", "documents": [{}]}, f"on_{shard}", on=fresh)
                await self.find(reader, number)
                world.tell("handover", "; ".join(map(str, work.history.operations[-1:])))

    async def hesitate(self, client: Client) -> None:
        """Chunks may change hands after the time that the read asks for."""
        if client.number < self.clients and client.dice.random() < 0.3:
            await asyncio.sleep(client.dice.uniform(0.0, 0.3))

    def reading(self, client: Client) -> dict[str, Any]:
        """See the base."""
        if not self._times or client.dice.random() < 0.2:
            return super().reading(client)
        return {
            "readConcern": {"level": "majority", "afterClusterTime": self._times["operationTime"]},
            "$clusterTime": self._times["$clusterTime"],
            "$readPreference": {"mode": "secondary"},
            "maxTimeMS": 3000,
        }


async def move_to_and_fro(
    cluster: SimulatedCluster, dice: random.Random, over: list[bool], key: str, width: int
) -> None:
    """Few chunks, each back again as soon as it has come."""
    world = cluster.world
    while not over:
        point = dice.choice(MOVED) * width
        for shard in dice.sample(sorted(cluster.shards), 2):
            try:
                command = {"moveChunk": moves.COLLECTION, "find": {key: point}, "to": shard}
                async with asyncio.timeout(ANSWER_SECONDS):
                    await cluster.admin(command, on=dice.choice(cluster.routers))
                world.tell("operator", f"moved the chunk of {point} to {shard}")
                world.counts["moves"] = world.counts.get("moves", 0) + 1
            except (CommandError, NetworkError, TimeoutError) as error:
                world.tell("operator", f"the chunk of {point} to {shard}: {error!r}"[:200])
        await asyncio.sleep(dice.expovariate(1 / 0.02))


async def handing_over(
    world: World, cluster: SimulatedCluster, kind: type[Documents] = Documents, faults: Sequence[str] = ()
) -> None:
    dice = world.fault_dice
    documents = kind()
    world.hiccups = dice.choice((0.0, 0.005))
    world.network.base, world.network.jitter = dice.choice(((3e-4, 5e-4), (5e-4, 5e-3)))
    deaf = dice.choice(list(cluster.shards.values())).machines[0]
    world.network.slow[cluster.config.machines[0].name, deaf.name] = dice.choice(documents.lateness)
    numbers = random.Random(world.client_dice.getrandbits(64))
    world.moments.append(functools.partial(forget, documents.forgetful, random.Random(numbers.getrandbits(64))))
    routers = itertools.cycle(documents.routers(cluster))

    def target() -> Target:
        return of_routers(next(routers), random.Random(numbers.getrandbits(64)))

    work = Workload(world, target, clients=documents.clients)
    work.start(documents.act)
    over: list[bool] = []
    running = [asyncio.ensure_future(keep_fresh(cluster, over))]
    running.append(asyncio.ensure_future(documents.look_at_handovers(cluster, work, over)))
    for _ in range(documents.movers):
        dice = random.Random(numbers.getrandbits(64))
        running.append(asyncio.ensure_future(move_to_and_fro(cluster, dice, over, *documents.sharded_by)))
    if faults:
        nemesis = ClusterNemesis(cluster)
        await nemesis.run(2 * SECONDS, faults, count=2)
        nemesis.end()
    else:
        await asyncio.sleep(SECONDS)
    over.append(True)
    await asyncio.gather(*running)
    await work.stop()
    world.network.slow.clear()
    await cluster.settled()
    judge(await documents.anomalies(cluster, work))
    world.counts |= {"operations": len(work.history), "acknowledged": sum(each.ok for each in work.history)}


SCENARIOS = (
    Scenario(
        name="handover",
        what="two shards of one: chunks move while clients write and read through a fresh and a stale router",
        topology=a_small_cluster,
        run=handing_over,
    ),
    Scenario(
        name="handover-many",
        what="two shards of one: chunks move while statements over many documents are half-way",
        topology=a_small_cluster,
        run=functools.partial(handing_over, kind=ManyDocuments),
    ),
    Scenario(
        name="handover-secondaries",
        what="two shards of three: chunks move while clients read from secondaries, as late as what they know of",
        topology=functools.partial(a_small_cluster, members=3),
        run=functools.partial(handing_over, kind=FarDocuments),
    ),
)
