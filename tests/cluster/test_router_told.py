"""What a router tells of operations and sessions, plans, itself and the shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from pymongo.errors import ExecutionTimeout, OperationFailure

from docstore.errors import Code
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(
        tmp_path_factory.mktemp("told"), arguments=["--setParameter", "enableTestCommands=1"]
    ) as cluster:
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


def shard_primary(cluster: Cluster, shard: str) -> pymongo.MongoClient[Any]:
    """A client of a shard's only member."""
    record = cluster.client.config.shards.find_one({"_id": shard})
    assert record is not None
    return pymongo.MongoClient(record["host"].partition("/")[2], directConnection=True)


def test_the_machine_of_a_router(cluster: Cluster) -> None:
    for client in cluster.clients:
        shown = client.admin.command("hostInfo")
        assert shown["system"]["hostname"].endswith(f":{(client.address or ('', 0))[1]}")
        assert shown["system"]["numCores"] > 0
        assert {"os", "extra"} < shown.keys()


def test_the_size_of_a_collection_is_that_on_all_shards(cluster: Cluster) -> None:
    sized = cluster.shard("sized", {"n": 1})
    cluster.split_and_move("sized", {"n": 50})
    sized.insert_many([{"n": n} for n in range(100)])
    documents = cluster.client.test.sized_plain
    documents.insert_many(sized.find())
    whole, plain = (cluster.client.test.command("dataSize", f"test.{name}") for name in ("sized", "sized_plain"))
    assert (whole["size"], whole["numObjects"]) == (plain["size"], plain["numObjects"]) == (plain["size"], 100)
    assert cluster.client.test.command("dataSize", "nowhere.none")["numObjects"] == 0


def test_split_points_are_those_of_an_unsharded_collection(cluster: Cluster) -> None:
    test = cluster.client.test
    test.pointed.insert_many([{"_id": n} for n in range(9)])
    command = {"splitVector": "test.pointed", "keyPattern": {"_id": 1}, "force": True}
    assert test.command(command)["splitKeys"] == [{"_id": 4}]
    cluster.shard("pointed_sharded", {"n": 1})
    with pytest.raises(OperationFailure) as refused:
        test.command({**command, "splitVector": "test.pointed_sharded", "keyPattern": {"n": 1}})
    assert refused.value.code == Code.IllegalOperation


def test_writes_are_flushed_and_held_on_all_shards(cluster: Cluster) -> None:
    admin = cluster.client.admin
    flushed = admin.command("fsync")
    assert (flushed["numFiles"], set(flushed["all"])) == (2, {"one", "two"})
    with pytest.raises(OperationFailure) as refused:
        admin.command("fsyncUnlock")
    assert "when not locked" in str(refused.value)
    held = cluster.shard("held", {"n": 1})
    cluster.split_and_move("held", {"n": 5})
    locked = admin.command("fsync", lock=True)
    try:
        assert (locked["lockCount"], set(locked["all"])) == (1, {"one", "two"})
        for number in (0, 9):
            with pytest.raises(ExecutionTimeout):
                held.database.command(
                    {"insert": "held", "documents": [{"n": number}], "maxTimeMS": 50, "writeConcern": {"w": 1}}
                )
        assert held.count_documents({}) == 0
        assert cluster.clients[1].admin.command("fsync", lock=True)["lockCount"] == 2
        assert admin.command("fsyncUnlock")["lockCount"] == 1
    finally:
        assert admin.command("fsyncUnlock")["lockCount"] == 0
    held.insert_many([{"n": 0}, {"n": 9}])


def test_a_lock_that_one_shard_refuses_is_on_none(cluster: Cluster) -> None:
    admin = cluster.client.admin
    with shard_primary(cluster, "two") as two:
        failure = {"failCommands": ["fsync"], "errorCode": 8, "failInternalCommands": True}
        two.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=failure)
        with pytest.raises(OperationFailure) as refused:
            admin.command("fsync", lock=True)
        assert refused.value.code == 8
    for shard in ("one", "two"):
        with shard_primary(cluster, shard) as client, pytest.raises(OperationFailure, match="when not locked"):
            client.admin.command("fsyncUnlock")


def test_parameters_of_the_cluster_come_to_every_shard(cluster: Cluster) -> None:
    admin = cluster.client.admin
    parameter = {"preAndPostImages": {"expireAfterSeconds": 77}}
    admin.command("setClusterParameter", {"changeStreamOptions": parameter})
    for client in cluster.clients:
        (shown,) = client.admin.command("getClusterParameter", "changeStreamOptions")["clusterParameters"]
        assert shown["preAndPostImages"] == parameter["preAndPostImages"]
    for shard in ("one", "two"):
        with shard_primary(cluster, shard) as client:
            wait_until(lambda: client.config.clusterParameters.find_one() == shown, 20)
            with pytest.raises(OperationFailure) as refused:
                client.admin.command("setClusterParameter", {"changeStreamOptions": parameter})
            assert refused.value.code == Code.NotImplemented
    with pytest.raises(OperationFailure) as refused:
        admin.command("getClusterParameter", "none")
    assert refused.value.code == Code.NoSuchKey


def test_a_map_reduce_is_explained_by_what_shards_and_router_do(cluster: Cluster) -> None:
    mapped = cluster.shard("mapped", {"n": 1})
    cluster.split_and_move("mapped", {"n": 50})
    mapped.insert_many([{"n": n, "x": n % 5} for n in range(100)])
    command = {
        "mapReduce": "mapped", "map": "function() { emit(this.x, 1) }", "reduce": "function(k, v) { return 1 }",
        "finalize": "function(k, v) { return v }", "out": "counts", "query": {"x": 3},
    }  # fmt: skip

    def explained(**fields: Any) -> dict[str, Any]:
        return mapped.database.command({"explain": {**command, **fields}, "verbosity": "executionStats"})

    def names(stages: list[dict[str, Any]]) -> list[str]:
        return [next(iter(stage)) for stage in stages]

    shown = explained()
    assert shown["mergeType"] == "mongos"
    assert names(shown["splitPipeline"]["shardsPart"]) == ["$project", "$unwind", "$group"]
    assert names(shown["splitPipeline"]["mergerPart"]) == ["$group", "$project", "$out"]
    assert set(shown["shards"]) == {"one", "two"}
    for part in shown["shards"].values():
        assert names(part["stages"]) == ["$cursor", "$project", "$unwind", "$group"]
        assert part["stages"][0]["$cursor"]["executionStats"]["nReturned"] == 10
    assert list(explained(query={"n": 7})["shards"]) == ["one"]
    limited = explained(limit=3)
    assert names(limited["splitPipeline"]["mergerPart"]) == ["$project", "$unwind", "$group", "$project", "$out"]
    assert [names(part["stages"]) for part in limited["shards"].values()] == [["$cursor"], ["$cursor"]]
    mapped.database.mapped_plain.insert_many([{"x": 3}])
    plain = explained(mapReduce="mapped_plain")
    assert plain["splitPipeline"] is None
    assert names(plain["shards"]["one"]["stages"]) == ["$cursor", "$project", "$unwind", "$group", "$project", "$out"]
    with pytest.raises(OperationFailure) as refused:
        explained(map=1)
    assert refused.value.code == Code.BadValue
    assert "counts" not in mapped.database.list_collection_names()


def test_what_the_other_shards_have_is_read_where_one_is_away(cluster: Cluster) -> None:
    halves = cluster.shard("halves", {"n": 1})
    cluster.split_and_move("halves", {"n": 5})
    halves.insert_many([{"_id": n, "n": n} for n in range(10)])
    command = {"find": "halves", "sort": {"n": 1}, "allowPartialResults": True}
    whole = halves.database.command(command)["cursor"]
    assert ([row["_id"] for row in whole["firstBatch"]], "partialResultsReturned" in whole) == (list(range(10)), False)
    (away,) = (name for name in cluster.deployment.members if name == "two" or name.startswith("two-"))
    cluster.deployment.kill(away)
    try:
        part = halves.database.command(command)["cursor"]
        assert [row["_id"] for row in part["firstBatch"]] == list(range(5))
        assert part["partialResultsReturned"] is True
    finally:
        cluster.deployment.restart(away)
    wait_until(lambda: "partialResultsReturned" not in halves.database.command(command)["cursor"], 30)
