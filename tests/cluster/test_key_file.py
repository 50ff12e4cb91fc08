"""Sets and clusters whose processes authenticate to each other with a key file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp
from pymongo.errors import OperationFailure

from scripts.deployment import Member, StartFailed, stopped_at_end
from shell.address import Credentials
from shell.greeting import authenticate
from shell.wire_client import WireClient
from tests.cluster.replica_set_processes import Processes
from tests.cluster.routed import routed_cluster
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]
OLD, NEW = "aGVsbG8gd29ybGQ=", "bmV3IGtleSBvZiBhbGw="
ROOT = {"username": "root", "password": "r"}
UNAUTHORIZED, AUTHENTICATION_FAILED = 13, 18
TIME_PROOF_MISMATCH, KEY_NOT_FOUND = 204, 211


def key_file(path: Path, *keys: str) -> Path:
    path.write_text("\n".join(f"- {key}" for key in keys) if len(keys) > 1 else f"{keys[0]}\n")
    path.chmod(0o600)
    return path


@contextmanager
def client_of(address: str, **options: Any) -> Iterator[Client]:
    client: Client
    with pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=5000, **options) as client:
        yield client


def refused(client: Client, db: str, command: dict[str, Any]) -> int | None:
    with pytest.raises(OperationFailure) as refusal:
        client[db].command(command)
    return refusal.value.code


@contextmanager
def keyed_set(directory: Path, path: Path) -> Iterator[Processes]:
    """A set of three with auth, on which there is the user root."""
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        processes = Processes(deployment, 3, ["--keyFile", str(path)], shards=False)
        try:
            processes.initiate()
            processes[0].admin.command("createUser", "root", pwd="r", roles=["root"])
            yield processes
        finally:
            for client in processes.clients:
                client.close()


def write_everywhere(processes: Processes, number: int) -> None:
    """A document that comes to all members."""
    primary = processes.wait_primary(timeout=20)
    with client_of(processes.members[primary].address, **ROOT) as client:
        concern = pymongo.WriteConcern(w=3, wtimeout=20_000)
        client.test.get_collection("c", write_concern=concern).insert_one({"_id": number})


def test_only_a_private_file_with_keys_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with stopped_at_end(ForkedDeployment(tmp_path / "nodes")) as deployment:
        for text, mode, reason in (
            (OLD, 0o640, "permissions on .* are too open"), ("abc", 0o600, "3 characters"),
            ("abc*def", 0o600, "none of base64"), (None, 0, "cannot read the key file"),
        ):  # fmt: skip
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
                path.chmod(mode)
            with pytest.raises(StartFailed, match=reason):
                deployment.start(Member("node", "mongod", ["--keyFile", str(path)]))
        with pytest.raises(StartFailed, match="--auth needs --keyFile"):
            deployment.start(Member("config", "configsvr", ["--auth"]))


def test_a_set_whose_members_know_one_key(tmp_path: Path) -> None:
    with keyed_set(tmp_path, key_file(tmp_path / "key", OLD)) as processes:
        write_everywhere(processes, 1)
        address = processes.members[0].address
        with client_of(address) as anybody:
            assert refused(anybody, "test", {"find": "c"}) == UNAUTHORIZED
            assert refused(anybody, "admin", {"replSetHeartbeat": "rs", "configVersion": 1}) == UNAUTHORIZED
        for db, credentials in (("admin", ROOT), ("local", {"username": "__system", "password": OLD})):
            with client_of(address, authSource=db, authMechanism="SCRAM-SHA-256", **credentials) as client:
                who = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
                assert who == [{"user": credentials["username"], "db": db}]
                if db == "admin":
                    for command in ({"replSetHeartbeat": "rs", "configVersion": 1}, {"replSetGetRBID": 1}):
                        assert refused(client, "admin", command) == UNAUTHORIZED
        with (
            pytest.raises(OperationFailure) as failure,
            client_of(address, username="__system", password=NEW, authSource="local") as client,
        ):
            client.admin.command("connectionStatus")
        assert failure.value.code == AUTHENTICATION_FAILED
        with client_of(processes.members[1].address, **ROOT) as secondary:
            found = secondary.test.get_collection("c", read_preference=pymongo.ReadPreference.SECONDARY).find_one()
            assert found == {"_id": 1}
        processes.kill(2)
        processes.restart(2)
        write_everywhere(processes, 2)


def test_who_knows_another_key_does_not_join(tmp_path: Path) -> None:
    with keyed_set(tmp_path, key_file(tmp_path / "key", OLD)) as processes:
        stranger = Member(
            "stranger", "mongod", ["--replSet", "rs", "--keyFile", str(key_file(tmp_path / "other", NEW))]
        )
        processes.deployment.start(stranger)
        with client_of(processes.members[0].address, **ROOT) as root:
            config = root.admin.command("replSetGetConfig")["config"]
            config["version"] += 1
            config["members"].append({"_id": 3, "host": stranger.address, "votes": 0, "priority": 0})
            root.admin.command("replSetReconfig", config)

            def row() -> dict[str, Any]:
                rows = root.admin.command("replSetGetStatus")["members"]
                return next(dict(each) for each in rows if each["name"] == stranger.address)

            wait_until(lambda: "authentication failed" in row().get("lastHeartbeatMessage", ""), 20)
            assert row()["health"] == 0
        with client_of(stranger.address) as client:
            assert "setName" not in client.admin.command("hello")


def test_keys_are_replaced_while_the_set_serves(tmp_path: Path) -> None:
    path = key_file(tmp_path / "key", OLD)
    with keyed_set(tmp_path, path) as processes:
        written = 0
        for keys in ((OLD, NEW), (NEW,)):
            key_file(path, *keys)
            for number in range(3):
                processes.kill(number)
                processes.restart(number)
                written += 1
                write_everywhere(processes, written)


def test_auth_comes_to_a_running_set_member_by_member(tmp_path: Path) -> None:
    path = key_file(tmp_path / "key", OLD)
    with stopped_at_end(ForkedDeployment(tmp_path)) as deployment:
        processes = Processes(deployment, 3, [], shards=False)
        processes.initiate()
        processes[0].admin.command("createUser", "root", pwd="r", roles=["root"])
        written = 0
        for arguments in (["--keyFile", str(path), "--transitionToAuth"], ["--keyFile", str(path)]):
            for number, member in enumerate(processes.members):
                member.arguments[:] = ["--replSet", "rs", *arguments]
                processes.kill(number)
                processes.restart(number)
                written += 1
                write_everywhere(processes, written)
        with client_of(processes.members[0].address) as anybody:
            assert refused(anybody, "test", {"find": "c"}) == UNAUTHORIZED
        for client in processes.clients:
            client.close()


def test_a_cluster_whose_processes_know_one_key(tmp_path: Path) -> None:
    with routed_cluster(tmp_path, key_file=key_file(tmp_path / "key", OLD)) as cluster:
        root, other = cluster.clients
        collection = cluster.shard("c", {"_id": 1})
        collection.insert_many([{"_id": number} for number in range(20)])
        cluster.split_and_move("c", {"_id": 10})
        assert collection.count_documents({}) == 20
        root.test.command("createUser", "ann", pwd="a", roles=["read"])
        check_changes(root, other)
        host, port = root.address or ("", 0)
        check_router(f"{host}:{port}", root)
        config, shard = (cluster.deployment.members[name] for name in ("config-0", "one-0"))
        with client_of(config.address, **ROOT) as client:
            assert [user["user"] for user in client.admin["system.users"].find()] == ["root"]
            assert refused(client, "admin", {"_configsvrGetRouting": "test.c"}) == UNAUTHORIZED
        with pytest.raises(OperationFailure) as failure, client_of(shard.address, **ROOT) as client:
            client.test.c.find_one()
        assert failure.value.code == AUTHENTICATION_FAILED
        with client_of(shard.address) as client:
            assert refused(client, "test", {"find": "c"}) == UNAUTHORIZED
            client.admin.command("createUser", "keeper", pwd="k", roles=["root"])
            for db, command in (("test", {"find": "c"}), ("admin", {"_shardsvrDropDatabase": "test"})):
                assert refused(client, db, command) == UNAUTHORIZED
        with client_of(shard.address, username="keeper", password="k") as client:
            assert client.test.c.count_documents({}) == 10
            command = {"_recvChunkStatus": 1, "migrationId": Binary(uuid.uuid4().bytes, 4)}
            assert refused(client, "admin", command) == UNAUTHORIZED
        check_times(root, other)
        cluster.deployment.kill("one-0")
        cluster.deployment.restart("one-0")
        wait_until(lambda: other.test.c.count_documents({}) == 22, 30)
        cluster.split_and_move("c", {"_id": 15})
        assert other.test.c.count_documents({}) == 22


def check_changes(root: Client, other: Client) -> None:
    """What is granted through one router holds on another within seconds, and what is revoked does not."""
    host, port = other.address or ("", 0)
    with client_of(f"{host}:{port}", username="ann", password="a", authSource="test") as ann:
        assert ann.test.c.find_one({"_id": 3}) == {"_id": 3}
        command = {"update": "c", "updates": [{"q": {"_id": 3}, "u": {"$unset": {"a": 1}}}]}

        def may_write() -> bool:
            with suppress(OperationFailure):
                ann.test.command(command)
                return True
            return False

        assert not may_write()
        for change, expected in (("grantRolesToUser", True), ("revokeRolesFromUser", False)):
            root.test.command(change, "ann", roles=["readWrite"])
            wait_until(lambda expected=expected: may_write() == expected, 10)


def check_times(root: Client, other: Client) -> None:
    """A time that one router tells its clients another believes, and only such a time."""
    host, port = other.address or ("", 0)
    with root.start_session() as session:
        root.test.command("insert", "c", documents=[{"_id": 30}], session=session)
        root.test.c.delete_one({"_id": 30}, session=session)
        signed = dict(session.cluster_time or {})
        with client_of(f"{host}:{port}", **ROOT) as client, client.start_session() as second:
            second.advance_cluster_time(signed)
            second.advance_operation_time(session.operation_time)
            assert client.test.c.count_documents({"_id": 30}, session=second) == 0
    ahead = {**signed, "clusterTime": Timestamp(signed["clusterTime"].time + 1000, 1)}
    unsigned = {**ahead, "signature": {"hash": bytes(20), "keyId": Int64(0)}}
    with closing(WireClient((host, port), timeout=5.0)) as client:

        def ping(time: dict[str, Any]) -> tuple[int, Timestamp]:
            reply = client.run_document({"ping": 1, "$clusterTime": time, "$db": "admin"})
            return reply.get("code", 0), reply["$clusterTime"]["clusterTime"]

        for code in (0, KEY_NOT_FOUND):
            for told, expected in ((ahead, TIME_PROOF_MISMATCH), (unsigned, code)):
                found, now = ping(told)
                assert (found, now < ahead["clusterTime"]) == (expected, True)
            authenticate(client, Credentials("root", "r", "admin"))


def check_router(address: str, root: Client) -> None:
    """What ann, who may read, may do through a router, again and again over one connection."""
    with client_of(address) as anybody:
        assert refused(anybody, "test", {"find": "c"}) == UNAUTHORIZED
    with client_of(address, username="ann", password="a", authSource="test", maxPoolSize=1) as ann:
        for _ in range(3):
            for number in (3, 13):
                assert ann.test.c.find_one({"_id": number}) == {"_id": number}
                for command in (
                    {"insert": "c", "documents": [{"_id": 99}]},
                    {"update": "c", "updates": [{"q": {"_id": number}, "u": {"$set": {"a": 1}}}]},
                    {"delete": "c", "deletes": [{"q": {"_id": number}, "limit": 1}]},
                    {"findAndModify": "c", "query": {"_id": number}, "remove": True},
                    {"aggregate": "c", "pipeline": [{"$match": {}}, {"$out": "d"}], "cursor": {}},
                    {"dropDatabase": 1},
                ):
                    assert refused(ann, "test", command) == UNAUTHORIZED, command
        assert refused(ann, "config", {"find": "chunks"}) == UNAUTHORIZED
        assert refused(ann, "admin", {"moveChunk": "test.c", "find": {"_id": 1}, "to": "one"}) == UNAUTHORIZED
        root.test.command("grantRolesToUser", "ann", roles=["readWrite"])
        assert ann.test.c.update_one({"_id": 3}, {"$set": {"a": 1}}).modified_count == 1
        check_sessions(address)
        root.test.command("dropUser", "ann")
        assert refused(ann, "test", {"find": "c", "filter": {"_id": 3}}) == UNAUTHORIZED


def check_sessions(address: str) -> None:
    """Two users who name one session have two: neither gets into the transaction of the other."""
    host, _, port = address.partition(":")
    clients = {name: WireClient((host, int(port)), timeout=5.0) for name in ("ann", "root")}
    authenticate(clients["ann"], Credentials("ann", "a", "test"))
    authenticate(clients["root"], Credentials("root", "r", "admin"))
    lsid = {"id": Binary(uuid.uuid4().bytes, 4)}

    def ask(name: str, number: int, command: dict[str, Any], **fields: Any) -> dict[str, Any]:
        request = {**command, "lsid": lsid, "txnNumber": Int64(number), **fields}
        reply = clients[name].run_document({**request, "$db": command.get("$db", "test")})
        assert reply["ok"], reply
        return reply

    begins, goes_on = {"startTransaction": True, "autocommit": False}, {"autocommit": False}
    ask("ann", 1, {"insert": "c", "documents": [{"_id": 5000}]}, **begins)
    ask("root", 1, {"find": "c", "filter": {"_id": 3}}, **begins)
    found = ask("root", 1, {"find": "c", "filter": {"_id": 5000}}, **goes_on)
    assert found["cursor"]["firstBatch"] == []
    ask("root", 1, {"abortTransaction": 1, "$db": "admin"}, **goes_on)
    ask("ann", 1, {"commitTransaction": 1, "$db": "admin"}, **goes_on)
    for number, name in enumerate(clients):
        reply = ask(name, 2, {"insert": "c", "documents": [{"_id": 6000 + number}]})
        assert (reply["n"], reply.get("retriedStmtIds")) == (1, None)
    assert ask("root", 3, {"delete": "c", "deletes": [{"q": {"_id": 5000}, "limit": 1}]})["n"] == 1
    for client in clients.values():
        client.close()
