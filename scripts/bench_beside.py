"""Short requests beside one long request at a time, on our server and on the reference.

Clients with short requests (find by `_id`, update by `_id`, find by an indexed key; one thread each, all in this
process) run for some seconds beside a process that repeats one long request. A row tells their rate, median and 99th
percentile on each side, the ratio of the rates, and how many long requests were done meanwhile.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pymongo

from scripts.bench_workloads import MAP, REDUCE

Database = pymongo.database.Database[dict[str, Any]]
DOCUMENTS = 200_000
JOINED = 50_000
DELETED = 20_000
SECONDS = 5.0
MAX_CLIENTS = 64


def _fill(db: Database) -> None:
    """Make the collections that the requests read."""
    for name, count in (("posts", DOCUMENTS), ("joined", JOINED)):
        db[name].drop()
        for first in range(0, count, 1000):
            db[name].insert_many(
                {
                    "_id": number,
                    "k": number,
                    "u": number % 1000,
                    "n": number * 7919 % 100_003,
                    "tags": ["a", f"t{number % 43}"],
                    "text": f"data for content {number} " + "x" * 80,
                }
                for number in range(first, first + 1000)
            )
        db[name].create_index("k")


def _group(db: Database) -> None:
    list(db.posts.aggregate([{"$group": {"_id": "$u", "sum": {"$sum": "$n"}, "mean": {"$avg": "$n"}}}]))


def _sort(db: Database) -> None:
    list(db.posts.aggregate([{"$sort": {"n": 1}}, {"$skip": DOCUMENTS - 10}], allowDiskUse=True))


def _index(db: Database) -> None:
    db.posts.create_index([("n", 1), ("text", 1)], name="beside")
    db.posts.drop_index("beside")


def _lookup(db: Database) -> None:
    stages = [
        {"$lookup": {"from": "posts", "localField": "k", "foreignField": "k", "as": "found"}},
        {"$match": {"found.n": -1}},
        {"$count": "n"},
    ]
    list(db.joined.aggregate(stages))


def _regex(db: Database) -> None:
    db.posts.count_documents({"text": {"$regex": "CONTENT 77.*9", "$options": "i"}})


def _map_reduce(db: Database) -> None:
    db.command("mapReduce", "posts", map=MAP, reduce=REDUCE, out={"inline": 1}, limit=20_000)


def _insert(db: Database) -> None:
    db.filled.insert_many([{"n": number, "text": "x" * 80} for number in range(1000)])


def _delete(db: Database) -> None:
    for first in range(0, DELETED, 5000):
        db.deleted.insert_many([{"n": number, "text": "x" * 80} for number in range(first, first + 5000)])
    db.deleted.delete_many({})


def _fetch(db: Database) -> None:
    for _ in db.posts.find().batch_size(20_000):
        pass


def _facet(db: Database) -> None:
    by_user = [{"$group": {"_id": "$u", "n": {"$sum": 1}}}, {"$count": "n"}]
    by_tag = [{"$unwind": "$tags"}, {"$sortByCount": "$tags"}]
    list(db.posts.aggregate([{"$facet": {"users": by_user, "tags": by_tag}}]))


def _update(db: Database) -> None:
    db.joined.update_many({}, {"$inc": {"counted": 1}})


LONG: Mapping[str, Callable[[Database], None] | None] = {
    "nothing": None,
    "$group of all": _group,
    "sort of all": _sort,
    "createIndexes": _index,
    "$lookup of 50,000": _lookup,
    "count by regex": _regex,
    "map-reduce": _map_reduce,
    "insert_many": _insert,
    "delete of 20,000": _delete,
    "full fetch": _fetch,
    "$facet of all": _facet,
    "updateMany of 50,000": _update,
}


@dataclass(frozen=True, slots=True)
class Beside:
    """Rate a second and percentiles in milliseconds of short requests; long requests done."""

    rate: float
    median: float
    late: float
    done: int


def _repeat(address: str, name: str, stopped: Any, done: Any) -> None:
    """Repeat a long request until told to stop; in a process of its own."""
    with pymongo.MongoClient[dict[str, Any]](address, directConnection=True) as client:
        request = LONG[name]
        assert request is not None
        while not stopped.is_set():
            request(client.beside)
            done.value += 1


def _short(db: Database, until: float, seed: int, times: list[float]) -> None:
    """Send short requests until the time comes, and note how long each took."""
    dice = random.Random(seed)
    posts = db.posts
    while (began := time.perf_counter()) < until:
        number = dice.randrange(DOCUMENTS)
        match dice.randrange(3):
            case 0:
                posts.find_one({"_id": number})
            case 1:
                posts.update_one({"_id": number}, {"$inc": {"hits": 1}})
            case _:
                posts.find_one({"k": number})
        times.append(time.perf_counter() - began)


def measure(address: str, name: str, clients: int, seconds: float) -> Beside:
    """Measure one row on one server."""
    context = multiprocessing.get_context("spawn")
    stopped, done = context.Event(), context.Value("i", 0)
    beside = None
    if LONG[name] is not None:
        beside = context.Process(target=_repeat, args=(address, name, stopped, done), daemon=True)
        beside.start()
        # The first one has been done: what follows is the steady state.
        while not done.value:
            time.sleep(0.01)
    before = done.value
    with pymongo.MongoClient[dict[str, Any]](address, directConnection=True, maxPoolSize=MAX_CLIENTS) as client:
        until = time.perf_counter() + seconds
        times: list[list[float]] = [[] for _ in range(clients)]
        threads = [
            threading.Thread(target=_short, args=(client.beside, until, seed, times[seed])) for seed in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    completed = done.value - before
    if beside is not None:
        stopped.set()
        beside.join()
    whole = sorted(second * 1000 for one in times for second in one)
    return Beside(len(whole) / seconds, statistics.median(whole), whole[len(whole) * 99 // 100], completed)


def run(addresses: Mapping[str, str], only: str, clients: int, seconds: float = SECONDS) -> None:
    """Print a row for each long request whose name contains `only`."""
    for address in addresses.values():
        with pymongo.MongoClient[dict[str, Any]](address, directConnection=True) as client:
            _fill(client.beside)
    print(f"{clients} clients, {' / '.join(addresses)}")
    for name in LONG:
        if only not in name:
            continue
        rows = [measure(address, name, clients, seconds) for address in addresses.values()]
        ratio = f"{rows[0].rate / rows[1].rate:5.2f}" if len(rows) > 1 else ""
        print(
            f"{name:22} {ratio}  rate {_side_by_side(f'{row.rate:,.0f}' for row in rows)}"
            f"  median {_side_by_side(f'{row.median:.1f}' for row in rows)} ms"
            f"  99th {_side_by_side(f'{row.late:.1f}' for row in rows)} ms"
            f"  long {_side_by_side(str(row.done) for row in rows)}",
            flush=True,
        )


def _side_by_side(values: Any) -> str:
    return " / ".join(values)
