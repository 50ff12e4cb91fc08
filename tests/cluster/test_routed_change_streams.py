"""Change streams through a router: one order over all shards, whatever moves between them. And tails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pymongo.errors
import pytest
from pymongo.read_concern import ReadConcern

from tests.cluster.routed import Cluster, routed_cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("streams")
    with routed_cluster(directory, arguments=["--setParameter", "enableTestCommands=1"]) as made:
        yield made


def told(stream: Any, wanted: int) -> list[dict[str, Any]]:
    """So many events."""
    return [next(stream) for _ in range(wanted)]


def test_events_of_all_shards_come_in_one_order(cluster: Cluster) -> None:
    coll = cluster.shard("ordered", {"_id": 1})
    cluster.split_and_move("ordered", {"_id": 100})
    with coll.watch(max_await_time_ms=2000) as stream:
        identities = [each for number in range(20) for each in (number, 100 + number)]
        for identity in identities:
            coll.insert_one({"_id": identity})
        events = told(stream, len(identities))
        assert [event["documentKey"]["_id"] for event in events] == identities
        times = [event["clusterTime"] for event in events]
        assert times == sorted(times)
        for at in (0, 7, 38):
            with coll.watch(resume_after=events[at]["_id"], max_await_time_ms=2000) as again:
                assert told(again, len(events) - at - 1) == events[at + 1 :]


def test_a_chunk_that_moves_is_no_change(cluster: Cluster) -> None:
    coll = cluster.shard("moved", {"_id": 1})
    coll.insert_many([{"_id": number} for number in range(50)])
    with coll.watch(max_await_time_ms=2000) as stream:
        cluster.split_and_move("moved", {"_id": 25})
        coll.insert_one({"_id": 30.5})
        coll.update_one({"_id": 40}, {"$set": {"a": 1}})
        coll.insert_one({"_id": 1.5})
        assert [event["documentKey"]["_id"] for event in told(stream, 3)] == [30.5, 40, 1.5]
        assert stream.try_next() is None


def test_events_name_documents_by_the_shard_key_first(cluster: Cluster) -> None:
    """On both shards, of a chunk that has come, in a transaction and where a document lacks a field of the key."""
    coll = cluster.shard("keyed", {"u": 1, "a.b": 1})
    with coll.watch(full_document="updateLookup", max_await_time_ms=2000) as stream:
        coll.insert_many([{"_id": 1, "u": 1, "a": {"b": 2}}, {"_id": 2, "u": 200}])
        cluster.split_and_move("keyed", {"u": 100, "a.b": 0})
        coll.update_one({"_id": 2}, {"$set": {"x": 1}})
        events = told(stream, 3)
        coll.replace_one({"_id": 1}, {"a": {"b": 2}, "u": 1})
        with cluster.client.start_session() as session, session.start_transaction():
            coll.insert_one({"_id": 3, "u": 300, "a": {"b": 1}}, session=session)
            coll.delete_one({"_id": 1, "u": 1, "a.b": 2}, session=session)
        coll.delete_many({"u": {"$gte": 0}})
        events += told(stream, 5)
    first, second, third = ({"u": 1, "a.b": 2, "_id": 1}, {"u": 200, "_id": 2}, {"u": 300, "a.b": 1, "_id": 3})
    keys = [list(event["documentKey"].items()) for event in events]
    assert keys[:4] == [list(each.items()) for each in (first, second, second, first)]
    assert events[2]["fullDocument"] == {"_id": 2, "u": 200, "x": 1}
    assert sorted(keys[4:6]) == sorted([list(third.items()), list(first.items())])
    assert sorted(keys[6:]) == sorted([list(second.items()), list(third.items())])


def test_documents_are_looked_up_where_they_are(cluster: Cluster) -> None:
    coll = cluster.shard("looked", {"_id": 1})
    cluster.split_and_move("looked", {"_id": 100})
    coll.insert_many([{"_id": 1}, {"_id": 101}])
    with cluster.client.test.watch(full_document="updateLookup", max_await_time_ms=2000) as stream:
        coll.update_one({"_id": 1}, {"$set": {"a": 1}})
        coll.update_one({"_id": 101}, {"$set": {"a": 2}})
        assert [event["fullDocument"] for event in told(stream, 2)] == [{"_id": 1, "a": 1}, {"_id": 101, "a": 2}]


def test_a_lookup_may_take_longer_than_the_wait_for_events(cluster: Cluster) -> None:
    coll = cluster.shard("slow", {"_id": 1})
    coll.insert_one({"_id": 1})
    shard = cluster.client.config.shards.find_one({"_id": "one"})
    assert shard is not None
    slow = {"failCommands": ["aggregate"], "blockConnection": True, "blockTimeMS": 200}
    owner: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(shard["host"].partition("/")[2])
    with coll.watch(full_document="updateLookup", max_await_time_ms=50) as stream, owner:
        owner.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=slow)
        try:
            coll.update_one({"_id": 1}, {"$set": {"a": 1}})
            assert next(stream)["fullDocument"] == {"_id": 1, "a": 1}
        finally:
            owner.admin.command("configureFailPoint", "failCommand", mode="off")


def test_stages_and_the_whole_deployment(cluster: Cluster) -> None:
    coll = cluster.shard("staged", {"_id": 1})
    cluster.split_and_move("staged", {"_id": 100})
    stages = [{"$match": {"operationType": "insert", "ns.coll": "staged"}}, {"$set": {"shown": "$fullDocument.n"}}]
    with cluster.client.watch(stages, max_await_time_ms=2000) as stream:
        coll.insert_many([{"_id": 1, "n": 1}, {"_id": 101, "n": 2}])
        coll.delete_many({})
        assert sorted(event["shown"] for event in told(stream, 2)) == [1, 2]


def test_scripts_in_stages_and_explain(cluster: Cluster) -> None:
    coll = cluster.shard("scripted", {"_id": 1})
    cluster.split_and_move("scripted", {"_id": 100})
    body = "function(type, id) { return type + ' ' + id; }"
    told_as = {"$function": {"body": body, "args": ["$operationType", "$documentKey._id"], "lang": "js"}}
    kept = {"$function": {"body": "function(id) { return id != 2; }", "args": ["$documentKey._id"], "lang": "js"}}
    for stages in (
        [{"$match": {"$expr": kept}}, {"$project": {"told": told_as}}],
        [{"$set": {"told": told_as}}, {"$match": {"$expr": kept}}],
    ):
        with coll.watch(stages, max_await_time_ms=2000) as stream:
            coll.insert_many([{"_id": 1}, {"_id": 2}, {"_id": 101}])
            assert sorted(event["told"] for event in told(stream, 2)) == ["insert 1", "insert 101"]
        coll.delete_many({})
    command = {"aggregate": "scripted", "pipeline": [{"$changeStream": {}}, {"$match": {"x": 1}}], "cursor": {}}
    reply = cluster.client.test.command("explain", command, verbosity="queryPlanner")
    assert reply["splitPipeline"] == {"shardsPart": [{"$changeStream": {}}], "mergerPart": [{"$match": {"x": 1}}]}
    assert sorted(reply["shards"]) == ["one", "two"]
    assert "$cursor" in reply["shards"]["one"]["stages"][0]


def test_a_large_event_is_split_made_small_or_refused(cluster: Cluster) -> None:
    large = cluster.client["test"].create_collection("large", changeStreamPreAndPostImages={"enabled": True})
    options: dict[str, Any] = {"full_document_before_change": "required", "max_await_time_ms": 2000}
    with (
        large.watch([{"$changeStreamSplitLargeEvent": {}}], **options) as split,
        large.watch([{"$project": {"operationType": 1}}], **options) as small,
        large.watch(**options) as whole,
    ):
        large.insert_one({"_id": 1, "x": "a" * 10_000_000})
        large.update_one({"_id": 1}, {"$set": {"x": "b" * 10_000_000}})
        insert, first, second = told(split, 3)
        assert insert["fullDocument"]["_id"] == 1
        assert [each["splitEvent"] for each in (first, second)] == [{"fragment": n, "of": 2} for n in (1, 2)]
        assert list(second) == ["_id", "splitEvent", "fullDocumentBeforeChange"]
        assert [event["operationType"] for event in told(small, 2)] == ["insert", "update"]
        assert next(whole)["operationType"] == "insert"
        with pytest.raises(pymongo.errors.OperationFailure, match="BSONObj size") as refusal:
            next(whole)
        assert refusal.value.code == 10334


def test_another_read_concern_is_refused(cluster: Cluster) -> None:
    with pytest.raises(pymongo.errors.OperationFailure) as refusal:
        cluster.client.test.get_collection("c", read_concern=ReadConcern("local")).watch()
    assert refusal.value.code == 72
    cluster.client.test.get_collection("c", read_concern=ReadConcern("majority")).watch().close()


def test_a_dropped_collection_ends_its_stream(cluster: Cluster) -> None:
    coll = cluster.shard("dropped", {"_id": 1})
    cluster.split_and_move("dropped", {"_id": 100})
    with coll.watch(max_await_time_ms=2000) as stream, cluster.client.test.watch(max_await_time_ms=2000) as whole:
        coll.insert_one({"_id": 101})
        coll.drop()
        assert [event["operationType"] for event in stream] == ["insert", "drop", "invalidate"]
        cluster.client.test.renamed.insert_one({"_id": 1})
        assert [event["operationType"] for event in told(whole, 3)] == ["insert", "drop", "insert"]


@pytest.mark.parametrize("whole", [False, True])
def test_a_stream_goes_on_behind_its_end(cluster: Cluster, whole: bool) -> None:
    database = cluster.client[f"ended_{whole}"]
    watched = database if whole else database.c
    database.c.insert_one({"_id": 1})
    with watched.watch(max_await_time_ms=2000) as stream:
        cluster.client.drop_database(database.name)
        *_, last = stream
    assert last["operationType"] == "invalidate"
    with watched.watch(start_after=last["_id"], max_await_time_ms=2000) as stream:
        database.c.insert_one({"_id": 2})
        assert next(stream)["documentKey"] == {"_id": 2}


def test_what_all_shards_do_is_told_once(cluster: Cluster) -> None:
    """A rename, a drop of the database; and what a new owner needs before a chunk comes is no event."""
    database = cluster.client.whole
    cluster.client.admin.command("enableSharding", "whole", primaryShard="one")
    database.c.create_index("a")
    with database.watch(show_expanded_events=True, max_await_time_ms=2000) as stream:
        cluster.client.admin.command("shardCollection", "whole.c", key={"_id": 1})
        cluster.client.admin.command("shardCollection", "whole.c", key={"_id": 1})
        cluster.client.admin.command("split", "whole.c", middle={"_id": 100})
        cluster.client.admin.command("moveChunk", "whole.c", find={"_id": 100}, to="two")
        database.c.insert_one({"_id": 101})
        cluster.client.admin.command("renameCollection", "whole.c", to="whole.d")
        database.d.delete_one({"_id": 101})
        cluster.client.drop_database("whole")
        kinds = [event["operationType"] for event in stream]
    assert kinds == ["shardCollection", "insert", "rename", "delete", "drop", "dropDatabase", "invalidate"]


def test_a_capped_collection_is_tailed_through_a_router(cluster: Cluster) -> None:
    capped = cluster.client.other.create_collection("capped", capped=True, size=100_000)
    capped.insert_one({"_id": 1})
    with capped.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT).max_await_time_ms(2000) as tail:
        assert next(tail) == {"_id": 1}
        capped.insert_one({"_id": 2})
        assert next(tail) == {"_id": 2}
        assert tail.alive
