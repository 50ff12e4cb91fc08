"""Work that reads or writes much, and what one client of pymongo does in a row, on our server and on the reference.

Every workload runs on both servers in turn, several rounds each, and the medians are compared: a ratio of 1.2 means
that ours did 1.2 times as much in the same time. The same document shapes, the same client and the same concurrency are
used on both sides; the servers are alone on their machine but for each other, and only one of them works at a time.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import pymongo
from bson.code import Code
from pymongo.write_concern import WriteConcern

from scripts.measuring import processor_seconds, server_pid

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


def run(addresses: Mapping[str, str], only: str, rounds: int) -> None:
    """Run the workloads whose name holds `only` on the servers at the addresses `ours` and, if it is there,
    `reference`; print a line for each.
    """
    databases: dict[str, Database] = {}
    with ExitStack() as stack:
        for side, address in addresses.items():
            client = stack.enter_context(closing(pymongo.MongoClient[dict[str, Any]](address, maxPoolSize=100)))
            databases[side] = client.bench
            fill(client.bench.posts)
        print(f"{'':28}{'ours /s':>12}{'reference /s':>14}{'ratio':>8}{'target':>8}{'ours us':>10}{'ref us':>10}")
        for workload in WORKLOADS:
            if only in workload.name:
                compare(workload, databases, rounds)
