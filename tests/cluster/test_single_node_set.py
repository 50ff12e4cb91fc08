"""A replica set of one as a real process: what only members of a set do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import bson
import pymongo
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure, WriteConcernError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from docstore.net import Pool
from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

Client = pymongo.MongoClient[dict[str, Any]]


def connect(member: Member) -> Client:
    return pymongo.MongoClient("127.0.0.1", member.port, directConnection=True)


def send(member: Member, command: dict[str, Any]) -> dict[str, Any]:
    """Send a command as it stands: a driver would put a session of its own into it."""

    async def work() -> bytes:
        pool = Pool()
        try:
            return await pool.command(member.address, "blog", command, timeout=10)
        finally:
            await pool.close()

    return bson.decode(asyncio.run(work()))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with stopped_at_end(ForkedDeployment(tmp_path_factory.mktemp("set"))) as deployment:
        node = Member("node", "mongod", ["--replSet", "one"])
        deployment.start(node)
        with connect(node) as client:
            members = [{"_id": 0, "host": node.address}]
            client.admin.command("replSetInitiate", {"_id": "one", "members": members})
            wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 10)
        yield deployment


@pytest.fixture
def member(deployment: Deployment) -> Member:
    """The one member, without the documents of the test before. Who ends it starts it again."""
    node = deployment.members["node"]
    with connect(node) as client:
        client.drop_database("blog")
    return node


def test_a_driver_finds_the_set_and_its_retried_writes_are_done_once(member: Member) -> None:
    with pymongo.MongoClient(member.address, replicaSet="one") as client:
        client.blog.posts.insert_one({"_id": 1})
        command = {
            "update": "posts",
            "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
            "lsid": {"id": Binary(uuid4().bytes, 4)},
            "txnNumber": Int64(1),
        }
        first, again = send(member, command), send(member, command)
        assert (first["nModified"], again["nModified"], again["retriedStmtIds"]) == (1, 1, [0])
        assert client.blog.posts.find_one() == {"_id": 1, "n": 1}


def test_a_retry_after_kill_9_still_knows_what_was_done(deployment: Deployment, member: Member) -> None:
    command = {
        "findAndModify": "posts",
        "query": {"_id": 1},
        "update": {"$inc": {"n": 1}},
        "lsid": {"id": Binary(uuid4().bytes, 4)},
        "txnNumber": Int64(1),
    }
    with connect(member) as client:
        client.blog.posts.insert_one({"_id": 1, "n": 5})
    first = send(member, command)
    deployment.kill("node")
    deployment.restart("node")
    with connect(member) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)
        again = send(member, command)
        assert again["value"] == first["value"] == {"_id": 1, "n": 5}
        assert client.blog.posts.find_one() == {"_id": 1, "n": 6}


def test_a_write_concern_that_cannot_be_met_is_reported_and_the_write_stays(member: Member) -> None:
    with connect(member) as client:
        posts = client.blog.get_collection("posts", write_concern=pymongo.WriteConcern(w=3, wtimeout=50))
        with pytest.raises(WriteConcernError) as caught:
            posts.insert_one({"_id": 1})
        assert caught.value.code in (64, 100)
        assert client.blog.posts.find_one() == {"_id": 1}


def test_a_majority_read_sees_an_acknowledged_majority_write(member: Member) -> None:
    with connect(member) as client:
        for n in range(20):
            client.blog.get_collection("posts", write_concern=pymongo.WriteConcern("majority")).insert_one({"_id": n})
            read = client.blog.get_collection("posts", read_concern=pymongo.read_concern.ReadConcern("majority"))
            assert read.count_documents({"_id": n}) == 1


def test_a_count_at_a_past_time_is_that_of_then(member: Member) -> None:
    with connect(member) as client:
        client.blog.past.insert_many([{} for _ in range(10)])
        then = client.blog.command("ping")["operationTime"]
        client.blog.past.insert_many([{} for _ in range(30)])
        pipeline = [{"$group": {"_id": 1, "n": {"$sum": 1}}}]
        concern = {"level": "snapshot", "atClusterTime": then}
        reply = client.blog.command({"aggregate": "past", "pipeline": pipeline, "cursor": {}, "readConcern": concern})
        assert reply["cursor"]["firstBatch"] == [{"_id": 1, "n": 10}]


def test_a_causal_session_reads_its_own_writes(member: Member) -> None:
    with connect(member) as client, client.start_session(causal_consistency=True) as session:
        client.blog.posts.insert_one({"_id": 1}, session=session)
        assert client.blog.posts.find_one({"_id": 1}, session=session) == {"_id": 1}


def test_a_time_that_has_not_come_is_refused(member: Member) -> None:
    with connect(member) as client:
        future = {"afterClusterTime": Timestamp(4_000_000_000, 1)}
        with pytest.raises(OperationFailure) as caught:
            client.blog.command({"find": "posts", "readConcern": future})
        assert caught.value.code == 72


def test_the_oplog_can_be_tailed_while_it_grows(member: Member) -> None:
    with connect(member) as client, connect(member) as other:
        last = client.local["oplog.rs"].find().sort("$natural", -1).limit(1).next()
        cursor = client.local["oplog.rs"].find(
            {"ts": {"$gt": last["ts"]}, "op": "i"}, cursor_type=pymongo.CursorType.TAILABLE_AWAIT
        )
        writer = threading.Thread(target=other.blog.posts.insert_many, args=([{"_id": n} for n in range(5)],))
        writer.start()
        found: list[int] = []
        wait_until(lambda: found.extend(entry["o"]["_id"] for entry in cursor) or len(found) >= 5, 10)
        assert found == list(range(5))
        writer.join()
        cursor.close()


def test_a_shutdown_command_ends_the_process(deployment: Deployment, member: Member) -> None:
    with connect(member) as client:
        client.admin.command({"shutdown": 1, "force": True})
        wait_until(lambda: not member.running, 20)
        # Closed while nobody listens, a client looks for its node in vain.
        deployment.restart("node")
    with connect(member) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)


def test_a_member_tells_of_its_default_concerns(member: Member) -> None:
    with connect(member) as client:
        reply = client.admin.command("getDefaultRWConcern")
    assert reply["defaultWriteConcern"]["w"] == "majority"
    assert reply["defaultReadConcern"] == {"level": "local"}


def test_a_snapshot_session_reads_one_state(member: Member) -> None:
    client = connect(member)
    collection = client.snapshots.c
    collection.insert_many([{"_id": number} for number in range(3)])
    with client.start_session(snapshot=True) as session:
        before = list(collection.find({}, session=session))
        collection.insert_one({"_id": 99})
        assert list(collection.find({}, session=session)) == before
        assert collection.distinct("_id", session=session) == [0, 1, 2]
        assert len(list(collection.aggregate([], session=session))) == 3
    assert len(list(collection.find({}))) == 4


def test_every_read_of_a_snapshot_names_its_time_whether_it_is_answered_at_once_or_not(member: Member) -> None:
    client = connect(member)
    rows = client.snapshots.get_collection("named", write_concern=pymongo.WriteConcern("majority"))
    rows.insert_many([{"_id": number, "even": number % 2 == 0} for number in range(300)])
    rows.create_index("even")
    concern = {"level": "snapshot"}
    for of_one in ({"filter": {"_id": 1}}, {"filter": {"even": True}}, {"filter": {"even": True}, "batchSize": 10}):
        for general in ({}, {"comment": "", "returnKey": False, "showRecordId": False}):
            for _ in range(3):
                cursor = client.snapshots.command({"find": "named", **of_one, **general, "readConcern": concern})[
                    "cursor"
                ]
                assert list(cursor) == ["firstBatch", "id", "ns", "atClusterTime"]
                rows.delete_one({"_id": 299})
                more = {"getMore": cursor["id"], "collection": "named", "batchSize": 1000}
                if cursor["id"]:
                    rest = client.snapshots.command(more)["cursor"]
                    assert rest["atClusterTime"] == cursor["atClusterTime"]
                    left = rest["nextBatch"] + cursor["firstBatch"]
                    assert len(left) == (150 if of_one["filter"] == {"even": True} else 1)
                again = {"level": "snapshot", "atClusterTime": cursor["atClusterTime"]}
                named = client.snapshots.command({"find": "named", **of_one, **general, "readConcern": again})["cursor"]
                assert named["atClusterTime"] == cursor["atClusterTime"]
                assert named["firstBatch"] == cursor["firstBatch"]
                pipeline = [{"$match": {"even": True}}, {"$count": "n"}]
                counted = {"aggregate": "named", "pipeline": pipeline, "cursor": {}, "readConcern": concern}
                assert "atClusterTime" in client.snapshots.command(counted)["cursor"]
                distinct = {"distinct": "named", "key": "even", "query": {"even": True}, "readConcern": concern}
                assert list(client.snapshots.command(distinct))[:2] == ["values", "atClusterTime"]


def test_a_linearizable_read_sees_the_newest_write(member: Member) -> None:
    collection = connect(member).linear.get_collection("c", read_concern=ReadConcern("linearizable"))
    collection.insert_one({"_id": 1})
    assert collection.find_one({}) == {"_id": 1}


def test_an_arbiter_may_come_once_the_default_write_concern_is_set(deployment: Deployment, member: Member) -> None:
    arbiter = Member("arbiter", "mongod", ["--replSet", "one"])
    deployment.start(arbiter)
    with connect(member) as client:
        admin = client.admin
        config = admin.command("replSetGetConfig")["config"]
        added = {"_id": 7, "host": arbiter.address, "arbiterOnly": True, "priority": 0}
        config |= {"version": config["version"] + 1, "members": [*config["members"], added]}
        with pytest.raises(OperationFailure) as refused:
            admin.command("replSetReconfig", config)
        assert refused.value.code == 103
        for wrong, code in (
            ({}, 2), ({"defaultWriteConcern": {"w": 0}}, 2), ({"defaultWriteConcern": {"w": "nosuch"}}, 79),
            ({"defaultReadConcern": {"level": "snapshot"}}, 2), ({"defaultWriteConcern": {"w": 1}, "more": 1}, 40415),
        ):  # fmt: skip
            assert admin.command("setDefaultRWConcern", check=False, **wrong)["code"] == code
        shown = admin.command(
            "setDefaultRWConcern", defaultWriteConcern={"w": 1}, defaultReadConcern={"level": "local"}
        )
        assert shown["defaultWriteConcern"] == {"w": 1, "wtimeout": 0}
        assert (shown["defaultWriteConcernSource"], shown["defaultReadConcernSource"]) == ("global", "global")
        admin.command("replSetReconfig", config)
        wait_until(lambda: _states(client) == [1, 7], 20)
        assert admin.command("setDefaultRWConcern", check=False, defaultWriteConcern={})["code"] == 20
        # A default that no member can meet is that of every write: it counts.
        admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 2, "wtimeout": 10}, writeConcern={"w": 1})
        with pytest.raises((OperationFailure, WriteConcernError)) as unmet:
            client.test.defaults.insert_one({})
        assert unmet.value.code in (64, 100)
        client.test.defaults.with_options(write_concern=WriteConcern(w=1)).insert_one({})
        admin.command("setDefaultRWConcern", defaultWriteConcern={"w": 1}, writeConcern={"w": 1})
        client.test.defaults.insert_one({})
        client.admin.command({"shutdown": 1, "force": True})
        wait_until(lambda: not member.running, 20)
        deployment.restart("node")
    with connect(member) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)
        assert client.admin.command("getDefaultRWConcern")["defaultWriteConcern"] == {"w": 1, "wtimeout": 0}


def test_a_write_concern_may_be_tags(member: Member) -> None:
    with connect(member) as client:
        for w, code in (({"dc": 1}, 4), ({}, 9), ({"dc": "x"}, 9), ({"dc": True}, 9)):
            concern = {"w": w, "wtimeout": 500}
            reply = client.test.command("insert", "tags", check=False, documents=[{}], writeConcern=concern)
            assert reply.get("code", reply.get("writeConcernError", {}).get("code")) == code


def _states(client: Client) -> list[int]:
    return [each["state"] for each in client.admin.command("replSetGetStatus")["members"]]
