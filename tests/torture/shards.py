"""Two shards of three, config servers and two routers under faults, beside moves, index builds and drops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey

from tests.checkers.availability import longest_unavailability
from tests.checkers.drops import check_drops
from tests.checkers.durability import check_inserts
from tests.checkers.history import Anomaly, History, Kind, Operation, Outcome
from tests.checkers.many import check_many
from tests.checkers.members import Description, check_catalogs, check_hashes
from tests.checkers.ownership import OwnedRange, Stored, check_chunk_map, check_ownership
from tests.checkers.retries import check_retries
from tests.torture.backups import BackupMaker
from tests.torture.caller import DATABASE, World
from tests.torture.clients import Client
from tests.torture.columns import KEYSPACE, ColumnClient, make_table, of_columns, stored_rows
from tests.torture.faults import FAILURES, Fault, Nemesis, primary_of
from tests.torture.final_state import NotReached, catalog, documents, eventually, hashes, settled
from tests.torture.followers import Follower, judge_followers, time_of
from tests.torture.processes import Processes, Server
from tests.torture.report import Report
from tests.torture.sets import (
    COLUMN_CLIENTS,
    FOLLOWERS,
    LATE_PAUSE,
    QUIET_SECONDS,
    Plan,
    full_strength,
    initiate,
    judge_history,
    keep,
)
from tests.torture.sharded_clients import (
    CHANGING,
    CHANGING_COLLECTIONS,
    DOCUMENTS,
    KEYS,
    LATE,
    Changer,
    LateClient,
    ManyClient,
    Mover,
    concerns,
    late_writes,
    tags_of,
)
from tests.torture.transactions import COLLECTIONS, Banker, Transacting, judge_transactions, told

SHARDS = ("one", "two")
BY_ID = ("registers", "lists", "inserts", "accounts", "tlists")
"""Sharded by `_id`, which begins with the first letter of the name and a small number."""
CHUNKS = 10
COLUMNS_FROM = 100
"""The numbers of clients of columns begin here."""
STALE_SECONDS = 4.0
"""So long after a fault that hides a primary from its set some may still take the old one for the primary."""


@dataclass(slots=True)
class Cluster:
    """The servers by what they are."""

    processes: Processes
    config: list[Server]
    shards: dict[str, list[Server]]
    routers: list[Server]

    @property
    def groups(self) -> list[list[Server]]:
        return [*self.shards.values(), self.config]


class ClusterNemesis(Nemesis):
    """The faults of sets, and those between sets."""

    def kinds(self) -> list[Fault]:
        return [*super().kinds(), self.part_sets, self.kill_router, self.part_router]

    async def part_sets(self) -> None:
        """Two sets, or a set and the config servers, do not reach each other."""
        a, b = self.random.sample(list(self.groups), 2)
        await self._cut([(x.host, y.host) for x in a for y in b])

    async def kill_router(self) -> None:
        await self._kill([self._router()])

    async def part_router(self) -> None:
        """A router does not reach some servers."""
        router, group = self._router(), self._group()
        await self._cut([(router.host, self.random.choice(group).host)])

    def _router(self) -> Server:
        return self.random.choice([each for each in self.processes.servers.values() if each.program == "mongos"])


async def torture_shards(plan: Plan) -> Report:
    """Run, heal, judge."""
    processes = Processes(plan.directory, plan.network())
    try:
        cluster = await _build(processes, plan.members)
        nemesis = ClusterNemesis(processes, cluster.groups, plan.seed)
        addresses = [router.address for router in cluster.routers]
        world = World(History(time.monotonic), addresses, plan.seed, time.monotonic(), routed=True)
        start = await time_of(cluster.routers[0])
        followers = [
            Follower(FOLLOWERS + n, world, start, {DOCUMENTS: ("k",), LATE: ("k",)}) for n in range(plan.followers)
        ]
        following = [asyncio.create_task(each.run()) for each in followers]
        servers = [server for group in cluster.shards.values() for server in group]
        banker = Banker(20, world, servers)
        numbers = range(21, 21 + plan.transacting)
        runs = [banker.run(), *(Transacting(n, world, plan.pause, banker).run() for n in numbers)]
        backups = BackupMaker(world, addresses, plan.directory)
        runs.append(backups.run())
        clients = [asyncio.create_task(run) for run in (*(each.run() for each in _clients(plan, world)), *runs)]
        await asyncio.sleep(QUIET_SECONDS)
        await nemesis.run(plan.seconds)
        await nemesis.heal()
        await asyncio.sleep(QUIET_SECONDS)
        world.stopped = True
        ended = time.monotonic()
        await asyncio.gather(*clients)
        report = Report(
            title=f"two shards of {plan.members}, seed {plan.seed}",
            operations=world.history.operations,
            faults=nemesis.done,
            errors=world.errors,
            seconds=ended - world.started,
            unavailable=longest_unavailability(world.history, world.started, ended),
            anomalies=nemesis.anomalies,
            notes=world.notes(),
        )
        try:
            state = await _judge(report, plan, cluster, nemesis.hidden)
            report.anomalies += await judge_followers(followers, following, state, report.notes)
            report.anomalies += await backups.judge()
        except (NotReached, *FAILURES) as error:
            report.anomalies.append(Anomaly("not live", f"all faults are mended, and yet: {error!r}"))
        keep(plan, world.history, nemesis, report)
        return report
    finally:
        processes.stop()


def _clients(plan: Plan, world: World) -> Sequence[Client | ManyClient | LateClient | Mover | Changer | ColumnClient]:
    shards = list(SHARDS)
    return [
        *(Client(n, world, plan.pause) for n in range(6)),
        *(ManyClient(n, world, plan.pause) for n in range(6, 14)),
        *(Mover(n, world, shards, 0.3) for n in range(14, 16)),
        *(Changer(n, world, shards, 0.15) for n in range(16, 18)),
        *(LateClient(n, world, LATE_PAUSE) for n in range(18, 20)),
        *(ColumnClient(n, world, plan.pause) for n in range(COLUMNS_FROM, COLUMNS_FROM + COLUMN_CLIENTS)),
    ]


async def _build(processes: Processes, members: int) -> Cluster:
    config = [processes.add(f"config{n}", "configsvr", ["--replSet", "config"]) for n in range(members)]
    shards = {
        name: [processes.add(f"{name}{n}", "mongod", ["--shardsvr", "--replSet", name]) for n in range(members)]
        for name in SHARDS
    }
    configdb = "config/" + ",".join(server.address for server in config)
    routers = [processes.add(f"router{n}", "mongos", ["--configdb", configdb]) for n in range(2)]
    await processes.start(*config, *[server for group in shards.values() for server in group])
    await asyncio.gather(
        initiate("config", config, configsvr=True), *[initiate(name, group) for name, group in shards.items()]
    )
    await processes.start(*routers)
    ask = routers[0].ask
    for name, group in shards.items():
        hosts = ",".join(server.address for server in group)
        await ask({"addShard": f"{name}/{hosts}", "name": name}, timeout=30)
    await ask({"balancerStop": 1}, timeout=30)
    await ask({"enableSharding": DATABASE, "primaryShard": SHARDS[0]}, timeout=30)
    middles: dict[str, list[dict[str, Any]]] = {
        name: [{"_id": f"{name[0]}{number}"} for number in range(1, 4)] for name in BY_ID
    }
    middles[DOCUMENTS] = [{"k": number * KEYS // CHUNKS} for number in range(1, CHUNKS)]
    middles[LATE] = [{"k": number * KEYS // CHUNKS} for number in range(1, CHUNKS)]
    for name, points in middles.items():
        key = dict.fromkeys(points[0], 1)
        await ask({"shardCollection": f"{DATABASE}.{name}", "key": key}, timeout=30)
        for middle in points:
            await ask({"split": f"{DATABASE}.{name}", "middle": middle}, timeout=30)
    await make_table(routers)
    return Cluster(processes, config, shards, routers)


async def _judge(
    report: Report, plan: Plan, cluster: Cluster, hidden: Sequence[tuple[float, float]]
) -> dict[str, list[dict[str, Any]]]:
    """The documents of each collection in the end."""
    for group in cluster.groups:
        await full_strength(group)
        await settled(group, "settled" if group is cluster.config else DATABASE)
    primaries = {name: await _primary(group) for name, group in cluster.shards.items()}
    await eventually("moves and range deletions end", lambda: _unfinished(primaries), 120)
    for group in cluster.groups:
        await settled(group, DATABASE)
        for database in (DATABASE, KEYSPACE) if group is not cluster.config else ():
            report.anomalies += check_hashes({each.name: await hashes(each, database) for each in group})
    router, other = cluster.routers
    names = ("lists", "counters", "inserts", DOCUMENTS, LATE, *COLLECTIONS)
    state = {name: await documents(router.address, DATABASE, name) for name in names}
    operations = report.operations
    plain = [each for each in operations if not str(each.key).startswith("d-") and each.value != f"{CHANGING}"]
    judge_history(replace(report, operations=[each for each in plain if _is_of_sets(each)]), plan, state, None)
    tags = tags_of(state[DOCUMENTS])
    mine = [_sure(each, hidden) for each in operations if str(each.key).startswith(("d-", "group "))]
    report.anomalies += check_inserts(mine, tags)
    report.anomalies += check_many(mine, tags, concerns=concerns)
    report.anomalies += check_retries(late_writes(operations), tags_of(state[LATE]))
    report.anomalies += check_inserts([each for each in operations if of_columns(each)], await stored_rows(router))
    report.anomalies += await _ownership(primaries, router, [row["_id"] for row in state[DOCUMENTS]])
    report.anomalies += check_drops(operations, await _changing(router))
    report.anomalies += _views_differ(await _changing(router), await _changing(other))
    report.anomalies += await _catalogs(cluster, primaries, router)
    report.anomalies += judge_transactions(operations, state)
    report.notes.append(told(operations, state))
    return state


def _is_of_sets(operation: Operation) -> bool:
    """Whether it is one of those that clients of a set do too."""
    return operation.kind is not Kind.DROP and str(operation.key)[0] in "rlci" and "." not in str(operation.key)


def _sure(operation: Operation, hidden: Sequence[tuple[float, float]]) -> Operation:
    """The operation, or an unknown one in its place where an old primary may have answered for what it did not know."""
    if operation.kind not in (Kind.UPDATE_BY_ID, Kind.UPDATE_MANY) or not operation.ok:
        return operation
    if not any(began < operation.ended and operation.invoked < ended + STALE_SECONDS for began, ended in hidden):
        return operation
    return replace(operation, outcome=Outcome.UNKNOWN, ended=float("inf"))


async def _primary(group: Sequence[Server]) -> Server:
    primary = await primary_of(group)
    if primary is None:
        raise NotReached("the primary is gone again")
    return primary


async def _unfinished(primaries: Mapping[str, Server]) -> str:
    left = []
    for name, server in primaries.items():
        for collection in ("migrationCoordinators", "rangeDeletions"):
            rows = await documents(server.address, "config", collection)
            left += [f"{name}: {len(rows)} of {collection}"] if rows else []
    return ", ".join(left)


async def _ownership(primaries: Mapping[str, Server], router: Server, visible: list[str]) -> list[Anomaly]:
    collections = await documents(router.address, "config", "collections")
    uuid = next(row["uuid"] for row in collections if row["_id"] == f"{DATABASE}.{DOCUMENTS}")
    chunks = [row for row in await documents(router.address, "config", "chunks") if row.get("uuid") == uuid]
    ranges = [OwnedRange(_key(row["min"]["k"]), _key(row["max"]["k"]), row["shard"]) for row in chunks]
    stored = {
        name: [Stored(row["_id"], row["k"]) for row in await documents(server.address, DATABASE, DOCUMENTS)]
        for name, server in primaries.items()
    }
    found = check_chunk_map(ranges, float("-inf"), float("inf"))
    return found + check_ownership(ranges, stored, visible=visible)


def _key(value: Any) -> Any:
    if isinstance(value, MinKey):
        return float("-inf")
    return float("inf") if isinstance(value, MaxKey) else value


async def _changing(router: Server) -> set[str]:
    names = [f"c{number}" for number in range(CHANGING_COLLECTIONS)]
    return {row["_id"] for name in names for row in await documents(router.address, CHANGING, name)}


def _views_differ(one: set[str], two: set[str]) -> list[Anomaly]:
    strange = sorted(one ^ two)
    return [Anomaly("routers differ", f"{len(strange)} documents, as {strange[0]}")] if strange else []


async def _catalogs(cluster: Cluster, primaries: Mapping[str, Server], router: Server) -> list[Anomaly]:
    """Members of a shard have the same collections; owners of a sharded collection have the same of it."""
    found: list[Anomaly] = []
    by_primary: dict[str, dict[str, Description]] = {}
    for name, group in cluster.shards.items():
        catalogs = {server.name: await _catalog(server) for server in group}
        found += check_catalogs(catalogs)
        by_primary[name] = catalogs[primaries[name].name]
    chunks = await documents(router.address, "config", "chunks")
    owners: dict[str, list[str]] = {}
    for row in await documents(router.address, "config", "collections"):
        owning = {chunk["shard"] for chunk in chunks if chunk.get("uuid") == row.get("uuid")}
        owners[row["_id"]] = sorted(owning)
    sharded = {
        name: {namespace: held for namespace, held in catalog.items() if namespace in owners}
        for name, catalog in by_primary.items()
    }
    of_databases = {name: owning for name, owning in owners.items() if name.startswith((DATABASE, CHANGING))}
    return found + check_catalogs(sharded, of_databases)


async def _catalog(server: Server) -> dict[str, Description]:
    return {**await catalog(server, DATABASE), **await catalog(server, CHANGING)}
