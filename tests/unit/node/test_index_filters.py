"""Index filters: which queries they are for, what they leave to choose from; how they are set, shown and forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Regex

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop

SET, LIST, CLEAR = "planCacheSetFilter", "planCacheListFilters", "planCacheClearFilters"
BOTH = {"a": 3, "b": 2}


async def with_indexes() -> LocalNode:
    node = LocalNode()
    await node.insert("c", *({"_id": n, "a": n % 10, "b": n % 7, "z": n} for n in range(200)))
    for key, name in (({"a": 1}, "a_1"), ({"a": 1, "b": 1}, "a_1_b_1"), ({"b": 1}, "bee"), ({"z": 1}, "z_1")):
        await node.run({"createIndexes": "c", "indexes": [{"key": key, "name": name}]})
    return node


async def put(node: LocalNode, query: dict[str, Any], *indexes: Any, **more: Any) -> None:
    await node.run({SET: "c", "query": query, "indexes": list(indexes), **more})


async def listed(node: LocalNode, name: str = "c") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await node.run({LIST: name}))["filters"]
    return found


def _used(stage: dict[str, Any]) -> list[str]:
    inputs = [stage["inputStage"]] if "inputStage" in stage else stage.get("inputStages", [])
    own = [stage["indexName"]] if "indexName" in stage else [stage["stage"]] if not inputs else []
    return own + [name for each in inputs for name in _used(each)]


async def planned(node: LocalNode, command: dict[str, Any]) -> tuple[bool, list[str]]:
    """(whether there is a filter for the command, what its plan reads)"""
    reply = await node.run({"explain": command, "verbosity": "queryPlanner"})
    planner = reply["queryPlanner"] if "queryPlanner" in reply else reply["stages"][0]["$cursor"]["queryPlanner"]
    return planner["indexFilterSet"], _used(planner["winningPlan"])


def find(query: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"find": "c", "filter": query, **more}


LIKE_IT: dict[str, dict[str, Any]] = {
    "other values": find({"a": None, "b": "x"}),
    "another order of conditions": find({"b": 3, "a": [1]}),
    "a conjunction": find({"$and": [{"a": 1}, {"b": {"$in": [2]}}]}),
    "skip and limit": find(BOTH, skip=3, limit=1),
    "a hint": find(BOTH, hint="bee"),
    "a hint that names none": find(BOTH, hint="none"),
    "no values left out": find(BOTH, projection={"z": 0}),
    "count": {"count": "c", "query": BOTH},
    "update": {"update": "c", "updates": [{"q": BOTH, "u": {"$set": {"q": 1}}}]},
    "delete": {"delete": "c", "deletes": [{"q": BOTH, "limit": 1}]},
    "findAndModify": {"findAndModify": "c", "query": BOTH, "update": {"$set": {"q": 1}}},
    "aggregate": {"aggregate": "c", "pipeline": [{"$match": BOTH}], "cursor": {}},
}


@pytest.mark.parametrize("name", LIKE_IT)
def test_queries_of_one_shape_use_what_is_named(name: str) -> None:
    async def work() -> None:
        node = await with_indexes()
        await put(node, {"a": 1, "b": 1}, "a_1")
        limited, used = await planned(node, LIKE_IT[name])
        assert (limited, used) == (True, ["a_1"])
        await put(node, {"a": 1, "b": 1}, {"b": 1.0})
        assert await planned(node, LIKE_IT[name]) == (True, ["bee"])
        await put(node, {"a": 1, "b": 1}, "none", "_id_")
        assert await planned(node, LIKE_IT[name]) == (True, ["COLLSCAN"])

    loop(work())


UNLIKE_IT: dict[str, dict[str, Any]] = {
    "another operator": find({"a": 3, "b": {"$gt": 1}}),
    "a list": find({"a": {"$in": [1, 2]}, "b": 2}),
    "more": find({**BOTH, "z": 1}),
    "less": find({"a": 3}),
    "an order": find(BOTH, sort={"b": 1}),
    "a natural order": find(BOTH, sort={"$natural": 1}),
    "a projection": find(BOTH, projection={"b": 1}),
    "values that are collected": {
        "aggregate": "c", "pipeline": [{"$match": BOTH}, {"$group": {"_id": "$z"}}], "cursor": {},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE_IT)
def test_other_queries_are_left_as_they_are(name: str) -> None:
    async def work() -> None:
        node = await with_indexes()
        before = await planned(node, UNLIKE_IT[name])
        await put(node, BOTH, "z_1")
        assert await planned(node, UNLIKE_IT[name]) == before
        assert not before[0]

    loop(work())


def test_a_filter_may_be_for_an_order_a_projection_and_a_collation() -> None:
    async def work() -> None:
        node = await with_indexes()
        await put(node, {"a": 1}, "a_1", sort={"b": 1})
        assert await planned(node, find({"a": 3}, sort={"b": 1.0})) == (True, ["a_1"])
        assert (await planned(node, find({"a": 3}, sort={"b": -1})))[0] is False
        await put(node, {"a": 1}, "z_1", projection={"b": 1, "_id": 0})
        assert await planned(node, find({"a": 3}, projection={"_id": 0, "b": True})) == (True, ["COLLSCAN"])
        assert (await planned(node, find({"a": 3}, projection={"b": 1})))[0] is False
        english = {"locale": "en"}
        await put(node, {"a": "x"}, "z_1", collation=english)
        assert await planned(node, find({"a": "y"}, collation=english)) == (True, ["COLLSCAN"])
        assert (await planned(node, find({"a": "y"})))[0] is False

    loop(work())


def test_a_disjunction_has_its_branches_served_by_what_is_named() -> None:
    async def work() -> None:
        node = await with_indexes()
        either = {"$or": [{"a": 1}, {"b": 2}]}
        await put(node, {"$or": [{"b": 7}, {"a": 7}]}, "a_1_b_1", "bee")
        assert await planned(node, find(either)) == (True, ["a_1_b_1", "bee"])
        await put(node, either, "z_1")
        assert await planned(node, find(either)) == (True, ["COLLSCAN"])

    loop(work())


def test_a_lookup_by_id_alone_stays_one() -> None:
    async def work() -> None:
        node = await with_indexes()
        await put(node, {"_id": 1}, "a_1")
        assert await planned(node, find({"_id": 3})) == (True, ["IDHACK"])
        await put(node, {"_id": 1, "a": 1}, "a_1")
        assert await planned(node, find({"_id": 3, "a": 3})) == (True, ["a_1"])
        assert await node.documents("c", {"_id": 3, "a": 3}) == [{"_id": 3, "a": 3, "b": 3, "z": 3}]

    loop(work())


def test_what_is_found_does_not_depend_on_filters() -> None:
    """Before, while and after there is one, also for those whose scan was prepared."""

    async def work() -> None:
        node = await with_indexes()
        conditions = [BOTH, {"a": 5}, {"a": 3, "_id": {"$gt": 50}}, {"$or": [{"a": 1}, {"b": 2}]}, {"_id": 3, "a": 3}]
        found = [await node.documents("c", each) for each in conditions]
        count = (await node.run({"count": "c", "query": BOTH}))["n"]
        for indexes in (["a_1"], ["none"], [{"b": 1}, "z_1"], None):
            for each in conditions:
                if indexes is None:
                    await node.run({CLEAR: "c", "query": each})
                else:
                    await put(node, each, *indexes)
            for _ in range(2):
                for each, expected in zip(conditions, found, strict=True):
                    rows = await node.documents("c", each)
                    assert sorted(row["_id"] for row in rows) == sorted(row["_id"] for row in expected)
                assert (await node.run({"count": "c", "query": BOTH}))["n"] == count
            for _ in range(2):
                changed = await node.run(
                    {"update": "c", "updates": [{"q": BOTH, "u": {"$inc": {"q": 1}}, "multi": True}]}
                )
                assert (changed["n"], changed["nModified"]) == (count, count)
        assert await listed(node) == []

    loop(work())


def test_a_filter_is_heeded_by_what_was_sent_before() -> None:
    async def work() -> None:
        node = await with_indexes()
        uses = {"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}}

        async def used() -> dict[str, int]:
            rows = (await node.run(uses))["cursor"]["firstBatch"]
            return {row["name"]: row["accesses"]["ops"] for row in rows}

        for index in ("bee", "a_1"):
            await put(node, BOTH, index)
            before = await used()
            for _ in range(3):
                await node.documents("c", BOTH)
            after = await used()
            assert {name: after[name] - before[name] for name in after if after[name] != before[name]} == {index: 3}

    loop(work())


def test_filters_are_shown_as_they_were_set() -> None:
    async def work() -> None:
        node = await with_indexes()
        assert await listed(node) == []
        await put(node, {"a": 1}, "a_1", {"b": 1}, "a_1", {"b": 1.0})
        await put(node, {"a": {"$gt": 1}}, "bee", sort={"b": 1}, projection={"b": 1}, unknown=1)
        shown = [
            {"query": {"a": 1}, "sort": {}, "projection": {}, "indexes": ["a_1", {"b": 1}]},
            {"query": {"a": {"$gt": 1}}, "sort": {"b": 1}, "projection": {"b": 1}, "indexes": ["bee"]},
        ]
        assert await listed(node) == shown
        await put(node, {"a": 2}, "bee")
        shown[0] |= {"query": {"a": 2}, "indexes": ["bee"]}
        assert await listed(node) == shown
        await put(node, {"a": "x"}, "bee", collation={"locale": "en"})
        (_, _, last) = await listed(node)
        assert list(last) == ["query", "sort", "projection", "collation", "indexes"]
        assert last["collation"]["strength"] == 3

    loop(work())


def test_filters_are_forgotten_one_by_one_or_all() -> None:
    async def work() -> None:
        node = await with_indexes()
        for query in ({"a": 1}, {"b": 1}, {"z": {"$gt": 1}}):
            await put(node, query, "a_1")
        await put(node, {"a": 1}, "a_1", sort={"b": 1})
        for gone in (
            {"query": {"a": 99}},
            {"query": {"a": 99}},
            {"query": {"never": 1}},
            {"query": {"b": 1}, "sort": {"a": 1}},
        ):
            await node.run({CLEAR: "c", **gone})
            assert len(await listed(node)) == 3
        await node.run({CLEAR: "c", "query": {"a": 5}, "sort": {"b": 1}})
        assert [each["query"] for each in await listed(node)] == [{"b": 1}, {"z": {"$gt": 1}}]
        await node.run({CLEAR: "c"})
        assert await listed(node) == []
        assert await planned(node, find({"b": 1})) == (False, ["bee"])

    loop(work())


def test_filters_stay_with_the_collection() -> None:
    async def work() -> None:
        node = await with_indexes()
        await put(node, BOTH, "bee")
        await node.run({"planCacheClear": "c"})
        await node.run({"dropIndexes": "c", "index": "bee"})
        assert await planned(node, find(BOTH)) == (True, ["COLLSCAN"])
        await node.run({"createIndexes": "c", "indexes": [{"key": {"b": 1}, "name": "bee"}]})
        assert await planned(node, find(BOTH)) == (True, ["bee"])
        await node.run({"collMod": "c", "index": {"name": "bee", "hidden": True}})
        assert await planned(node, find(BOTH)) == (True, ["COLLSCAN"])
        await node.run({"renameCollection": "test.c", "to": "test.d"}, "admin")
        assert await listed(node) == []
        assert len(await listed(node, "d")) == 1
        await node.run({"drop": "d"})
        await node.insert("d", {"_id": 1})
        assert await listed(node, "d") == []

    loop(work())


SAME: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"a": 1}, {"a": {"$in": ["x"]}}), ({"a": 1}, {"a": {"$all": [1]}}),
    ({"a": {"$exists": True}}, {"a": {"$exists": 1}}),
    ({"a": {"$ne": 1}}, {"$nor": [{"a": 2}]}), ({"a": {"$regex": "^x"}}, {"a": Regex("y")}),
    ({"a": {"$type": "int"}}, {"a": {"$type": "string"}}), ({"a": {"$mod": [2, 0]}}, {"a": {"$mod": [3, 0]}}),
    ({"a": {"$size": 1}}, {"a": {"$size": 2}}), ({"a": {"$in": [1, 2]}}, {"a": {"$in": []}}),
    ({"a": {"$gt": 1, "$lt": 3}}, {"a": {"$lt": "x", "$gt": 3}}), ({"$or": [{"a": 1}]}, {"a": 1}),
    ({"$expr": {"$eq": ["$a", 1]}}, {"$expr": {"$eq": ["$a", 2]}}),
]  # fmt: skip
DIFFERENT: list[dict[str, Any]] = [
    {"a": 1}, {"a": {"$in": [1, 2]}}, {"a": {"$gt": 1}}, {"a": {"$gte": 1}}, {"a": {"$exists": True}},
    {"a": {"$exists": False}}, {"a": {"$ne": 1}}, {"a": {"$not": {"$gt": 1}}}, {"a": {"$type": "int"}},
    {"a": {"$size": 1}}, {"a": {"$mod": [2, 0]}}, {"a": {"$regex": "x"}}, {"a": {"$elemMatch": {"$gt": 1}}},
    {"a": {"$all": [1, 2]}}, {"b": 1},
    {"$expr": {"$eq": ["$a", 1]}}, {"a": 1, "b": 1}, {"$or": [{"a": 1}, {"b": 1}]}, {"$nor": [{"a": 1}, {"b": 1}]}, {},
    {"a": {"$bitsAllSet": 1}}, {"a": {"$elemMatch": {"x": 1}}},
]  # fmt: skip


def test_shapes_are_those_of_the_real_server() -> None:
    async def work() -> None:
        node = await with_indexes()
        for one, other in SAME:
            await node.run({CLEAR: "c"})
            await put(node, one, "a_1")
            await put(node, other, "a_1")
            assert len(await listed(node)) == 1, (one, other)
        await node.run({CLEAR: "c"})
        for query in DIFFERENT:
            await put(node, query, "a_1")
        assert len(await listed(node)) == len(DIFFERENT)

    loop(work())


WHOLE = {"query": {"a": 1}, "indexes": ["a_1"]}
REFUSED: list[tuple[str, dict[str, Any], int, str]] = [
    (SET, {}, 2, "required field indexes missing"),
    (SET, {"query": {}}, 2, "required field indexes missing"),
    (SET, {"indexes": ["a_1"]}, 2, "required field query missing"),
    (SET, WHOLE | {"indexes": []}, 2, "required field indexes must contain at least one index"),
    (SET, WHOLE | {"indexes": {"a": 1}}, 2, "required field indexes must be an array"),
    (SET, WHOLE | {"indexes": None}, 2, "required field indexes must be an array"),
    (SET, WHOLE | {"indexes": [1]}, 2, "each item in indexes must be an object or string"),
    (SET, WHOLE | {"indexes": [{}]}, 2, "index specification cannot be empty"),
    (SET, WHOLE | {"query": 1}, 2, "required field query must be an object"),
    (SET, WHOLE | {"query": None}, 2, "required field query must be an object"),
    (SET, WHOLE | {"sort": 1}, 2, "optional field sort must be an object"),
    (SET, WHOLE | {"projection": None}, 2, "optional field projection must be an object"),
    (SET, WHOLE | {"collation": 1}, 2, "optional field collation must be an object"),
    (SET, WHOLE | {"collation": {}}, 2, "optional field collation cannot be an empty object"),
    (SET, WHOLE | {"collation": {"x": 1}}, 40415, ""),
    (SET, WHOLE | {"query": {"a": {"$bad": 1}}}, 2, "unknown operator: $bad"),
    (SET, WHOLE | {"sort": {"a": 2}}, 15975, ""),
    (SET, WHOLE | {"sort": {"a": "x"}, "projection": {"a": 1, "b": 0}}, 31254, ""),
    (SET, WHOLE | {SET: "missing"}, 2, "no such collection"),
    (SET, WHOLE | {SET: "view"}, 166, "Namespace test.view is a view, not a collection"),
    (SET, WHOLE | {SET: 1}, 73, "collection name has invalid type int"),
    (SET, WHOLE | {"writeConcern": {"w": 1}}, 72, ""),
    (LIST, {LIST: "view"}, 166, "Namespace test.view is a view, not a collection"),
    (CLEAR, {CLEAR: "view", "sort": 1}, 166, "Namespace test.view is a view, not a collection"),
    (CLEAR, {"sort": {}}, 2, "sort, projection, or collation provided without query"),
    (CLEAR, {"query": None, "sort": {}}, 2, "required field query must be an object"),
    (CLEAR, {"query": {"a": 1}, "sort": 1, "projection": 1}, 2, "optional field sort must be an object"),
    ("planCacheClear", {"planCacheClear": "view"}, 166, "Namespace test.view is a view, not a collection"),
    ("planCacheClear", {"query": 1}, 2, "required field query must be an object"),
]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_cannot_be_meant_is_refused(case: tuple[str, dict[str, Any], int, str]) -> None:
    command, fields, code, text = case

    async def work() -> None:
        node = await with_indexes()
        await node.run({"create": "view", "viewOn": "c", "pipeline": []})
        refused = await node.reply({command: "c", **fields})
        assert refused["code"] == code
        assert refused["codeName"] == (Code(code).name if code < 1000 else f"Location{code}")
        assert not text or refused["errmsg"] == text
        assert await listed(node) == []

    loop(work())


@pytest.mark.parametrize("fields", [{}, {"sort": {"a": 1}}, {"query": 1}, {"x": 1}])
def test_of_a_collection_that_is_not_there_there_is_nothing_to_forget(fields: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_indexes()
        for command in (CLEAR, "planCacheClear"):
            assert (await node.run({command: "missing", **fields}))["ok"] == 1
        assert await listed(node, "missing") == []

    loop(work())
