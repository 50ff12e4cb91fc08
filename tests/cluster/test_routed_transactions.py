"""Transactions through routers, over two shards: what one client sees of another's, how they end, and what kills and
moves make of them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import bson
import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from docstore.net import Pool
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
SNAPSHOT = ReadConcern("snapshot")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("transactions"), members=1) as cluster:
        cluster.client.admin.command("balancerStop")
        yield cluster


def accounts(cluster: Cluster, name: str) -> pymongo.collection.Collection[dict[str, Any]]:
    """Accounts 0 to 19, those from 10 on on shard two."""
    collection = cluster.shard(name, {"_id": 1})
    collection.insert_many([{"_id": n, "n": 100} for n in range(20)])
    cluster.client.admin.command("split", f"test.{name}", middle={"_id": 10})
    cluster.client.admin.command("moveChunk", f"test.{name}", find={"_id": 10}, to="two")
    return collection


def transfer(collection: Any, session: Any, source: int, target: int, amount: int) -> None:
    collection.update_one({"_id": source}, {"$inc": {"n": -amount}}, session=session)
    collection.update_one({"_id": target}, {"$inc": {"n": amount}}, session=session)


def test_a_bulk_write_in_a_transaction_changes_many_documents_of_both_shards(cluster: Cluster) -> None:
    collection = accounts(cluster, "bulky")
    request = pymongo.UpdateMany({"_id": {"$gte": 8}}, {"$inc": {"n": 1}}, namespace="test.bulky")
    delete = pymongo.DeleteMany({"_id": {"$in": [0, 19]}}, namespace="test.bulky")
    with cluster.client.start_session() as session:
        for end in (session.abort_transaction, session.commit_transaction):
            session.start_transaction()
            done = cluster.client.bulk_write([request, delete], session=session)
            assert (done.modified_count, done.deleted_count) == (12, 2)
            assert collection.count_documents({"n": 101}) == 0
            end()
        found = {each["_id"]: each["n"] for each in collection.find()}
        assert found == {n: 100 + (n >= 8) for n in range(1, 19)}
        with pytest.raises(PyMongoError, match="Cannot use retryable writes with multi=true"):
            cluster.client.admin.command(
                {"bulkWrite": 1, "nsInfo": [{"ns": "test.bulky"}], "lsid": session.session_id, "txnNumber": Int64(99),
                 "ops": [{"delete": 0, "filter": {}, "multi": True}]}
            )  # fmt: skip


def test_the_cursor_of_a_transaction_is_refused_outside_of_it(cluster: Cluster) -> None:
    accounts(cluster, "outside")
    with cluster.client.start_session() as session:
        session.start_transaction()
        opened = cluster.client.test.command({"find": "outside", "batchSize": 1}, session=session)
        more = {"getMore": Int64(opened["cursor"]["id"]), "collection": "outside"}
        for fields, code in (({}, 50737), ({"lsid": session.session_id}, 50740)):
            assert asked(cluster, {**more, **fields, "$db": "test"}, router=0) == (0.0, code)
        assert len(cluster.client.test.command(more, session=session)["cursor"]["nextBatch"]) > 0
        session.abort_transaction()


def asked(cluster: Cluster, command: dict[str, Any], router: int = 1) -> tuple[float, int | None]:
    """Whether a router, by default the other one, does what it is asked as it is, and else why not."""
    host, port = cluster.clients[router].address or ("", 0)

    async def ask() -> dict[str, Any]:
        pool = Pool()
        body = dict(command)
        reply = await pool.command(f"{host}:{port}", body.pop("$db", "admin"), body, check=False)
        await pool.close()
        return bson.decode(reply)

    reply = asyncio.run(ask())
    return reply["ok"], reply.get("code")


def homes(cluster: Cluster, name: str) -> pymongo.collection.Collection[dict[str, Any]]:
    """Documents 0 to 3 by their key `k`, those from 10 on on shard two."""
    collection = cluster.shard(name, {"k": 1})
    collection.insert_many([{"_id": n, "k": 5 * n, "n": 0} for n in range(4)])
    cluster.split_and_move(name, {"k": 10})
    cluster.client.admin.command("split", f"test.{name}", middle={"k": 4})
    return collection


def test_a_transaction_changes_shard_keys_of_documents_that_stay_on_their_shard(cluster: Cluster) -> None:
    collection = homes(cluster, "homes")
    with cluster.client.start_session() as session, session.start_transaction():
        collection.update_one({"_id": 0, "k": 0}, {"$set": {"k": 7}}, session=session)
        collection.replace_one({"_id": 1, "k": 5}, {"k": 1, "n": 1}, session=session)
        found = collection.find_one_and_update(
            {"_id": 2, "k": 10}, [{"$set": {"k": {"$add": ["$k", 1]}}}], session=session
        )
        assert found == {"_id": 2, "k": 10, "n": 0}
        collection.update_one({"k": 11}, {"$inc": {"n": 1}}, session=session)
        collection.update_one({"k": 15}, {"$unset": {"n": 1}}, session=session)
        assert collection.find_one({"k": 7}, session=session) == {"_id": 0, "k": 7, "n": 0}
        assert collection.find_one({"k": 7}) is None
    expected = [
        {"_id": 0, "k": 7, "n": 0},
        {"_id": 1, "k": 1, "n": 1},
        {"_id": 2, "k": 11, "n": 1},
        {"_id": 3, "k": 15},
    ]
    assert list(collection.find(sort=[("_id", 1)])) == expected
    assert [collection.count_documents({"k": key}) for key in (0, 1, 5, 7, 10, 11)] == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize("form", ["update", "replacement", "findAndModify", "upsert"])
def test_a_key_that_another_shard_owns_ends_the_transaction_on_both(cluster: Cluster, form: str) -> None:
    collection = homes(cluster, f"homes_{form}")
    before = list(collection.find(sort=[("_id", 1)]))
    acts: dict[str, Any] = {
        "update": lambda session: collection.update_one({"_id": 0, "k": 0}, {"$set": {"k": 12}}, session=session),
        "replacement": lambda session: collection.replace_one({"_id": 0, "k": 0}, {"k": 12}, session=session),
        "findAndModify": lambda session: collection.find_one_and_update({"k": 0}, {"$set": {"k": 12}}, session=session),
        "upsert": lambda session: collection.update_one({"k": 3}, {"$set": {"k": 12}}, upsert=True, session=session),
    }
    with cluster.client.start_session() as session:
        session.start_transaction()
        collection.update_one({"_id": 0, "k": 0}, {"$inc": {"n": 1}}, session=session)
        collection.update_one({"_id": 3, "k": 15}, {"$inc": {"n": 1}}, session=session)
        with pytest.raises(OperationFailure) as refused:
            acts[form](session)
        assert refused.value.code == 283
        assert not refused.value.has_error_label("TransientTransactionError")
        with pytest.raises(OperationFailure) as ended:
            session.commit_transaction()
        assert ended.value.code == 251
    collection.update_many({}, {"$set": {"after": 1}})
    assert list(collection.find(sort=[("_id", 1)])) == [{**row, "after": 1} for row in before]


def test_a_transfer_over_two_shards_is_seen_whole(cluster: Cluster) -> None:
    collection = accounts(cluster, "transfer")
    with cluster.client.start_session() as session:
        session.start_transaction(read_concern=SNAPSHOT, write_concern=WriteConcern("majority"))
        transfer(collection, session, 1, 11, 30)
        found = {each["_id"]: each["n"] for each in collection.find({}, session=session)}
        assert (found[1], found[11], sum(found.values())) == (70, 130, 2000)
        assert collection.find_one({"_id": 11}) == {"_id": 11, "n": 100}, "nobody else sees it yet"
        total = collection.aggregate([{"$group": {"_id": None, "n": {"$sum": "$n"}}}], session=session)
        assert [each["n"] for each in total] == [2000]
        session.commit_transaction()
        session.commit_transaction()
    assert [collection.find_one({"_id": n})["n"] for n in (1, 11)] == [70, 130]
    with cluster.client.start_session() as session:
        session.start_transaction()
        transfer(collection, session, 1, 11, 30)
        session.abort_transaction()
    assert [collection.find_one({"_id": n})["n"] for n in (1, 11)] == [70, 130]


def test_a_snapshot_is_of_one_time_on_all_shards(cluster: Cluster) -> None:
    collection = accounts(cluster, "snapshots")
    with cluster.client.start_session() as reader, cluster.client.start_session() as writer:
        reader.start_transaction(read_concern=SNAPSHOT)
        assert collection.find_one({"_id": 1}, session=reader) == {"_id": 1, "n": 100}
        writer.with_transaction(lambda session: transfer(collection, session, 1, 11, 30))
        assert collection.find_one({"_id": 11}, session=reader) == {"_id": 11, "n": 100}, "not asked before"
        reader.commit_transaction()


def test_a_snapshot_session_reads_one_state_of_all_shards(cluster: Cluster) -> None:
    collection = accounts(cluster, "session")
    rounds = {"_id": None, "n": {"$sum": "$n"}, "least": {"$min": "$n"}}
    with cluster.client.start_session(snapshot=True) as reader, cluster.client.start_session() as writer:
        assert collection.find_one({"_id": 1}, session=reader) == {"_id": 1, "n": 100}
        writer.with_transaction(lambda session: transfer(collection, session, 1, 11, 30))
        assert [each["n"] for each in collection.find({}, session=reader, batch_size=3)] == [100] * 20
        (sums,) = collection.aggregate([{"$group": rounds}], session=reader)
        assert sums == {"_id": None, "n": 2000, "least": 100}
        assert collection.distinct("n", session=reader) == [100]
        with cluster.clients[1].start_session(snapshot=True) as other:
            seen = cluster.clients[1].test["session"].distinct("n", session=other)
            assert seen in ([100], [70, 100, 130]), "a router that has not heard of it yet may give an earlier time"
        cluster.client.admin.command("moveChunk", "test.session", find={"_id": 0}, to="two")
        with pytest.raises(OperationFailure) as failed:
            list(collection.find({}, session=reader))
        assert failed.value.code == 246, "what has come since was not here then"
        with cluster.client.start_session(snapshot=True) as later:
            assert sorted(collection.distinct("n", session=later)) == [70, 100, 130]


def test_a_snapshot_is_refused_of_a_time_to_come(cluster: Cluster) -> None:
    accounts(cluster, "ahead")
    concern = {"level": "snapshot", "atClusterTime": bson.Timestamp(2**31 - 1, 1)}
    with pytest.raises(OperationFailure) as failed:
        cluster.client.test.command("find", "ahead", readConcern=concern)
    assert failed.value.code == 72


def test_two_that_write_the_same_conflict(cluster: Cluster) -> None:
    collection = accounts(cluster, "conflicts")
    with cluster.client.start_session() as first, cluster.client.start_session() as second:
        first.start_transaction()
        second.start_transaction()
        transfer(collection, first, 1, 11, 5)
        with pytest.raises(OperationFailure) as failed:
            transfer(collection, second, 12, 1, 5)
        assert failed.value.code == 112
        assert failed.value.has_error_label("TransientTransactionError")
        second.abort_transaction()
        first.commit_transaction()
        second.with_transaction(lambda session: transfer(collection, session, 12, 1, 5))
    assert sum(each["n"] for each in collection.find()) == 2000


def test_another_router_finds_out_how_it_ended(cluster: Cluster) -> None:
    collection = accounts(cluster, "recovery")
    with cluster.client.start_session() as session:
        session.start_transaction(write_concern=WriteConcern("majority"))
        transfer(collection, session, 1, 11, 5)
        token = session._transaction.recovery_token
        fields = {
            "lsid": session.session_id, "txnNumber": Int64(session._server_session.transaction_id), "autocommit": False
        }  # fmt: skip
        session.commit_transaction()
    assert token == {"recoveryShardId": "one"}
    commit = {"commitTransaction": 1, **fields, "recoveryToken": token}
    assert asked(cluster, commit) == (1, None)
    assert asked(cluster, {**commit, "txnNumber": Int64(99)}) == (0, 251)


def test_kills_of_either_shard_at_any_moment_leave_no_half(tmp_path: Path) -> None:
    """Transfers go on while primaries are killed, coordinators and participants both; what is prepared is decided."""
    random = Random(seed := int(os.environ.get("DOCSTORE_SEED", "0")) or secrets.randbits(30))
    with routed_cluster(tmp_path, members=1) as cluster:
        collection = accounts(cluster, "kills")
        stopping, done, failures = threading.Event(), [0], list[BaseException]()

        def work() -> None:
            with cluster.client.start_session() as session:
                while not stopping.is_set():
                    source, target = random.sample(range(20), 2)
                    try:
                        session.with_transaction(
                            lambda inner, source=source, target=target: transfer(collection, inner, source, target, 1),
                            read_concern=SNAPSHOT,
                            write_concern=WriteConcern("majority"),
                        )
                        done[0] += 1
                    except PyMongoError:
                        continue
                    except BaseException as error:
                        failures.append(error)
                        return

        workers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        for worker in workers:
            worker.start()
        for _ in range(6):
            before = done[0]
            wait_until(lambda before=before: done[0] > before + 5 or failures, 60)
            victim = random.choice(("one-0", "two-0"))
            cluster.deployment.kill(victim)
            cluster.deployment.restart(victim)
        stopping.set()
        for worker in workers:
            worker.join(60)
        assert not failures, seed
        wait_until(lambda: _undecided(cluster) == 0, 60)
        with cluster.client.start_session() as session, session.start_transaction(read_concern=SNAPSHOT):
            assert sum(each["n"] for each in collection.find({}, session=session)) == 2000, seed
        assert sum(each["n"] for each in collection.find()) == 2000, seed


def _undecided(cluster: Cluster) -> int:
    """How many commits are still coordinated."""
    found = 0
    for name in ("one-0", "two-0"):
        with closing(pymongo.MongoClient(cluster.deployment.members[name].address, directConnection=True)) as client:
            found += client.config.transaction_coordinators.count_documents({})
    return found
