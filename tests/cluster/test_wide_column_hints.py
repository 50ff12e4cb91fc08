"""Writes at ANY while a shard has no primary: kept by the router that was told to, over its own death too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import OperationFailure, PyMongoError

from scripts.deployment import Deployment, Member, StartFailed, replica_set, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]
PATIENCE_MS = 600
"""A router looks for a primary for as long as the request may take."""


@dataclass
class Cluster:
    """One shard of one member; `keeping` keeps hints, `plain` does not."""

    deployment: Deployment
    shard: Member
    keeping: Client
    plain: Client

    def hints(self) -> dict[str, int]:
        found: dict[str, int] = self.keeping.admin.command("serverStatus")["wideColumn"]["hints"]
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("hints")
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        (shard,) = replica_set("one", 1, [])
        config = Member("config-0", "configsvr", [])
        deployment.start(config, shard)
        with closing(pymongo.MongoClient(shard.address, directConnection=True)) as client:
            rows = [{"_id": 0, "host": shard.address}]
            client.admin.command("replSetInitiate", {"_id": "one", "members": rows})
            wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
        at = ["--configdb", config.address]
        routers = [
            Member("keeping", "mongos", [*at, "--wideColumnHintsPath", str(directory / "hints")]),
            Member("plain", "mongos", at),
        ]
        deployment.start(*routers)
        keeping, plain = (pymongo.MongoClient(router.address) for router in routers)
        keeping.admin.command("addShard", f"one/{shard.address}")
        keeping.admin.command({"createKeyspace": "ks"})
        keeping.ks.command({"createColumnFamily": "F"})
        keeping.ks.command({"wcInsert": "F", "key": "k", "column": "first", "value": "v"})
        keeping.ks.command({"cql": "CREATE TABLE t (a int PRIMARY KEY, v int)"})
        for router in (keeping, plain):
            router.ks.command({"cql": "SELECT * FROM t"})
        yield Cluster(deployment, shard, keeping, plain)
        for each in (keeping, plain):
            each.close()


def insert(client: Client, column: str, value: str, level: str, **more: Any) -> dict[str, Any]:
    command = {"wcInsert": "F", "key": "k", "column": column, "value": value, "consistency": level, **more}
    return client.ks.command({**command, "maxTimeMS": PATIENCE_MS})


def columns(client: Client) -> dict[str, tuple[bytes, int]]:
    found = client.ks.command({"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {}}})["columns"]
    return {column["name"].decode(): (column["value"], column["timestamp"]) for column in found}


def refused(act: Any) -> dict[str, Any]:
    with pytest.raises(OperationFailure) as caught:
        act()
    assert caught.value.details is not None
    return dict(caught.value.details)


def test_hints_survive_the_router_and_are_carried_out_in_order(cluster: Cluster) -> None:
    keeping = cluster.keeping
    assert "hinted" not in insert(keeping, "a", "before", "ANY")
    cluster.deployment.kill(cluster.shard.name)
    failure = refused(lambda: insert(keeping, "a", "x", "ONE"))
    assert (failure["code"], failure["wcException"]) == (100, "UnavailableException")
    wanted = {"wcGet": "F", "key": "k", "column": "a", "maxTimeMS": PATIENCE_MS}
    failure = refused(lambda: keeping.ks.command(wanted))
    told = failure["code"], failure.get("wcException")
    assert told in ((133, "UnavailableException"), (50, "TimedOutException"), (50, None))
    failure = refused(lambda: keeping.ks.command({"cql": "SELECT * FROM t", "maxTimeMS": PATIENCE_MS}))
    assert (failure["code"], failure.get("cqlCode")) in ((133, 0x1000), (50, 0x1200), (50, None))
    failure = refused(lambda: insert(cluster.plain, "a", "x", "ANY"))
    assert (failure["code"], failure["wcException"]) == (100, "UnavailableException")
    assert "keeps no hints" in failure["errmsg"]

    assert "hinted" not in insert(cluster.plain, "a", "x", "ZERO")

    stamps = {}
    for value in ("one", "two"):
        reply = insert(keeping, "a", value, "ANY")
        assert reply["hinted"] is True
        stamps[value] = reply["timestamp"]
    assert stamps["one"] < stamps["two"]
    assert insert(keeping, "given", "v", "ANY", timestamp=Int64(77))["timestamp"] == 77
    assert insert(keeping, "brief", "v", "ANY", ttl=5000)["hinted"] is True
    mutations = [
        {"key": "k", "columnFamily": "F", "insert": {"name": "b", "value": "batched"}},
        {"key": "k", "columnFamily": "F", "deletion": {"columnNames": ["first"]}},
    ]
    batch = {"wcBatchMutate": 1, "mutations": mutations, "consistency": "ANY", "maxTimeMS": PATIENCE_MS}
    assert keeping.ks.command(batch)["n"] == 2
    wrong = {"wcInsert": "F", "key": "k", "column": "", "value": "v", "consistency": "ANY", "maxTimeMS": PATIENCE_MS}
    # Nobody is there who knows what a name must be.
    assert keeping.ks.command(wrong)["hinted"] is True
    cql: dict[str, Any] = {"cql": "INSERT INTO t (a, v) VALUES (1, 2)", "consistency": "ANY", "maxTimeMS": PATIENCE_MS}
    assert keeping.ks.command(cql)["warnings"] == ["the write to ks.t waits for a primary as a hint"]
    failure = refused(lambda: cluster.plain.ks.command(cql))
    assert (failure["code"], failure["cqlCode"]) == (100, 0x1000)
    assert cluster.hints()["pending"] == 7

    cluster.deployment.kill("keeping")
    with (cluster.deployment.directory / "hints" / "ks.hints").open("ab") as file:
        file.write(b"\x40\0\0\0torn")
    cluster.deployment.restart("keeping")
    assert cluster.hints()["pending"] == 7
    cluster.deployment.restart(cluster.shard.name)
    wait_until(lambda: cluster.hints()["pending"] == 0, 30)
    found = columns(keeping)
    assert found["a"] == (b"two", stamps["two"])
    assert found["given"] == (b"v", 77)
    assert found["b"][0] == b"batched"
    assert "first" not in found
    assert keeping.ks.command({"cql": "SELECT a, v FROM t"})["rows"] == [[1, 2]]
    assert (cluster.hints()["replayed"], cluster.hints()["refused"]) == (6, 1)


def test_hints_are_bounded_in_size_and_in_age(cluster: Cluster) -> None:
    keeping = cluster.keeping
    cluster.deployment.kill(cluster.shard.name)
    keeping.admin.command({"setParameter": 1, "wideColumn.hintsMaxBytes": 1000})
    assert insert(keeping, "small", "v", "ANY")["hinted"] is True
    failure = refused(lambda: insert(keeping, "large", "v" * 1000, "ANY"))
    assert (failure["code"], failure["wcException"]) == (100, "UnavailableException")
    assert cluster.hints()["overflowed"] == 1
    keeping.admin.command({"setParameter": 1, "wideColumn.hintsMaxAgeSecs": 0})
    wait_until(lambda: cluster.hints()["expired"] == 1, 10)
    assert cluster.hints()["pending"] == 0
    cluster.deployment.restart(cluster.shard.name)
    wait_until(lambda: readable(keeping), 30)
    assert "small" not in columns(keeping)


def readable(client: Client) -> bool:
    with contextlib.suppress(PyMongoError):
        columns(client)
        return True
    return False


def test_a_directory_is_one_routers(cluster: Cluster) -> None:
    keeping = cluster.deployment.members["keeping"]
    second = Member("second", "mongos", list(keeping.arguments))
    with pytest.raises(StartFailed, match="another router's"):
        cluster.deployment.start(second)
