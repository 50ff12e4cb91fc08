"""Transactions through routers: how clients send them, and what a cluster that carries them out must look like.

A client sends a transaction through one router, as drivers do; where it does not hear how the commit has ended, it asks
another one, with the recovery token. What it was told of the cluster time it says with what it asks, so it sees what it
was told of before. Where clients tell each other too (`Times` that they share), each sees what any of them was told of.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import bson
from bson.timestamp import Timestamp

from docstore.bson import document_to_python, get_field
from docstore.errors import CommandError
from docstore.net import NetworkError, Pool
from tests.checkers.history import Anomaly
from tests.simulation.clients import DATABASE, Client
from tests.simulation.process import Machine
from tests.simulation.programs import address
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import (
    TRANSIENT,
    append_and_read,
    count,
    final_state,
    prepare,
    read_bank,
    take_free_name,
    take_name,
    transfer,
)
from tests.simulation.workloads import Workload
from tests.simulation.world import World

SHARDED = {"accounts": ("a1", "a3"), "lists": ("m",), "transfers": ("t2", "t4", "t7"), "counters": ("c0",)}
"""Collections that are sharded by `_id`, and where they are split; every second chunk is on the second shard."""
PLACES = {
    "accounts": ("a0", "a1", "a2", "a3", "a4"), "lists": ("k", "l", "m", "n"), "transfers": ("t1", "t3", "t5", "t8"),
    "counters": ("c0", "c1"),
}  # fmt: skip
"""Keys of theirs, of chunks that may be moved or split there."""
MOVE_SECONDS = 15.0
EARLIER = 30
"""So many cluster times ago is the longest that clients look back."""


async def a_bank(world: World, *, members: int = 3, shards: int = 2) -> SimulatedCluster:
    """The bank over the first two shards; what is not in `SHARDED` is on the first one."""
    cluster = SimulatedCluster(world, shards=shards, members=members, configs=1)
    await cluster.start()
    await cluster.admin({"enableSharding": DATABASE, "primaryShard": "shard0"})
    await prepare(Routers(cluster, world.client_dice, Times()))
    for name, points in SHARDED.items():
        namespace = f"{DATABASE}.{name}"
        await cluster.admin({"shardCollection": namespace, "key": {"_id": 1}})
        for point in points:
            await cluster.admin({"split": namespace, "middle": {"_id": point}})
        for point in points[::2]:
            await cluster.admin({"moveChunk": namespace, "find": {"_id": point}, "to": "shard1"})
    await cluster.settled()
    return cluster


class Times:
    """The newest cluster time that one client, or all that share this, have heard of."""

    def __init__(self) -> None:
        self.document: dict[str, Any] | None = None
        self.earlier: list[Timestamp] = []
        """What was heard before, the newest last."""

    def hear(self, reply: bytes) -> None:
        """Take in what a reply tells."""
        found = get_field(reply, "$clusterTime")
        told = None if found is None else document_to_python(found[1])
        if told is not None and (self.document is None or told["clusterTime"] > self.document["clusterTime"]):
            self.document = told
            self.earlier.append(told["clusterTime"])

    @property
    def time(self) -> Timestamp | None:
        return None if self.document is None else self.document["clusterTime"]


class Routers:
    """A client's way to the cluster: through one router until it is told to `change`. It is a `Target`."""

    def __init__(self, cluster: SimulatedCluster, dice: random.Random, times: Times) -> None:
        self._world = cluster.world
        self._routers = list(cluster.routers)
        self._dice = dice
        self._times = times
        self._pool = Pool(application="client", connect_timeout=1.0)
        self._router = dice.choice(self._routers)

    def earlier(self) -> Timestamp | None:
        """A moment that has been; none where nothing was heard yet."""
        return self._dice.choice(self._times.earlier[-EARLIER:]) if self._times.earlier else None

    def change(self, router: Machine | None = None) -> None:
        """Go on with that router, or with any."""
        self._router = router or self._dice.choice(self._routers)

    async def __call__(
        self, database: str, command: Mapping[str, Any], *, retry: bool = False, timeout: float = 5.0, **_options: Any
    ) -> bytes:
        """As `Target`. A command that may be repeated goes to some router when it got no answer."""
        attempts = 4 if retry else 1
        while True:
            attempts -= 1
            try:
                return await self._ask(self._router, database, command, timeout)
            except NetworkError:
                if not attempts:
                    raise
            except CommandError as error:
                if not attempts or "RetryableWriteError" not in error.labels:
                    raise
            await asyncio.sleep(0.1)
            self.change()

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[Any]:
        """To ask another router, if there is any."""
        other = self._dice.choice([each for each in self._routers if each is not self._router] or self._routers)

        async def ask(database: str, command: Mapping[str, Any], *, timeout: float) -> bytes:
            return await self._ask(other, database, command, timeout)

        yield ask

    async def _ask(self, router: Machine, database: str, command: Mapping[str, Any], timeout: float) -> bytes:
        try:
            reply = await self._pool.command(address(router.name), database, self._timed(command), timeout=timeout)
        except CommandError as error:
            if _must_be_carried_out(command) and TRANSIENT not in error.labels:
                self._world.fail(f"a transaction is refused as if it were wrong: {error!r}: {command}")
            raise
        self._times.hear(reply)
        return reply

    def _timed(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """With what was heard of the cluster time, by which a transaction must read what was heard of too."""
        timed = dict(command)
        if self._times.document is not None:
            timed["$clusterTime"] = self._times.document
            concern = command.get("readConcern", {})
            if concern.get("level") == "snapshot" and "startTransaction" in command and "atClusterTime" not in concern:
                timed["readConcern"] = {**concern, "afterClusterTime": self._times.time}
        return timed


def _must_be_carried_out(command: Mapping[str, Any]) -> bool:
    """Whether it is a statement of a transaction that nothing is wrong with; a hint may be of an index that is gone."""
    ends = "commitTransaction" in command or "abortTransaction" in command
    return "autocommit" in command and not ends and "hint" not in command


def clients_of(cluster: SimulatedCluster, *, clients: int) -> tuple[Workload, bool]:
    """Clients, and whether they tell each other of the cluster time."""
    dice, shared = cluster.world.client_dice, Times()
    together = dice.random() < 0.5

    def target() -> Routers:
        return Routers(cluster, random.Random(dice.getrandbits(64)), shared if together else Times())

    return Workload(cluster.world, target, clients=clients), together


def turn(client: Client) -> None:
    """The client goes on with some router."""
    assert isinstance(client.ask, Routers), "a client of a cluster"
    client.ask.change()
    client.elsewhere = client.ask.elsewhere
    client.hurries = client.dice.random() < 0.5


async def act(client: Client, work: Workload) -> None:
    """One operation of one client, through some router."""
    turn(client)
    chosen = client.dice.choices(
        (transfer, append_and_read, read_bank, read_earlier, count, take_name, take_free_name),
        (40, 35, 10, 8, 8, 3, 3),
    )[0]
    await chosen(client, work)


async def read_earlier(client: Client, work: Workload) -> None:
    """The bank as it was."""
    assert isinstance(client.ask, Routers), "a client of a cluster"
    await read_bank(client, work, at=client.ask.earlier())


async def move_about(cluster: SimulatedCluster, work: Workload, *, pause: float) -> None:
    """An operator who moves and splits chunks of what is sharded, whatever comes of it."""
    world = cluster.world
    dice = random.Random(world.client_dice.getrandbits(64))
    while not work.over:
        await asyncio.sleep(dice.expovariate(1 / pause))
        name = dice.choice(sorted(SHARDED))
        place, shard = dice.choice(PLACES[name]), dice.choice(sorted(cluster.shards))
        command: dict[str, Any] = {"moveChunk": f"{DATABASE}.{name}", "find": {"_id": place}, "to": shard}
        if dice.random() < 0.1:
            command = {"split": f"{DATABASE}.{name}", "middle": {"_id": place}}
        try:
            async with asyncio.timeout(MOVE_SECONDS):
                world.tell("operator", str(command))
                await cluster.admin(command, on=dice.choice(cluster.routers))
                world.tell("operator", f"{command}: done")
                world.counts["moves"] = world.counts.get("moves", 0) + ("to" in command)
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell("operator", f"{command}: {error!r}"[:200])


async def final_of(cluster: SimulatedCluster) -> tuple[dict[str, list[dict[str, Any]]], list[Anomaly]]:
    """(what there is in the end, what is not where it belongs): each document is on one shard, and each router shows
    it once.
    """
    found: list[Anomaly] = []
    shown = []
    for machine in cluster.routers:
        ask = Routers(cluster, cluster.world.client_dice, Times())
        ask.change(machine)
        shown.append(await final_state(ask))
    for machine, other in zip(cluster.routers, shown, strict=True):
        for name, documents in other.items():
            if _by_id(documents) != _by_id(shown[0][name]):
                found.append(
                    Anomaly("routers differ", f"{machine.name} shows of {name} {documents}, and not {shown[0]}")
                )
    for name, documents in shown[0].items():
        stored = []
        for members in cluster.shards.values():
            stored += await cluster.primary_documents(members, DATABASE, name)
        if _by_id(stored) != _by_id(documents):
            found.append(Anomaly("not in one place", f"shards hold of {name} {stored}, and {documents} is shown"))
    return shown[0], found


def _by_id(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(str(bson.encode(each)) for each in documents)
