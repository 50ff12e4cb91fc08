"""What requests of many shapes cost a server, most of them over a collection with eleven indexes.

A shop's documents, of about 600 bytes, with the indexes that an application comes to have: unique, compound, over
arrays, partial, text, 2dsphere; and collections of other kinds. Each shape (`shop_requests`, `other_requests`,
`expression_requests`, `session_requests`, `large_requests`) is sent by one client of pymongo, a request at a time with
other values each time, to our server and to the reference in turn. The figure is the processor time that the server
took for a request, in microseconds, the median of the rounds; above 1 the ratio says how much more the reference takes.
What the documents are is changed by some shapes, on both servers alike.
"""

from __future__ import annotations

import datetime
import random
import statistics
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pymongo

from scripts import expression_requests, large_requests, other_requests, session_requests, shop_requests
from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, stopped_at_end
from scripts.measuring import processor_seconds, server_pid
from scripts.reference import REFERENCE_SET
from scripts.shop_requests import Database, Shape

_SET = "shapes"
_BATCH = 1_000
_WARM = 3
"""Requests that come before those that are measured: what is found out once for a shape is found out by them."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_START = datetime.datetime(2024, 1, 1)
_STATUS = ("new", "paid", "sent", "returned", "closed")
_INDEXES: tuple[dict[str, Any], ...] = (
    {"key": {"customer": 1}},
    {"key": {"category": 1, "price": -1}},
    {"key": {"created": -1}},
    {"key": {"status": 1, "created": -1}},
    {"key": {"sku": 1}, "unique": True},
    {"key": {"name": 1}},
    {"key": {"tags": 1}},
    {"key": {"items.sku": 1}},
    {"key": {"stock": 1}, "partialFilterExpression": {"stock": {"$lt": 10}}},
    {"key": {"place": "2dsphere"}},
    {"key": {"about": "text"}},
)

_SCHEMA: dict[str, Any] = {
    "bsonType": "object",
    "required": ["sku", "customer", "status", "items"],
    "properties": {
        "sku": {"bsonType": "string", "minLength": 2, "maxLength": 20},
        "price": {"bsonType": ["double", "int"], "minimum": 0},
        "status": {"enum": list(_STATUS)},
        "address": {"bsonType": "object", "properties": {"zip": {"bsonType": "string", "pattern": "^[0-9]{5}$"}}},
        "items": {
            "bsonType": "array",
            "minItems": 1,
            "items": {"required": ["sku"], "properties": {"quantity": {"bsonType": "int", "minimum": 1}}},
        },
        "tags": {"bsonType": "array", "items": {"bsonType": "string"}},
    },
}


def words_of(count: int, rng: random.Random) -> list[str]:
    return ["".join(rng.choices(_LETTERS, k=rng.randrange(3, 9))) for _ in range(count)]


def document(number: int, words: list[str], rng: random.Random) -> dict[str, Any]:
    """About 600 bytes."""
    return {
        "_id": number,
        "sku": f"S{number:06}",
        "name": f"{rng.choice(words).title()} {rng.choice(words)} {number}",
        "customer": number // 10,
        "category": f"category{number % 100}",
        "price": rng.randrange(100, 100_000) / 100,
        "stock": rng.randrange(200),
        "status": _STATUS[number % len(_STATUS)],
        "created": _START + datetime.timedelta(minutes=number * 37 % 1_000_000),
        "tags": rng.sample(words[:60], 3),
        "address": {"city": rng.choice(words[:40]), "street": rng.choice(words), "zip": f"{rng.randrange(100_000):05}"},
        "items": [
            {"sku": f"I{rng.randrange(5_000)}", "quantity": rng.randrange(1, 9), "price": rng.randrange(1, 500)}
            for _ in range(3)
        ],
        "place": {"type": "Point", "coordinates": [rng.uniform(-20, 20), rng.uniform(-20, 20)]},
        "about": " ".join(rng.choices(words, k=12)),
        "marks": [rng.randrange(100) for _ in range(6)],
        "version": 1,
    }


def fill(database: Database, documents: int) -> None:
    """The collections that the shapes ask, the same on each server."""
    rng = random.Random(11)
    words = words_of(400, rng)
    for start in range(0, documents, _BATCH):
        numbers = range(start, min(start + _BATCH, documents))
        database.orders.insert_many([document(number, words, rng) for number in numbers])
    database.command(
        "createIndexes",
        "orders",
        indexes=[{"name": "_".join(index["key"]), **index} for index in _INDEXES],
    )
    database.customers.insert_many([{"_id": number, "name": f"Customer {number}"} for number in range(documents // 10)])
    other_requests.fill(database, documents)
    large_requests.fill(database)
    database.command("create", "ready", viewOn="orders", pipeline=[{"$match": {"status": "paid"}}])
    database.command("create", "newest", capped=True, size=1 << 20)
    rule = {"required": ["sku", "price"], "properties": {"sku": {"bsonType": "string"}, "price": {"minimum": 0}}}
    database.command("create", "checked", validator={"$jsonSchema": {"bsonType": "object", **rule}})
    database.command("create", "described", validator={"$jsonSchema": _SCHEMA})


def measure(shape: Shape, database: Database, pid: int, turn: int) -> float:
    """Microseconds of the server's processor a request; the values of a turn are the same on each server."""
    rng = random.Random(f"{shape.name} {turn}")
    for _ in range(_WARM):
        shape.send(database, rng)
    before = processor_seconds(pid)
    for _ in range(shape.count):
        shape.send(database, rng)
    return (processor_seconds(pid) - before) / shape.count * 1e6


def shapes_of(*, replicated: bool) -> list[Shape]:
    """All that are sent to standalones, or to members of sets."""
    modules = (shop_requests, other_requests, expression_requests, session_requests, large_requests)
    shapes = [shape for module in modules for shape in module.SHAPES]
    return [*shapes, *session_requests.SHAPES_OF_SETS] if replicated else shapes


def compare(databases: dict[str, Database], shapes: Sequence[Shape], only: str, rounds: int) -> None:
    """Send each shape whose name holds `only` to every server in turn; print a line for each."""
    pids = {side: server_pid(database.client) for side, database in databases.items()}
    print(f"{'us of processor time':48}{'ours':>10}{'reference':>12}{'ratio':>8}")
    for shape in shapes:
        if only not in shape.name:
            continue
        costs: dict[str, list[float]] = {side: [] for side in databases}
        for turn in range(rounds):
            for side, database in databases.items():
                costs[side].append(measure(shape, database, pids[side], turn))
        spent = {side: statistics.median(values) for side, values in costs.items()}
        reference = spent.get("reference")
        compared = (
            f"{reference:12.0f}{reference / spent['ours']:8.2f}"
            if reference and spent["ours"]
            else f"{'-':>12}{'-':>8}"
        )
        print(f"{shape.name:48}{spent['ours']:10.0f}{compared}", flush=True)


def run(
    directory: Path,
    only: str,
    rounds: int,
    *,
    reference: str = "",
    replicated: bool = False,
    documents: int = shop_requests.ORDERS,
) -> None:
    """Start our server, fill both and compare.

    `reference`: the address of an empty one, where there is one. `replicated`: ours is made a set of one member, and so
    is the reference, which was started as one of `REFERENCE_SET`.
    """
    with ExitStack() as stack:
        deployment = stack.enter_context(stopped_at_end(Deployment(directory)))
        servers = {"ours": Member("node", "mongod", ["--replSet", _SET] if replicated else [])}
        deployment.start(servers["ours"])
        if reference:
            servers["reference"] = Member("reference", "", [], port=int(reference.rpartition(":")[2]))
        databases: dict[str, Database] = {}
        for side, name in (("ours", _SET), ("reference", REFERENCE_SET)):
            if side not in servers:
                continue
            if replicated:
                initiate(name, [servers[side]])
            address = servers[side].address
            client = stack.enter_context(closing(pymongo.MongoClient[dict[str, Any]](address, directConnection=True)))
            databases[side] = client.shop
            fill(databases[side], documents)
        compare(databases, shapes_of(replicated=replicated), only, rounds)
