"""Speed as ratios to a reference server, in one alternating run.

Every workload runs on both servers in turn, several rounds each, and the medians are compared: a ratio of 1.2 means
that ours did 1.2 times as much in the same time. DOCSTORE_REFERENCE names the command that runs the reference mongod;
without it only our own figures are printed. The same document shapes, the same client and the same concurrency are used
on both sides; the servers are alone on their machine but for each other, and only one of them works at a time.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
from bson.code import Code
from pymongo.write_concern import WriteConcern

from scripts.deployment import Deployment, Member, stopped_at_end

Collection = pymongo.collection.Collection[dict[str, Any]]
POSTS = 200_000
MAP = Code("function () { for (var i in this.tags) { emit(this.tags[i], 1) } }")
REDUCE = Code("function (key, values) { var n = 0; for (var i in values) { n += values[i] } return n }")


@dataclass(frozen=True, slots=True)
class Workload:
    """`run(collection, posts)` does `units` of work; the target is the ratio wished for, if one was set."""

    name: str
    units: int
    run: Callable[[Collection, Collection], object]
    target: float | None = None


def post(number: int, dice: random.Random) -> dict[str, Any]:
    tags = [f"tag{dice.randint(1, 43)}" for _ in range(dice.randint(2, 5))]
    return {"id": str(number), "content": f"data for content {number}", "tags": tags, "n": number}


def insert_one(count: int, concern: WriteConcern) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        target = scratch.with_options(write_concern=concern)
        for number in range(count):
            target.insert_one({"id": str(number), "content": "data for content", "n": number})

    return run


def insert_many(count: int) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        dice = random.Random(1)
        for _batch in range(count // 1000):
            scratch.insert_many([post(number, dice) for number in range(1000)])

    return run


def by_id(count: int) -> Callable[[Collection, Collection], None]:
    def run(_: Collection, posts: Collection) -> None:
        dice = random.Random(2)
        for _number in range(count):
            assert posts.find_one({"_id": dice.randrange(POSTS)})

    return run


def update_by_id(count: int) -> Callable[[Collection, Collection], None]:
    def run(_: Collection, posts: Collection) -> None:
        dice = random.Random(3)
        for _number in range(count):
            posts.update_one({"_id": dice.randrange(POSTS)}, {"$inc": {"hits": 1}})

    return run


def delete_one(count: int) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        for number in range(count):
            scratch.delete_one({"_id": number})

    return run


def aggregate(*stages: dict[str, Any]) -> Callable[[Collection, Collection], None]:
    return lambda _, posts: [None for _ in posts.aggregate(list(stages), allowDiskUse=True)] and None


def in_threads(
    clients: int, run: Callable[[Collection, Collection], object]
) -> Callable[[Collection, Collection], None]:
    """The same work in as many threads of one driver at once."""

    def together(scratch: Collection, posts: Collection) -> None:
        threads = [threading.Thread(target=run, args=(scratch, posts)) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return together


def map_reduce(_: Collection, posts: Collection) -> None:
    posts.database.command("mapReduce", posts.name, map=MAP, reduce=REDUCE, out={"inline": 1})


WORKLOADS = [
    Workload("insert_one w:1", 2000, insert_one(2000, WriteConcern(1)), 1.2),
    Workload("insert_one j:true", 200, insert_one(200, WriteConcern(1, j=True))),
    Workload("insert_many of 1,000", 20_000, insert_many(20_000), 0.8),
    Workload("find by _id", 2000, by_id(2000), 1.2),
    Workload("update by _id", 2000, update_by_id(2000), 1.2),
    Workload("counted scan", POSTS, lambda _, posts: posts.count_documents({"n": {"$gte": 100_000}}), 1.0),
    Workload(
        "secondary range", 2000, lambda _, posts: list(posts.find({"id": {"$gte": "5", "$lt": "51"}}).limit(2000))
    ),
    Workload("full fetch", POSTS, lambda _, posts: [None for _ in posts.find(batch_size=10_000)]),
    Workload(
        "$unwind + $group", POSTS, aggregate({"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}})
    ),
    Workload("$sort + $limit 100", POSTS, aggregate({"$sort": {"content": 1}}, {"$limit": 100})),
    Workload("map-reduce inline", POSTS, map_reduce, 8.0),
    Workload("find by _id, 4 clients", 4000, in_threads(4, by_id(1000))),
    Workload("insert_one, 4 clients", 4000, in_threads(4, insert_one(1000, WriteConcern(1)))),
    Workload("find by _id, 64 clients", 6400, in_threads(64, by_id(100))),
]


def start_reference(stack: ExitStack, directory: Path) -> str:
    """The reference on a free port; gives its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    directory.mkdir()
    command = [*shlex.split(os.environ["DOCSTORE_REFERENCE"]), "--dbpath", str(directory), "--port", str(port)]
    process = subprocess.Popen([*command, "--bind_ip", "127.0.0.1"], stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"127.0.0.1:{port}"


def fill(posts: Collection) -> None:
    dice = random.Random(7)
    for start in range(0, POSTS, 10_000):
        posts.insert_many([{"_id": number, **post(number, dice)} for number in range(start, start + 10_000)])
    posts.create_index("id")


def measure(workload: Workload, scratch: Collection, posts: Collection) -> float:
    """Units per second of one round; the scratch collection is made anew before it."""
    scratch.drop()
    scratch.insert_one({"_id": "first"})
    began = time.perf_counter()
    workload.run(scratch, posts)
    return workload.units / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    options = parser.parse_args()
    with ExitStack() as stack:
        scratch_directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-bench-")))
        deployment = stack.enter_context(stopped_at_end(Deployment(scratch_directory / "ours")))
        deployment.start(Member("node", "mongod", []))
        addresses = {"ours": deployment.members["node"].address}
        if os.environ.get("DOCSTORE_REFERENCE"):
            addresses["reference"] = start_reference(stack, scratch_directory / "reference")
        databases = {}
        for side, address in addresses.items():
            client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(address, maxPoolSize=100)
            stack.callback(client.close)
            databases[side] = client.bench
            fill(client.bench.posts)
        print(f"{'':28}{'ours /s':>12}{'reference /s':>14}{'ratio':>8}{'target':>8}")
        for workload in WORKLOADS:
            if options.only not in workload.name:
                continue
            rates: dict[str, list[float]] = {side: [] for side in databases}
            for _ in range(options.rounds):
                for side, database in databases.items():
                    rates[side].append(measure(workload, database.scratch, database.posts))
            medians = {side: statistics.median(values) for side, values in rates.items()}
            reference = medians.get("reference")
            cells = f"{reference:14.0f}{medians['ours'] / reference:8.2f}" if reference else f"{'-':>14}{'-':>8}"
            target = f"{workload.target:8.1f}" if workload.target else f"{'':8}"
            print(f"{workload.name:28}{medians['ours']:12.0f}{cells}{target}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
