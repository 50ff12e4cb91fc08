"""What a client sees of a chunk that moves under load: a cluster of real processes, the router between.

A chunk of 64 MB, once of documents of a kilobyte and once of 100 bytes, moves there and back between shards of one and
of three members, while clients read, insert and update in its range. Printed are the time of the whole move, that of
each of its phases as the donor has told the changelog, how long the longest operation of each kind took during the move
(and in the seconds before it, for comparison), the processor time of all servers (less what they would have taken
without the move), and how loaded the machine was. Of a write in the range the longest time is how long it was blocked.

So are databases of many collections that get another primary shard (`bench_database_moves`).
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bson
import pymongo
from pymongo.write_concern import WriteConcern

from scripts import bench_database_moves
from scripts.bench_routing import Processes
from scripts.deployment import Deployment, stopped_at_end
from scripts.measuring import processor_seconds

Collection = pymongo.collection.Collection[dict[str, Any]]
CHUNK_BYTES = 64 * 1000 * 1000
SHAPES = {"1 KB": 1000, "100 B": 100}
"""Bytes of a document."""
MEMBERS = (1, 3)
CLIENTS = 4
PAUSE_SECONDS = 0.01
"""Between two operations of a client: a load that leaves the processors something to do."""
CALM_SECONDS = 3.0
UPDATE = {"$inc": {"hits": 1}}


@dataclass
class Load:
    """Clients of a collection whose range of `id`s from 0 to `count` moves. `longest`: seconds, by kind."""

    collection: Collection
    count: int
    longest: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    done: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def running(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def begin(self) -> None:
        """Forget what was measured so far."""
        with self._lock:
            self.longest.clear()
            self.done = 0

    def _client(self, number: int) -> None:
        """One after the other: a read, an insert, an update; every other client waits for a majority."""
        concern = "majority" if number % 2 else 1
        target = self.collection.with_options(write_concern=WriteConcern(concern))
        turn = number
        while not self._ended.is_set():
            turn += CLIENTS
            place = turn * 7919 % self.count
            self._timed("read", lambda place=place: target.find_one({"id": place}))
            inserted = {"_id": bson.ObjectId(), "id": place + 0.5}
            self._timed(f"insert w:{concern}", lambda inserted=inserted: target.insert_one(inserted))
            self._timed(f"update w:{concern}", lambda place=place: target.update_one({"id": place}, UPDATE))

    def _timed(self, kind: str, work: Any) -> None:
        began = time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        with self._lock:
            self.longest[kind] = max(self.longest[kind], seconds)
            self.done += 1
        self._ended.wait(PAUSE_SECONDS)


def prepare(processes: Processes) -> None:
    """Chunks of 64 MB are moved and not split, and what has been moved away is deleted without pauses."""
    for number in range(2):
        processes.client(f"shard{number}-0").admin.command("setParameter", 1, rangeDeleterBatchDelayMS=0)
    settings = processes.router.config.settings
    settings.update_one({"_id": "chunksize"}, {"$set": {"value": 128}}, upsert=True)
    settings.update_one({"_id": "autosplit"}, {"$set": {"enabled": False}}, upsert=True)
    # It reads the settings anew.
    processes.router.admin.command("balancerStop")


def fill(processes: Processes, name: str, size: int) -> Collection:
    """`bench.<name>` by `id` with one chunk of 64 MB of documents of so many bytes, and neighbours without any."""
    admin, namespace = processes.router.admin, f"bench.{name}"
    count = CHUNK_BYTES // size
    admin.command("shardCollection", namespace, key={"id": 1})
    for edge in (0, count):
        admin.command("split", namespace, middle={"id": edge})
    collection: Collection = processes.router.bench[name]
    padding = "x" * (size - len(bson.encode({"_id": bson.ObjectId(), "id": 2**30, "text": ""})))
    for first in range(0, count, 10_000):
        collection.insert_many([{"id": number, "text": padding} for number in range(first, min(first + 10_000, count))])
    return collection


def move(processes: Processes, collection: Collection, count: int, to: str) -> dict[str, Any]:
    """Move the chunk under load; what was measured, in milliseconds where nothing else is said."""
    pids = [member.pid for member in processes.deployment.members.values()]
    load = Load(collection, count)
    namespace = collection.full_name
    with load.running():
        before, calm_since = sum(map(processor_seconds, pids)), time.perf_counter()
        time.sleep(CALM_SECONDS)
        calm = dict(load.longest)
        load.begin()
        spent, began = sum(map(processor_seconds, pids)), time.perf_counter()
        processes.router.admin.command("moveChunk", namespace, find={"id": 0}, to=to)
        seconds, used = time.perf_counter() - began, sum(map(processor_seconds, pids)) - spent
        used_calm = (spent - before) * seconds / (began - calm_since)
        done = load.done
        time.sleep(0.5)
    newest = [("time", pymongo.DESCENDING)]
    told = None
    while told is None:
        # The entry is written when the move has been answered.
        told = processes.router.config.changelog.find_one({"what": "moveChunk.from", "ns": namespace}, sort=newest)
    found: dict[str, Any] = {"total": seconds * 1000, "operations/s": done / seconds}
    found |= {"processors": used * 1000, "  of that for the move": (used - used_calm) * 1000}
    found |= {f"  {name}": value for name, value in told["details"].get("milliseconds", {}).items()}
    found |= {f"longest {kind}": (load.longest[kind] * 1000, calm.get(kind, 0) * 1000) for kind in sorted(load.longest)}
    return found


def settle(processes: Processes) -> None:
    """Return when the ranges that were moved away are deleted."""
    for number in range(2):
        client = processes.client(f"shard{number}-0")
        while client.config.rangeDeletions.count_documents({}):
            time.sleep(0.1)


def measure(directory: Path, only: str, rounds: int) -> None:
    """Print a table for each kind of cluster and of document; `only`: those whose name holds this text."""
    for members in MEMBERS:
        database = f"{members}-member shards, a database"
        if only in database:
            bench_database_moves.measure(directory, members, rounds)
        names = {shape: f"{members}-member shards, documents of {shape}" for shape in SHAPES}
        wanted = [shape for shape in SHAPES if only in names[shape]]
        if not wanted:
            continue
        with stopped_at_end(Deployment(directory / f"moves{members}")) as deployment:
            processes = Processes(deployment, members)
            prepare(processes)
            for shape in wanted:
                collection = fill(processes, f"of{SHAPES[shape]}", SHAPES[shape])
                print(f"{names[shape]}: milliseconds (longest in the {CALM_SECONDS:.0f} s before)")
                for turn in range(rounds):
                    found = move(processes, collection, CHUNK_BYTES // SHAPES[shape], f"shard{(turn + 1) % 2}")
                    print(f" round {turn + 1}, load of the machine {os.getloadavg()[0]:.1f}")
                    for name, value in found.items():
                        now, before = value if isinstance(value, tuple) else (value, None)
                        print(f"  {name:24}{now:10.0f}" + (f"{f'({before:.0f})':>10}" if before is not None else ""))
                    settle(processes)
                collection.drop()
