"""What routing costs by the number of chunks: the map of a router in this process, then a cluster of real processes.

Times are the best of several runs, in microseconds of this process, or in milliseconds as a client sees them.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pymongo
from bson.binary import Binary
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import documents_array
from docstore.query.filter.parse import parse_filter
from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap, move_chunk, split_chunk
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing, RoutingRead
from docstore.sharding.targeting import shards_for_filter
from docstore.sharding.version import DatabaseVersion, Lastmod
from mongod.migration.shard_filter import FilteringMetadata
from scripts.deployment import Deployment, Member, replica_set, stopped_at_end

COUNTS = (10, 1_000, 100_000)
KEY = ShardKey(("id",))
EPOCH = ObjectId()
UUID = Binary(bytes(16), 4)
DATABASE = DatabaseVersion(UUID, Timestamp(1, 1), 1)
NAMESPACE = "bench.routing"
PAGE = 2_000
SPLIT_POINTS = 8_000


def bound(value: int) -> Bound:
    return KEY.bound(bson.encode({"id": value}))


def chunk_list(count: int) -> list[Chunk]:
    """The chunks change from one shard to the other all the time: the worst case for what a shard owns."""
    edges = [KEY.min, *map(bound, range(0, 10 * (count - 1), 10)), KEY.max]
    return [
        Chunk(KeyRange(low, high), f"shard{number % 2}", Lastmod(1, number))
        for number, (low, high) in enumerate(itertools.pairwise(edges))
    ]


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Microseconds of the fastest run; short work is repeated within one."""
    started = time.perf_counter()
    work()
    repeats = max(1, int(0.01 / (time.perf_counter() - started + 1e-9)))
    found = []
    for _ in range(times):
        started = time.perf_counter()
        for _ in range(repeats):
            work()
        found.append((time.perf_counter() - started) / repeats)
    return min(found) * 1e6


def replies(chunks: Sequence[Chunk], *, full: bool) -> list[bytes]:
    """As config servers send them, page by page."""
    head = {
        "database": {"_id": "bench", "primary": "shard0", "partitioned": True, "version": DATABASE.to_document()},
        "collection": {
            "_id": NAMESPACE, "uuid": UUID, "key": {"id": 1}, "unique": False, "lastmodEpoch": EPOCH,
            "timestamp": DATABASE.timestamp,
        },
    }  # fmt: skip
    pages = []
    for at in range(0, len(chunks), PAGE):
        part = [bson.encode(chunk.document()) for chunk in chunks[at : at + PAGE]]
        tail = bson.encode({"full": full and at == 0, "more": at + PAGE < len(chunks), "chunks": []})
        assert tail.endswith(b"\5\0\0\0\0\0")
        body = bson.encode(head)[4:-1] + tail[4:-6] + documents_array(part) + b"\0"
        pages.append((len(body) + 4).to_bytes(4, "little") + body)
    return pages


def read(known: Routing | None, pages: Sequence[bytes]) -> Routing:
    reading = RoutingRead(NAMESPACE, known)
    for page in pages:
        routing = reading.take(page)
    assert routing is not None
    return routing


def in_process(count: int) -> dict[str, float]:
    """What a router or shard does with a map of so many chunks."""
    listed = chunk_list(count)
    chunks = ChunkMap(KEY, EPOCH, listed)
    routing = Routing(NAMESPACE, "shard0", CollectionRouting(NAMESPACE, UUID, False, chunks))
    middle = 10 * (count // 2) + 5
    key = bound(middle).key
    filters = {
        "equality target": {"id": middle},
        "range of 3 chunks": {"id": {"$gte": middle, "$lt": middle + 20}},
        "broadcast target": {"x": 1},
    }
    found = {"lookup": best(lambda: chunks.chunk_at(key))}
    for name, condition in filters.items():
        tree = parse_filter(bson.encode(condition))
        found[name] = best(lambda tree=tree: shards_for_filter(chunks, tree))  # type: ignore[misc]
    chunk = chunks.chunk_at(key)
    remaining = next(other for other in listed if other.shard == chunk.shard and other != chunk)
    moved, bumped = move_chunk(chunk, "shard0" if chunk.shard == "shard1" else "shard1", remaining, Lastmod(1, count))
    assert bumped is not None
    move = replies([replace(chunk, lastmod=chunks.version.lastmod), bumped, moved][1:], full=False)
    split = replies(split_chunk(chunk, [bound(middle + 1)], Lastmod(1, count)), full=False)
    found["refresh after a move"] = best(lambda: read(routing, move))
    found["refresh after a split"] = best(lambda: read(routing, split))
    after = read(routing, move)
    found["shard filter anew"] = best(lambda: FilteringMetadata(read(routing, move), "shard0"))
    FilteringMetadata(routing, "shard0")
    found["shard filter after a move"] = best(lambda: FilteringMetadata(after, "shard0"))
    pages = replies(listed, full=True)
    found["full refresh"] = best(lambda: read(None, pages), 3)
    return found


def shown(rows: dict[str, list[float]], unit: str) -> None:
    print(f"{'':30}" + "".join(f"{count:>14,}" for count in COUNTS) + f"  chunks, {unit}")
    for name, values in rows.items():
        print(f"{name:30}" + "".join(f"{value:14,.2f}" for value in values))


def measure_in_process() -> None:
    rows: dict[str, list[float]] = {}
    for count in COUNTS:
        for name, value in in_process(count).items():
            rows.setdefault(name, []).append(value)
    shown(rows, "microseconds")


class Processes:
    """A config server, two shards and a router; `bench` is sharded, its primary shard is shard0."""

    def __init__(self, deployment: Deployment, members: int = 1) -> None:
        """`members`: of each shard."""
        self.deployment = deployment
        config = Member("config", "configsvr", [])
        shards = [replica_set(f"shard{number}", members, []) for number in range(2)]
        deployment.start(config, *itertools.chain(*shards))
        self._initiate("configReplSet", [config], {"configsvr": True})
        deployment.start(Member("router", "mongos", ["--configdb", config.address]))
        self.router = self.client("router")
        for number, shard in enumerate(shards):
            self._initiate(f"shard{number}", shard, {})
            self.router.admin.command("addShard", f"shard{number}/{shard[0].address}", name=f"shard{number}")
        self.router.admin.command("enableSharding", "bench", primaryShard="shard0")
        self.router.admin.command("balancerStop")

    def _initiate(self, set_name: str, members: list[Member], fields: dict[str, Any]) -> None:
        """Make a set whose first member is primary."""
        rows = [{"_id": number, "host": each.address, "priority": 2 if number == 0 else 1}
                for number, each in enumerate(members)]  # fmt: skip
        client = self.client(members[0].name)
        client.admin.command("replSetInitiate", {"_id": set_name, "members": rows, **fields})
        while not client.admin.command("hello")["isWritablePrimary"]:
            time.sleep(0.02)

    def client(self, name: str) -> pymongo.MongoClient[dict[str, Any]]:
        """A client of one process."""
        return pymongo.MongoClient(self.deployment.members[name].address, directConnection=True)

    def shard_collection(self, name: str, chunks: int) -> None:
        """`bench.<name>` by `id`, cut to so many chunks at multiples of 10."""
        namespace = f"bench.{name}"
        self.router.admin.command("shardCollection", namespace, key={"id": 1})
        config = self.client("config")
        epoch = config.config.collections.find_one({"_id": namespace})["lastmodEpoch"]  # type: ignore[index]
        low: Any = bson.MinKey()
        for first in range(0, chunks - 1, SPLIT_POINTS):
            points = [{"id": 10 * value} for value in range(first, min(first + SPLIT_POINTS, chunks - 1))]
            config.admin.command(
                "_configsvrCommitChunkSplit", namespace, epoch=epoch, shard="shard0", min={"id": low},
                max={"id": bson.MaxKey()}, splitPoints=points,
            )  # fmt: skip
            low = points[-1]["id"]


def milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def with_processes(processes: Processes, count: int) -> dict[str, float]:
    """What a client waits for when a collection has so many chunks."""
    name, admin = f"c{count}", processes.router.admin
    processes.shard_collection(name, count)
    collection = processes.router.bench[name]
    found = {}

    def first_read() -> float:
        admin.command("flushRouterConfig")
        return milliseconds(lambda: collection.find_one({"id": 5}))

    found["first read of all"] = first_read()
    found["first read, new router"] = min(first_read() for _ in range(3))
    admin.command("moveChunk", f"bench.{name}", find={"id": 5}, to="shard1")
    places = iter(range(15, 10 * count, 10))

    def move() -> None:
        admin.command("moveChunk", f"bench.{name}", find={"id": next(places)}, to="shard1")

    def split() -> None:
        admin.command("split", f"bench.{name}", middle={"id": next(places)})

    found["move of an empty chunk"] = min(milliseconds(move) for _ in range(3))
    found["split of an empty chunk"] = min(milliseconds(split) for _ in range(3))
    processes.deployment.kill("shard0-0")
    processes.deployment.restart("shard0-0")
    found["first read, restarted shard"] = milliseconds(lambda: collection.find_one({"id": 10 * count}))
    return found


def measure(directory: Path) -> None:
    """Print both tables."""
    measure_in_process()
    rows: dict[str, list[float]] = {}
    with stopped_at_end(Deployment(directory)) as deployment:
        processes = Processes(deployment)
        for count in COUNTS:
            for name, value in with_processes(processes, count).items():
                rows.setdefault(name, []).append(value)
    shown(rows, "milliseconds")
