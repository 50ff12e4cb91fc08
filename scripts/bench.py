"""Speed as ratios to a reference server, in one alternating run.

Every workload runs on both servers in turn, several rounds each, and the medians are compared: a ratio of 1.2 means
that ours did 1.2 times as much in the same time. DOCSTORE_REFERENCE names the command that runs the reference mongod;
without it only our own figures are printed. The same document shapes, the same client and the same concurrency are used
on both sides; the servers are alone on their machine but for each other, and only one of them works at a time.

Beside the ratio stands the processor time that each server took for a unit of work, in microseconds: unlike the rates
it does not depend on what else the machine does. `--start` measures the start to the first answer and the memory of an
idle server instead, `--wide` the wide-column mode beside documents (`bench_wide`), `--saturate` what applications send
all day on a standalone, a set's primary and a shard (`saturate`), `--routed` on a router (`saturate_routed`),
`--routing` what routing costs by the number of chunks (`bench_routing`), `--moves` what a client sees of a chunk of
64 MB that moves under load (`bench_moves`), `--report` what much data costs by the number of documents
(`bench_report`), `--shapes` what requests of a hundred shapes cost over a collection with eleven indexes
(`bench_shapes`), `--several` what many shapes cost a router and its shards (`bench_routed`).
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
from bson.code import Code
from pymongo.write_concern import WriteConcern

from scripts import (
    bench_moves,
    bench_report,
    bench_routed,
    bench_routing,
    bench_shapes,
    bench_wide,
    saturate,
    saturate_routed,
)
from scripts.deployment import Deployment, Member, places_of, stopped_at_end, unused_port
from scripts.measuring import processor_seconds, resident_mib, server_pid

Collection = pymongo.collection.Collection[dict[str, Any]]
Database = pymongo.database.Database[dict[str, Any]]
POSTS = 200_000
JOINED = 20_000
LINKED = 4_000
CALCULATED = {
    "sum": {"$add": ["$n", 1]},
    "name": {"$concat": ["$id", "-", "$content"]},
    "size": {"$cond": [{"$gt": ["$n", 1000]}, "large", "small"]},
}
SUMS = {"sum": {"$sum": "$n"}, "mean": {"$avg": "$n"}, "least": {"$min": "$content"}}
RUNNING = {
    "sortBy": {"n": 1},
    "output": {"total": {"$sum": "$n", "window": {"documents": ["unbounded", "current"]}}},
}
SLIDING = {
    "partitionBy": {"$mod": ["$n", 100]},
    "sortBy": {"id": 1},
    "output": {"mean": {"$avg": "$n", "window": {"documents": [-5, 5]}}, "rank": {"$rank": {}}},
}
MAP = Code("function () { for (var i in this.tags) { emit(this.tags[i], 1) } }")
MAP_EACH = Code("function () { emit(this._id, {n: this.n, tags: this.tags.length}) }")
REDUCE = Code("function (key, values) { var n = 0; for (var i in values) { n += values[i] } return n }")


@dataclass(frozen=True, slots=True)
class Workload:
    """`run(scratch, posts)` does `units` of work; the target is the ratio wished for, if one was set.

    `prepare` comes before each run and is not measured.
    """

    name: str
    units: int
    run: Callable[[Collection, Collection], object]
    target: float | None = None
    prepare: Callable[[Collection, Collection], object] | None = None


def post(number: int, rng: random.Random) -> dict[str, Any]:
    tags = [f"tag{rng.randint(1, 43)}" for _ in range(rng.randint(2, 5))]
    return {"id": str(number), "content": f"data for content {number}", "tags": tags, "n": number}


def insert_one(count: int, concern: WriteConcern) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        target = scratch.with_options(write_concern=concern)
        for number in range(count):
            target.insert_one({"id": str(number), "content": "data for content", "n": number})

    return run


def insert_many(count: int) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        rng = random.Random(1)
        for _batch in range(count // 1000):
            scratch.insert_many([post(number, rng) for number in range(1000)])

    return run


def by_id(count: int) -> Callable[[Collection, Collection], None]:
    def run(_: Collection, posts: Collection) -> None:
        rng = random.Random(2)
        for _number in range(count):
            assert posts.find_one({"_id": rng.randrange(POSTS)})

    return run


def update_by_id(count: int) -> Callable[[Collection, Collection], None]:
    def run(_: Collection, posts: Collection) -> None:
        rng = random.Random(3)
        for _number in range(count):
            posts.update_one({"_id": rng.randrange(POSTS)}, {"$inc": {"hits": 1}})

    return run


def stored(count: int) -> Callable[[Collection, Collection], None]:
    """Put `count` posts into the scratch collection."""

    def prepare(scratch: Collection, _: Collection) -> None:
        rng = random.Random(4)
        for start in range(0, count, 10_000):
            numbers = range(start, min(start + 10_000, count))
            scratch.insert_many([{"_id": number, **post(number, rng)} for number in numbers])

    return prepare


def delete_by_id(count: int) -> Callable[[Collection, Collection], None]:
    def run(scratch: Collection, _: Collection) -> None:
        for number in range(count):
            scratch.delete_one({"_id": number})

    return run


def index_range(count: int) -> Callable[[Collection, Collection], None]:
    def run(_: Collection, posts: Collection) -> None:
        for _round in range(count // 1000):
            found = list(posts.find({"id": {"$gte": "5", "$lt": "6"}}).limit(1000))
            assert len(found) == 1000

    return run


def create_index(scratch: Collection, _: Collection) -> None:
    scratch.create_index("content")


def aggregate(*stages: dict[str, Any]) -> Callable[[Collection, Collection], None]:
    return lambda _, posts: [None for _ in posts.aggregate_raw_batches(list(stages), allowDiskUse=True)] and None


def lookup(local: str, foreign: str) -> Callable[[Collection, Collection], None]:
    """Join the first posts with themselves."""

    def run(_: Collection, posts: Collection) -> None:
        join = {"from": posts.name, "localField": local, "foreignField": foreign, "as": "found"}
        for batch in posts.aggregate_raw_batches([{"$limit": JOINED}, {"$lookup": join}]):
            assert batch

    return run


def linked(count: int) -> Callable[[Collection, Collection], None]:
    """Put `count` documents into the scratch collection, of which each names the one with half its number."""

    def prepare(scratch: Collection, _: Collection) -> None:
        scratch.insert_many(
            [{"_id": number, "parent": number // 2, "name": f"node {number}"} for number in range(count)]
        )

    return prepare


def graph_lookup(scratch: Collection, _: Collection) -> None:
    """The way from each linked document to the first one."""
    relation = {"startWith": "$parent", "connectFromField": "parent", "connectToField": "_id"}
    search = {"from": scratch.name, **relation, "as": "way"}
    for batch in scratch.aggregate_raw_batches([{"$graphLookup": search}]):
        assert batch


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


def map_reduce_each(scratch: Collection, posts: Collection) -> None:
    """A key for every document, into a collection."""
    posts.database.command("mapReduce", posts.name, map=MAP_EACH, reduce=REDUCE, out=scratch.name)


def where(_: Collection, posts: Collection) -> None:
    found = list(posts.find({"$where": "this.n % 1000 == 0"}))
    assert len(found) == POSTS // 1000


WORKLOADS = [
    Workload("insert_one w:1", 2000, insert_one(2000, WriteConcern(1)), 1.2),
    Workload("insert_one j:true", 200, insert_one(200, WriteConcern(1, j=True))),
    Workload("insert_many of 1,000", 20_000, insert_many(20_000), 1.0),
    Workload("find by _id", 2000, by_id(2000), 1.2),
    Workload("update by _id", 2000, update_by_id(2000), 1.2),
    Workload("delete by _id", 2000, delete_by_id(2000), 1.2, stored(2000)),
    Workload("full fetch", POSTS, lambda _, posts: [None for _ in posts.find(batch_size=10_000)], 0.9),
    Workload("counted scan, number", POSTS, lambda _, posts: posts.count_documents({"n": {"$gte": 100_000}}), 1.0),
    Workload("counted scan, regex", POSTS, lambda _, posts: posts.count_documents({"content": {"$regex": "77$"}}), 1.0),
    Workload("counted scan, array", POSTS, lambda _, posts: posts.count_documents({"tags": "tag7"}), 1.0),
    Workload("index range of 1,000", 5000, index_range(5000), 1.0),
    Workload("updateMany", POSTS, lambda _, posts: posts.update_many({}, {"$inc": {"hits": 1}}), 0.5),
    Workload("deleteMany", POSTS, lambda scratch, _: scratch.delete_many({}), 0.5, stored(POSTS)),
    Workload("createIndexes", POSTS, create_index, 0.5, stored(POSTS)),
    Workload(
        "$unwind + $group", POSTS, aggregate({"$unwind": "$tags"}, {"$group": {"_id": "$tags", "n": {"$sum": 1}}}), 1.2
    ),
    Workload("$sort + $limit 100", POSTS, aggregate({"$sort": {"content": 1}}, {"$limit": 100}), 0.8),
    Workload(
        "$match + $group of numbers",
        POSTS,
        aggregate(
            {"$match": {"n": {"$gte": 100}}}, {"$group": {"_id": None, "sum": {"$sum": "$n"}, "mean": {"$avg": "$n"}}}
        ),
        1.0,
    ),
    Workload("$sort of everything", POSTS, aggregate({"$sort": {"content": 1}}), 0.5),
    Workload("$lookup by an indexed field", JOINED, lookup("id", "id"), 0.5),
    Workload("$lookup by _id", JOINED, lookup("n", "_id"), 0.5),
    Workload("$lookup of nothing by an index", JOINED, lookup("content", "id")),
    Workload("$lookup of nothing by _id", JOINED, lookup("content", "_id")),
    Workload("$graphLookup to the root", LINKED, graph_lookup, prepare=linked(LINKED)),
    Workload("$bucketAuto, counts", POSTS, aggregate({"$bucketAuto": {"groupBy": "$n", "buckets": 10}})),
    Workload("$bucketAuto, sums", POSTS, aggregate({"$bucketAuto": {"groupBy": "$id", "buckets": 50, "output": SUMS}})),
    Workload("$setWindowFields, running", POSTS, aggregate({"$setWindowFields": RUNNING})),
    Workload("$setWindowFields, sliding", POSTS, aggregate({"$setWindowFields": SLIDING})),
    Workload("$project, calculated", POSTS, aggregate({"$project": CALCULATED}, {"$match": {"sum": -1}})),
    Workload("map-reduce inline", POSTS, map_reduce, 8.0),
    Workload("map-reduce to a collection", POSTS, map_reduce_each, 3.0),
    Workload("$where", POSTS, where, 15.0),
    Workload("find by _id, 4 clients", 4000, in_threads(4, by_id(1000)), 1.2),
    Workload("insert_one, 4 clients", 4000, in_threads(4, insert_one(1000, WriteConcern(1)))),
    Workload("find by _id, 64 clients", 6400, in_threads(64, by_id(100))),
]


def start_reference(stack: ExitStack, directory: Path, *more: str) -> str:
    """The reference on a free port; gives its address."""
    port = unused_port()
    directory.mkdir()
    command = [*shlex.split(os.environ["DOCSTORE_REFERENCE"]), *places_of(directory, port), *more]
    # A session of its own, as ours has: the system's scheduler may share the processor out by session.
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return f"127.0.0.1:{port}"


def fill(posts: Collection) -> None:
    rng = random.Random(7)
    for start in range(0, POSTS, 10_000):
        posts.insert_many([{"_id": number, **post(number, rng)} for number in range(start, start + 10_000)])
    posts.create_index("id")


def measure(workload: Workload, scratch: Collection, posts: Collection, pid: int) -> tuple[float, float]:
    """(units per second, processor seconds per unit) of one round; the scratch collection is made anew before it."""
    scratch.drop()
    scratch.insert_one({"_id": "first"})
    if workload.prepare is not None:
        workload.prepare(scratch, posts)
    spent = processor_seconds(pid)
    began = time.perf_counter()
    workload.run(scratch, posts)
    seconds = time.perf_counter() - began
    return workload.units / seconds, (processor_seconds(pid) - spent) / workload.units


def compare(workload: Workload, databases: dict[str, Database], rounds: int) -> None:
    """Run one workload on every server in turn and print a line."""
    results: dict[str, list[tuple[float, float]]] = {side: [] for side in databases}
    pids = {side: server_pid(database.client) for side, database in databases.items()}
    for _ in range(rounds):
        for side, database in databases.items():
            results[side].append(measure(workload, database.scratch, database.posts, pids[side]))
    rates = {side: statistics.median(rate for rate, _ in values) for side, values in results.items()}
    spent = {side: statistics.median(seconds for _, seconds in values) * 1e6 for side, values in results.items()}
    reference = rates.get("reference")
    cells = f"{reference:14.0f}{rates['ours'] / reference:8.2f}" if reference else f"{'-':>14}{'-':>8}"
    target = f"{workload.target:8.1f}" if workload.target else f"{'':8}"
    costs = f"{spent['ours']:10.1f}{spent.get('reference', 0.0):10.1f}"
    print(f"{workload.name:28}{rates['ours']:12.0f}{cells}{target}{costs}", flush=True)


def measure_start(stack: ExitStack, directory: Path) -> None:
    """Start each server on an empty directory; print the seconds to its first answer, and its memory then."""
    starters = {"ours": start_ours}
    if os.environ.get("DOCSTORE_REFERENCE"):
        starters["reference"] = start_reference
    for side, start in starters.items():
        began = time.perf_counter()
        address = start(stack, directory / side)
        client: pymongo.MongoClient[dict[str, Any]]
        with pymongo.MongoClient(address) as client:
            client.admin.command("ping")
            seconds = time.perf_counter() - began
            memory = resident_mib(server_pid(client))
        print(f"{side:12} first answer after {seconds:.2f} s, {memory:.0f} MiB resident")


def start_ours(stack: ExitStack, directory: Path) -> str:
    """Our data node on a free port; gives its address."""
    deployment = stack.enter_context(stopped_at_end(Deployment(directory)))
    deployment.start(Member("node", "mongod", []))
    return deployment.members["node"].address


def references_of(stack: ExitStack, directory: Path) -> list[Member]:
    """A standalone of the reference and a member of a set; none where there is no reference."""
    references = []
    if os.environ.get("DOCSTORE_REFERENCE"):
        for name, more in (("alone", ()), ("replicated", ("--replSet", saturate.REFERENCE_SET))):
            address = start_reference(stack, directory / name, *more)
            with closing(pymongo.MongoClient[dict[str, Any]](address, directConnection=True)) as client:
                references.append(Member(name, "", [], port=int(address.rpartition(":")[2]), pid=server_pid(client)))
    return references


def measure_saturated(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    references = references_of(stack, directory)
    saturate.compare(directory / "ours", options.only, options.rounds, references=references)


def measure_shapes(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    reference = ""
    if os.environ.get("DOCSTORE_REFERENCE"):
        more = ("--replSet", bench_shapes.REFERENCE_SET) if options.replicated else ()
        reference = start_reference(stack, directory / "reference", *more)
    bench_shapes.run(
        directory / "ours", options.only, options.rounds, reference=reference, replicated=options.replicated
    )


def measure_much_data(_: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    sizes = [int(size) for size in options.documents.split(",")]
    bench_report.measure(directory / "report", sizes, options.cache_gb, options.picture)


def measure_wide(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    client = stack.enter_context(pymongo.MongoClient[dict[str, Any]](start_ours(stack, directory / "ours")))
    bench_wide.compare(client, options.only, options.rounds)


def measure_workloads(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    addresses = {"ours": start_ours(stack, directory / "ours")}
    if os.environ.get("DOCSTORE_REFERENCE"):
        addresses["reference"] = start_reference(stack, directory / "reference")
    databases: dict[str, Database] = {}
    for side, address in addresses.items():
        client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(address, maxPoolSize=100)
        stack.callback(client.close)
        databases[side] = client.bench
        fill(client.bench.posts)
    print(f"{'':28}{'ours /s':>12}{'reference /s':>14}{'ratio':>8}{'target':>8}{'ours us':>10}{'ref us':>10}")
    for workload in WORKLOADS:
        if options.only in workload.name:
            compare(workload, databases, options.rounds)


def measure_several(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    reference = ""
    if os.environ.get("DOCSTORE_REFERENCE"):
        reference = start_reference(stack, directory / "reference", "--replSet", bench_shapes.REFERENCE_SET)
    bench_routed.run(directory / "several", options.only, options.rounds, reference=reference)


Part = Callable[[ExitStack, Path, argparse.Namespace], None]
PARTS: dict[str, tuple[str, Part]] = {
    "start": ("start-up and memory", lambda stack, directory, _: measure_start(stack, directory)),
    "wide": ("columns and CQL beside documents", measure_wide),
    "saturate": ("what an operation costs a standalone, set, shard", measure_saturated),
    "shapes": ("many shapes over a collection with eleven indexes", measure_shapes),
    "routed": (
        "what an operation costs a router",
        lambda _, directory, options: saturate_routed.compare(directory / "routed", options.only, options.rounds),
    ),
    "several": ("many shapes through a router, for one shard and for two", measure_several),
    "routing": (
        "routing, moves and splits by number of chunks",
        lambda _stack, directory, _options: bench_routing.measure(directory / "routing"),
    ),
    "moves": (
        "moves of 64 MB under load; --rounds of each",
        lambda _, directory, options: bench_moves.measure(directory, options.only, options.rounds),
    ),
    "report": ("what much data costs", measure_much_data),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.set_defaults(part=measure_workloads)
    parts = parser.add_mutually_exclusive_group()
    for name, (what, part) in PARTS.items():
        parts.add_argument(f"--{name}", dest="part", action="store_const", const=part, help=f"measure {what}")
    parser.add_argument("--replicated", action="store_true", help="for --shapes: sets of one member")
    parser.add_argument("--documents", default="100000,1000000", help="for --report: numbers of documents")
    parser.add_argument("--cache-gb", type=float, help="for --report: the cache of each server")
    parser.add_argument("--picture", type=Path, default=Path("bench.svg"), help="for --report: where it is drawn")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-bench-")))
        options.part(stack, directory, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
