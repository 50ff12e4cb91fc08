"""A router over two shards answers random requests as a node that has everything does.

Documents have no order but that which a request asks for: unordered answers are compared as sets.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.bson import from_python
from docstore.kernel.keys.encoding import encode_key
from tests.differential import random_stages, randomly
from tests.differential.pair import comparable
from tests.differential.randomly import COLLATIONS, WORDS, Case
from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import LocalNode, loop

SIMPLE = {"locale": "simple"}
PRIMARY_STRENGTH = {"locale": "en", "strength": 1}
SORTED = {"$sort": {"_id": 1}}


def key(rng: Random) -> Any:
    """A value of the shard key: on both sides of the border between the shards, of all types of numbers and others."""
    if rng.random() < 0.6:
        small = rng.randint(-2, 22)
        return rng.choice([small, float(small), Int64(small), Decimal128(str(small))])
    return rng.choice([None, "a", "B", "b", 9.5, 10.5, True, {"x": 1}])


def documents(rng: Random, count: int) -> list[Case]:
    found = []
    for row in random_stages.rows(rng, count):
        row |= {**randomly.fields(rng), "n": row["_id"] * 2}
        if rng.random() < 0.9:
            row["k"] = key(rng)
        found.append(row)
    return found


def a_filter(rng: Random) -> Case:
    return rng.choice(
        [
            {},
            randomly.tree(rng),
            {"k": {"$gte": rng.randint(0, 9), "$lt": rng.randint(8, 20)}},
            {"k": {"$in": [key(rng), key(rng)]}},
            {"k": key(rng)},
            {"g": rng.choice("xyz")},
            {"s": {"$gt": rng.choice(WORDS)}},
            {"$expr": {"$gt": ["$v", 1]}},
        ]
    )


def collation(rng: Random) -> Case:
    return {"collation": rng.choice([SIMPLE, *COLLATIONS])} if rng.random() < 0.3 else {}


def find(rng: Random) -> Case:
    command: Case = {"find": "c", "filter": a_filter(rng), **collation(rng)}
    ordered = rng.random() < 0.7
    if ordered:
        paths = rng.sample([*randomly.PATHS, "k", "s", "t", "v", "g"], rng.randint(0, 2))
        command["sort"] = {path: rng.choice([1, -1]) for path in paths} | {"_id": rng.choice([1, -1])}
        command["skip"] = rng.choice([0, 0, rng.randint(1, 12)])
        command["limit"] = rng.choice([0, rng.randint(1, 12)])
        command["singleBatch"] = rng.random() < 0.1
    elif rng.random() < 0.1:
        command |= {"filter": {}, "hint": {"s": 1}, "min": {"s": "a"}, "max": {"s": "c"}, "returnKey": True}
        command.pop("collation", None)
    if rng.random() < 0.3:
        command["projection"] = randomly.projection(rng)
    if rng.random() < 0.3:
        command["batchSize"] = rng.choice([0, 1, 2, 5, 100]) if ordered else 3
    if rng.random() < 0.1 and "hint" not in command:
        command["hint"] = rng.choice([{"_id": 1}, {"$natural": 1}, "nosuch"])
    return command


def _foreign(rng: Random) -> list[Case]:
    """Stages that read another collection, or the same."""
    other = rng.choice("cdev")
    equal = {"localField": rng.choice("sktvg"), "foreignField": rng.choice("sktvg")}
    joined = [{"$lookup": {"from": other, **equal, "as": "r"}}, {"$project": {"r": {"$size": "$r"}}}]
    correlated = {
        "let": {"s": "$s"},
        "pipeline": [{"$match": {"$expr": {"$eq": ["$s", "$$s"]}}}, SORTED, {"$limit": 3}, {"$project": {"s": 1}}],
    }
    union = {"$unionWith": {"coll": other, "pipeline": [{"$match": {"g": "x"}}]}}
    return rng.choice(
        [
            [*joined, SORTED],
            [{"$lookup": {"from": other, **correlated, "as": "r"}}, {"$project": {"r": 1}}, SORTED],
            [union, {"$group": {"_id": "$s", "n": {"$sum": 1}}}, SORTED, {"$project": {"_id": 0}}],
            [{"$facet": {"a": [*joined, SORTED, {"$limit": 2}]}}],
        ]
    )


def _own(rng: Random) -> list[Case]:
    count = {"$group": {"_id": "$n", "m": {"$sum": 1}}}
    window = {"partitionBy": "$g", "sortBy": {"_id": 1}, "output": {"r": {"$sum": "$v"}}}
    return rng.choice(
        [
            random_stages.group(rng),
            [{"$sort": randomly.sort(rng)}, {"$skip": rng.randint(1, 4)}, {"$limit": rng.randint(1, 9)}],
            [{"$sort": randomly.sort(rng)}, {"$project": randomly.projection(rng)}],
            [{"$unwind": "$t"}, {"$group": {"_id": "$t", "n": {"$sum": 1}}}, count, SORTED],
            [{"$facet": {"page": [{"$sort": randomly.sort(rng)}, {"$limit": 4}], "all": [{"$count": "n"}]}}],
            [{"$setWindowFields": window}, SORTED],
        ]
    )


def pipeline(rng: Random) -> Case:
    stages = (_foreign if rng.random() < 0.5 else _own)(rng)
    cursor = rng.choice([{}, {"batchSize": 2}, {"batchSize": 0}])
    source = rng.choice("cccdev")
    stages = [{"$match": a_filter(rng)}, *stages]
    return {"aggregate": source, "pipeline": stages, "cursor": cursor, **collation(rng)}


def count(rng: Random) -> Case:
    options = {"skip": rng.choice([0, 4]), "limit": rng.choice([0, 0, 9, -3])}
    return {"count": "c", "query": a_filter(rng), **options, **collation(rng)}


def distinct(rng: Random) -> Case:
    path = rng.choice(["a", "s", "t", "v", "a.b", "g", "b.0", "k"])
    return {"distinct": "c", "key": path, "query": a_filter(rng)}


def write(rng: Random) -> Case:
    """One after which both have the same documents, in whichever order they are found."""
    query = {"$and": [a_filter(rng), {"_id": {"$mod": [3, rng.randint(0, 2)]}}]}
    change = {"$inc": {"n": 2}, "$set": {"z": rng.randint(0, 5)}}
    one = {"q": {"_id": rng.randint(0, 40)}}
    return rng.choice(
        [
            {"delete": "c", "deletes": [{"q": query, "limit": 0, **collation(rng)}, {**one, "limit": 1}]},
            {"update": "c", "updates": [{"q": query, "u": change, "multi": True, **collation(rng)}]},
            {"update": "c", "updates": [{**one, "u": change} for _ in range(3)], "ordered": rng.random() < 0.5},
            {"findAndModify": "c", "query": {"k": rng.randint(0, 20)}, "sort": {"_id": 1}, "update": change},
        ]
    )


async def outcome(server: LocalCluster | LocalNode, command: Case) -> str:
    """What a server makes of it, as text: all batches, or what a write has left."""
    reply = await server.reply(command)
    name, collection = next(iter(command.items()))
    if not reply["ok"]:
        return f"error {reply['code']}"
    if name == "distinct":
        # Which of equal numbers is given is told by the order of the documents.
        return repr([encode_key(from_python(value)) for value in reply["values"]])
    if "cursor" not in reply:
        said = repr(comparable([reply.get(field) for field in ("n", "nModified", "value")]))
        return said if name == "count" else said + await outcome(server, {"find": "c", "sort": {"_id": 1}})
    found, identity = reply["cursor"]["firstBatch"], reply["cursor"]["id"]
    while identity:
        more = await server.reply({"getMore": Int64(identity), "collection": collection, "batchSize": 3})
        if not more["ok"]:
            return f"error {more['code']}"
        found += more["cursor"]["nextBatch"]
        identity = more["cursor"]["id"]
    shown = [repr(comparable(document)) for document in found]
    return "\n".join(sorted(shown) if name == "find" and "sort" not in command else shown)


KINDS: list[tuple[Callable[[Random], Case], int]] = [
    (find, 15), (pipeline, 15), (count, 4), (distinct, 3), (write, 4)
]  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_a_router_answers_as_a_node_does(seed: int) -> None:
    rng = Random(seed)

    async def story() -> None:
        cluster, node = LocalCluster(), LocalNode()
        cluster.relays = seed % 3 > 0
        contents = {"c": documents(rng, 40), "d": documents(rng, 15), "e": documents(rng, 15)}
        for server in (cluster, node):
            # The collation of a collection counts for all that begins with it.
            assert (await server.reply({"create": "e", "collation": PRIMARY_STRENGTH}))["ok"] == 1
            view = {"viewOn": "c", "pipeline": [{"$match": {"g": {"$ne": "z"}}}, {"$set": {"x": 1}}]}
            assert (await server.reply({"create": "v", **view}))["ok"] == 1
            for name, rows in contents.items():
                assert (await server.reply({"insert": name, "documents": rows}))["n"] == len(rows)
            await server.reply({"createIndexes": "c", "indexes": [{"key": {"s": 1}, "name": "s_1"}]})
        for kind in rng.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS], k=40):
            command = kind(rng)
            routed, alone = [await outcome(server, command) for server in (cluster, node)]
            # A router looks at the collation of a view that a stage reads when that comes to reading it.
            assert routed == alone or alone == "error 167", command

    loop(story())


def test_the_place_of_a_document_is_not_projected_away() -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = LocalCluster()
        rows = [{"_id": number, "k": number, "x": number % 3} for number in range(20)]
        assert (await cluster.reply({"insert": "c", "documents": rows}))["n"] == 20
        command = {"find": "c", "sort": {"x": 1, "_id": 1}, "projection": {"x": 1}, "showRecordId": True}
        found: list[dict[str, Any]] = (await cluster.reply(command))["cursor"]["firstBatch"]
        return found

    found = loop(story())
    assert [row["_id"] for row in found] == sorted(range(20), key=lambda number: (number % 3, number))
    assert all(list(row) == ["_id", "x", "$recordId"] for row in found)


def test_keys_of_several_shards_have_no_order() -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = LocalCluster()
        rows = [{"_id": number, "k": number} for number in range(20)]
        assert (await cluster.reply({"insert": "c", "documents": rows}))["n"] == 20
        command = {"find": "c", "hint": {"_id": 1}, "returnKey": True}
        return [
            await cluster.reply({**command, **more})
            for more in ({}, {"sort": {"_id": 1}}, {"sort": {"_id": 1}, "filter": {"k": {"$lt": 5}}})
        ]

    unsorted, several, one = loop(story())
    assert len(unsorted["cursor"]["firstBatch"]) == 20
    assert several["codeName"] == "NotImplemented"
    assert one["cursor"]["firstBatch"] == [{"_id": number} for number in range(5)]


def test_results_are_merged_by_an_index_under_the_collation_of_what_is_read() -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = LocalCluster()
        await cluster.reply({"create": "e", "collation": PRIMARY_STRENGTH})
        await cluster.reply({"insert": "e", "documents": [{"_id": 1, "s": "a", "n": 1}]})
        index = {"key": {"s": 1}, "name": "s_1", "unique": True}
        for name, more in (("folded", {"collation": PRIMARY_STRENGTH}), ("plain", {})):
            await cluster.reply({"createIndexes": name, "indexes": [index | more]})
        command: Case = {"aggregate": "e", "cursor": {}}
        return [
            await cluster.reply(
                {**command, "pipeline": [{"$project": {"_id": 0}}, {"$merge": {"into": to, "on": "s"}}]}
            )
            for to in ("folded", "plain")
        ]

    folded, plain = loop(story())
    assert folded["ok"] == 1
    assert plain["code"] == 51190


def test_a_pipeline_is_relayed_with_the_collections_beside_it() -> None:
    """Once the router knows where they are; views are read by the router itself, down to what they stand on."""
    connected = {"connectFromField": "x", "connectToField": "_id"}
    beside = [
        [{"$lookup": {"from": "e", "localField": "x", "foreignField": "_id", "as": "r"}}],
        [{"$lookup": {"from": "e", "let": {"x": "$x"}, "pipeline": [{"$unionWith": "f"}], "as": "r"}}],
        [{"$facet": {"r": [{"$unionWith": {"coll": "e", "pipeline": [{"$match": {"_id": 1}}]}}]}}],
        [{"$graphLookup": {"from": "e", "startWith": "$x", **connected, "as": "r"}}],
    ]  # fmt: skip

    async def story() -> None:
        cluster = LocalCluster()
        for name in ("d", "e", "f"):
            rows = [{"_id": number, "x": number % 3} for number in range(6)]
            assert (await cluster.reply({"insert": name, "documents": rows}))["n"] == 6
        await cluster.reply({"insert": "c", "documents": [{"_id": number, "k": number} for number in range(20)]})
        for stages in beside:
            relayed = cluster.a.relayed
            reply = await cluster.reply({"aggregate": "d", "pipeline": stages, "cursor": {}})
            assert len(reply["cursor"]["firstBatch"]) in (1, 6)
            assert cluster.a.relayed == relayed + 1
            assert set(cluster.a.asked[-1]["otherVersions"]) == ({"e", "f"} if "'f'" in str(stages) else {"e"})
        for name, on in (("of_e", "e"), ("of_c", "c")):
            await cluster.reply({"create": name, "viewOn": on, "pipeline": [{"$match": {"_id": {"$gte": 4}}}]})
        join = {"localField": "none", "foreignField": "none", "as": "r"}
        for name, there, relays in (("of_e", 2, True), ("of_c", 16, False)):
            command = {"aggregate": "d", "pipeline": [{"$lookup": {"from": name, **join}}], "cursor": {}}
            for _ in range(2):
                relayed = cluster.a.relayed
                reply = await cluster.reply(command)
                assert [len(row["r"]) for row in reply["cursor"]["firstBatch"]] == [there] * 6
            assert (cluster.a.relayed == relayed + 1) is relays

    loop(story())
