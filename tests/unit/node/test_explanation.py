"""What explain shows, without a collection behind it."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.node.explain.bounds import field_intervals
from docstore.node.explain.filter import filter_document
from docstore.query.filter.parse import parse_filter
from docstore.query.plan.bounds import field_bounds
from tests.unit.node.local import LocalNode, loop


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({"x": 3}, ["[3, 3]"]),
        ({"x": {"$gt": 3}}, ["(3, inf.0]"]),
        ({"x": {"$gte": 3, "$lt": 10}}, ["[3, 10)"]),
        ({"x": {"$lte": -2}}, ["[-inf.0, -2]"]),
        ({"x": "ab"}, ['["ab", "ab"]']),
        ({"x": {"$gte": "ab"}}, ['["ab", {})']),
        ({"x": {"$in": [1, 5]}}, ["[1, 1]", "[5, 5]"]),
        ({"x": True}, ["[true, true]"]),
        ({"y": 1}, ["[MinKey, MaxKey]"]),
    ],
)
def test_bounds_are_shown_as_intervals_of_values(condition: dict[str, Any], expected: list[str]) -> None:
    tree = parse_filter(bson.encode(condition))
    fields = (("x", 1),)
    assert field_intervals(fields, field_bounds(tree, fields)) == {"x": expected}


def test_bounds_of_a_descending_field_run_downwards() -> None:
    tree = parse_filter(bson.encode({"x": {"$gte": 3, "$lt": 10}}))
    fields = (("x", -1),)
    assert field_intervals(fields, field_bounds(tree, fields)) == {"x": ["(10, 3]"]}


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ({"x": 3}, {"x": {"$eq": 3}}),
        ({}, {}),
        ({"x": 1, "y": {"$gt": 2}}, {"$and": [{"x": {"$eq": 1}}, {"y": {"$gt": 2}}]}),
        ({"x": {"$ne": 1}}, {"x": {"$not": {"$eq": 1}}}),
        ({"$or": [{"x": 1}, {"x": {"$exists": True}}]}, {"$or": [{"x": {"$eq": 1}}, {"x": {"$exists": True}}]}),
        ({"x": {"$in": [1, 2]}}, {"x": {"$in": [1, 2]}}),
        ({"x": {"$elemMatch": {"$gt": 1}}}, {"x": {"$elemMatch": {"$gt": 1}}}),
        ({"x": {"$regex": "^a"}}, {"x": {"$regex": "^a"}}),
    ],
)
def test_filters_are_shown_in_their_normal_form(condition: dict[str, Any], shown: dict[str, Any]) -> None:
    assert filter_document(parse_filter(bson.encode(condition))) == shown


EXPLAINED: list[tuple[dict[str, Any], list[tuple[str, int, int, int]]]] = [
    ({"find": "c", "filter": {"z": 1}}, [("COLLSCAN", 52, 0, 51)]),
    ({"find": "c", "filter": {"a": 1}}, [("FETCH", 11, 10, 0), ("IXSCAN", 11, 10, 0)]),
    ({"find": "c", "filter": {"m": {"$gt": 45}}}, [("FETCH", 10, 5, 4), ("IXSCAN", 10, 5, 4)]),
    ({"find": "c", "filter": {"_id": 3}}, [("IDHACK", 2, 1, 0)]),
    (
        {"find": "c", "filter": {"a": 1, "z": 2}, "sort": {"s": 1}, "limit": 3},
        [("SORT", 12, 0, 11), ("FETCH", 11, 0, 10), ("IXSCAN", 11, 10, 0)],
    ),
    (
        {"find": "c", "sort": {"a": -1}, "limit": 2},
        [("LIMIT", 3, 2, 0), ("FETCH", 2, 2, 0), ("IXSCAN", 2, 2, 0)],
    ),
    (
        {"find": "c", "filter": {"$or": [{"a": 1}, {"m": {"$gt": 48}}]}},
        [("SUBPLAN", 15, 12, 2), ("FETCH", 15, 12, 2), ("OR", 15, 12, 2)],
    ),
    ({"count": "c", "query": {"a": 1}}, [("COUNT", 11, 0, 10), ("COUNT_SCAN", 11, 10, 0)]),
    ({"count": "c"}, [("RECORD_STORE_FAST_COUNT", 1, 0, 0)]),
    (
        {"delete": "c", "deletes": [{"q": {"a": 1}, "limit": 0}]},
        [("DELETE", 11, 0, 10), ("FETCH", 11, 10, 0), ("IXSCAN", 11, 10, 0)],
    ),
    (
        {"findAndModify": "c", "query": {"a": 1}, "update": {"$set": {"q": 1}}},
        [("UPDATE", 2, 1, 0), ("FETCH", 1, 1, 0), ("IXSCAN", 1, 1, 0)],
    ),
]
"""A command, and (stage, works, advanced, needTime) of its stages, as the real server gave them."""


@pytest.mark.parametrize(("command", "expected"), EXPLAINED, ids=[str(row[0]) for row in EXPLAINED])
def test_the_figures_are_those_of_the_real_server(
    command: dict[str, Any], expected: list[tuple[str, int, int, int]]
) -> None:
    async def work() -> None:
        node = LocalNode()
        documents = [{"_id": n, "a": n % 5, "b": n % 3, "m": [n, n + 1], "s": f"x{n}"} for n in range(50)]
        await node.insert("c", *documents)
        await node.run({"createIndexes": "c", "indexes": [{"key": {name: 1}, "name": name} for name in "am"]})
        reply = await node.run({"explain": command, "verbosity": "executionStats"})
        stage = reply["executionStats"]["executionStages"]
        found = []
        while stage is not None:
            found.append((stage["stage"], stage["works"], stage["advanced"], stage["needTime"]))
            stage = stage.get("inputStage")
        assert found == expected

    loop(work())


def test_explain_of_a_pipeline_tells_what_every_stage_gave() -> None:
    async def explained(stages: list[dict[str, Any]], verbosity: str) -> dict[str, Any]:
        node = LocalNode()
        documents = [{"_id": number, "a": number % 7, "b": [1, 2]} for number in range(50)]
        await node.run({"insert": "c", "documents": documents})
        command = {"aggregate": "c", "pipeline": stages, "cursor": {}}
        return await node.run({"explain": command, "verbosity": verbosity})

    stages = [{"$unwind": "$b"}, {"$match": {"a": {"$lt": 3}}}, {"$group": {"_id": "$a"}}, {"$sort": {"_id": 1}}]
    found = loop(explained([*stages, {"$skip": 1}], "executionStats"))["stages"]
    plain = loop(explained([{"$match": {"a": 1}}], "queryPlanner"))

    assert [next(iter(stage)) for stage in found] == ["$cursor", "$unwind", "$group", "$sort", "$skip"]
    assert [stage["nReturned"] for stage in found] == [22, 44, 3, 3, 2]
    assert found[0]["$cursor"]["queryPlanner"]["parsedQuery"] == {"a": {"$lt": 3}}
    assert (found[3]["$sort"], found[3]["usedDisk"]) == ({"sortKey": {"_id": 1}}, False)
    assert plain["queryPlanner"]["optimizedPipeline"]


_MATCHED = {"$match": {"a": 1}}
_BELOW = {"aggregate": "c", "cursor": {}, "collation": {"locale": "simple"}}


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ({"explain": {"find": "c", "sort": {"a": 1}}}, {"find": "c", "sort": {"a": 1}, "$db": "test"}),
        ({"explain": {"count": "c"}, "verbosity": "executionStats"}, {"count": "c", "$db": "test"}),
        (
            {"explain": {"aggregate": "c", "pipeline": [_MATCHED], "cursor": {}}},
            {"aggregate": "c", "pipeline": [_MATCHED], "cursor": {}, "$db": "test"},
        ),
        ({"explain": {"find": "v", "limit": 2}}, _BELOW | {"pipeline": [_MATCHED, {"$limit": 2}]}),
        ({"explain": {"count": "v"}}, _BELOW | {"pipeline": [_MATCHED, {"$count": "count"}]}),
        (
            {"aggregate": "v", "pipeline": [], "explain": True, "allowDiskUse": False},
            _BELOW | {"pipeline": [_MATCHED], "allowDiskUse": False},
        ),
    ],
)
def test_the_command_that_is_explained_is_shown_and_of_a_view_what_it_comes_down_to(
    command: dict[str, Any], shown: dict[str, Any]
) -> None:
    async def story() -> None:
        node = LocalNode()
        await node.insert("c", {"a": 1})
        await node.run({"create": "v", "viewOn": "c", "pipeline": [_MATCHED]})
        assert (await node.run(command))["command"] == shown

    loop(story())


@pytest.mark.parametrize("inner", [{"find": "c"}, {"aggregate": "c", "pipeline": [], "cursor": {}}, {"count": "c"}])
@pytest.mark.parametrize(("database", "code"), [("other", 73), ("", 73), (5, 13111), ("test", 40413)])
def test_a_command_that_names_its_database_is_not_explained(inner: dict[str, Any], database: object, code: int) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"_id": 1})
        assert (await node.reply({"explain": {**inner, "$db": database}})).get("code", 0) == code

    loop(work())


@pytest.mark.parametrize(
    ("command", "code"),
    [({}, 59), ({"nosuch": 1}, 59), ({"ping": 1}, 20), ({"explain": {"find": "c"}}, 20), ({"find": 1}, 73)],
)
def test_what_is_no_command_to_explain_is_refused(command: dict[str, Any], code: int) -> None:
    async def work() -> None:
        assert (await LocalNode().reply({"explain": command}))["code"] == code

    loop(work())
