"""A sharded cluster of simulated machines: config servers, shards that are sets, routers; and its state at the end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.net import NetworkError, Pool
from docstore.node.process.settings import ClusterRole
from docstore.sharding.commitment import COORDINATORS as COMMITS
from docstore.sharding.ddl.operation import COORDINATORS as CHANGES
from docstore.sharding.ddl.operation import HOLDS
from docstore.sharding.migration import COORDINATORS as MIGRATIONS
from docstore.sharding.migration import DATABASE_DELETIONS, RANGE_DELETIONS
from tests.checkers.history import Anomaly
from tests.checkers.members import Description, check_catalogs
from tests.checkers.ownership import OwnedRange, Stored, check_chunk_map, check_ownership
from tests.simulation.clients import Target
from tests.simulation.process import Machine
from tests.simulation.programs import address, router
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.world import Broken, World

SETTINGS = {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500, "catchUpTimeoutMillis": 2000}
LIVELY_SECONDS = 60.0
COLLECTION = "test.docs"
LEAST, MOST = -1, 1_000_000
"""Beyond all keys of `COLLECTION`, which is sharded by a number: `k` or, in some scenarios, the `_id`."""


class SimulatedCluster:
    """Shards "shard0", "shard1", ...; machines c0.., s0m0.., r0.. . `spares`: sets that are no shards yet."""

    def __init__(
        self, world: World, *, shards: int = 2, members: int = 3, configs: int = 3, routers: int = 2, spares: int = 0,
        oplog_bytes: int | None = None,
        hints: bool = False,
    ) -> None:  # fmt: skip
        self.world = world
        self.config = SimulatedSet(world, "config", configs, role=ClusterRole.CONFIG, prefix="c")
        sets = {
            f"shard{number}": SimulatedSet(
                world, f"shard{number}", members, role=ClusterRole.SHARD, prefix=f"s{number}m", oplog_bytes=oplog_bytes
            )
            for number in range(shards + spares)
        }
        self.shards = dict(list(sets.items())[:shards])
        self.spares = dict(list(sets.items())[shards:])
        program = router("config", self.config.hosts, hints=hints)
        self.routers = [world.machine(f"r{number}", program) for number in range(routers)]
        self.pool = Pool(application="administrator", connect_timeout=1.0)

    @property
    def sets(self) -> list[SimulatedSet]:
        return [self.config, *self.shards.values(), *self.spares.values()]

    @property
    def machines(self) -> list[Machine]:
        """All, the routers too."""
        return [*(machine for each in self.sets for machine in each.machines), *self.routers]

    async def start(self, config_settings: Mapping[str, Any] = SETTINGS) -> None:
        """Sets initiated, routers up, shards added, balancing off."""
        shards = [each.start(settings=SETTINGS) for each in (*self.shards.values(), *self.spares.values())]
        await asyncio.gather(self.config.start(settings=config_settings), *shards)
        for machine in self.routers:
            machine.start()
        await self.config.until(lambda: all(machine.ready for machine in self.routers), 20.0, "routers started")
        await self.admin({"balancerStop": 1})
        for name, each in self.shards.items():
            await self.admin({"addShard": f"{name}/{','.join(each.hosts)}"})

    async def add_spare(self) -> None:
        """Make a shard of one of the spare sets. Errors: CommandError, NetworkError; then it may be asked for again."""
        name = min(self.spares)
        await self.admin({"addShard": f"{name}/{','.join(self.spares[name].hosts)}"})
        self.shards[name] = self.spares.pop(name)

    async def admin(self, command: Mapping[str, Any], database: str = "admin", *, on: Machine | None = None) -> Any:
        """A command through a router. Errors: CommandError, NetworkError."""
        where = address((on or self.routers[0]).name)
        return bson.decode(await self.pool.command(where, database, command, timeout=60.0))

    async def shard_collection(self, points: list[int], namespace: str = COLLECTION, key: str = "k") -> None:
        """Shard by the key, split at the points, every second chunk on the second shard."""
        await self.admin({"enableSharding": namespace.partition(".")[0], "primaryShard": "shard0"})
        await self.admin({"shardCollection": namespace, "key": {key: 1}})
        for point in points:
            await self.admin({"split": namespace, "middle": {key: point}})
        for point in points[::2]:
            await self.admin({"moveChunk": namespace, "find": {key: point}, "to": "shard1"})

    # The end

    async def settled(self) -> None:
        """Liveness of every set and router, then of what shards do in the background."""
        for each in self.sets:
            await each.settled(LIVELY_SECONDS)
        await self.config.until(lambda: all(machine.ready for machine in self.routers), LIVELY_SECONDS, "routers up")
        end = self.world.now + LIVELY_SECONDS
        while True:
            left = await self._left_undone()
            if not left:
                return
            if self.world.now > end:
                raise Broken(f"not in {LIVELY_SECONDS:g} s: an end of {left}")
            await asyncio.sleep(0.2)

    async def _left_undone(self) -> str:
        """Migrations, range deletions, changes of definitions, commits that are under way, and what is held."""
        for name, each in self.shards.items():
            for namespace in (MIGRATIONS, RANGE_DELETIONS, DATABASE_DELETIONS, CHANGES, HOLDS, COMMITS):
                database, _, collection = namespace.partition(".")
                for found in await self.primary_documents(each, database, collection):
                    if not found.get("released"):
                        return f"{collection} of {name}: {found}"
        return ""

    async def primary_documents(self, of: SimulatedSet, database: str, collection: str) -> list[dict[str, Any]]:
        """What the set's primary holds."""
        primary = of.primary()
        if primary is None:
            raise Broken(f"{of.name} has no primary")
        reply = await of.command(primary, database, {"find": collection, "batchSize": 100_000})
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return found

    async def ownership(self, expected: set[Any], namespace: str = COLLECTION, key: str = "k") -> list[Anomaly]:
        """Every document has one owner and is seen once."""
        database, _, name = namespace.partition(".")
        collections = await self.primary_documents(self.config, "config", "collections")
        record = next(each for each in collections if each["_id"] == namespace)
        chunks = await self.primary_documents(self.config, "config", "chunks")
        ranges = [
            OwnedRange(_number(each["min"][key], LEAST), _number(each["max"][key], MOST), each["shard"])
            for each in chunks
            if each.get("uuid") == record["uuid"] or each.get("ns") == namespace
        ]
        stored = {
            shard: [Stored(each["_id"], each[key]) for each in await self.primary_documents(members, database, name)]
            for shard, members in self.shards.items()
        }
        found = check_chunk_map(ranges, LEAST, MOST)
        for machine in self.routers:
            shown = await self.all_documents(machine, database, name)
            visible = [each["_id"] for each in shown]
            found += check_ownership(ranges, stored, visible=visible, expected=expected)
        return found

    async def all_documents(self, machine: Machine, database: str, collection: str) -> list[dict[str, Any]]:
        """As that router shows them, over a new connection: older ones may be to the process before."""
        command = {"find": collection, "batchSize": 100_000, "readConcern": {"level": "majority"}}
        pool = Pool(application="administrator", connect_timeout=1.0)
        try:
            reply = bson.decode(await pool.command(address(machine.name), database, command, timeout=60.0))
        finally:
            await pool.close()
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        assert reply["cursor"]["id"] == 0
        return found

    async def catalogs(self, databases: tuple[str, ...] = ("test",)) -> list[Anomaly]:
        """Options and indexes of the sharded collections on the shards that own something of them."""
        found: dict[str, dict[str, Description]] = {}
        for shard, members in self.shards.items():
            primary = members.primary()
            assert primary is not None
            found[shard] = {}
            for database in databases:
                reply = await members.command(primary, database, {"listCollections": 1, "cursor": {}})
                for each in reply["cursor"]["firstBatch"]:
                    indexes = await members.command(primary, database, {"listIndexes": each["name"], "cursor": {}})
                    options = {**each.get("options", {}), "uuid": each["info"].get("uuid")}
                    found[shard][f"{database}.{each['name']}"] = Description(
                        options, {index["name"]: index for index in indexes["cursor"]["firstBatch"]}
                    )
        owners = await self._owners()
        kept = {shard: {ns: found[shard][ns] for ns in found[shard] if shard in owners.get(ns, ())} for shard in found}
        return check_catalogs(kept, owners)

    async def member_anomalies(self) -> list[Anomaly]:
        """What members of one set hold differently. Routers and shards write to the config servers at any time, so what
        is found once is looked for again.
        """
        for _ in range(5):
            found = await self.config.anomalies(("config",))
            for each in self.shards.values():
                found += await each.anomalies(("test", "config"))
            if not found:
                return []
            await asyncio.sleep(0.3)
        return found

    async def _owners(self) -> dict[str, set[str]]:
        records = await self.primary_documents(self.config, "config", "collections")
        chunks = await self.primary_documents(self.config, "config", "chunks")
        return {
            record["_id"]: {each["shard"] for each in chunks if each.get("uuid") == record["uuid"]}
            for record in records
            if record["_id"].startswith("test.") and not record.get("dropped")
        }


def _number(bound: Any, infinite: int) -> Any:
    return bound if isinstance(bound, int | float) else infinite


def of_routers(routers: list[Machine], dice: random.Random) -> Target:
    """Asks some router, another one when that one does not answer and the command may be repeated."""
    pool = Pool(application="client", connect_timeout=1.0)

    async def ask(
        database: str, command: Mapping[str, Any], *, retry: bool = False, timeout: float = 5.0, **_options: Any
    ) -> bytes:
        attempts = 4 if retry else 1
        while True:
            attempts -= 1
            try:
                return await pool.command(address(dice.choice(routers).name), database, command, timeout=timeout)
            except NetworkError:
                if not attempts:
                    raise
            except CommandError as error:
                if not attempts or "RetryableWriteError" not in error.labels:
                    raise
            await asyncio.sleep(0.1)

    return ask
