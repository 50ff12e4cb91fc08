"""What a router tells of operations and sessions, plans, itself and the shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pymongo.errors import OperationFailure

from docstore.errors import Code
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("told")) as cluster:
        yield cluster


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
    with cluster.client.start_session() as session, session.start_transaction():
        cluster.client.test.told.insert_one({}, session=session)
        for options in ({}, {"localOps": True}):
            idle = {"type": "idleSession", "lsid.id": session.session_id["id"]}
            (shown,) = admin.aggregate([{"$currentOp": options}, {"$match": idle}])
            participants = shown["transaction"].get("participants", [])
            assert len(participants) == len(options), "only a router knows other shards"
        session.abort_transaction()
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


def test_a_router_counts_statements_by_kind(cluster: Cluster) -> None:
    """Also those that it hands on as they came, and those of a bulkWrite."""
    collection = cluster.shard("counted", {"_id": 1})
    admin = cluster.client.admin

    def counters() -> dict[str, int]:
        found: dict[str, int] = admin.command("serverStatus")["opcounters"]
        return found

    before = counters()
    collection.insert_one({"_id": 1})
    collection.insert_many([{"_id": number} for number in range(10, 20)])
    collection.update_one({"_id": 1}, {"$set": {"x": 1}})
    collection.delete_many({"x": 2})
    assert len(list(collection.find({}, batch_size=6))) == 11
    operations = [{"insert": 0, "document": {"_id": 2}}, {"delete": 0, "filter": {"_id": 2}}]
    admin.command("bulkWrite", 1, ops=operations, nsInfo=[{"ns": collection.full_name}])
    after = counters()
    counted = {kind: after[kind] - before[kind] for kind in after if kind != "command"}
    assert counted == {"insert": 12, "query": 1, "update": 1, "delete": 2, "getmore": 1}
    assert after["command"] > before["command"]


def test_a_cursor_that_awaits_no_data_takes_no_time_limit(cluster: Cluster) -> None:
    cluster.client.test.timed.insert_many([{"_id": number} for number in range(4)])
    for sort in ({}, {"_id": 1}):
        found = cluster.client.test.command({"find": "timed", "batchSize": 1, "sort": sort})["cursor"]
        for limit in (0, 10):
            more = {"getMore": found["id"], "collection": "timed", "maxTimeMS": limit}
            assert cluster.client.test.command(more, check=False)["code"] == Code.BadValue
        more = {"getMore": found["id"], "collection": "timed"}
        assert len(cluster.client.test.command(more)["cursor"]["nextBatch"]) == 3
