"""What is prepared, when, and what is left to the general way."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest

from docstore.collection.limits import MAX_STEP_ENTRIES
from docstore.collection.read import prepared
from docstore.node.commands import aggregate as aggregate_command
from docstore.node.pipeline import at_once as pipelines_at_once
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.requests_at_once import INDEXES, LOOSE, STAGES, STRICT, Calls, everything, patched


def test_common_requests_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        beside = [each for each in INDEXES if each["name"] in ("t", "g", "e")]
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"b": 1, "c": -1}, "name": "bc"}]})
        await node.run({"createIndexes": "c", "indexes": [*beside, {"key": {"h": "hashed"}, "name": "h"}]})
        await node.insert("c", *({"_id": number, "a": number, "b": number % 5, "c": number} for number in range(50)))
        commands: list[dict[str, Any]] = [
            {"find": "c", "filter": {"a": 1}},
            {"find": "c", "filter": {"a": {"$gte": 1, "$lt": 4}}, "projection": {"a": 1}},
            {"find": "c", "filter": {"b": 1}, "sort": {"c": -1}, "limit": 3}, {"find": "c", "filter": {"b": 1, "a": 6}},
            {"find": "c", "filter": {"b": 1, "d": None}}, {"find": "c", "filter": {}, "sort": {"a": -1}, "limit": 2},
            {"find": "c", "filter": {"b": 2}, "sort": {"a": 1}}, {"find": "c", "sort": {"_id": -1}, "limit": 1},
            {"find": "c", "filter": {"_id": {"$gt": 5, "$lt": 9}}},
            {"find": "c", "filter": {"_id": {"$in": [3, 1, 3]}}},
            {"find": "c", "filter": {"b": {"$in": [1, 4, "x"]}}},
            {"find": "c", "filter": {"_id": 7, "b": 2, "z": None}},
            {"find": "c", "filter": {"b": 1, "c": {"$in": [1, 6]}}},
            {"find": "c", "filter": {"a": 6, "b": {"$in": [1]}}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"b": 1, "c": 6}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"a": 9}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"a": {"$gt": 47}}]}},
            {"find": "c", "filter": {"$or": [{"a": 3}, {"_id": 7}, {"b": 2, "z": 4}]}, "sort": {"c": 1}, "limit": 2},
            {"find": "c", "filter": {"b": 1, "$or": [{"c": 3}, {"z": {"$gt": 1}}]}},
            {"count": "c", "query": {"$or": [{"a": 3}, {"a": {"$gt": 47}}]}},
            {"count": "c", "query": {"b": 3}}, {"distinct": "c", "key": "c", "query": {"b": 3}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, STAGES[0]], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, {"$sort": {"c": -1}}, {"$limit": 2}], "cursor": {}},
            {"aggregate": "c", "pipeline": [{"$match": {"b": 3}}, STAGES[1]], "cursor": {}},
            {"find": "c", "filter": {"b": 1}, "projection": {"c": {"$slice": 1}}, "skip": 2},
            {"find": "c", "filter": {"b": 1}, "projection": {"c": {"$add": ["$a", "$b"]}}, "sort": {"c": -1}},
            {"find": "c", "filter": {"b": 2, "a": {"$lt": 40}}}, {"find": "c", "filter": {"b": 2, "a": {"$gt": 30}}},
            {"count": "c", "query": {"b": 2, "a": {"$gt": 40}}},
            {"find": "c", "filter": {"b": 1, "$expr": {"$gt": ["$a", "$c"]}}},
            {"find": "c", "filter": {"$and": [{"b": 1}, {"$or": [{"c": 3}, {"z": {"$gt": 1}}]}]}},
            {"find": "c", "filter": {"b": 3, "$nor": [{"a": 1}, {"z": 2}]}},
            {"find": "c", "filter": {"h": 3}}, {"find": "c", "filter": {"h": 3, "z": {"$gt": 1}}},
            {"find": "c", "filter": {"_id": {"$in": [7]}}}, {"find": "c", "filter": {"_id": {"$in": [8]}, "b": 3}},
        ]  # fmt: skip
        for command in commands:
            before = calls.served
            await node.run(command)
            assert calls.served == before + 1, command

    loop(work())


PREPARED: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "clustered": ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, [
        {"find": "c", "filter": {"_id": {"$gte": 7, "$lt": 9}}}, {"find": "c", "filter": {"_id": {"$gt": 7}}},
        {"find": "c", "sort": {"_id": -1}, "limit": 2}, {"find": "c", "limit": 2},
        {"find": "c", "filter": {"_id": {"$in": [3, 1, 3]}}}, {"find": "c", "filter": {"_id": {"$in": [3]}, "c": 3}},
        {"find": "c", "filter": {"_id": {"$in": [3, 1]}}, "sort": {"_id": -1}},
        {"find": "c", "filter": {"_id": {"$in": [3, 1]}}, "sort": {"c": -1}, "limit": 1},
        {"find": "c", "filter": {"_id": {"$lt": 20}, "c": {"$gt": 4}}, "sort": {"_id": -1}, "skip": 2},
        {"find": "c", "filter": {"c": {"$gt": 4}}, "sort": {"c": 1}}, {"count": "c", "query": {"_id": {"$gt": 40}}},
        {"find": "c", "filter": {"$or": [{"_id": 3}, {"_id": 5}]}},
        {"distinct": "c", "key": "c", "query": {"_id": {"$lt": 5}}},
        {"aggregate": "c", "pipeline": [{"$match": {"_id": {"$lt": 5}}}, STAGES[1]], "cursor": {}},
    ]),
    "wildcard": ({}, [
        {"find": "c", "filter": {"x.y": 7}}, {"find": "c", "filter": {"x.y": {"$gte": 7, "$lt": 9}}},
        {"find": "c", "filter": {"x.y": {"$in": [3, 5]}}}, {"find": "c", "filter": {"x.t": "T5", "x.y": 5}},
        {"find": "c", "filter": {"x.y": {"$gt": 30}}, "sort": {"x.y": -1}, "limit": 2},
        {"find": "c", "filter": {"x.t": bson.Regex("^T1")}}, {"find": "c", "filter": {"x.y": {"$gt": 3, "$ne": 5}}},
        {"find": "c", "filter": {"x.y": {"$lt": 30}}, "sort": {"c": -1}, "limit": 2},
        {"find": "c", "filter": {"$or": [{"x.y": 7}, {"x.t": "T3"}]}}, {"count": "c", "query": {"x.y": {"$gt": 40}}},
        {"aggregate": "c", "pipeline": [{"$match": {"x.y": {"$lt": 5}}}, STAGES[1]], "cursor": {}},
    ]),
    "collated": ({}, [
        {"find": "c", "filter": {"t": "t7"}, "collation": LOOSE}, {"find": "c", "filter": {"n": 7}, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3", "$lt": "t5"}}, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3"}}, "sort": {"t": -1}, "limit": 3, "collation": LOOSE},
        {"find": "c", "filter": {"t": {"$gt": "t3"}}, "sort": {"u": 1}, "collation": LOOSE},
        {"find": "c", "filter": {"t": "t3", "u": {"$in": ["U3", "u4"]}}, "collation": LOOSE},
        {"find": "c", "filter": {"n": 7, "t": "t7"}, "collation": STRICT, "projection": {"t": 1}},
        {"find": "c", "filter": {"_id": 7, "t": "t7"}, "collation": STRICT}, {"find": "c", "filter": {"t": "T7"}},
        {"find": "c", "filter": {"t": "t7"}, "collation": STRICT}, {"find": "c", "filter": {"t": 7}},
        {"find": "c", "filter": {"$or": [{"t": "t7"}, {"n": 3}]}, "collation": LOOSE},
        {"count": "c", "query": {"t": "t7"}, "collation": LOOSE},
        {"distinct": "c", "key": "c", "query": {"t": {"$gt": "t7"}}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": "t7"}}, STAGES[1]], "cursor": {}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": {"$gt": "t7"}}}, {"$sort": {"u": -1}}, {"$limit": 3}],
         "cursor": {}, "collation": LOOSE},
        {"aggregate": "c", "pipeline": [{"$match": {"t": {"$lt": "t3"}}}, {"$group": {"_id": "$u"}}],
         "cursor": {}, "collation": LOOSE},
    ]),
    "collated by default": ({"collation": LOOSE}, [
        {"find": "c", "filter": {"t": "t7"}}, {"find": "c", "filter": {"t": "t7"}, "collation": {"locale": "simple"}},
        {"find": "c", "filter": {"_id": 7, "t": "t7"}}, {"find": "c", "sort": {"t": -1}, "limit": 2},
        {"find": "c", "filter": {"n": 4}, "sort": {"t": 1}}, {"count": "c", "query": {"n": {"$gt": 4}, "u": "u7"}},
        {"aggregate": "c", "pipeline": [{"$match": {"t": "t7"}}, STAGES[1]], "cursor": {}},
    ]),
}  # fmt: skip
"""How a collection is made, and requests that are prepared in it."""


@pytest.mark.parametrize("kind", PREPARED)
def test_requests_are_prepared_in_collections_of_a_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        options, commands = PREPARED[kind]
        await node.run({"create": "c", **options})
        await node.run({"createIndexes": "c", "indexes": [
            {"key": {"x.$**": 1}, "name": "x"}, {"key": {"t": 1, "u": 1}, "name": "t", "collation": LOOSE},
            {"key": {"n": 1}, "name": "n"},
        ]})  # fmt: skip
        documents = (
            {"_id": n, "c": n % 7, "n": n, "t": f"T{n}", "u": f"u{n}", "x": {"y": n, "t": f"T{n}"}} for n in range(50)
        )
        await node.insert("c", *documents)
        for command in commands:
            before = calls.served
            found = await node.run(command)
            assert calls.served == before + 1, command
            with monkeypatch.context() as patch:
                patched(patch)
                assert found == await node.run(command), command

    loop(work())


def test_a_contradiction_says_nothing_of_other_filters_of_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node, calls = LocalNode(), Calls(monkeypatch)
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.run({"create": "d", "clusteredIndex": {"key": {"_id": 1}, "unique": True}})
        for name, path in (("c", "a"), ("d", "_id")):
            await node.insert(name, *({"_id": number, "a": number} for number in range(9)))
            assert await node.documents(name, {path: {"$gt": 5, "$lt": 3}}) == []
            assert calls.served == 0
            assert len(await node.documents(name, {path: {"$gt": 3, "$lt": 5}})) == 1
            assert calls.served == 1
            calls.served = 0

    loop(work())


JOINS: tuple[list[dict[str, Any]], ...] = (
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "y", "as": "b"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "_id", "as": "a.l"}}],
    [{"$lookup": {"from": "d", "localField": "v.w", "foreignField": "m", "as": "l"}}, {"$unwind": "$l"}],
    [{"$sort": {"_id": -1}}, {"$lookup": {"from": "d", "localField": "v.w", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "c", "localField": "a", "foreignField": "a", "as": "l"}}, {"$match": {"l.v": 3}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l"}}, {"$unwind": "$l"},
     {"$lookup": {"from": "d", "localField": "l.m", "foreignField": "m", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "nothing", "as": "l"}}],
    [{"$lookup": {"from": "missing", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "seen", "localField": "a", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "folded", "localField": "v", "foreignField": "x", "as": "l"}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [{"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "let": {"z": "$a"},
                  "pipeline": [{"$match": {"$expr": {"$gt": ["$z", "$$z"]}}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$project": {"y": 1, "w": "$$w"}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$y", "$$w"]}}}]}}, {"$unwind": "$l"}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [{"$unset": "m"}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l", "pipeline": [
        {"$lookup": {"from": "c", "localField": "z", "foreignField": "a", "as": "k"}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l",
                  "pipeline": [{"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$addFields": {"r": {"$rand": {}}}},
                               {"$unset": "r"}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a"}, "as": "l", "pipeline": [
        {"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$sort": {"z": 1, "_id": 1}}, {"$limit": 2}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$a", "v": "$v"}, "as": "l", "pipeline": [
        {"$match": {"y": {"$ne": 2}, "$expr": {"$and": [{"$eq": ["$$w", "$x"]}, {"$gt": ["$z", "$$v"]}]}}},
        {"$sort": {"_id": -1}}, {"$project": {"z": {"$add": ["$z", "$$w"]}}}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l", "pipeline": [
        {"$match": {"$expr": {"$eq": ["$x", "$$w"]}}}, {"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "let": {"w": "$v"}, "as": "l",
                  "pipeline": [{"$match": {"x": 3, "m": "a"}}, {"$limit": 2}]}}],
    [{"$lookup": {"from": "d", "localField": "a", "foreignField": "x", "as": "l",
                  "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 1}]}}],
    [{"$lookup": {"from": "d", "localField": "v", "foreignField": "x", "as": "l",
                  "pipeline": [{"$match": {"z": {"$gt": 3}}}]}}],
    [{"$match": {"v": {"$ne": 1}}}, {"$match": {"a": {"$lt": 4}}}, {"$sort": {"_id": -1}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}]}}],
    [{"$sort": {"_id": 1}}, {"$limit": 3}, {"$unionWith": {"pipeline": [
        {"$match": {"x": {"$gt": 7}}}, {"$sort": {"_id": -1}}, {"$limit": 2}, {"$project": {"z": 1}}], "coll": "d"}},
     {"$sort": {"z": 1, "_id": 1}}, {"$limit": 4}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$count": "n"}]}},
     {"$unionWith": {"coll": "c", "pipeline": [{"$match": {"a": 2}}, {"$group": {"_id": "$v"}}, {"$sort": {"_id": 1}}]}
     }, {"$addFields": {"seen": True}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$unionWith": "c"}]}}],
    [{"$unionWith": {"coll": "seen", "pipeline": [{"$match": {"x": 4}}]}}], [{"$unionWith": "d"}, {"$count": "n"}],
    [{"$unionWith": {"coll": "missing", "pipeline": [{"$match": {"x": 4}}]}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}, {"$nonsense": 1}]}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}], "more": 1}}],
    [{"$unionWith": {"coll": "d", "pipeline": [{"$match": {"x": 3}}]}, "$limit": 1}],
)  # fmt: skip


def test_partners_are_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        rng = random.Random(7)
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        keys = ({"x": 1}, {"y": 1}, {"m": 1}, {"y": 1, "_id": -1})
        await node.run({"createIndexes": "d", "indexes": [{"key": key, "name": repr(key)} for key in keys]})
        await node.run({"create": "folded", "collation": {"locale": "en", "strength": 2}})
        await node.run({"create": "seen", "viewOn": "d", "pipeline": [{"$match": {"x": {"$gt": 3}}}]})
        await node.run({"createIndexes": "folded", "indexes": [{"key": {"x": 1}, "name": "x"}]})
        await node.insert("folded", {"_id": 1, "x": "A"}, {"_id": 2, "x": "a"})
        kinds: tuple[Any, ...] = (1, 2, 3, "a", "A", None, [1, 2], [], {"w": 2}, [{"w": 1}, {"w": [2, 3]}], 2.0)
        for number in range(40):
            some = {"v": rng.choice(kinds)} if rng.random() < 0.9 else {}
            await node.insert("c", {"_id": number, "a": number // 4, **some})
            plain = rng.choice((1, 2, 3, "a", "A", None, 2.0))
            row = {"_id": number, "x": number % 10, "y": plain, "m": rng.choice(kinds[:7]), "z": rng.randrange(9)}
            await node.insert("d", row if rng.random() < 0.9 else {"_id": number})
        served = 0
        whole = pipelines_at_once.aggregate_at_once

        def counted(*arguments: Any) -> bytes | None:
            nonlocal served
            found = whole(*arguments)
            served += found is not None
            return found

        for stages in JOINS:
            for number in range(11):
                wanted = rng.choice(({"a": number}, {"a": {"$gte": number, "$lt": number + 3}}))
                command = {"aggregate": "c", "pipeline": [{"$match": wanted}, *stages], "cursor": {}}
                with monkeypatch.context() as patch:
                    patch.setattr(aggregate_command, "aggregate_at_once", counted)
                    given = await everything(node, command)
                with monkeypatch.context() as patch:
                    patched(patch)
                    assert repr(given) == repr(await everything(node, command)), command
        assert served > 40

    loop(work())


def test_what_takes_long_is_left_to_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", *({"_id": number, "a": 1, "z": number} for number in range(MAX_STEP_ENTRIES + 5)))
        collection = node.node.store.collection("test.c")
        assert collection is not None
        bound = prepared.bound_scan(collection, bson.encode({"a": 1, "z": MAX_STEP_ENTRIES + 2}), node.node.engine)
        assert bound is not None
        assert bound.documents(node.node.engine, 1, None) is None
        found = await node.documents("c", {"a": 1, "z": MAX_STEP_ENTRIES + 2})
        assert [each["_id"] for each in found] == [MAX_STEP_ENTRIES + 2]

    loop(work())


def test_uses_of_indexes_are_counted() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0]]})
        await node.insert("c", {"_id": 1, "a": 1})
        for _ in range(3):
            await node.run({"find": "c", "filter": {"a": 1}})
        await node.run({"count": "c", "query": {"a": 1}})
        await node.run({"update": "c", "updates": [{"q": {"a": 1}, "u": {"$set": {"z": 1}}}]})
        stats = await node.run({"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}})
        uses = {each["name"]: each["accesses"]["ops"] for each in stats["cursor"]["firstBatch"]}
        assert uses["a"] == 5

    loop(work())


@pytest.mark.parametrize("walk", [
    {"filter": {"a": {"$gte": 3}}}, {"filter": {"a": {"$gte": 3}}, "sort": {"a": -1}},
    {"filter": {"_id": {"$lt": 900}}}, {"filter": {"_id": {"$lt": 900}}, "sort": {"_id": -1}},
    {"filter": {"g": {"$gt": 1}}},
    {"filter": {"g": {"$gt": 1}}, "sort": {"g": -1}}, {"filter": {"a": {"$gte": 3}, "z": 1}, "projection": {"a": 1}},
    {"filter": {"a": {"$gte": 3}}, "limit": 300}, {"filter": {"a": {"$gte": 3}}, "skip": 30, "batchSize": 70},
])  # fmt: skip
def test_what_is_behind_a_first_batch_is_of_the_same_state(
    walk: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [INDEXES[0], {"key": {"g": 1}, "name": "g"}]})
        rows = [
            {"_id": number, "a": number // 3, "g": [number % 7, number % 5], "z": number % 2} for number in range(990)
        ]
        await node.insert("c", *rows)
        found: list[list[Any]] = []
        for general in (False, True):
            with monkeypatch.context() as patch:
                calls = Calls(patch)
                if general:
                    patched(patch)
                reply = await node.run({"find": "c", "batchSize": 120, **walk})
                assert calls.served == (not general)
                batches = [reply["cursor"]["firstBatch"]]
                # What is written now is not seen, whatever it is.
                await node.run({"delete": "c", "deletes": [{"q": {"_id": {"$gt": 400, "$lt": 480}}, "limit": 0}]})
                await node.run({"update": "c", "updates": [{"q": {}, "u": {"$inc": {"a": 1}}, "multi": True}]})
                await node.insert("c", {"_id": 10000, "a": 300, "g": [3], "z": 1})
                while reply["cursor"]["id"]:
                    more = {"getMore": reply["cursor"]["id"], "collection": "c", "batchSize": 130}
                    reply = await node.run(more)
                    batches.append(reply["cursor"]["nextBatch"])
                found.append(batches)
                await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
                await node.insert("c", *rows)
        assert found[0] == found[1]

    loop(work())
