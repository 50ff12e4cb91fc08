"""A router over two shards, driven by the stock driver: placing, finding, moving, refusing."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import BulkWriteError, OperationFailure
from pymongo.write_concern import WriteConcern

from docstore.errors import Code
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("router")) as cluster:
        yield cluster


@pytest.mark.parametrize(("batch", "count", "top"), [(1, 8_000, 1), (500, 19_998, 11)])
def test_string_ids_in_order_leave_the_chunks_of_the_walk_through(cluster, batch, count, top):
    name = f"users{batch}"
    users = cluster.shard(name, {"id": 1}).with_options(write_concern=WriteConcern(1))  # no wait for 8,000 flushes
    rows = [{"id": str(n), "name": f"user {n}", "email": f"user{n}@example.com"} for n in range(count)]
    for start in range(0, count, batch):
        users.insert_many(rows[start : start + batch])
    table = [(row["min"]["id"], row["lastmod"].time, row["lastmod"].inc, row["shard"]) for row in cluster.chunks(name)]
    assert table[0][1:] == (2, 1, "one")
    assert table[1:] == [("1", 1, 3, "one"), ("999", 2, 0, "two")]
    assert users.count_documents({"id": {"$gte": "999"}}) == top
    assert users.count_documents({}) == count

    def per_shard() -> dict[str, int]:
        shards = cluster.client.test.command("collStats", name)["shards"]
        return {shard: part["count"] for shard, part in shards.items()}

    wait_until(lambda: per_shard() == {"one": count - top, "two": top}, 20)


def test_reads_across_shards_equal_those_of_one_list(cluster):
    things = cluster.shard("things", {"k": 1})
    cluster.split_and_move("things", {"k": 500})
    rows = [{"_id": n, "k": (n * 37) % 1000, "group": n % 7, "tags": [n % 3, n % 5]} for n in range(1000)]
    things.insert_many(rows, ordered=False)
    by_k = sorted(rows, key=lambda row: row["k"])
    assert list(things.find().sort("k", 1)) == by_k
    assert list(things.find().sort("k", -1).skip(400).limit(250)) == by_k[::-1][400:650]
    assert [
        row["_id"] for row in things.find({"k": {"$gte": 490, "$lt": 510}}, {"_id": 1}).sort([("group", 1), ("k", 1)])
    ] == [row["_id"] for row in sorted(by_k[490:510], key=lambda row: (row["group"], row["k"]))]
    assert sorted(row["_id"] for row in things.find(batch_size=7)) == list(range(1000))
    assert things.count_documents({"group": 3}) == sum(row["group"] == 3 for row in rows)
    assert things.count_documents({}, skip=10, limit=700) == 700
    assert sorted(things.distinct("tags")) == [0, 1, 2, 3, 4]
    grouped = things.aggregate(
        [{"$group": {"_id": "$group", "n": {"$sum": 1}, "mean": {"$avg": "$k"}}}, {"$sort": {"_id": 1}}]
    )
    expected = [
        {"_id": group, "n": len(ks), "mean": sum(ks) / len(ks)}
        for group, ks in ((g, [row["k"] for row in rows if row["group"] == g]) for g in range(7))
    ]
    assert list(grouped) == expected


def test_explain_shows_how_a_pipeline_is_split(cluster):
    items = cluster.shard("split", {"n": 1})
    items.insert_many([{"n": number, "x": number % 5} for number in range(100)])
    cluster.split_and_move("split", {"n": 50})

    def explained(pipeline):
        command = {"explain": {"aggregate": "split", "pipeline": pipeline, "cursor": {}}}
        return items.database.command({**command, "verbosity": "executionStats"})

    parts = explained([{"$set": {"y": 1}}, {"$match": {"x": 3}}, {"$group": {"_id": "$x", "s": {"$sum": "$n"}}}])
    assert parts["mergeType"] == "mongos"
    assert [next(iter(stage)) for stage in parts["splitPipeline"]["shardsPart"]] == ["$match", "$set", "$group"]
    assert [next(iter(stage)) for stage in parts["splitPipeline"]["mergerPart"]] == ["$group"]
    assert [shard["stages"][0]["nReturned"] for shard in parts["shards"].values()] == [10, 10]

    alone = explained([{"$match": {"n": 3}}])
    assert alone["splitPipeline"] is None
    assert [shard["executionStats"]["nReturned"] for shard in alone["shards"].values()] == [1]


def test_explain_shows_the_plan_of_every_shard_that_is_asked(cluster):
    items = cluster.shard("explained", {"n": 1})
    items.insert_many([{"n": n, "x": n % 5} for n in range(100)])
    cluster.split_and_move("explained", {"n": 50})
    items.create_index("x")

    def winning(find: dict[str, Any]) -> dict[str, Any]:
        explained = items.database.command({"explain": {"find": "explained", **find}, "verbosity": "executionStats"})
        assert explained["executionStats"]["nReturned"] == (20 if "x" in find["filter"] else 1)
        return explained["queryPlanner"]["winningPlan"]

    assert winning({"filter": {"n": 7}})["stage"] == "SINGLE_SHARD"
    merged = winning({"filter": {"x": 3}})
    assert merged["stage"] == "SHARD_MERGE"
    assert {shard["shardName"] for shard in merged["shards"]} == {"one", "two"}
    assert winning({"filter": {"x": 3}, "sort": {"n": 1}})["stage"] == "SHARD_MERGE_SORT"
    deletion = {"delete": "explained", "deletes": [{"q": {"x": 3}, "limit": 0}]}
    explained = items.database.command({"explain": deletion, "verbosity": "executionStats"})
    assert explained["queryPlanner"]["winningPlan"]["stage"] == "SHARD_WRITE"
    assert explained["executionStats"]["totalDocsExamined"] == 20
    assert items.count_documents({}) == 100


def test_writes_reach_the_owner_and_multi_writes_every_shard(cluster):
    items = cluster.shard("items", {"k": 1})
    cluster.split_and_move("items", {"k": 50})
    items.insert_many([{"_id": n, "k": n} for n in range(100)])
    assert items.update_one({"k": 70}, {"$set": {"x": 1}}).modified_count == 1
    assert items.update_many({"k": {"$gte": 40, "$lt": 60}}, {"$inc": {"y": 1}}).modified_count == 20
    assert items.update_one({"k": 200}, {"$set": {"x": 2}}, upsert=True).upserted_id is not None
    assert items.find_one_and_update({"k": 70}, {"$inc": {"x": 1}}, return_document=True)["x"] == 2
    assert items.delete_many({"k": {"$gte": 45, "$lt": 55}}).deleted_count == 10
    assert items.delete_one({"k": 0}).deleted_count == 1
    assert items.count_documents({}) == 90
    with pytest.raises(BulkWriteError) as raised:
        items.insert_many([{"_id": 1, "k": 1}, {"_id": 500, "k": 99}], ordered=False)
    assert [row["index"] for row in raised.value.details["writeErrors"]] == [0]
    assert items.count_documents({"_id": 500}) == 1


def test_operations_of_several_collections_in_one_request(cluster):
    items = cluster.shard("bulk", {"k": 1})
    cluster.split_and_move("bulk", {"k": 50})
    client = items.database.client
    namespaces = [{"ns": "test.bulk"}, {"ns": "elsewhere.plain"}]

    def bulk(*operations, session=None, **fields):
        command = {"bulkWrite": 1, "ops": list(operations), "nsInfo": namespaces, **fields}
        return client.admin.command(command, session=session)

    reply = bulk(
        *({"insert": 0, "document": {"_id": n, "k": n}} for n in range(100)),
        {"insert": 1, "document": {"x": 1}},
        {"update": 0, "filter": {"k": 70}, "updateMods": {"$set": {"x": 1}}},
        {"update": 0, "filter": {"k": {"$gte": 40, "$lt": 60}}, "updateMods": {"$inc": {"y": 1}}, "multi": True},
        {"update": 0, "filter": {"_id": 80}, "updateMods": {"$set": {"x": 2}}, "sort": {"x": 1}},
        {"update": 0, "filter": {"k": 200}, "updateMods": {"$set": {"x": 2}}, "upsert": True},
        {"delete": 0, "filter": {"k": {"$gte": 45, "$lt": 55}}, "multi": True},
        {"delete": 0, "filter": {"k": 0}},
        {"delete": 1, "filter": {}, "multi": True},
    )
    listed = reply["cursor"]["firstBatch"]
    assert [row["idx"] for row in listed] == list(range(108))
    upserted = listed[104].pop("upserted")
    assert [{**row, "idx": 0} for row in listed[100:]] == [
        {"ok": 1, "idx": 0, "n": 1},
        {"ok": 1, "idx": 0, "n": 1, "nModified": 1},
        {"ok": 1, "idx": 0, "n": 20, "nModified": 20},
        {"ok": 1, "idx": 0, "n": 1, "nModified": 1},
        {"ok": 1, "idx": 0, "n": 1, "nModified": 0},
        {"ok": 1, "idx": 0, "n": 10},
        {"ok": 1, "idx": 0, "n": 1},
        {"ok": 1, "idx": 0, "n": 1},
    ]
    assert [reply[n] for n in ("nErrors", "nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")] == [
        0, 101, 22, 22, 1, 12,
    ]  # fmt: skip
    assert items.count_documents({}) == 90
    assert items.find_one({"k": 200})["_id"] == upserted["_id"]
    mixed = [
        {"insert": 0, "document": {"_id": 1, "k": 1}},
        {"update": 0, "filter": {"z": 1}, "updateMods": {"$set": {"a": 1}}},
        {"insert": 0, "document": {"_id": 2, "k": 99}},
    ]
    failed = bulk(*mixed, errorsOnly=True)
    assert [(row["idx"], row["code"]) for row in failed["cursor"]["firstBatch"]] == [(0, 11000)]
    failed = bulk(*mixed, ordered=False)
    assert [(row["idx"], row.get("code")) for row in failed["cursor"]["firstBatch"]] == [(0, 11000), (1, 72), (2, None)]
    # A cursor for what one batch does not hold.
    first = bulk(
        *({"update": 0, "filter": {"k": n}, "updateMods": {"$inc": {"w": 1}}} for n in range(30)),
        cursor={"batchSize": 3},
    )
    more = client.admin.command("getMore", first["cursor"]["id"], collection="$cmd.bulkWrite")
    assert [row["idx"] for row in more["cursor"]["nextBatch"]] == list(range(3, 30))
    # In a transaction over both shards.
    with client.start_session() as session, session.start_transaction():
        moved = [{"update": 0, "filter": {"k": k}, "updateMods": {"$inc": {"v": 1}}} for k in (10, 90)]
        assert bulk(*moved, session=session)["nModified"] == 2
    assert items.count_documents({"v": 1}) == 2
    with client.start_session() as session:
        session.start_transaction()
        assert bulk(*moved, mixed[0], *moved, session=session)["nErrors"] == 1
        with pytest.raises(OperationFailure):
            session.commit_transaction()
    assert items.count_documents({"v": 1}) == 2
    # A retry of what was done in part does the rest, on every shard.
    operations = [{"update": 0, "filter": {"k": k}, "updateMods": {"$inc": {"t": 1}}} for k in (10, 90, 11, 91)]
    with pymongo.MongoClient(*client.address) as own, own.start_session() as session:
        # The number is not one that the driver gives: no other client may be given the session.
        command = {"bulkWrite": 1, "nsInfo": namespaces}
        first = own.admin.command({**command, "ops": operations[:2]}, session=session, txnNumber=Int64(1000))
        assert first["nModified"] == 2
        again = own.admin.command({**command, "ops": operations}, session=session, txnNumber=Int64(1000))
    assert (again["nModified"], again["retriedStmtIds"]) == (4, [0, 1])
    assert [row["k"] for row in items.find({"t": 1}).sort("k", 1)] == [10, 11, 90, 91]


def test_a_router_that_knows_nothing_of_a_move_reads_and_writes_right(cluster):
    moved = cluster.shard("moved", {"k": 1})
    moved.insert_many([{"_id": n, "k": n} for n in range(200)])
    other = cluster.clients[1].test.moved
    assert other.count_documents({}) == 200
    cluster.split_and_move("moved", {"k": 100})
    assert other.count_documents({}) == 200
    assert other.find_one({"k": 150}) == {"_id": 150, "k": 150}
    other.insert_one({"_id": 1000, "k": 170})
    other.update_many({}, {"$inc": {"seen": 1}})
    assert Counter(row["seen"] for row in moved.find()) == {1: 201}
    assert moved.find_one({"k": 170, "_id": 1000}) is not None


def test_a_map_reduce_runs_on_every_shard_and_null_is_a_key(cluster):
    posts = cluster.shard("posts", {"id": 1})
    cluster.split_and_move("posts", {"id": "5"})
    rows = [{"id": str(n), "tags": [f"tag{n % 5}", None if n % 3 == 0 else "x"]} for n in range(1000)]
    posts.insert_many(rows)
    tally = Counter(tag for row in rows for tag in row["tags"])
    functions = {
        "map": "function () { for (var i in this.tags) { emit(this.tags[i], 1) } }",
        "reduce": "function (key, values) { return Array.sum(values) }",
    }
    reply = cluster.client.test.command("mapreduce", "posts", **functions, out="tags")
    assert {row["_id"]: row["value"] for row in cluster.client.test.tags.find()} == tally
    assert reply["result"] == "tags"
    assert reply["counts"]["emit"] == tally.total() == sum(part["emit"] for part in reply["shardCounts"].values())
    assert len(reply["shardCounts"]) == 2
    inline = cluster.client.test.command(
        "mapReduce", "posts", **functions, finalize="function (key, value) { return -value }", out={"inline": 1}
    )
    assert {row["_id"]: -row["value"] for row in inline["results"]} == tally
    for mode, times in (("merge", 1), ("reduce", 2)):
        cluster.client.test.tags.insert_one({"_id": mode, "value": 7})
        cluster.client.test.command("mapReduce", "posts", **functions, out={mode: "tags"})
        found = {row["_id"]: row["value"] for row in cluster.client.test.tags.find({"value": {"$ne": 7}})}
        assert found == {tag: times * count for tag, count in tally.items()}
        assert cluster.client.test.tags.find_one({"_id": mode}) == {"_id": mode, "value": 7}
    with pytest.raises(OperationFailure) as raised:
        cluster.client.test.command("mapReduce", "posts", **(functions | {"map": "function () { oops() }"}), out="tags")
    assert raised.value.code == 139
    assert not [name for name in cluster.client.test.list_collection_names() if name.startswith("tmp.mr")]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"addShard": "nowhere/127.0.0.1:1"}, 96),
        ({"moveChunk": "test.things", "find": {"k": 1}, "to": "nowhere"}, 70),
        ({"moveChunk": "test.nothing", "find": {"k": 1}, "to": "two"}, 118),
        ({"split": "test.things", "find": {"other": 1}}, 61),
        ({"split": "test.things", "find": {"k": 1}, "middle": {"k": 5}}, 72),
        ({"shardCollection": "test.things", "key": {"other": 1}}, 23),
        ({"shardCollection": "test.fresh", "key": {"k": "hashed"}}, 238),
        ({"shardCollection": "test.fresh", "key": {}}, 2),
        ({"moveEverything": 1}, 59),
        ({"listShards": 1, "loudly": True}, 40415),
        ({"movePrimary": "test", "to": "nowhere"}, 70),
        ({"movePrimary": "admin", "to": "two"}, 72),
        ({"movePrimary": "nothing", "to": "two"}, 26),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_code(cluster, command, code):
    if "test.things" not in {row["_id"] for row in cluster.client.config.collections.find()}:
        cluster.shard("things", {"k": 1})
    with pytest.raises(OperationFailure) as raised:
        cluster.client.admin.command(command)
    assert raised.value.code == code


def test_dropping_a_sharded_collection_drops_it_everywhere_and_the_name_is_free_again(cluster):
    gone = cluster.shard("gone", {"k": 1})
    cluster.split_and_move("gone", {"k": 5})
    gone.insert_many([{"k": n} for n in range(10)])
    gone.drop()
    assert cluster.clients[1].test.gone.count_documents({}) == 0
    cluster.clients[1].test.gone.insert_one({"plain": True})
    assert [row["plain"] for row in cluster.client.test.gone.find()] == [True]


def test_a_sharded_collection_is_renamed_over_another_one(cluster):
    source, target = cluster.shard("before", {"k": 1}), cluster.shard("after", {"other": 1})
    cluster.split_and_move("before", {"k": 5})
    source.insert_many([{"k": n} for n in range(10)])
    target.insert_one({"other": 1})
    assert cluster.clients[1].test.before.count_documents({}) == 10
    with pytest.raises(OperationFailure) as raised:
        source.rename("after")
    assert raised.value.code == 48
    with pytest.raises(OperationFailure) as raised:
        cluster.client.admin.command({"renameCollection": "test.before", "to": "elsewhere.after"})
    assert raised.value.code == 125
    source.rename("after", dropTarget=True)
    for client in cluster.clients:
        assert sorted(row["k"] for row in client.test.after.find()) == list(range(10))
        assert client.test.before.count_documents({}) == 0
        assert client.test.after.update_many({}, {"$inc": {"x": 1}}).modified_count == 10
    assert len(cluster.chunks("after")) == 2


def test_a_shard_that_is_the_primary_of_a_database_can_be_emptied(cluster):
    admin = cluster.client.admin
    admin.command("enableSharding", "travelling", primaryShard="two")
    routers = [client.travelling for client in cluster.clients]
    routers[0].plain.insert_many([{"_id": n} for n in range(1000)])
    routers[0].plain.create_index("a", name="a", expireAfterSeconds=10**6)
    routers[1].command({"create": "view", "viewOn": "plain", "pipeline": [{"$limit": 3}]})
    assert routers[1].plain.count_documents({}) == 1000
    admin.command({"movePrimary": "travelling", "to": "one"})
    assert admin.command({"movePrimary": "travelling", "to": "one"})["ok"] == 1
    for router in routers:
        assert sorted(router.list_collection_names()) == ["plain", "system.views", "view"]
        assert router.plain.index_information()["a"]["expireAfterSeconds"] == 10**6
        assert router.view.count_documents({}) == 3
        assert router.plain.update_many({}, {"$inc": {"x": 1}}).modified_count == 1000
    assert {row["x"] for row in routers[0].plain.find()} == {2}
    assert cluster.client.config.databases.find_one({"_id": "travelling"})["primary"] == "one"


def test_the_legacy_spellings_mean_the_same(cluster):
    assert (
        cluster.client.admin.command({"listshards": 1})["shards"]
        == cluster.client.admin.command("listShards")["shards"]
    )
    assert cluster.client.admin.command("ismaster")["msg"] == "isdbgrid"
    cluster.client.admin.command({"enablesharding": "test"})
    assert (
        cluster.client.admin.command({"shardcollection": "test.old", "key": {"id": 1}})["collectionsharded"]
        == "test.old"
    )


def test_a_router_that_knows_nothing_of_a_new_home_of_a_database_finds_it(cluster):
    first, second = (client["wandering"] for client in cluster.clients)
    cluster.client.admin.command("enableSharding", "wandering", primaryShard="one")
    second.plain.insert_one({"_id": 1})
    cluster.client.drop_database("wandering")
    cluster.client.admin.command("enableSharding", "wandering", primaryShard="two")
    second.plain.insert_one({"_id": 2})
    assert [row["_id"] for row in first.plain.find()] == [2]
    cluster.client.drop_database("wandering")
    assert second.plain.count_documents({}) == 0
    second.plain.insert_one({"_id": 3})
    assert [row["_id"] for row in first.plain.find()] == [3]


def test_a_causal_session_writes_and_reads_across_shards(cluster):
    causal = cluster.shard("causal", {"k": 1})
    cluster.split_and_move("causal", {"k": 50})
    with cluster.client.start_session(causal_consistency=True) as session:
        for k in (1, 60, 2, 70):
            causal.insert_one({"k": k}, session=session)
            assert causal.find_one({"k": k}, session=session) is not None
        assert causal.update_many({}, {"$set": {"seen": True}}, session=session).modified_count == 4
        assert causal.count_documents({"seen": True}, session=session) == 4


def test_views_over_sharded_collections_are_read_through_the_router(cluster: Cluster) -> None:
    viewed = cluster.shard("viewed", {"id": 1})
    viewed.insert_many([{"_id": n, "id": n, "a": n % 3, "b": [n, n + 1]} for n in range(30)])
    cluster.split_and_move("viewed", {"id": 15})
    test = cluster.client.test
    test.command("create", "view", viewOn="viewed", pipeline=[{"$match": {"a": {"$gt": 0}}}])
    test.command("create", "higher", viewOn="view", pipeline=[{"$match": {"id": {"$gte": 10}}}])
    found = list(test.higher.find({"a": 1}, {"a": 1}).sort("_id", -1).skip(1).limit(3).batch_size(2))
    assert found == [{"_id": 25, "a": 1}, {"_id": 22, "a": 1}, {"_id": 19, "a": 1}]
    assert test.higher.count_documents({}) == 14
    assert test.command("count", "view")["n"] == 20
    assert test.higher.distinct("b", {"id": {"$lt": 12}}) == [10, 11, 12]
    assert list(test.higher.aggregate([{"$group": {"_id": "$a", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])) == [
        {"_id": 1, "n": 7}, {"_id": 2, "n": 7},
    ]  # fmt: skip
    assert test.command("find", "view", limit=1)["cursor"]["ns"] == "test.view"
    with pytest.raises(OperationFailure) as caught:
        test.view.insert_one({"_id": 1})
    assert caught.value.code == 166
    test.command("collMod", "view", viewOn="viewed", pipeline=[{"$match": {"a": 0}}])
    assert test.view.count_documents({}) == 10
    test.drop_collection("view")
    assert test.view.find_one() is None


def test_the_languages_of_queries_and_updates_mean_the_same_through_a_router(cluster: Cluster) -> None:
    collection = cluster.shard("languages", {"k": 1})
    collection.insert_many({"_id": n, "k": n, "v": [n, n + 1]} for n in range(10))
    cluster.split_and_move("languages", {"k": 5})
    db = cluster.client.test
    found = db.command(
        "find", "languages", filter={"$expr": {"$gte": ["$k", "$$x"]}}, let={"x": 4}, sort={"k": -1},
        projection={"_id": 0, "k": 1, "y": {"$add": ["$k", "$$x"]}},
    )  # fmt: skip
    assert found["cursor"]["firstBatch"] == [{"k": k, "y": k + 4} for k in range(9, 3, -1)]
    assert collection.find_one({"v": 6}, {"_id": 0, "v.$": 1}, sort=[("k", -1)]) == {"v": [6]}
    statement = {"q": {"$expr": {"$lt": ["$k", "$$x"]}}, "u": [{"$set": {"w": "$$x"}}], "multi": True}
    assert db.command("update", "languages", updates=[statement], let={"x": 7})["nModified"] == 7
    assert collection.count_documents({"w": 7, "k": {"$bitsAllClear": 1}}) == 4
    collection.update_many({}, {"$inc": {"v.$[e]": 100}}, array_filters=[{"e": {"$gte": 9}}])
    assert collection.count_documents({"$jsonSchema": {"properties": {"v": {"items": {"maximum": 99}}}}}) == 8
    removed = db.command(
        "delete", "languages", deletes=[{"q": {"$expr": {"$eq": ["$k", "$$x"]}}, "limit": 0}], let={"x": 8}
    )
    assert removed["n"] == 1
    changed = db.command(
        "findAndModify", "languages", query={"k": 9}, update=[{"$set": {"z": "$$x"}}], let={"x": 3}, new=True
    )
    assert changed["value"]["z"] == 3


def test_a_collation_means_the_same_through_a_router(cluster: Cluster) -> None:
    """Shards are chosen by bytes and never by an equality under a collation; what is merged compares by it."""
    collection = cluster.shard("collated", {"s": 1})
    texts = ["a", "A", "b", "B", "m", "M", "z", "Z"]
    collection.insert_many([{"_id": number, "s": text, "g": number % 3} for number, text in enumerate(texts)])
    cluster.split_and_move("collated", {"s": "a"})
    rules = {"locale": "en", "strength": 2}
    options: dict[str, Any] = {"collation": rules}
    assert collection.count_documents({"s": "a"}, **options) == 2
    found = collection.find({"s": {"$gte": "B"}}, **options).sort([("s", 1), ("_id", 1)])
    assert [each["s"] for each in found] == ["b", "B", "m", "M", "z", "Z"]
    assert [text.lower() for text in collection.distinct("s", **options)] == ["a", "b", "m", "z"]
    grouped = collection.aggregate([{"$group": {"_id": "$s", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], **options)
    assert [(each["_id"].lower(), each["n"]) for each in grouped] == [("a", 2), ("b", 2), ("m", 2), ("z", 2)]
    cluster.client.test["collated_others"].insert_one({"_id": "M"})
    joined = {"from": "collated_others", "localField": "s", "foreignField": "_id", "as": "j"}
    pipeline = [{"$lookup": joined}, {"$match": {"j": {"$ne": []}}}, {"$sort": {"_id": 1}}]
    assert [each["s"] for each in collection.aggregate(pipeline, **options)] == ["m", "M"]
    assert [each["s"] for each in collection.aggregate(pipeline)] == ["M"]
    assert collection.update_many({"s": "z"}, {"$set": {"seen": 1}}, **options).modified_count == 2
    with pytest.raises(OperationFailure) as refused:
        collection.update_one({"s": "z"}, {"$set": {"seen": 2}}, **options)
    assert refused.value.code == 72
    assert collection.delete_many({"s": {"$in": ["Z"]}}, **options).deleted_count == 2
    cluster.client.test.command("create", "collated_view", viewOn="collated", collation=rules)
    view = cluster.client.test["collated_view"]
    assert view.count_documents({"s": "m"}) == 2
    assert [each["_id"] for each in view.find({"s": "B"}).sort("_id", 1)] == [2, 3]
    with pytest.raises(OperationFailure) as refused:
        view.count_documents({}, collation={"locale": "fr"})
    assert refused.value.code == 167
    cluster.client.test.command("create", "collated_own", collation=rules)
    assert [cluster.client.test["collated_own"].insert_one({"_id": "x"}).inserted_id] == ["x"]
    assert cluster.client.test["collated_own"].count_documents({"_id": "X"}) == 1
    for arguments in ({"collation": rules}, {}):
        with pytest.raises(OperationFailure) as refused:
            cluster.client.admin.command("shardCollection", "test.collated_own", key={"_id": 1}, **arguments)
        assert refused.value.code == 2


def test_what_is_near_comes_in_order_from_all_shards(cluster: Cluster) -> None:
    places = cluster.shard("places", {"k": 1})
    cluster.split_and_move("places", {"k": 50})
    places.insert_many([{"_id": n, "k": n, "g": [n * 37 % 101 / 10, n * 53 % 97 / 10]} for n in range(100)])
    places.create_index([("g", "2dsphere")])
    places.create_index([("g", "2d")])
    rows = list(places.find())

    def distance(row: dict[str, Any]) -> float:
        return (row["g"][0] - 5.01) ** 2 + (row["g"][1] - 4.52) ** 2

    ordered = [row["_id"] for row in sorted(rows, key=distance)]
    flat = {"g": {"$near": [5.01, 4.52]}}
    assert [row["_id"] for row in places.find(flat, {"_id": 1})] == ordered
    assert [row["_id"] for row in places.find(flat, {"_id": 1}).skip(3).limit(7)] == ordered[3:10]
    assert [row["_id"] for row in places.find({**flat, "k": {"$lt": 10}}, {"_id": 1})] == [n for n in ordered if n < 10]
    distances = [row["d"] for row in places.find({"g": {"$nearSphere": [5, 4]}}, {"d": {"$meta": "geoNearDistance"}})]
    assert distances == sorted(distances)
    assert len(distances) == 100
    near = {"near": [5.01, 4.52], "distanceField": "d", "key": "g"}
    assert [row["_id"] for row in places.aggregate([{"$geoNear": near}, {"$project": {"_id": 1}}])] == ordered
    stages = [{"$geoNear": {**near, "query": {"k": {"$gte": 20}}}}, {"$skip": 2}, {"$limit": 5}]
    assert [row["_id"] for row in places.aggregate(stages)] == [n for n in ordered if n >= 20][2:7]
    assert [row["d"] ** 2 for row in places.aggregate(stages[:1])] == pytest.approx(
        sorted(distance(row) for row in rows if row["k"] >= 20)
    )
    with pytest.raises(OperationFailure) as refused:
        places.find_one({"h": {"$near": [1, 1]}})
    assert refused.value.code == 291


def test_words_are_searched_for_on_all_shards(cluster: Cluster) -> None:
    texts = cluster.shard("texts", {"k": 1})
    cluster.split_and_move("texts", {"k": 5})
    texts.create_index([("t", "text")])
    texts.insert_many([{"_id": n, "k": n, "t": "quick fox" if n % 2 else "lazy dogs"} for n in range(10)])
    search = {"$text": {"$search": "fox"}}
    assert [row["_id"] for row in texts.find(search).sort("_id", 1)] == [1, 3, 5, 7, 9]
    assert {row["s"] for row in texts.find(search, {"s": {"$meta": "textScore"}})} == {0.75}
    assert texts.count_documents({"$text": {"$search": "dog"}, "k": {"$gt": 5}}) == 2
    stages = [{"$match": search}, {"$group": {"_id": {"$meta": "textScore"}, "n": {"$sum": 1}}}]
    assert list(texts.aggregate(stages)) == [{"_id": 0.75, "n": 5}]
    with pytest.raises(OperationFailure) as refused:
        list(texts.find(search).sort([("s", {"$meta": "textScore"})]))
    assert refused.value.code == 238


def test_scripts_run_on_the_shards_and_where_their_results_are_merged(cluster: Cluster) -> None:
    posts = cluster.shard("scripted", {"n": 1})
    cluster.split_and_move("scripted", {"n": 50})
    posts.insert_many([{"n": n} for n in range(100)])
    assert sorted(row["n"] for row in posts.find({"$where": "this.n % 25 == 0"})) == [0, 25, 50, 75]
    double = {"$function": {"body": "function (n) { return n * 2 }", "args": ["$n"], "lang": "js"}}
    found = posts.aggregate([{"$project": {"v": double}}, {"$sort": {"v": 1}}, {"$limit": 3}], batchSize=2)
    assert [row["v"] for row in found] == [0, 2, 4]
    total = {
        "init": "function () { return 0 }",
        "accumulate": "function (state, n) { return state + n }",
        "accumulateArgs": ["$n"],
        "merge": "function (one, other) { return one + other }",
        "finalize": "function (state) { return -state }",
        "lang": "js",
    }
    grouped = posts.aggregate([{"$group": {"_id": None, "v": {"$accumulator": total}}}, {"$set": {"n": "$v"}}])
    assert list(grouped) == [{"_id": None, "v": -4950.0, "n": -4950.0}]
    late = posts.aggregate([{"$group": {"_id": "$n"}}, {"$set": {"n": "$_id"}}, {"$set": {"v": double}}], batchSize=7)
    assert sum(row["v"] for row in late) == 9900
    assert posts.update_many({"$where": "this.n >= 90"}, {"$set": {"late": True}}).modified_count == 10
    assert posts.delete_many({"$where": "this.late"}).deleted_count == 10
    with pytest.raises(OperationFailure) as raised:
        list(posts.find({"$where": "throw new Error('no')"}))
    assert raised.value.code == 139


def test_operations_and_sessions_of_the_cluster(cluster: Cluster) -> None:
    admin = cluster.client.admin
    found = list(admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
    assert {operation["shard"] for operation in found} == {"one", "two"}
    assert all(operation["opid"].startswith(f"{operation['shard']}:") for operation in found if "opid" in operation)
    assert all("client" not in operation for operation in found)
    pipeline = [{"$currentOp": {}}, {"$match": {"command.aggregate": 1}}, {"$sort": {"shard": 1}}]
    asking = list(admin.aggregate(pipeline))
    assert [operation["shard"] for operation in asking] == ["one", "two"]
    assert {operation["shard"] for operation in admin.command("currentOp")["inprog"]} == {"one", "two"}
    assert admin.command("killOp", op=asking[0]["opid"])["info"]
    with pytest.raises(OperationFailure) as refused:
        admin.command("killOp", op="one")
    assert refused.value.code == 2
    (own,) = admin.aggregate([{"$currentOp": {"localOps": True}}, {"$match": {"command.aggregate": 1}}])
    assert "shard" not in own
    with cluster.client.start_session() as session:
        cluster.client.test.told.find_one({}, session=session)
        identity = session.session_id["id"]
        pipeline = [{"$listSessions": {}}, {"$match": {"_id.id": identity}}]
        assert len(list(cluster.client.config["system.sessions"].aggregate(pipeline))) == 1
        local = admin.aggregate([{"$listLocalSessions": {}}, {"$match": {"_id.id": identity}}])
        assert len(list(local)) == 1
    with pytest.raises(OperationFailure) as refused:
        cluster.client.test.aggregate([{"$currentOp": {}}])
    assert refused.value.code == 73


def test_results_that_are_not_as_safe_as_asked(cluster: Cluster) -> None:
    collection = cluster.shard("unsafe", {"_id": 1})
    collection.insert_many([{"_id": number} for number in range(3)])
    targets: list[tuple[str, dict[str, Any]]] = [
        ("unsafe_out", {"$out": "unsafe_out"}),
        ("unsafe_merged", {"$merge": {"into": "unsafe_merged"}}),
    ]
    for name, target in targets:
        asked = {"aggregate": "unsafe", "pipeline": [target], "cursor": {}, "writeConcern": {"w": 3, "wtimeout": 50}}
        reply = cluster.client.test.command(asked)
        assert reply["writeConcernError"]["code"] in (64, 100)
        assert cluster.client.test[name].count_documents({}) == 3


def test_plan_cache_statistics_of_a_sharded_collection(cluster: Cluster) -> None:
    collection = cluster.shard("planned", {"_id": 1})
    assert list(collection.aggregate([{"$planCacheStats": {}}])) == []
    collection.create_index("x")
    collection.create_index("y")
    collection.insert_many([{"_id": number, "x": number, "y": number} for number in range(10)])
    assert collection.find_one({"x": 1, "y": 1}) == {"_id": 1, "x": 1, "y": 1}
    (kept,) = collection.aggregate([{"$planCacheStats": {}}])
    assert kept["createdFromQuery"]["query"] == {"$and": [{"x": {"$eq": 1}}, {"y": {"$eq": 1}}]}
    cluster.client.test.command("planCacheClear", "planned")
    assert list(collection.aggregate([{"$planCacheStats": {}}])) == []


def test_index_filters_of_a_sharded_collection(cluster: Cluster) -> None:
    collection = cluster.shard("limited", {"k": 1})
    collection.insert_many([{"_id": n, "k": n, "x": n % 2, "y": n % 5} for n in range(40)])
    for name in "xy":
        collection.create_index(name)
    database = cluster.clients[1].test
    # The second router knows of the chunks as they were.
    assert database.limited.count_documents({"k": 1}) == 1
    cluster.split_and_move("limited", {"k": 20})
    query = {"x": 1, "y": 3}

    def used() -> list[tuple[bool, str]]:
        planner = database.command("explain", {"find": "limited", "filter": query})["queryPlanner"]
        shown = []
        for shard in planner["winningPlan"]["shards"]:
            stage = shard["winningPlan"]
            while "inputStage" in stage:
                stage = stage["inputStage"]
            shown.append((shard["indexFilterSet"], stage.get("indexName", stage["stage"])))
        return shown

    assert database.command("planCacheListFilters", "limited")["filters"] == []
    database.command("planCacheSetFilter", "limited", query=query, indexes=["x_1"])
    assert used() == [(True, "x_1")] * 2
    (only,) = database.command("planCacheListFilters", "limited")["filters"]
    assert only == {"query": query, "sort": {}, "projection": {}, "indexes": ["x_1"]}
    assert collection.count_documents(query) == 4
    cluster.client.admin.command("moveChunk", "test.limited", find={"k": 20}, to="one")
    database.command("planCacheClearFilters", "limited", query={"x": 2, "y": 2})
    cluster.client.admin.command("moveChunk", "test.limited", find={"k": 20}, to="two")
    assert database.command("planCacheListFilters", "limited")["filters"] == []
    assert {limited for limited, _ in used()} == {False}
    with pytest.raises(OperationFailure) as refused:
        database.command("planCacheSetFilter", "limited", query=query, indexes=[])
    assert refused.value.code == Code.BadValue


def test_the_router_tells_of_itself_and_of_the_shards(cluster: Cluster) -> None:
    collection = cluster.shard("told", {"_id": 1})
    collection.insert_many([{"_id": number} for number in range(10)])
    cluster.split_and_move("told", {"_id": 5})
    checked = cluster.client.test.command("validate", "told")
    assert checked["valid"]
    # What has moved away may not be deleted yet.
    assert sum(part["nrecords"] for part in checked["raw"].values()) >= 10
    admin = cluster.client.admin
    strings = admin.command("getShardMap")["map"]
    assert set(strings) == {"config", "one", "two"}
    assert admin.command("currentOp", desc="none")["inprog"] == []
    assert all("desc" in entry for entry in admin.command({"currentOp": 1, "$all": True})["inprog"])
    assert admin.command("serverStatus")["opLatencies"]["writes"]["ops"] >= 1

    def primaries() -> set[str]:
        sets = admin.command("connPoolStats")["replicaSets"]
        return {name for name, each in sets.items() if any(host["ismaster"] for host in each["hosts"])}

    wait_until(lambda: primaries() == {each.partition("/")[0] for each in strings.values()}, 10)


def test_a_clustered_collection_is_made_sharded_and_moved(cluster):
    key = {"key": {"_id": 1}, "unique": True}
    cluster.client.test.create_collection("clustered", clusteredIndex=key)
    clustered = cluster.client.test.clustered
    clustered.insert_many([{"_id": n * 7 % 20} for n in range(20)])
    assert [row["_id"] for row in clustered.find()] == list(range(20))
    cluster.client.admin.command("shardCollection", "test.clustered", key={"_id": 1})
    cluster.split_and_move("clustered", {"_id": 10})
    assert [row["_id"] for row in clustered.find().sort("_id", -1)] == list(range(20))[::-1]
    assert [row["_id"] for row in clustered.find({"_id": {"$gte": 12}}).limit(2)] == [12, 13]
    assert [index.get("clustered") for index in clustered.list_indexes()] == [True]


def test_a_time_series_collection_is_on_the_primary_shard(cluster):
    database = cluster.client.test
    database.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    begin = datetime.datetime(2024, 1, 1)
    rows = [{"_id": n, "t": begin + datetime.timedelta(seconds=n), "m": n % 3, "v": n} for n in range(3000)]
    database.series.insert_many(rows)
    database.series.insert_one({"_id": 3000, "t": begin, "m": 7})
    assert list(database.series.find({"m": 1, "v": {"$lt": 5}}).sort("_id", 1)) == [rows[1], rows[4]]
    assert database.series.count_documents({"t": {"$gte": begin + datetime.timedelta(seconds=2990)}}) == 10
    assert sorted(database.series.distinct("m")) == [0, 1, 2, 7]
    grouped = database.series.aggregate([{"$group": {"_id": "$m", "v": {"$sum": "$v"}}}, {"$sort": {"_id": 1}}])
    assert [row["v"] for row in grouped] == [sum(range(each, 3000, 3)) for each in range(3)] + [0]
    assert database.series.update_many({"m": 7}, {"$set": {"m": 8}}).modified_count == 1
    assert database.series.delete_many({"m": {"$in": [0, 8]}}).deleted_count == 1001
    database.series.create_index([("m", 1), ("t", -1)])
    assert [index["key"] for index in database.series.list_indexes()] == [{"m": 1, "t": -1}]
    assert [each["type"] for each in database.list_collections(filter={"name": "series"})] == ["timeseries"]
    assert database.command("collStats", "series")["timeseries"]["bucketCount"] >= 2
    with pytest.raises(OperationFailure):
        cluster.client.admin.command("shardCollection", "test.series", key={"m": 1})
    with pytest.raises(OperationFailure):
        cluster.client.admin.command("shardCollection", "test.system.buckets.series", key={"meta": 1})
    database.series.drop()
    assert database.list_collection_names(filter={"name": {"$regex": "series"}}) == []


def test_a_time_series_collection_moves_with_its_database(cluster):
    database = cluster.client.moved_series
    database.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    begin = datetime.datetime(2024, 1, 1)
    database.series.insert_many([{"_id": n, "t": begin, "m": n % 3} for n in range(9)])
    home = cluster.client.config.databases.find_one({"_id": "moved_series"})["primary"]
    cluster.client.admin.command("movePrimary", "moved_series", to="two" if home == "one" else "one")
    database.series.insert_one({"_id": 9, "t": begin, "m": 0})
    assert sorted(row["_id"] for row in database.series.find({"m": 0})) == [0, 3, 6, 9]
    assert [each["type"] for each in database.list_collections(filter={"name": "series"})] == ["timeseries"]
    database.series.drop()
