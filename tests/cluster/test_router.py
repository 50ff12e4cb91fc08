"""A router over two shards, driven by the stock driver: placing, writing, moving, refusing."""

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


def test_default_concerns_are_those_of_the_cluster(cluster):
    admin, other = cluster.client.admin, cluster.clients[1]
    assert admin.command("getDefaultRWConcern")["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
    for wrong, code in (
        ({}, 2), ({"defaultWriteConcern": {"w": 0}}, 2), ({"defaultReadConcern": {"level": "snapshot"}}, 2),
        ({"defaultWriteConcern": {"w": 1}, "more": 1}, 40415),
    ):  # fmt: skip
        with pytest.raises(OperationFailure) as refused:
            admin.command("setDefaultRWConcern", **wrong)
        assert refused.value.code == code
    defaulted = cluster.shard("defaulted", {"k": 1})
    cluster.split_and_move("defaulted", {"k": 50})

    def failures(client: Any) -> list[int]:
        """Return the write concern errors' codes of a write without a concern on each shard; 0 for none."""
        replies = [client.test.command("insert", "defaulted", documents=[{"k": k}], check=False) for k in (0, 70)]
        return [reply.get("writeConcernError", {}).get("code", 0) for reply in replies]

    try:
        shown = admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 2, "wtimeout": 10})
        assert (shown["defaultWriteConcern"]["w"], shown["defaultWriteConcernSource"]) == (2, "global")
        assert other.admin.command("getDefaultRWConcern")["defaultWriteConcern"] == {"w": 2, "wtimeout": 10}
        wait_until(lambda: all(code == 100 for code in failures(other)), 20)
        # What config servers keep waits for a majority, whatever the default is.
        assert "writeConcernError" not in admin.command("createUser", "defaulted", pwd="p", roles=[])
        admin.command("dropUser", "defaulted")
        defaulted.with_options(write_concern=WriteConcern(w=1)).insert_many([{"k": 0}, {"k": 70}])
        with pytest.raises(OperationFailure) as unset:
            admin.command("setDefaultRWConcern", defaultWriteConcern={})
        assert unset.value.code == 20
    finally:
        admin.command("setDefaultRWConcern", defaultWriteConcern={"w": "majority"})
    wait_until(lambda: failures(cluster.client) == [0, 0], 20)
    (shard,) = (row for row in cluster.client.config.shards.find() if row["_id"] == "one")
    with pymongo.MongoClient(shard["host"].partition("/")[2], directConnection=True) as client:
        for command in ("getDefaultRWConcern", "setDefaultRWConcern"):
            with pytest.raises(OperationFailure) as refused:
                client.admin.command(command)
            assert refused.value.code == 51301
