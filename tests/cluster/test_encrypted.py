"""Sets and clusters of real processes whose connections are encrypted, and the shell that connects to them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from scripts.deployment import Deployment, Member, StartFailed, stopped_at_end
from tests.cluster.replica_set_processes import SETTINGS
from tests.harness.certificates import Authority, name
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]
ROOT = {"username": "root", "password": "r"}
MEMBER = {"O": "Docs", "OU": "Servers"}
KEY = "aGVsbG8gd29ybGQ="
ROOT_DIRECTORY = Path(__file__).parents[2]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def encryption(authority: Authority, mode: str = "requireTLS") -> list[str]:
    """The options of a server with a certificate of its own."""
    return ["--tlsMode", mode, "--tlsCertificateKeyFile", str(authority.issue("server")), "--tlsCAFile",
            str(authority.ca_file)]  # fmt: skip


def member_options(authority: Authority, mode: str = "requireTLS") -> list[str]:
    """Those of a process that others know for one of the cluster."""
    options = encryption(authority, mode)
    options[3] = str(authority.issue("member", name(**MEMBER, CN="member")))
    return options


@contextlib.contextmanager
def client_of(member: Member, authority: Authority, **options: Any) -> Iterator[Client]:
    client: Client
    encrypted = {"tls": True, "tlsCAFile": str(authority.ca_file)}
    encrypted |= {"tlsCertificateKeyFile": str(authority.issue("client"))} | options
    given = {name: value for name, value in encrypted.items() if value is not None}
    with pymongo.MongoClient(member.address, directConnection=True, serverSelectionTimeoutMS=5000, **given) as client:
        yield client


def initiate(members: list[Member], name: str, authority: Authority, **fields: Any) -> None:
    rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
    with client_of(members[0], authority) as client:
        client.admin.command("replSetInitiate", {"_id": name, "members": rows, **fields})
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)


def shell(authority: Authority, address: str, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "shell", address, "--quiet", "--eval", script, *arguments], cwd=ROOT_DIRECTORY,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_set_that_takes_encrypted_connections_only(tmp_path: Path, authority: Authority) -> None:
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        members = [Member(f"m{n}", "mongod", ["--replSet", "rs", *encryption(authority)]) for n in range(3)]
        deployment.start(*members)
        initiate(members, "rs", authority)
        with client_of(members[0], authority) as client:
            concern = pymongo.WriteConcern(w=3, wtimeout=20_000)
            client.test.get_collection("c", write_concern=concern).insert_one({"_id": 1, "text": "x" * 3_000_000})
            assert client.admin.command({"getParameter": 1, "tlsMode": 1})["tlsMode"] == "requireTLS"
            status = client.admin.command("serverStatus")
            assert status["transportSecurity"]["1.3"] > 2
            assert status["security"]["SSLServerSubjectName"] == "CN=server"
            assert status["security"]["SSLServerHasCertificateAuthority"] is True
            assert client.admin.command("rotateCertificates", message="new ones")["ok"]
        with (
            pymongo.MongoClient(members[0].address, serverSelectionTimeoutMS=1000) as plain,
            pytest.raises(PyMongoError),
        ):
            plain.admin.command("ping")
        certificate = ["--tlsCAFile", str(authority.ca_file), "--tlsCertificateKeyFile", str(authority.issue("client"))]
        done = shell(authority, members[0].address, "db.c.findOne().text.length", "--tls", *certificate)
        assert (done.returncode, done.stdout.strip()) == (0, "3000000"), done.stdout + done.stderr
        hosts = ",".join(member.address for member in members)
        options = f"tls=true&tlsCAFile={authority.ca_file}&tlsCertificateKeyFile={authority.issue('client')}"
        connect = f"new Mongo('mongodb://{hosts}/?replicaSet=rs&{options}').getDB('test').c.count()"
        done = shell(authority, f"mongodb://{hosts}/test?replicaSet=rs&{options}", connect)
        assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stdout + done.stderr
        done = shell(authority, members[0].address, "1", "--tls", "--tlsCAFile", str(Path(__file__)))
        assert done.returncode == 1
        assert "cannot use" in done.stdout
        done = shell(authority, members[0].address, "1", "--tls")
        assert done.returncode == 1
        assert "certificate verify failed" in done.stdout


def test_encryption_comes_to_a_running_set_member_by_member(tmp_path: Path, authority: Authority) -> None:
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        members = [Member(f"m{n}", "mongod", ["--replSet", "rs"]) for n in range(2)]
        deployment.start(*members)
        rows = [{"_id": n, "host": member.address, "priority": 1 - n} for n, member in enumerate(members)]
        with pymongo.MongoClient(members[0].address, directConnection=True) as client:
            client.admin.command("replSetInitiate", {"_id": "rs", "members": rows, "settings": SETTINGS})
            wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)
        written = 0
        for mode in ("allowTLS", "preferTLS", "requireTLS"):
            for member in members:
                member.arguments[:] = ["--replSet", "rs", *encryption(authority, mode)]
                deployment.kill(member.name)
                deployment.restart(member.name)
                written += 1
                write(members[0], authority, written)
        with client_of(members[0], authority) as client, pytest.raises(OperationFailure, match="from requireTLS"):
            client.admin.command({"setParameter": 1, "tlsMode": "preferTLS"})


def write(member: Member, authority: Authority, number: int) -> None:
    """A document that comes to both members, once there is a primary."""
    with client_of(member, authority) as client:
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 20)
        concern = pymongo.WriteConcern(w=2, wtimeout=20_000)
        client.test.get_collection("c", write_concern=concern).insert_one({"_id": number})


@pytest.mark.parametrize("by_keys", [True, False])
def test_a_cluster_that_takes_encrypted_connections_only(tmp_path: Path, authority: Authority, by_keys: bool) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    arguments = ["--keyFile", str(key), *encryption(authority)]
    if not by_keys:
        arguments = ["--clusterAuthMode", "x509", *member_options(authority)]
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        config = Member("config", "configsvr", ["--replSet", "config", *arguments])
        shard = Member("shard", "mongod", ["--shardsvr", "--replSet", "shard", *arguments])
        deployment.start(config, shard)
        initiate([config], "config", authority, configsvr=True)
        initiate([shard], "shard", authority)
        router = Member("router", "mongos", ["--configdb", f"config/{config.address}", *arguments])
        deployment.start(router)
        with client_of(router, authority) as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        with client_of(router, authority, **ROOT) as client:
            client.admin.command("addShard", f"shard/{shard.address}")
            client.admin.command("enableSharding", "test")
            client.admin.command("shardCollection", "test.c", key={"_id": 1})
            client.test.c.insert_many([{"_id": number, "text": "x" * 100_000} for number in range(50)])
            assert sum(len(each["text"]) for each in client.test.c.find().batch_size(7)) == 5_000_000
            assert client.test.c.find_one({"_id": 7}, {"_id": 1}) == {"_id": 7}
            assert client.admin.command("rotateCertificates")["ok"]
            status = client.admin.command("serverStatus")
            assert status["transportSecurity"]["1.3"] > 0
            assert status["security"]["SSLServerSubjectName"].startswith("CN=")


def test_what_cannot_be_used_is_told_at_the_start(tmp_path: Path, authority: Authority) -> None:
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        options = encryption(authority)
        public = authority.issue("public")
        public.chmod(0o644)
        options[3] = str(public)
        with pytest.raises(StartFailed, match="must be its owner's alone"):
            deployment.start(Member("node", "mongod", options))
        with pytest.raises(StartFailed, match="need tlsCertificateKeyFile"):
            deployment.start(Member("router", "mongos", ["--tlsMode", "requireTLS"]))
