"""An index of any kind never changes a result: a node with random indexes against a real server without any."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import bson
import pymongo
import pytest
from bson import DatetimeMS, Decimal128, Int64, Timestamp
from pymongo.database import Database

from docstore.bson import get_field
from docstore.kernel.keys.encoding import encode_key
from tests.harness.reference import reference_server
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference

PATHS = ["a", "b", "a.b", "a.c", "b.c", "c"]
PARTIAL = [{"a": {"$gt": 1}}, {"b": {"$exists": True}}, {"a.b": 1}, {"$or": [{"a": 1}, {"b": {"$lt": 3}}]}]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database[Any]]:
    with reference_server(tmp_path_factory.mktemp("reference")) as port:
        client: pymongo.MongoClient[Any] = pymongo.MongoClient("127.0.0.1", port)
        with client:
            yield client["indexes"]


def scalar(rng: Random) -> Any:
    return rng.choice([rng.randint(0, 6), rng.randint(0, 3) + 0.5, 2.0, None, "a", "ab", True, {}, {"x": 1}])


def value(rng: Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.25:
        return [value(rng, 2) if rng.random() < 0.8 else [rng.randint(0, 3)] for _ in range(rng.randint(0, 3))]
    if kind < 0.45 and depth < 2:
        return {name: value(rng, depth + 1) for name in rng.sample("bcd", rng.randint(0, 2))}
    return scalar(rng)


def condition(rng: Random) -> Any:
    low, high = rng.randint(0, 3), rng.randint(2, 6)
    return rng.choice(
        [
            scalar(rng),
            {rng.choice(["$gt", "$gte", "$lt", "$lte", "$ne"]): scalar(rng)},
            {"$in": [scalar(rng) for _ in range(rng.randint(0, 3))]},
            {"$exists": rng.random() < 0.6},
            {"$gte": low, "$lt": high},
            {"$elemMatch": {"$gte": low, "$lt": high}},
            {"$type": rng.choice(["number", "string", "array", "null"])},
            {"$not": {"$gt": low}},
            {"$regex": "^a"},
            [low],
        ]
    )


def query(rng: Random, depth: int = 0) -> dict[str, Any]:
    if rng.random() < 0.2 and depth < 2:
        return {rng.choice(["$or", "$and"]): [query(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    return {path: condition(rng) for path in rng.sample(PATHS, rng.randint(depth and 1, 2))}


def index(rng: Random, number: int) -> dict[str, Any]:
    key: dict[str, Any] = {path: rng.choice([1, -1]) for path in rng.sample(PATHS, rng.randint(1, 3))}
    options: dict[str, Any] = {}
    match rng.choice(["plain", "hashed", "wildcard", "subtree", "projected", "partial", "sparse"]):
        case "hashed":
            key[rng.choice(list(key))] = "hashed"
        case "wildcard":
            key = {"$**": 1}
        case "subtree":
            key = {rng.choice(PATHS) + ".$**": 1}
        case "projected":
            key, options = {"$**": 1}, {"wildcardProjection": {rng.choice(["a", "b", "a.b"]): rng.choice([0, 1])}}
        case "partial":
            options["partialFilterExpression"] = rng.choice(PARTIAL)
        case "sparse":
            options["sparse"] = True
    return {"key": key, "name": f"i{number}", **options}


@pytest.mark.parametrize("seed", range(12))
def test_indexes_of_every_kind_change_no_result(database: Database[Any], seed: int) -> None:
    rng = Random(seed)
    documents = [{"_id": n, **{name: value(rng) for name in rng.sample("abc", rng.randint(0, 3))}} for n in range(25)]
    database.c.drop()
    database.c.insert_many(documents)

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *documents)
        for number in range(3):
            # What the documents do not allow (arrays side by side or under a hash) is refused, and left out.
            await node.reply({"createIndexes": "c", "indexes": [index(rng, number)]})
        for _ in range(25):
            tree = query(rng)
            sort = {path: rng.choice([1, -1]) for path in rng.sample(PATHS, rng.randint(0, 2))} | {"_id": 1}
            find = {"find": "c", "filter": tree, "sort": sort, "projection": {"_id": 1}}
            theirs, ours = database.command(find, check=False), await node.reply(find)
            assert theirs.get("code") == ours.get("code"), find
            if not theirs["ok"]:
                # Arrays side by side cannot be sorted by.
                continue
            assert ours["cursor"]["firstBatch"] == theirs["cursor"]["firstBatch"], find
            assert (await node.run({"count": "c", "query": tree}))["n"] == len(theirs["cursor"]["firstBatch"]), tree

    loop(work())


def plain_value(rng: Random) -> Any:
    return rng.choice(
        [rng.randint(-3, 3), float(rng.randint(-2, 2)), Int64(rng.randint(0, 2)), -0.0, 0.5, None, "a", "", True,
         {"x": 1.0}, Decimal128("1.0"), 2**53 + 1, float("inf"), DatetimeMS(5), Timestamp(1, 2)]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_what_an_index_answers_by_itself_are_the_values_of_the_documents(database: Database[Any], seed: int) -> None:
    """Types included, and a missing field is missing; of the real server there are no indexes to ask."""
    rng = Random(seed)
    documents = [
        {
            "_id": rng.choice([n, float(n), Int64(n)]),
            **{name: plain_value(rng) for name in rng.sample("ac", rng.randint(0, 2))},
            **({"b": {name: plain_value(rng) for name in rng.sample("xy", rng.randint(0, 2))}} if n % 3 else {}),
        }
        for n in range(30)
    ]
    database.c.drop()
    database.c.insert_many(documents)
    keys = ["a", "c", "b.x", "b.y"]

    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *documents)
        for number in range(3):
            key = {path: rng.choice([1, -1]) for path in [*rng.sample(keys, rng.randint(1, 4)), "_id"]}
            await node.run({"createIndexes": "c", "indexes": [{"key": key, "name": f"i{number}"}]})
            for _ in range(10):
                low = rng.randint(-2, 2)
                tree = rng.choice([{}, {next(iter(key)): {"$gte": low}}, {rng.choice(keys): {"$ne": low}}])
                shown = dict.fromkeys(rng.sample(list(key), rng.randint(1, len(key))), 1)
                find = {"find": "c", "filter": tree, "projection": {"_id": 1, **shown}, "sort": {"_id": 1}}
                theirs = database.command(find)["cursor"]["firstBatch"]
                ours = (await node.run({**find, "hint": key}))["cursor"]["firstBatch"]
                assert [in_order(each) for each in ours] == [in_order(each) for each in theirs], (find, key)
                path = rng.choice(list(key))
                distinct = {"distinct": "c", "key": path, "query": tree}
                values = (await node.run({**distinct, "hint": key}))["values"]
                # Of equal values of different types the one that comes first stands for all.
                expected = database.command(distinct)["values"]
                assert list(map(key_of, values)) == list(map(key_of, expected)), distinct
                counted = await node.run({"count": "c", "query": tree, "hint": key})
                assert counted["n"] == len(theirs), tree
            # A change of types alone.
            for raw in documents:
                after = {**raw, "a": float(raw["a"])} if isinstance(raw.get("a"), int) else raw
                update = {"update": "c", "updates": [{"q": {"_id": raw["_id"]}, "u": after}]}
                database.command(update)
                await node.run(update)

    loop(work())


def key_of(thing: Any) -> bytes:
    found = get_field(bson.encode({"": thing}), "")
    assert found is not None
    return encode_key(found)


def in_order(thing: Any) -> Any:
    """A document with its fields in the order of their names, and its values told apart by their types."""
    if isinstance(thing, dict):
        return [(name, in_order(thing[name])) for name in sorted(thing)]
    return type(thing), str(thing)
