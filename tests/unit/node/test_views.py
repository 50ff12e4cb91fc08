"""Views on a node in memory: read like collections, written like none."""

from __future__ import annotations

import datetime
from typing import Any

import bson
import pytest

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop


async def with_view() -> LocalNode:
    node = LocalNode()
    await node.insert("c", *({"_id": number, "a": number % 3, "b": [number]} for number in range(6)))
    await node.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": {"$gt": 0}}}]})
    return node


def test_a_find_on_a_view_filters_sorts_cuts_and_projects() -> None:
    async def work() -> None:
        node = await with_view()
        command = {"find": "v", "sort": {"_id": -1}, "skip": 1, "limit": 2, "projection": {"a": 1}}
        found = (await node.run(command))["cursor"]
        assert (found["ns"], found["firstBatch"]) == ("test.v", [{"_id": 4, "a": 1}, {"_id": 2, "a": 2}])
        assert [each["_id"] for each in await node.documents("v", {"a": 2})] == [2, 5]
        found = (await node.run({"find": "v", "sort": {"$natural": -1}}))["cursor"]["firstBatch"]
        assert [each["_id"] for each in found] == [5, 4, 2, 1]

    loop(work())


def test_a_cursor_of_a_view_goes_on_under_the_name_of_the_view() -> None:
    async def work() -> None:
        node = await with_view()
        opened = (await node.run({"find": "v", "batchSize": 1}))["cursor"]
        rest = (await node.run({"getMore": opened["id"], "collection": "v"}))["cursor"]
        assert [each["_id"] for each in rest["nextBatch"]] == [2, 4, 5]

    loop(work())


def test_counting_distinct_values_and_pipelines_go_through_views() -> None:
    async def work() -> None:
        node = await with_view()
        assert (await node.run({"count": "v"}))["n"] == 4
        assert (await node.run({"count": "v", "query": {"a": 1}, "limit": 1}))["n"] == 1
        assert (await node.run({"distinct": "v", "key": "a"}))["values"] == [1, 2]
        for command in ({"count": "v"}, {"distinct": "v", "key": "a"}):
            assert type((await node.run(command))["ok"]) is int
        assert type((await node.run({"count": "c"}))["ok"]) is float
        command = {"aggregate": "v", "pipeline": [{"$group": {"_id": None, "n": {"$sum": 1}}}], "cursor": {}}
        found = (await node.run(command))["cursor"]
        assert (found["ns"], found["firstBatch"]) == ("test.v", [{"_id": None, "n": 4}])
        explained = await node.run({"explain": {"find": "v"}, "verbosity": "queryPlanner"})
        assert explained["queryPlanner"]["namespace"] == "test.c"

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"findAndModify": "v", "update": {"$set": {"a": 1}}},
        {"createIndexes": "v", "indexes": [{"key": {"x": 1}, "name": "x"}]},
        {"dropIndexes": "v", "index": "*"},
        {"listIndexes": "v"},
        {"collStats": "v"},
        {"validate": "v"},
        {"aggregate": "v", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}},
        {"explain": {"delete": "v", "deletes": [{"q": {}, "limit": 0}]}},
    ],
)
def test_what_needs_a_collection_is_refused(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_view()
        assert (await node.reply(command))["code"] == Code.CommandNotSupportedOnView

    loop(work())


@pytest.mark.parametrize(
    "command",
    [
        {"insert": "v", "documents": [{"_id": 1}]},
        {"update": "v", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": True}]},
        {"delete": "v", "deletes": [{"q": {}, "limit": 0}]},
    ],
)
def test_writes_fail_as_write_errors(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_view()
        (error,) = (await node.reply(command))["writeErrors"]
        assert error["code"] == Code.CommandNotSupportedOnView

    loop(work())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"viewOn": ""}, 2),
        ({"viewOn": "$c"}, 73),
        ({"pipeline": []}, 72),
        ({"viewOn": "x", "pipeline": []}, 5),
        ({"viewOn": "c", "pipeline": [{"$out": "y"}]}, 167),
        ({"viewOn": "c", "pipeline": [{"$merge": "y"}]}, 167),
        ({"viewOn": "c", "pipeline": [{"$documents": []}]}, 73),
        ({"viewOn": "c", "pipeline": [{"$listSessions": {}}]}, 73),
        ({"viewOn": "c", "pipeline": [{"$listLocalSessions": {}}]}, 73),
        ({"viewOn": "c", "pipeline": [{"$currentOp": {}}]}, 73),
        ({"viewOn": "c", "pipeline": [{"$bogus": 1}]}, 40324),
        ({"viewOn": "c", "idIndex": {"key": {"_id": 1}, "name": "_id_"}}, 72),
    ],
)
def test_views_that_cannot_be_are_refused(options: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = await with_view()
        assert (await node.reply({"create": "x", **options}))["code"] == code

    loop(work())


@pytest.mark.parametrize(
    "option",
    [
        {"tailable": True}, {"singleBatch": True}, {"singleBatch": True, "limit": 2}, {"noCursorTimeout": True},
        {"allowPartialResults": True},
    ],
)  # fmt: skip
def test_options_that_no_pipeline_has_are_refused(option: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_view()
        assert (await node.reply({"find": "v", **option}))["code"] == Code.InvalidPipelineOperator

    loop(work())


@pytest.mark.parametrize("size", [{}, {"batchSize": 1}, {"batchSize": 5}])
def test_a_single_document_of_a_view_leaves_no_cursor(size: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_view()
        time_field = {"timeField": "t"}
        await node.run({"create": "series", "timeseries": time_field})
        await node.insert("series", {"t": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)})
        for name in ("v", "series"):
            # What drivers send for findOne.
            for more in ({}, {"sort": {"_id": -1}}, {"hint": {"$natural": 1}}):
                cursor = (await node.run({"find": name, "limit": 1, "singleBatch": True, **size, **more}))["cursor"]
                assert len(cursor["firstBatch"]) == 1
                assert cursor["id"] == 0

    loop(work())


@pytest.mark.parametrize("command", [{"reIndex": "v"}, {"dataSize": "test.v"}, {"compact": "v"}, {"validate": "v"}])
def test_what_is_about_stored_documents_is_refused_on_views(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = await with_view()
        assert (await node.reply(command))["code"] == Code.CommandNotSupportedOnView

    loop(work())


def test_statistics_of_a_view_are_its_own() -> None:
    async def work() -> None:
        node = await with_view()
        await node.run({"create": "series", "timeseries": {"timeField": "t"}})

        async def asked(collection: str, **options: Any) -> dict[str, Any]:
            return await node.reply({"aggregate": collection, "pipeline": [{"$collStats": options}], "cursor": {}})

        for name in ("v", "series"):
            (found,) = (await asked(name, latencyStats={}))["cursor"]["firstBatch"]
            assert found["ns"] == f"test.{name}"
            assert found["latencyStats"].keys() >= {"reads", "writes", "commands"}
            assert (await asked(name, count={}))["code"] == Code.CommandNotSupportedOnView
        (found,) = (await asked("series", storageStats={}))["cursor"]["firstBatch"]
        assert found["storageStats"]["timeseries"]["bucketsNs"] == "test.system.buckets.series"
        assert (await asked("v", storageStats={}))["code"] == Code.CommandNotSupportedOnView

    loop(work())


def test_a_view_is_listed_dropped_and_not_renamed() -> None:
    async def work() -> None:
        node = await with_view()
        found = (await node.run({"listCollections": 1, "filter": {"type": "view"}}))["cursor"]["firstBatch"]
        assert found == [
            {
                "name": "v", "type": "view",
                "options": {"viewOn": "c", "pipeline": [{"$match": {"a": {"$gt": 0}}}]}, "info": {"readOnly": True},
            }
        ]  # fmt: skip
        assert (await node.reply({"create": "v"}))["code"] == Code.NamespaceExists
        renamed = await node.reply({"renameCollection": "test.v", "to": "test.w"}, "admin")
        assert renamed["code"] == Code.CommandNotSupportedOnView
        taken = await node.reply({"renameCollection": "test.c", "to": "test.v", "dropTarget": True}, "admin")
        assert taken["code"] == Code.NamespaceExists
        dropped = await node.run({"drop": "v"})
        assert dropped["ns"] == "test.v"
        assert await node.documents("v") == []

    loop(work())


def test_dropping_system_views_drops_them_all_but_nobody_writes_there() -> None:
    async def work() -> None:
        node = await with_view()
        refused = await node.reply({"insert": "system.views", "documents": [{"_id": "x"}]})
        assert refused["code"] == Code.InvalidNamespace
        await node.run({"drop": "system.views"})
        assert await node.documents("v") == []

    loop(work())


def test_no_collection_is_cloned_into_system_views() -> None:
    async def work() -> None:
        node = await with_view()
        await node.run({"drop": "system.views"})
        clone = {"cloneCollectionAsCapped": "c", "toCollection": "system.views", "size": 10_000}
        assert (await node.reply(clone))["code"] == Code.InvalidNamespace

    loop(work())


@pytest.mark.parametrize(
    "definition",
    [
        {}, {"viewOn": 5}, {"viewOn": "c", "pipeline": 5}, {"viewOn": "c", "pipeline": [5]},
        {"viewOn": "c", "collation": 5}, {"viewOn": "c", "pipeline": [{"$listSessions": {}}]},
        {"viewOn": "c", "pipeline": [{"$out": {"db": "other", "coll": "c"}}]},
    ],
)  # fmt: skip
def test_a_stored_definition_that_is_none_is_refused_by_those_who_read_it(definition: dict[str, Any]) -> None:
    """As it is after a restore by somebody who may write such documents, or on a damaged disk."""

    async def work() -> None:
        node = await with_view()
        store = node.node.store
        views = store.collection("test.system.views")
        assert views is not None
        with store.unit() as unit:
            unit.insert(views, bson.encode({"_id": "test.broken", **definition}))
            unit.commit()
        for command in ({"find": "broken"}, {"listCollections": 1}, {"count": "broken"}):
            assert (await node.reply(command))["code"] == Code.InvalidViewDefinition
        assert len(await node.documents("v")) == 4

    loop(work())


def test_a_router_is_told_what_the_view_comes_down_to() -> None:
    async def work() -> None:
        node = await with_view()
        for command in ({"find": "v"}, {"count": "v"}, {"aggregate": "v", "pipeline": [], "cursor": {}}):
            reply = await node.reply({**command, "shardVersion": {}})
            assert reply["code"] == Code.CommandOnShardedViewNotSupportedOnMongod
            stages = [{"$match": {"a": {"$gt": 0}}}]
            assert reply["resolvedView"] == {"ns": "test.c", "pipeline": stages, "collation": {"locale": "simple"}}

    loop(work())


def test_a_view_is_read_under_its_own_collation_and_no_other() -> None:
    english: dict[str, Any] = {"locale": "en", "strength": 2}

    async def work() -> None:
        node = LocalNode()
        await node.run({"create": "c", "collation": {"locale": "fr"}})
        await node.run({"insert": "c", "documents": [{"_id": 1, "s": "a"}, {"_id": 2, "s": "A"}, {"_id": 3, "s": "b"}]})
        await node.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"s": "A"}}], "collation": english})
        await node.run({"create": "plain", "viewOn": "c"})
        for rules in (None, {}, english):
            asked = {} if rules is None else {"collation": rules}
            assert (await node.run({"count": "v", "query": {"s": "a"}, **asked}))["n"] == 2
            assert (await node.run({"distinct": "v", "key": "s", **asked}))["values"] == ["a"]
        assert (await node.run({"count": "plain", "query": {"s": "a"}}))["n"] == 1
        joined = {"$lookup": {"from": "v", "localField": "s", "foreignField": "s", "as": "j"}}
        refused = [
            {"find": "v", "collation": {"locale": "simple"}},
            {"find": "plain", "collation": english},
            {"explain": {"find": "v", "collation": {"locale": "fr"}}},
            {"create": "w", "viewOn": "v"},
            {"create": "w", "viewOn": "c", "pipeline": [{"$unionWith": "v"}]},
            {"create": "w", "viewOn": "plain", "collation": english},
            {"aggregate": "c", "pipeline": [joined], "cursor": {}},
            {"aggregate": "plain", "pipeline": [{"$unionWith": "v"}], "cursor": {}},
        ]
        for command in refused:
            assert (await node.reply(command))["code"] == Code.OptionNotSupportedOnView, command
        await node.run({"create": "w", "viewOn": "v", "collation": english})
        asked = {"aggregate": "c", "pipeline": [joined, {"$sort": {"_id": 1}}], "cursor": {}, "collation": english}
        found = (await node.run(asked))["cursor"]["firstBatch"]
        assert [len(each["j"]) for each in found] == [2, 2, 0]
        await node.run({"collMod": "w", "viewOn": "v", "pipeline": [{"$limit": 1}]})
        listed = (await node.run({"listCollections": 1, "filter": {"name": "w"}}))["cursor"]["firstBatch"]
        assert listed[0]["options"]["collation"]["version"] == "57.1"

    loop(work())
