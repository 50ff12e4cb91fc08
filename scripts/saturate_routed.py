"""What a small operation costs a router, beside what it costs the shard that carries it out.

Two shards have the halves of two collections: `bench.posts`, sharded by `_id`, and `bench.keyed`, sharded by `n`. The
requests are what a driver sends (`scripts.saturate`), and every one of them names the shard key.
"""

from __future__ import annotations

import statistics
from contextlib import closing
from pathlib import Path
from typing import Any

from bson.objectid import ObjectId

from scripts.bench_routing import Processes
from scripts.deployment import Deployment, Member, stopped_at_end
from scripts.measuring import processor_seconds
from scripts.saturate import COUNT, Operation, Request, Server, document, measure

COLLECTIONS = {"posts": {"_id": 1}, "keyed": {"n": 1}}


def insert(number: int) -> Request:
    return Request({"insert": "fresh", "ordered": True}, "documents", ({**document(number), "_id": ObjectId()},))


def change(collection: str, condition: str) -> Operation:
    """An update of the document that the condition's field names."""
    return lambda number: Request(
        {"update": collection, "ordered": True},
        "updates",
        ({"q": {condition: number}, "u": {"$inc": {"hits": 1}}, "multi": False, "upsert": False},),
    )


def modify(number: int) -> Request:
    return Request({"findAndModify": "keyed", "query": {"n": number}, "update": {"$inc": {"hits": 1}}})


def delete(number: int) -> Request:
    return Request({"delete": "posts", "ordered": True}, "deletes", ({"q": {"_id": number}, "limit": 1},))


def read(collection: str, field: str, **fields: Any) -> Operation:
    """A find of one document by the field."""
    return lambda number: Request({"find": collection, "filter": {field: number}, **fields})


OPERATIONS: dict[str, Operation] = {
    "find by _id": read("posts", "_id", limit=1, singleBatch=True),
    "find by shard key": read("keyed", "n", limit=1, singleBatch=True),
    "find, shard key and more": lambda number: Request({"find": "keyed", "filter": {"n": number, "g": {"$gte": 0}}}),
    "count by shard key": lambda number: Request({"count": "keyed", "query": {"n": number}}),
    "insert": insert,
    "update by _id": change("posts", "_id"),
    "update by shard key": change("keyed", "n"),
    "findAndModify by key": modify,
    "delete by _id": delete,
}
"""In this order: the deletions come last."""


def fill(processes: Processes, count: int) -> None:
    """Both collections with their halves on two shards, and an empty one that is not sharded."""
    admin = processes.router.admin
    for name, key in COLLECTIONS.items():
        admin.command("shardCollection", f"bench.{name}", key=key)
        (field,) = key
        admin.command("split", f"bench.{name}", middle={field: count // 2})
        admin.command("moveChunk", f"bench.{name}", find={field: count // 2}, to="shard1")
        processes.router.bench[name].insert_many([document(number) for number in range(count)])
    admin.command("shardCollection", "bench.fresh", key={"n": 1})


def compare(directory: Path, only: str, rounds: int, *, count: int = COUNT) -> None:
    """Measure the operations whose name holds `only`; print the medians of the rounds."""
    with stopped_at_end(Deployment(directory)) as deployment:
        processes = Processes(deployment)
        with closing(processes.router):
            fill(processes, count)
            members = deployment.members
            shards: list[Member] = [members["shard0-0"], members["shard1-0"]]
            server = Server("router", members["router"])
            print(f"{'':28}{'router us':>12}{'shards us':>12}{'per second':>12}")
            for name, operation in OPERATIONS.items():
                if only not in name:
                    continue
                found = []
                for _ in range(1 if name.startswith("delete") else rounds):
                    before = sum(processor_seconds(shard.pid) for shard in shards)
                    spent, rate = measure(server, operation, {"w": 1}, count)
                    after = sum(processor_seconds(shard.pid) for shard in shards)
                    found.append((spent, (after - before) / count * 1e6, rate))
                spent, of_shards, rate = (statistics.median(each) for each in zip(*found, strict=True))
                print(f"{name:28}{spent:12.1f}{of_shards:12.1f}{rate:12.0f}", flush=True)
