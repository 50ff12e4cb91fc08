"""A router answers as a node does: it takes the same parameters, refuses the same ones, and none is without effect."""

from __future__ import annotations

import hashlib
from typing import Any

import bson
import pytest
from bson.int64 import Int64

from mongod.document.commands import map_reduce
from tests.unit.mongos.local import ABSENT, LocalCluster
from tests.unit.node.local import LocalNode, loop

DOCUMENTS = [{"_id": number, "k": number} for number in range(20)]
INDEX = {"key": {"x": 1}, "name": "x_1"}


async def filled() -> LocalCluster:
    cluster = LocalCluster()
    assert (await cluster.reply({"insert": "c", "documents": DOCUMENTS}))["n"] == 20
    return cluster


REFUSED: list[dict[str, Any]] = [
    {"find": "c", "limit": -1},
    {"find": "c", "limit": Int64(-(2**63))},
    {"find": "c", "skip": -1},
    {"find": "c", "filter": 1},
    {"find": "c", "oplogReplay": "x"},
    {"find": "c", "unknown": 1},
    *(
        {**command, "hint": hint}
        for hint in (5, [], True, None)
        for command in (
            {"find": "c"},
            {"count": "c"},
            {"distinct": "c", "key": "k"},
            {"aggregate": "c", "pipeline": [], "cursor": {}},
            {"findAndModify": "c", "query": {"k": 1}, "update": {"$set": {"y": 1}}},
        )
    ),
    {"find": "c", "hint": 5, "filter": {"$none": 1}},
    {"aggregate": 2, "pipeline": [], "cursor": {}},
    {"aggregate": 1.5, "pipeline": [], "cursor": {}},
    {"aggregate": True, "pipeline": [], "cursor": {}},
    {"aggregate": "", "pipeline": [], "cursor": {}},
    {"aggregate": "c", "pipeline": [], "cursor": {}, "explain": 1},
    *(
        request
        for name in ("c", "spread")
        for cursor in ({"batchSize": "x"}, {"batchSize": -1}, {"batchSize": None, "unknown": 1}, {"unknown": 1})
        for command in ({"aggregate": name, "pipeline": [{"$skip": 1}], "cursor": cursor},)
        for request in (command, {**command, "explain": True}, {"explain": command})
    ),
    {"explain": {"find": "c", "$db": "test"}},
    {"explain": {"find": "c", "limit": -1}},
    {"explain": {"find": "c", "unknown": 1}},
    {"explain": {"aggregate": "c", "pipeline": [], "cursor": {}, "hint": 5}},
    {"explain": {"distinct": "c"}},
    {"explain": {"ping": 1}},
    {"explain": {}},
    {"delete": "c", "deletes": [{"q": {}, "limit": 0}], "bypassDocumentValidation": "x"},
    {"create": "d", "unknown": 1},
    {"create": "d", "capped": "x"},
    {"createIndexes": "c", "indexes": [INDEX], "unknown": 1},
    {"createIndexes": "c"},
    {"dropIndexes": "c"},
    {"dropIndexes": "c", "index": "*", "unknown": 1},
    {"collMod": "c", "unknown": 1},
    {"collMod": "c", "cappedSize": 0},
    {"validate": "c", "full": "x"},
    {"validate": "c", "unknown": 1},
    {"listIndexes": "c", "includeBuildUUIDs": True},
    {"dbStats": 1, "scale": 0},
    {"dbStats": 1, "scale": "x"},
    {"collStats": "c", "scale": 0},
    {"getMore": Int64(5), "collection": ""},
]
"""Of each, a node's refusal is the router's."""


@pytest.mark.parametrize("command", REFUSED, ids=str)
def test_what_a_node_refuses_a_router_refuses_alike(command: dict[str, Any]) -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        node, cluster = LocalNode(), await filled()
        await node.insert("c", *DOCUMENTS)
        return await node.reply(command), await cluster.reply(command)

    of_node, of_router = loop(story())
    assert of_node["ok"] == 0
    assert (of_router.get("code"), of_router["errmsg"]) == (of_node.get("code"), of_node["errmsg"])


@pytest.mark.parametrize(
    "value", [{"stayTemp": True}, {"timeoutSecs": -1}, {"unknown": 1}], ids=lambda value: next(iter(value))
)
def test_commands_of_the_admin_database_are_refused_alike(value: dict[str, Any]) -> None:
    commands = {"stayTemp": {"renameCollection": "test.c", "to": "test.d"}, "timeoutSecs": {"shutdown": 1}}
    command = {**commands.get(next(iter(value)), {"listDatabases": 1}), **value}

    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        return await LocalNode().reply(command, "admin"), await (await filled()).reply(command, "admin")

    of_node, of_router = loop(story())
    assert of_node["ok"] == 0
    assert (of_router["code"], of_router["errmsg"]) == (of_node["code"], of_node["errmsg"])


@pytest.mark.parametrize("command", [{"find": "c"}, {"count": "c"}, {"distinct": "c", "key": "k"}], ids=str)
def test_a_request_is_refused_alike_where_no_shard_is_asked(command: dict[str, Any]) -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = LocalCluster()
        return [await cluster.reply({**command, **more}, ABSENT) for more in ({}, {"hint": 5})]

    plain, hinted = loop(story())
    assert plain["ok"] == 1
    assert hinted["code"] == 9


@pytest.mark.parametrize("level", ["majority", "linearizable", "snapshot"])
def test_a_map_reduce_reads_with_local_concerns_only(level: str) -> None:
    command = {"mapReduce": "c", "map": "m", "reduce": "r", "out": {"inline": 1}, "readConcern": {"level": level}}

    async def story() -> list[dict[str, Any]]:
        node = LocalNode(extra=(map_reduce.COMMAND,))
        return [await node.reply(command), await LocalCluster().reply(command)]

    assert [reply["code"] for reply in loop(story())] == [72, 72]


@pytest.mark.parametrize("stage", [{"$out": "o"}, {"$merge": "o"}], ids=str)
def test_an_output_stage_has_no_linearizable_input(stage: dict[str, Any]) -> None:
    command = {"aggregate": "c", "pipeline": [stage], "cursor": {}, "readConcern": {"level": "linearizable"}}

    async def story() -> list[dict[str, Any]]:
        cluster = await filled()
        return [await LocalNode().reply(command), await cluster.reply(command)]

    assert [reply["code"] for reply in loop(story())] == [72, 72]


def test_stats_are_given_of_fields_that_nobody_knows() -> None:
    """As the real server does."""

    async def story() -> None:
        cluster = await filled()
        assert (await cluster.reply({"collStats": "c", "unknown": 1}))["count"] == 20
        assert (await cluster.reply({"dbStats": 1, "unknown": 1}))["objects"] == 20

    loop(story())


def test_the_spellings_of_2012_are_served() -> None:
    async def story() -> None:
        cluster = await filled()
        assert (await cluster.reply({"createindexes": "c", "indexes": [INDEX]}))["numIndexesAfter"] == 2
        found = (await cluster.reply({"listindexes": "c"}))["cursor"]["firstBatch"]
        assert [index["name"] for index in found] == ["_id_", "x_1"]
        assert (await cluster.reply({"deleteindexes": "c", "index": "x_1"}))["nIndexesWas"] == 2
        first = await cluster.reply({"find": "c", "batchSize": 2})
        more = await cluster.reply({"getmore": Int64(first["cursor"]["id"]), "collection": "c"})
        assert len(more["cursor"]["nextBatch"]) == 18

    loop(story())


def test_a_hint_of_distinct_reaches_the_shards() -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
        cluster = await filled()
        good = await cluster.reply({"distinct": "c", "key": "k", "hint": "_id_"})
        bad = await cluster.reply({"distinct": "c", "key": "k", "hint": "none"})
        return good, bad, [cluster.a.asked[-1], cluster.b.asked[-1]]

    good, bad, asked = loop(story())
    assert good["values"] == list(range(20))
    assert bad["code"] == 2
    assert [request["hint"] for request in asked] == ["none", "none"]


def test_a_delete_may_say_that_validation_is_bypassed() -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        cluster = await filled()
        command = {"delete": "c", "deletes": [{"q": {"k": 1}, "limit": 1}], "bypassDocumentValidation": True}
        return await cluster.reply(command), cluster.a.asked[-1]

    reply, asked = loop(story())
    assert reply == {"n": 1, "ok": 1.0}
    assert asked["bypassDocumentValidation"] is True


def test_the_old_word_for_reading_the_oplog_changes_nothing() -> None:
    async def story() -> dict[str, Any]:
        return await (await filled()).reply({"find": "c", "oplogReplay": True})

    assert len(loop(story())["cursor"]["firstBatch"]) == 20


def test_documents_in_a_sequence_reach_the_shards() -> None:
    """Not only those of writes: indexes, a view's pipeline, array filters."""

    async def story() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        cluster = await filled()
        made = await cluster.reply({"createIndexes": "c"}, sequences={"indexes": [bson.encode(INDEX)]})
        viewed = await cluster.reply(
            {"create": "v", "viewOn": "c"}, sequences={"pipeline": [bson.encode({"$match": {"k": 3}})]}
        )
        await cluster.reply({"update": "c", "updates": [{"q": {"k": 3}, "u": {"$set": {"a": [1, 2]}}}]})
        changed = await cluster.reply(
            {"findAndModify": "c", "query": {"k": 3}, "update": {"$set": {"a.$[x]": 9}}, "new": True},
            sequences={"arrayFilters": [bson.encode({"x": 2})]},
        )
        return made, viewed, changed

    made, viewed, changed = loop(story())
    assert made["numIndexesAfter"] == 2
    assert viewed["ok"] == 1
    assert changed["value"]["a"] == [1, 9]


def test_the_filter_of_databases_sees_what_all_shards_hold() -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = await filled()
        whole = (await cluster.reply({"listDatabases": 1}, "admin"))["databases"]
        size = next(row["sizeOnDisk"] for row in whole if row["name"] == "test")
        filters: list[dict[str, Any]] = [{"sizeOnDisk": size}, {"sizeOnDisk": {"$lt": size}, "name": "test"}]
        found = [await cluster.reply({"listDatabases": 1, "filter": each}, "admin") for each in filters]
        return [
            *found,
            await cluster.reply({"listDatabases": 1, "filter": {"name": "test"}, "nameOnly": True}, "admin"),
        ]

    by_size, smaller, names = loop(story())
    assert [row["name"] for row in by_size["databases"]] == ["test"]
    assert by_size["totalSize"] == by_size["databases"][0]["sizeOnDisk"]
    assert smaller["databases"] == []
    assert names["databases"] == [{"name": "test"}]


def test_the_scale_of_a_databases_stats_is_not_that_of_its_average() -> None:
    async def story() -> tuple[dict[str, Any], dict[str, Any]]:
        cluster = await filled()
        return await cluster.reply({"dbStats": 1}), await cluster.reply({"dbStats": 1, "scale": 10, "freeStorage": 1})

    plain, scaled = loop(story())
    assert scaled["avgObjSize"] == plain["avgObjSize"] > 0
    assert scaled["dataSize"] == plain["dataSize"] / 10
    assert (scaled["scaleFactor"], scaled["freeStorageSize"], scaled["totalFreeStorageSize"]) == (10, 0, 0)


def test_a_file_is_summed_by_the_shard_that_has_its_chunks() -> None:
    async def story() -> list[dict[str, Any]]:
        cluster = LocalCluster()
        index = {"key": {"files_id": 1, "n": 1}, "name": "files_id_1_n_1"}
        await cluster.reply({"createIndexes": "fs.chunks", "indexes": [index]})
        chunks = [{"files_id": 1, "n": number, "data": b"abc"} for number in range(3)]
        assert (await cluster.reply({"insert": "fs.chunks", "documents": chunks}))["n"] == 3
        return [await cluster.reply(command) for command in ({"filemd5": 1}, {"filemd5": 1, "root": "x"})]

    found, none = loop(story())
    assert (found["numChunks"], found["md5"]) == (3, hashlib.md5(b"abc" * 3).hexdigest())
    assert none["numChunks"] == 0
