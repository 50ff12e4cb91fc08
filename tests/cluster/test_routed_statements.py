"""Statements without the shard key and reads of secondaries, through two routers beside chunks that move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure
from pymongo.read_preferences import Nearest, PrimaryPreferred, Secondary, SecondaryPreferred

from tests.cluster.routed import Cluster, Writer, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
DOCUMENTS = 1500
MIDDLE = {"k": 1000}
MEMBERS = [f"{shard}-{number}" for shard in ("one", "two") for number in range(2)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("statements"), members=2) as cluster:
        cluster.client.admin.command("balancerStop")
        yield cluster


def spread(cluster: Cluster, name: str) -> None:
    """A collection by {k: 1}, of which `_id` says nothing: from 500 to 1000 on shard two, the rest on shard one."""
    collection = cluster.shard(name, {"k": 1})
    collection.insert_many([{"_id": n, "k": n, "x": 0, "y": 0, "text": "t" * 200} for n in range(DOCUMENTS)])
    for at in (500, 1000):
        cluster.client.admin.command("split", f"test.{name}", middle={"k": at})
    cluster.client.admin.command("moveChunk", f"test.{name}", find={"k": 500}, to="two")


def status(cluster: Cluster, member: str) -> dict[str, Any]:
    address = cluster.deployment.members[member].address
    with closing(pymongo.MongoClient(address, directConnection=True)) as client:
        found: dict[str, Any] = client.admin.command("serverStatus")
        return found


def test_each_document_is_found_and_changed_once_beside_moves(cluster: Cluster) -> None:
    spread(cluster, "moving")
    by_id: Counter[int] = Counter()
    many = [0, 0]
    refused: list[OperationFailure] = []

    def one(round_: int) -> None:
        number = 900 + (round_ * 37) % 400
        collection = cluster.clients[round_ % 2].test.moving
        result = collection.update_one({"_id": number}, {"$inc": {"x": 1}})
        assert (result.matched_count, result.modified_count) == (1, 1), number
        by_id[number] += 1

    def all_of(router: int) -> Callable[[int], None]:
        def act(_round: int) -> None:
            try:
                result = cluster.clients[router].test.moving.update_many({}, {"$inc": {"y": 1}})
            except OperationFailure as error:
                refused.append(error)
            else:
                assert result.modified_count == DOCUMENTS
                many[router] += 1

        return act

    writers = [Writer(one), Writer(all_of(0)), Writer(all_of(1))]
    for writer in writers:
        writer.start()
    try:
        for to in ("two", "one") * 2:
            seen = [writer.rounds for writer in writers]
            wait_until(lambda seen=seen: all(w.rounds > s or w.failure for w, s in zip(writers, seen, strict=True)), 60)
            cluster.client.admin.command("moveChunk", "test.moving", find=MIDDLE, to=to)
    finally:
        for writer in writers:
            writer.finish()
    rows = list(cluster.client.test.moving.find())
    assert len(rows) == DOCUMENTS
    assert {row["_id"]: row["x"] for row in rows if row["x"]} == dict(by_id)
    assert {row["y"] for row in rows} == {sum(many)} or refused
    assert all(sum(many) <= row["y"] <= sum(many) + len(refused) for row in rows)
    assert not refused, "moves wait for statements over many documents"
    assert cluster.clients[1].test.moving.delete_many({}).deleted_count == DOCUMENTS


@pytest.mark.parametrize("preference", [Secondary(), SecondaryPreferred(), Nearest(), PrimaryPreferred()])
def test_members_serve_what_they_are_preferred_for(cluster: Cluster, preference: Any) -> None:
    name = f"preferred_{preference.mongos_mode}"
    spread(cluster, name)
    collection = cluster.client.get_database("test", read_preference=preference)[name]
    before = {member: status(cluster, member)["opcounters"] for member in MEMBERS}
    assert [row["_id"] for row in collection.find().sort("_id", 1).batch_size(100)] == list(range(DOCUMENTS))
    assert collection.count_documents({"k": {"$gte": 400, "$lt": 600}}) == 200
    assert collection.find_one({"k": 700})["_id"] == 700  # type: ignore[index]
    assert len(collection.distinct("_id")) == DOCUMENTS
    for to in ("two", "one"):
        cluster.client.admin.command("moveChunk", f"test.{name}", find=MIDDLE, to=to)
        assert sorted(row["_id"] for row in collection.find()) == list(range(DOCUMENTS))
    asked = {member: status(cluster, member)["opcounters"]["getmore"] - before[member]["getmore"] for member in MEMBERS}
    if preference.mongos_mode.startswith("secondary"):
        assert asked["one-1"] > 0, asked
        assert asked["two-1"] > 0, asked


def test_writes_and_ddl_go_to_primaries_whatever_is_preferred(cluster: Cluster) -> None:
    spread(cluster, "written")
    collection = cluster.client.get_database("test", read_preference=Secondary()).written
    database = cluster.client.get_database("test", read_preference=Secondary())
    assert collection.update_many({}, {"$inc": {"x": 1}}).modified_count == DOCUMENTS
    reply = database.command("findAndModify", "written", query={"k": 3}, update={"$inc": {"x": 1}}, new=True)
    assert reply["value"]["x"] == 2
    database.command("createIndexes", "written", indexes=[{"key": {"x": 1}, "name": "x"}])
    with pytest.raises(OperationFailure) as caught:
        collection.create_index("y", unique=True)
    assert caught.value.code == 67
    with pytest.raises(OperationFailure) as caught:
        collection.drop_index("k_1")
    assert caught.value.code == 370


def test_a_preference_that_no_member_satisfies_is_refused(cluster: Cluster) -> None:
    spread(cluster, "nobody")
    collection = cluster.client.get_database("test", read_preference=Secondary(tag_sets=[{"dc": "nowhere"}])).nobody
    with pytest.raises(OperationFailure) as caught:
        collection.find_one({}, max_time_ms=500)
    assert caught.value.code in (50, 133)


def test_columns_are_read_of_the_nearest_member(cluster: Cluster) -> None:
    cluster.client.admin.command({"createKeyspace": "near"})
    keyspace = cluster.client.near
    keyspace.command({"createColumnFamily": "F", "compareWith": "LongType"})
    for number in range(8):
        keyspace.command({"wcInsert": "F", "key": f"k{number}", "column": Int64(1), "value": "v"})
    for number in range(8):
        for consistency in ("ONE", "QUORUM"):
            read = {"wcGet": "F", "key": f"k{number}", "column": Int64(1), "consistency": consistency}
            wait_until(lambda read=read: keyspace.command(read)["column"]["value"] == b"v", 20)


def test_no_cursor_is_left_on_any_shard(cluster: Cluster) -> None:
    def left(member: str) -> list[str]:
        """The namespaces of idle cursors, but for those by which members follow the oplog."""
        address = cluster.deployment.members[member].address
        with closing(pymongo.MongoClient(address, directConnection=True)) as client:
            idle = client.admin.aggregate([{"$currentOp": {"idleCursors": True}}, {"$match": {"type": "idleCursor"}}])
            return [row["ns"] for row in idle if not row["ns"].startswith("local.")]

    spread(cluster, "left")
    unread = cluster.client.test.left.find({}, batch_size=2)
    next(unread)
    assert [name for name in MEMBERS if left(name)]
    unread.close()
    wait_until(lambda: not any(left(name) for name in MEMBERS), 20)
