"""One data node as a real process, driven by the stock driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.objectid import ObjectId
from bson.timestamp import Timestamp
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    deployment = ForkedDeployment(tmp_path_factory.mktemp("single"))
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        yield node


@pytest.fixture
def client(member: Member) -> Iterator[pymongo.MongoClient[dict[str, Any]]]:
    with pymongo.MongoClient("127.0.0.1", member.port, directConnection=True) as client:
        yield client


@pytest.fixture
def posts(client: pymongo.MongoClient[dict[str, Any]]) -> Any:
    collection = client.blog.posts
    collection.drop()
    return collection


def code_of(error: Any) -> int:
    code: int = error.value.code
    return code


def test_documents_come_back_as_they_were_inserted(posts: Any) -> None:
    document = {"_id": ObjectId(), "n": 1, "nested": {"z": [1, 2.5, None, "x"], "a": Timestamp(1, 2)}}
    posts.insert_one(document)
    assert posts.find_one({"_id": document["_id"]}) == document


def test_a_cursor_goes_through_all_batches_in_insertion_order(posts: Any) -> None:
    posts.insert_many([{"_id": n} for n in range(1000)])
    assert [row["_id"] for row in posts.find(batch_size=150)] == list(range(1000))


def test_a_cursor_reads_the_state_in_which_it_began(posts: Any) -> None:
    posts.insert_many([{"_id": n, "x": 0} for n in range(500)])
    cursor = posts.find(batch_size=10)
    first = next(cursor)
    posts.update_many({}, {"$set": {"x": 1}})
    posts.delete_many({"_id": {"$gte": 400}})
    assert [first, *cursor] == [{"_id": n, "x": 0} for n in range(500)]


def test_an_ordered_batch_stops_at_the_first_error_and_an_unordered_one_goes_on(posts: Any) -> None:
    rows = [{"_id": 1}, {"_id": 1}, {"_id": 2}]
    with pytest.raises(BulkWriteError) as caught:
        posts.insert_many(rows)
    assert [(each["index"], each["code"]) for each in caught.value.details["writeErrors"]] == [(1, 11000)]
    assert posts.count_documents({}) == 1
    with pytest.raises(BulkWriteError) as caught:
        posts.insert_many(rows, ordered=False)
    assert [each["index"] for each in caught.value.details["writeErrors"]] == [0, 1]
    assert posts.count_documents({}) == 2


def test_updates_count_what_they_match_and_what_they_change(posts: Any) -> None:
    posts.insert_many([{"_id": n, "group": n % 3} for n in range(9)])
    result = posts.update_many({"group": {"$lte": 1}}, {"$set": {"group": 1}})
    assert (result.matched_count, result.modified_count) == (6, 3)
    assert posts.update_one({"_id": 0}, {"$inc": {"n": 5}}).modified_count == 1
    assert posts.replace_one({"_id": 1}, {"new": True}).modified_count == 1
    assert posts.find_one({"_id": 1}) == {"_id": 1, "new": True}


def test_an_upsert_inserts_what_the_filter_fixes(posts: Any) -> None:
    result = posts.update_one({"_id": 7, "kind": "a"}, {"$set": {"n": 1}, "$setOnInsert": {"m": 2}}, upsert=True)
    assert result.upserted_id == 7
    assert posts.find_one() == {"_id": 7, "kind": "a", "n": 1, "m": 2}
    assert isinstance(posts.update_one({"kind": "b"}, {"$set": {"n": 2}}, upsert=True).upserted_id, ObjectId)


def test_the_matched_array_element_can_be_updated(posts: Any) -> None:
    posts.insert_one({"_id": 1, "rows": [{"k": 1, "v": 1}, {"k": 2, "v": 2}]})
    posts.update_one({"rows.k": 2}, {"$set": {"rows.$.v": 9}})
    assert posts.find_one()["rows"] == [{"k": 1, "v": 1}, {"k": 2, "v": 9}]


def test_find_and_modify_gives_the_document_before_or_after(posts: Any) -> None:
    posts.insert_many([{"_id": n, "x": 10 - n} for n in range(5)])
    assert posts.find_one_and_update({}, {"$set": {"y": 1}}, sort=[("x", 1)]) == {"_id": 4, "x": 6}
    after = posts.find_one_and_update({"_id": 4}, {"$inc": {"x": 1}}, return_document=pymongo.ReturnDocument.AFTER)
    assert after == {"_id": 4, "x": 7, "y": 1}
    assert posts.find_one_and_delete({"_id": 4}) == after
    assert posts.find_one_and_delete({"_id": 4}) is None


def test_deletes_take_one_or_all(posts: Any) -> None:
    posts.insert_many([{"_id": n, "x": n % 2} for n in range(10)])
    assert posts.delete_one({"x": 1}).deleted_count == 1
    assert posts.delete_many({"x": 1}).deleted_count == 4
    assert posts.count_documents({}) == posts.estimated_document_count() == 5


def test_a_unique_index_refuses_duplicates_and_is_used_by_queries(posts: Any) -> None:
    posts.create_index([("name", 1)], unique=True)
    posts.insert_many([{"_id": n, "name": f"n{n}"} for n in range(50)])
    with pytest.raises(DuplicateKeyError) as caught:
        posts.insert_one({"name": "n7"})
    assert caught.value.details["keyValue"] == {"name": "n7"}
    plan = posts.find({"name": "n9"}).explain()
    assert plan["queryPlanner"]["winningPlan"]["inputStage"]["stage"] == "IXSCAN"
    assert (plan["executionStats"]["totalKeysExamined"], plan["executionStats"]["nReturned"]) == (1, 1)


def test_an_index_over_existing_documents_is_built_and_refused_when_they_clash(posts: Any) -> None:
    posts.insert_many([{"_id": n, "x": n // 2} for n in range(2000)])
    posts.create_index("x")
    assert [row["_id"] for row in posts.find({"x": 500}).hint("x_1")] == [1000, 1001]
    with pytest.raises(OperationFailure) as caught:
        posts.create_index([("x", -1)], unique=True)
    assert code_of(caught) == 11000
    assert sorted(posts.index_information()) == ["_id_", "x_1"]


def test_sort_skip_limit_and_projection_work_together(posts: Any) -> None:
    posts.insert_many([{"_id": n, "a": -n, "b": n} for n in range(100)])
    found = list(posts.find({}, {"a": 1, "_id": 0}).sort("a", 1).skip(10).limit(3))
    assert found == [{"a": -89}, {"a": -88}, {"a": -87}]


def test_counts_and_distinct_values(posts: Any) -> None:
    posts.insert_many([{"_id": n, "t": [n % 3, "x"]} for n in range(30)])
    assert posts.count_documents({"t": 1}) == 10
    assert posts.count_documents({}, skip=5, limit=10) == 10
    assert sorted(posts.distinct("t"), key=str) == [0, 1, 2, "x"]
    assert sorted(posts.distinct("t", {"_id": 4}), key=str) == [1, "x"]


def test_a_pipeline_matches_unwinds_groups_and_sorts(posts: Any) -> None:
    posts.insert_many([{"_id": n, "tags": ["a", "b"][: n % 3]} for n in range(300)])
    found = posts.aggregate(
        [
            {"$match": {"_id": {"$lt": 150}}},
            {"$unwind": "$tags"},
            {"$group": {"_id": "$tags", "n": {"$sum": 1}}},
            {"$sort": {"n": -1}},
        ]
    )
    assert list(found) == [{"_id": "a", "n": 100}, {"_id": "b", "n": 50}]


def test_collections_are_listed_renamed_and_dropped(client: pymongo.MongoClient[dict[str, Any]]) -> None:
    client.drop_database("shop")
    client.shop.create_collection("a")
    client.shop.b.insert_one({})
    assert sorted(client.shop.list_collection_names()) == ["a", "b"]
    client.shop.a.rename("c")
    assert "shop" in client.list_database_names()
    client.shop.b.drop()
    assert client.shop.list_collection_names() == ["c"]
    client.drop_database("shop")
    assert "shop" not in client.list_database_names()


def test_what_is_not_supported_is_refused(client: pymongo.MongoClient[dict[str, Any]]) -> None:
    for command, code in (
        ({"create": "c", "encryptedFields": {"fields": []}}, 238),
        ({"nosuch": 1}, 59),
        ({"cloneCollection": "c"}, 59),
        ({"createIndexes": "c", "indexes": [{"key": {"words": "text"}, "name": "words", "textIndexVersion": 2}]}, 238),
        ({"find": "c", "nosuch": 1}, 40415),
    ):
        with pytest.raises(OperationFailure) as caught:
            client.blog.command(command)
        assert code_of(caught) == code, command


def test_a_long_search_is_ended_by_its_time_limit(posts: Any) -> None:
    posts.insert_many([{"_id": n, "text": "x" * 200} for n in range(20_000)])
    with pytest.raises(pymongo.errors.ExecutionTimeout):
        list(posts.find({"text": {"$regex": "(x+x+)+y"}}, batch_size=20_000).max_time_ms(1))


def test_map_reduce_counts_tags_inline_and_into_a_collection(posts: Any) -> None:
    posts.insert_many([{"_id": n, "tags": ["a", "b", "c"][: n % 4]} for n in range(400)])
    functions = {
        "map": "function () { for (var i in this.tags) emit(this.tags[i], 1) }",
        "reduce": "function (key, values) { return Array.sum(values) }",
    }
    inline = posts.database.command({"mapReduce": "posts", **functions, "out": {"inline": 1}})
    assert inline["results"] == [{"_id": tag, "value": n} for tag, n in (("a", 300), ("b", 200), ("c", 100))]
    assert inline["counts"]["emit"] == 600
    stored = posts.database.command({"mapreduce": "posts", **functions, "out": "tags"})
    assert stored["result"] == "tags"
    assert list(posts.database.tags.find()) == inline["results"]
    assert not [name for name in posts.database.list_collection_names() if name.startswith("tmp.")]


def test_a_second_node_on_the_same_data_says_so(member: Member, tmp_path: Path) -> None:
    directory = member_directory(member)
    second = subprocess.run(
        [sys.executable, "-m", "mongod", "--port", "0", "--dbpath", str(directory)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert second.returncode == 100
    assert "another process" in second.stderr


def member_directory(member: Member) -> Path:
    with pymongo.MongoClient("127.0.0.1", member.port, directConnection=True) as client:
        return Path(client.admin.command("getCmdLineOpts")["parsed"]["storage"]["dbPath"])


def test_a_missing_data_directory_is_a_sentence_and_an_exit_code(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    process = subprocess.run(
        [sys.executable, "-m", "mongod", "--port", "0", "--dbpath", str(missing)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert process.returncode == 100
    assert str(missing) in process.stderr


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    deployment = ForkedDeployment(tmp_path)
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        with pymongo.MongoClient("127.0.0.1", node.port, directConnection=True) as client:
            client.blog.posts.create_index("x")
            for n in range(200):
                client.blog.posts.insert_one({"_id": n, "x": n % 10})
            client.blog.posts.update_many({"x": 3}, {"$set": {"y": 1}})
        deployment.kill("node")
        deployment.restart("node")
        with pymongo.MongoClient("127.0.0.1", node.port, directConnection=True) as client:
            assert client.blog.posts.count_documents({}) == 200
            assert client.blog.posts.count_documents({"x": 3, "y": 1}) == 20
            assert client.blog.command("validate", "posts")["valid"]
