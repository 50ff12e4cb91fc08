"""find, getMore, count, distinct, aggregate and explain on a node in memory."""

from __future__ import annotations

from typing import Any

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.errors import Code
from tests.unit.node.local import LocalNode, loop


async def filled(count: int, **options: Any) -> LocalNode:
    """A node with documents {_id: n, x: n % 10, y: -n}."""
    node = LocalNode(**options)
    await node.insert("c", *({"_id": n, "x": n % 10, "y": -n} for n in range(count)))
    return node


async def rest_of(node: LocalNode, cursor: dict[str, Any], **more: Any) -> list[list[int]]:
    """The `_id`s of a cursor's batches, the first one included."""
    batches = [[row["_id"] for row in cursor["firstBatch"]]]
    while cursor["id"]:
        found = await node.run({"getMore": Int64(cursor["id"]), "collection": "c", **more})
        cursor = found["cursor"]
        batches.append([row["_id"] for row in cursor["nextBatch"]])
    return batches


def test_the_first_batch_has_101_documents_and_the_next_all_others() -> None:
    async def work() -> None:
        node = await filled(500)
        cursor = (await node.run({"find": "c"}))["cursor"]
        assert [len(batch) for batch in await rest_of(node, cursor)] == [101, 399]

    loop(work())


def test_batch_sizes_are_kept() -> None:
    async def work() -> None:
        node = await filled(25)
        cursor = (await node.run({"find": "c", "batchSize": 10}))["cursor"]
        assert [len(batch) for batch in await rest_of(node, cursor, batchSize=10)] == [10, 10, 5]

    loop(work())


def test_a_batch_size_of_zero_only_opens_the_cursor() -> None:
    async def work() -> None:
        node = await filled(5)
        cursor = (await node.run({"find": "c", "batchSize": 0}))["cursor"]
        assert cursor["firstBatch"] == []
        assert (await rest_of(node, cursor))[1] == list(range(5))

    loop(work())


@pytest.mark.parametrize("command", [{"limit": 3}, {"batchSize": 3, "singleBatch": True}, {"limit": 3, "batchSize": 2}])
def test_a_limit_ends_a_cursor(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = await filled(10)
        cursor = (await node.run({"find": "c", **command}))["cursor"]
        found = [row for batch in await rest_of(node, cursor) for row in batch]
        assert found == [0, 1, 2]
        assert len(node.services.cursors) == 0

    loop(work())


def test_a_cursor_does_not_see_later_writes() -> None:
    async def work() -> None:
        node = await filled(300)
        cursor = (await node.run({"find": "c", "batchSize": 10}))["cursor"]
        await node.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
        await node.run({"drop": "c"})
        found = [row for batch in await rest_of(node, cursor) for row in batch]
        assert found == list(range(300))

    loop(work())


def test_killed_cursors_are_gone() -> None:
    async def work() -> None:
        node = await filled(300)
        cursor_id = Int64((await node.run({"find": "c"}))["cursor"]["id"])
        reply = await node.run({"killCursors": "c", "cursors": [cursor_id, Int64(77)]})
        assert (reply["cursorsKilled"], reply["cursorsNotFound"]) == ([cursor_id], [77])
        assert (await node.reply({"getMore": cursor_id, "collection": "c"}))["code"] == Code.CursorNotFound

    loop(work())


def test_a_missing_collection_is_empty() -> None:
    async def work() -> None:
        node = LocalNode()
        assert (await node.run({"find": "c"}))["cursor"] == {"firstBatch": [], "id": 0, "ns": "test.c"}
        assert (await node.run({"find": "c", "filter": {"_id": 1}}))["cursor"]["firstBatch"] == []
        assert (await node.run({"count": "c"}))["n"] == 0
        assert (await node.run({"distinct": "c", "key": "x"}))["values"] == []
        assert (await node.run({"aggregate": "c", "pipeline": [], "cursor": {}}))["cursor"]["firstBatch"] == []

    loop(work())


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"find": "c", "batchSize": -1}, 51024),
        ({"find": "c", "tailable": True}, Code.BadValue),
        ({"find": "c", "awaitData": True}, Code.FailedToParse),
        ({"find": "c", "hint": "nosuch"}, Code.BadValue),
        ({"find": "c", "min": {"_id": 1}}, 51173),
        ({"find": "c", "min": {"x": 1}, "hint": "_id_"}, 51174),
        ({"find": "c", "min": {"_id": 2}, "max": {"_id": 1}, "hint": "_id_"}, 51175),
        ({"find": "c", "min": {"_id": 1}, "max": {"x": 1}, "hint": "_id_"}, 51176),
        ({"find": "c", "collation": {"locale": "nowhere"}}, Code.BadValue),
        ({"find": "c", "collation": {"strength": 1}}, 40414),
        ({"find": "c", "readConcern": {"level": "linearizable"}}, Code.NotAReplicaSet),
        ({"find": "c", "readConcern": {"level": "snapshot"}}, Code.NotAReplicaSet),
        ({"aggregate": "c", "pipeline": []}, Code.FailedToParse),
        ({"aggregate": 1, "pipeline": [], "cursor": {}}, Code.InvalidNamespace),
        ({"aggregate": "c", "pipeline": [{"$nosuch": 1}], "cursor": {}}, 40324),
        ({"explain": {"ping": 1}}, Code.IllegalOperation),
        ({"explain": {"find": "c"}, "verbosity": "loud"}, Code.BadValue),
        ({"getMore": Int64(5), "collection": "c"}, Code.CursorNotFound),
    ],
)
def test_what_cannot_be_read_is_refused(command: dict[str, Any], code: int) -> None:
    async def work() -> None:
        node = await filled(3)
        assert (await node.reply(command))["code"] == code
        assert len(node.services.cursors) == 0

    loop(work())


def test_count_takes_filter_skip_and_limit() -> None:
    async def work() -> None:
        node = await filled(100)
        assert (await node.run({"count": "c"}))["n"] == 100
        assert (await node.run({"count": "c", "skip": 30}))["n"] == 70
        assert (await node.run({"count": "c", "query": {"x": 3}}))["n"] == 10
        assert (await node.run({"count": "c", "query": {"x": 3}, "skip": 4, "limit": 5}))["n"] == 5
        assert (await node.run({"count": "c", "query": {"x": 3}, "limit": -2}))["n"] == 2

    loop(work())


def test_a_number_in_the_path_of_distinct_is_a_place_in_an_array() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"a": [{"0": 5}, {"0": 6}]})
        assert (await node.run({"distinct": "c", "key": "a.0"}))["values"] == [{"0": 5}]

    loop(work())


KEYED = [{"_id": 1, "a": 1, "b": [7, 5]}, {"_id": 2, "a": 2, "b": "x"}, {"_id": 3, "a": 3}]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"min": {"a": 1}, "max": {"a": 3}, "hint": "a", "projection": {"_id": 1}}, [{"_id": 1}, {"_id": 2}]),
        ({"min": {"a": 2}, "hint": "a", "sort": {"a": -1}, "projection": {"_id": 1}}, [{"_id": 3}, {"_id": 2}]),
        ({"max": {"b": 7}, "hint": "b", "projection": {"_id": 1}}, [{"_id": 3}, {"_id": 1}]),
        ({"filter": {"a": {"$gt": 1}}, "returnKey": True}, [{"a": 2}, {"a": 3}]),
        ({"filter": {"b": {"$gte": 6}}, "returnKey": True, "hint": "b"}, [{"b": 7}]),
        ({"filter": {"b": "x"}, "returnKey": True, "hint": "w"}, [{"$_path": "b", "b": "x"}]),
        ({"filter": {"_id": 3}, "returnKey": True}, [{"_id": 3}]),
        ({"filter": {}, "returnKey": True}, [{}, {}, {}]),
        ({"filter": {"a": 2}, "showRecordId": True, "projection": {"a": 1}}, [{"_id": 2, "a": 2, "$recordId": 2}]),
    ],
)
def test_keys_of_an_index_bound_a_find_and_answer_it(asked: dict[str, Any], found: list[dict[str, Any]]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *KEYED)
        indexes = [{"key": {name: 1}, "name": name} for name in "ab"]
        await node.run({"createIndexes": "c", "indexes": [*indexes, {"key": {"$**": 1}, "name": "w"}]})
        assert (await node.run({"find": "c", **asked}))["cursor"]["firstBatch"] == found

    loop(work())


def test_distinct_takes_array_elements_apart_once() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", {"a": [1, 2]}, {"a": 2.0}, {"a": [[3], "x"]}, {"b": 1}, {"a": None})
        assert (await node.run({"distinct": "c", "key": "a"}))["values"] == [None, 1, 2, "x", [3]]

    loop(work())


def test_a_pipeline_over_many_documents_is_a_cursor() -> None:
    async def work() -> None:
        node = await filled(3000)
        pipeline = [{"$match": {"x": {"$lt": 5}}}, {"$project": {"y": 1}}]
        cursor = (await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {"batchSize": 7}}))["cursor"]
        batches = await rest_of(node, cursor)
        assert len(batches[0]) == 7
        assert [row for batch in batches for row in batch] == [n for n in range(3000) if n % 10 < 5]

    loop(work())


def test_collection_statistics_come_as_a_pipeline_too() -> None:
    async def work() -> None:
        node = await filled(10)
        pipeline: list[dict[str, Any]] = [{"$collStats": {"count": {}, "storageStats": {}}}]
        found = (await node.run({"aggregate": "c", "pipeline": pipeline, "cursor": {}}))["cursor"]["firstBatch"]
        assert found[0]["ns"] == "test.c"
        assert found[0]["count"] == 10
        assert found[0]["storageStats"]["nindexes"] == 1

    loop(work())


def test_explain_shows_the_plan_that_ran() -> None:
    async def work() -> None:
        node = await filled(100)
        await node.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]})

        async def explained(command: dict[str, Any]) -> dict[str, Any]:
            return await node.run({"explain": command, "verbosity": "executionStats"})

        found = await explained({"find": "c", "filter": {"x": 3}})
        winning = found["queryPlanner"]["winningPlan"]
        assert (winning["stage"], winning["inputStage"]["stage"]) == ("FETCH", "IXSCAN")
        assert winning["inputStage"]["indexBounds"] == {"x": ["[3, 3]"]}
        stats = found["executionStats"]
        assert (stats["nReturned"], stats["totalKeysExamined"], stats["totalDocsExamined"]) == (10, 10, 10)

        found = await explained({"find": "c", "filter": {"y": -5}, "sort": {"y": 1}, "limit": 2})
        winning = found["queryPlanner"]["winningPlan"]
        assert (winning["stage"], winning["limitAmount"], winning["inputStage"]["stage"]) == ("SORT", 2, "COLLSCAN")
        assert found["executionStats"]["totalDocsExamined"] == 100

        found = await explained({"find": "c", "filter": {"_id": 4}})
        assert found["queryPlanner"]["winningPlan"]["stage"] == "IDHACK"

        found = await explained({"count": "c", "query": {"x": 3}})
        assert found["queryPlanner"]["winningPlan"]["stage"] == "COUNT"

        found = await explained({"delete": "c", "deletes": [{"q": {"x": 3}, "limit": 0}]})
        assert found["queryPlanner"]["winningPlan"]["stage"] == "DELETE"
        assert (await node.run({"count": "c"}))["n"] == 100

        found = await explained({"aggregate": "c", "pipeline": [{"$match": {"x": 3}}, {"$count": "n"}], "cursor": {}})
        plan = found["stages"][0]["$cursor"]["queryPlanner"]["winningPlan"]
        assert (plan["stage"], plan["indexName"]) == ("IXSCAN", "x_1")

    loop(work())


LAST = Timestamp((1 << 32) - 1, (1 << 32) - 1)


def test_the_oplog_is_read_in_order_backwards_and_between_timestamps() -> None:
    async def work() -> None:
        node = await filled(20, replicated=True)
        found = (await node.run({"find": "oplog.rs"}, "local"))["cursor"]["firstBatch"]
        assert [entry["op"] for entry in found] == ["c"] + ["i"] * 20
        newest = await node.run({"find": "oplog.rs", "sort": {"$natural": -1}, "limit": 1}, "local")
        assert newest["cursor"]["firstBatch"] == [found[-1]]
        later = await node.run({"find": "oplog.rs", "filter": {"ts": {"$gte": found[15]["ts"]}}}, "local")
        assert later["cursor"]["firstBatch"] == found[15:]
        for back in (1, -1):
            for bounds, expected in (
                ({"$gt": found[3]["ts"], "$lt": found[9]["ts"]}, found[4:9]),
                ({"$gte": found[3]["ts"], "$lte": found[9]["ts"]}, found[3:10]),
                ({"$eq": found[3]["ts"]}, found[3:4]),
                ({"$gt": found[9]["ts"], "$lt": found[3]["ts"]}, []),
                ({"$gte": Timestamp(0, 0), "$lte": LAST}, found),
                ({"$gt": LAST}, []),
            ):
                between = {"find": "oplog.rs", "filter": {"ts": bounds}, "sort": {"$natural": back}}
                assert (await node.run(between, "local"))["cursor"]["firstBatch"] == expected[::back]
        some = await node.run({"find": "oplog.rs", "filter": {"op": "i"}, "skip": 2, "limit": 3}, "local")
        assert some["cursor"]["firstBatch"] == found[3:6]

    loop(work())


def test_a_tailing_cursor_sees_later_entries_and_stays_open() -> None:
    async def work() -> None:
        node = await filled(3, replicated=True)
        last = (await node.run({"find": "oplog.rs", "sort": {"$natural": -1}, "limit": 1}, "local"))["cursor"]
        start = {"ts": {"$gte": last["firstBatch"][0]["ts"]}}
        command = {"find": "oplog.rs", "filter": start, "tailable": True, "awaitData": True, "batchSize": 1}
        cursor = (await node.run(command, "local"))["cursor"]
        assert cursor["firstBatch"] == last["firstBatch"]
        assert cursor["id"] != 0
        await node.insert("c", {"_id": 100})
        more = {"getMore": Int64(cursor["id"]), "collection": "oplog.rs", "maxTimeMS": 1}
        found = (await node.run(more, "local"))["cursor"]
        assert [entry["o"] for entry in found["nextBatch"]] == [{"_id": 100}]
        nothing = (await node.run(more, "local"))["cursor"]
        assert nothing == {"nextBatch": [], "id": cursor["id"], "ns": "local.oplog.rs"}

    loop(work())


def test_a_standalone_knows_no_cluster_time() -> None:
    async def work() -> None:
        node = await filled(1)
        reply = await node.reply({"find": "c", "readConcern": {"afterClusterTime": Timestamp(1, 1)}})
        assert reply["code"] == Code.IllegalOperation

    loop(work())


def test_operations_in_progress_can_be_run_through_a_pipeline() -> None:
    async def work() -> None:
        node = LocalNode()
        pipeline = [{"$currentOp": {}}, {"$match": {"op": "command"}}, {"$project": {"ns": 1}}]
        found = await node.run({"aggregate": 1, "pipeline": pipeline, "cursor": {}}, "admin")
        assert [entry["ns"] for entry in found["cursor"]["firstBatch"]] == ["admin.$cmd.aggregate"]
        refused = await node.reply({"aggregate": 1, "pipeline": pipeline, "cursor": {}})
        assert refused["code"] == Code.InvalidNamespace

    loop(work())


def test_an_index_with_arrays_of_anything_answers_for_its_other_fields() -> None:
    async def work() -> None:
        node = LocalNode()
        await node.run({"createIndexes": "c", "indexes": [{"key": {"a": 1, "_id": 1}, "name": "i"}]})
        members = [1, {"b": 1}, [1], Decimal128("0.1"), None, "x", float("nan")]
        arrays = [[member] for member in members] + [[], [1, {"b": [1]}]]
        await node.insert("c", *({"_id": float(number), "a": array} for number, array in enumerate(arrays)))
        find = {"find": "c", "sort": {"a": 1, "_id": 1}, "hint": "i", "projection": {"_id": 1}}
        found = (await node.run(find))["cursor"]["firstBatch"]
        assert sorted(document["_id"] for document in found) == [float(number) for number in range(len(arrays))]
        assert all(type(document["_id"]) is float for document in found)

    loop(work())
