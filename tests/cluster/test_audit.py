"""What every process of a cluster writes to its audit log, and that its files are begun anew on demand."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from scripts.deployment import Member, stopped_at_end
from tests.cluster.test_key_file import key_file
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]


def test_each_process_of_a_cluster_tells_of_what_is_done_to_it(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.json" for name in ("config", "shard", "router")}

    def audited(name: str, program: str, *arguments: str) -> Member:
        audit = ["--auditDestination", "file", "--auditFormat", "JSON", "--auditPath", str(files[name])]
        return Member(name, program, ["--keyFile", str(tmp_path / "key"), *audit, *arguments])

    def told(name: str, kind: str) -> list[dict[str, Any]]:
        return [each for each in map(json.loads, files[name].read_text().splitlines()) if each["atype"] == kind]

    key_file(tmp_path / "key", "aGVsbG8gd29ybGQ=")
    with stopped_at_end(ForkedDeployment(tmp_path / "nodes")) as deployment:
        config, shard = audited("config", "configsvr"), audited("shard", "mongod", "--shardsvr", "--replSet", "s")
        deployment.start(config, shard)
        client: Client
        with closing(pymongo.MongoClient(shard.address, directConnection=True)) as client:
            client.admin.command("replSetInitiate", {"_id": "s", "members": [{"_id": 0, "host": shard.address}]})
            wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
        router = audited("router", "mongos", "--configdb", config.address)
        deployment.start(router)
        with closing(pymongo.MongoClient(router.address)) as client:
            client.admin.command("createUser", "root", pwd="hidden-word", roles=["root"])
            with pytest.raises(OperationFailure):
                client.test.c.find_one()
        with closing(pymongo.MongoClient(router.address, username="root", password="hidden-word")) as client:
            client.admin.command("addShard", f"s/{shard.address}")
            client.admin.command("enableSharding", "test")
            client.admin.command("shardCollection", "test.c", key={"x": 1})
            with closing(pymongo.MongoClient(shard.address, directConnection=True)) as direct:
                direct.admin.command("createUser", "keeper", pwd="hidden-word", roles=["root"])
            options: dict[str, Any] = {"username": "keeper", "password": "hidden-word", "directConnection": True}
            with closing(pymongo.MongoClient(shard.address, **options)) as direct:
                document = direct.admin.command("replSetGetConfig")["config"]
                changed = {**document, "version": document["version"] + 1}
                direct.admin.command("replSetReconfig", changed)
            client.admin.command("logRotate", "audit")
            client.admin.command("logApplicationMessage", "after the rotation")
            assert [each["param"]["msg"] for each in told("router", "applicationMessage")] == ["after the rotation"]
        before = files["router"].with_name(next(path.name for path in tmp_path.glob("router.json.*")))
        text = before.read_text()
        kinds = [(each["atype"], each["result"]) for each in map(json.loads, text.splitlines())]
        expected = ("startup", "createUser", "authenticate", "addShard", "enableSharding", "shardCollection")
        assert [kind for kind, result in dict.fromkeys(kinds) if result == 0 and kind in expected] == list(expected)
        assert ("authCheck", 13) in kinds
        assert ("clientMetadata", 0) in kinds
        assert "hidden-word" not in text
        (created,) = [each for each in told("shard", "createCollection") if each["param"]["ns"] == "test.c"]
        assert created["remote"] == {"isSystemUser": True}
        initiated, reconfigured = told("shard", "replSetReconfig")
        assert initiated["users"] == []
        assert list(initiated["param"]) == ["new"]
        assert initiated["param"]["new"]["members"][0]["host"] == shard.address
        assert reconfigured["users"] == [{"user": "keeper", "db": "admin"}]
        versions = [reconfigured["param"][side]["version"] for side in ("old", "new")]
        assert versions == [document["version"], changed["version"]]
        assert told("config", "createUser")[0]["param"]["user"] == "root"
        pid = config.pid
        assert pid is not None
        os.kill(pid, signal.SIGUSR1)
        wait_until(lambda: bool(list(tmp_path.glob("config.json.*"))), 10)
    for name in files:
        assert len(told(name, "shutdown")) == 1, name
        assert "hidden-word" not in files[name].read_text()
