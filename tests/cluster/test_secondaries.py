"""What secondaries of a set do beside following: results that the primary writes, and fail points that hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure, WTimeoutError

from docstore.testing import ReplicaSet
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
Database = pymongo.database.Database[dict[str, Any]]


@pytest.fixture(scope="module")
def members() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=2, parameters={"enableTestCommands": 1}) as made:
        yield made


@pytest.fixture
def primary(members: ReplicaSet) -> Database:
    database = members.client().get_database("test", write_concern=pymongo.WriteConcern(2, 10_000))
    members.client().drop_database("test")
    return database


@pytest.fixture
def secondary(members: ReplicaSet, primary: Database) -> Iterator[Database]:
    hello = primary.command("hello")
    [other] = [host for host in hello["hosts"] if host != hello["me"]]
    options: dict[str, Any] = {"directConnection": True, "readPreference": "secondaryPreferred"}
    with pymongo.MongoClient(other, **options) as client:
        yield client.test


def test_a_causal_read_of_an_idle_sets_secondary_does_not_wait_for_a_write(
    primary: Database, secondary: Database
) -> None:
    """The cluster time is that of another shard: no entry of this set would come by itself."""
    primary.source.insert_one({"_id": 1})
    now = primary.command("ping")["operationTime"]
    ahead = bson.Timestamp(now.time, now.inc + 1000)
    with secondary.client.start_session() as session:
        session.advance_cluster_time({"clusterTime": ahead, "signature": {"hash": bytes(20), "keyId": Int64(0)}})
        session.advance_operation_time(ahead)
        assert secondary.source.find_one({}, session=session, max_time_ms=20_000) == {"_id": 1}


def test_results_of_a_secondary_replace_a_collection_of_the_set(primary: Database, secondary: Database) -> None:
    primary.source.insert_many([{"_id": n, "text": "x" * 1000} for n in range(6000)])
    primary.target.insert_one({"_id": "old"})
    primary.target.create_index("text")
    assert list(secondary.source.aggregate([{"$match": {"_id": {"$gte": 10}}}, {"$out": "target"}])) == []
    assert primary.target.count_documents({}) == 5990
    assert "text_1" in primary.target.index_information()
    assert [name for name in primary.list_collection_names() if name.startswith("tmp")] == []
    primary.client.elsewhere.drop_collection("made")
    secondary.source.aggregate([{"$limit": 2}, {"$out": {"db": "elsewhere", "coll": "made"}}])
    assert primary.client.elsewhere.made.count_documents({}) == 2
    primary.client.drop_database("elsewhere")


def test_results_of_a_secondary_are_merged(primary: Database, secondary: Database) -> None:
    primary.source.insert_many([{"_id": n, "v": n} for n in range(5)])
    primary.target.insert_many([{"_id": n, "old": True} for n in range(2)])
    secondary.source.aggregate([{"$merge": "target"}])
    assert list(primary.target.find(sort={"_id": 1}).limit(3)) == [
        {"_id": 0, "old": True, "v": 0}, {"_id": 1, "old": True, "v": 1}, {"_id": 2, "v": 2},
    ]  # fmt: skip
    update = [{"$set": {"v": {"$add": ["$v", "$$new.v", "$$more"]}}}]
    stage = {"into": "target", "let": {"new": "$$ROOT", "more": "$$given"}, "whenMatched": update}
    secondary.source.aggregate([{"$merge": stage}], let={"given": 100})
    assert [each["v"] for each in primary.target.find(sort={"_id": 1})] == [100, 102, 104, 106, 108]
    for stages, code in (
        ({"into": "target", "whenMatched": "fail"}, 11000),
        ({"into": "target", "on": "v"}, 51183),
        ({"into": "none", "whenNotMatched": "fail"}, 13113),
    ):
        with pytest.raises(OperationFailure) as refusal:
            secondary.source.aggregate([{"$merge": stages}])
        assert refusal.value.code == code


def test_what_the_primary_refuses_leaves_the_target_as_it_was(primary: Database, secondary: Database) -> None:
    primary.source.insert_many([{"_id": n, "u": n % 3} for n in range(5)])
    primary.create_collection("target").create_index("u", unique=True)
    primary.target.insert_one({"_id": "old", "u": "old"})
    primary.create_collection("round", capped=True, size=4096)
    for target, code in (("target", 11000), ("round", 17152)):
        with pytest.raises(OperationFailure) as refusal:
            secondary.source.aggregate([{"$out": target}])
        assert refusal.value.code == code
    assert list(primary.target.find()) == [{"_id": "old", "u": "old"}]
    assert [name for name in primary.list_collection_names() if name.startswith("tmp")] == []


def test_a_member_that_is_held_goes_on_afterwards(primary: Database, secondary: Database) -> None:
    admin = secondary.client.admin
    admin.command("configureFailPoint", "stopReplProducer", mode="alwaysOn")
    try:
        with pytest.raises(WTimeoutError):
            primary.held.with_options(write_concern=pymongo.WriteConcern(2, 100)).insert_one({"_id": 1})
    finally:
        admin.command("configureFailPoint", "stopReplProducer", mode="off")
    primary.held.insert_one({"_id": 2})
    assert secondary.held.count_documents({}) == 2
    for mode in ({"times": 1}, {"skip": 1}):
        with pytest.raises(OperationFailure) as refusal:
            admin.command("configureFailPoint", "stopReplProducer", mode=mode)
        assert refusal.value.code == 2


def test_a_fail_point_of_cursors_is_met_by_clients_alone(primary: Database) -> None:
    admin = primary.client.admin
    with primary.watched.watch(max_await_time_ms=100) as stream:
        point = {"mode": {"times": 1}, "data": {"errorCode": 43, "closeConnection": False}}
        admin.command("configureFailPoint", "failGetMoreAfterCursorCheckout", **point)
        primary.watched.insert_one({"_id": 1})
        wait_until(lambda: stream.try_next() is not None, 10)
    off = admin.command("configureFailPoint", "failGetMoreAfterCursorCheckout", mode="off")
    assert off["count"] == 1
