"""Users and processes that authenticate by their certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.cluster.replica_set_processes import SETTINGS
from tests.cluster.test_encrypted import KEY, MEMBER, ROOT, client_of, encryption, initiate, member_options, shell
from tests.harness.certificates import Authority, name
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
BY_CERTIFICATE: dict[str, Any] = {"authMechanism": "MONGODB-X509"}
UNAUTHORIZED, AUTHENTICATION_FAILED, UNAVAILABLE = 13, 18, 334


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "certificates")


def refused(work: Any) -> int | None:
    with pytest.raises(OperationFailure) as refusal:
        work()
    return refusal.value.code


def test_a_user_is_whom_the_certificate_names(tmp_path: Path, authority: Authority) -> None:
    ann, bob = (authority.issue(each, name(DC="org", CN=each)) for each in ("ann", "bob"))
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        node = Member("node", "mongod", ["--auth", *encryption(authority), "--tlsAllowConnectionsWithoutCertificates"])
        deployment.start(node)
        with client_of(node, authority) as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        with client_of(node, authority, **ROOT) as client:
            external = client["$external"]
            external.command("createUser", "CN=ann,DC=org", roles=[{"role": "readWrite", "db": "test"}])
            assert refused(lambda: external.command("createUser", "CN=x", pwd="p", roles=[])) == 2
        with client_of(node, authority, tlsCertificateKeyFile=str(ann), **BY_CERTIFICATE) as client:
            client.test.c.insert_one({"_id": 1})
            assert refused(client.other.c.find_one) == UNAUTHORIZED
            who = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
            assert who == [{"user": "CN=ann,DC=org", "db": "$external"}]
            login = {"authenticate": 1, "mechanism": "MONGODB-X509"}
            assert client["$external"].command(login) == {"dbname": "$external", "user": "CN=ann,DC=org", "ok": 1}
            assert refused(lambda: client["$external"].command({**login, "user": "CN=bob"})) == AUTHENTICATION_FAILED
            assert refused(lambda: client.admin.command(login)) == 17
            # As drivers say it in hello: without a database.
            answered = client.admin.command("hello", speculativeAuthenticate=login)["speculativeAuthenticate"]
            assert answered == {"dbname": "$external", "user": "CN=ann,DC=org"}
        for certificate in (str(bob), None):
            with client_of(node, authority, tlsCertificateKeyFile=certificate, **BY_CERTIFICATE) as client:
                assert refused(client.test.c.find_one) == AUTHENTICATION_FAILED
        files = ("--tls", "--tlsCAFile", str(authority.ca_file), "--tlsCertificateKeyFile", str(ann))
        done = shell(authority, node.address, "db.c.count()", *files, "--authenticationMechanism", "MONGODB-X509")
        assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stdout + done.stderr
        login_script = 'db.getSiblingDB("$external").auth({mechanism: "MONGODB-X509"}) + db.c.count()'
        done = shell(authority, node.address, login_script, *files)
        assert (done.returncode, done.stdout.strip()) == (0, "2"), done.stdout + done.stderr
        files = f"tls=true&tlsCAFile={authority.ca_file}&tlsCertificateKeyFile={bob}"
        done = shell(authority, f"mongodb://{node.address}/test?authMechanism=MONGODB-X509&{files}", "1")
        assert "Authentication failed." in done.stdout


def test_members_know_each_other_by_their_certificates(tmp_path: Path, authority: Authority) -> None:
    arguments = ["--replSet", "rs", "--clusterAuthMode", "x509", *member_options(authority)]
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        members = [Member(f"m{n}", "mongod", list(arguments)) for n in range(3)]
        deployment.start(*members)
        initiate(members, "rs", authority)
        with client_of(members[0], authority) as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        with client_of(members[0], authority, **ROOT) as client:
            concern = pymongo.WriteConcern(w=3, wtimeout=20_000)
            client.test.get_collection("c", write_concern=concern).insert_one({"_id": 1})
            like = "CN=new,OU=Servers,O=Docs"
            assert refused(lambda: client["$external"].command("createUser", like, roles=[])) == 2
            assert client.admin.command({"getParameter": 1, "clusterAuthMode": 1})["clusterAuthMode"] == "x509"
        heartbeat = {"replSetHeartbeat": "rs", "configVersion": 1}
        with client_of(members[0], authority) as client:
            assert refused(lambda: client.admin.command(heartbeat)) == UNAUTHORIZED
        stranger = authority.issue("stranger", name(O="Docs", CN="member"))
        with client_of(members[0], authority, tlsCertificateKeyFile=str(stranger), **BY_CERTIFICATE) as client:
            assert refused(client.test.c.find_one) == AUTHENTICATION_FAILED
        member = authority.issue("another", name(**MEMBER, CN="another"))
        with client_of(members[1], authority, tlsCertificateKeyFile=str(member), **BY_CERTIFICATE) as client:
            assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"][0]["user"] == "__system"
        system = {"username": "__system", "password": KEY, "authSource": "local", "authMechanism": "SCRAM-SHA-256"}
        with client_of(members[0], authority, **system) as client:
            assert refused(client.test.c.find_one) == UNAVAILABLE


def test_a_set_goes_over_from_keys_to_certificates(tmp_path: Path, authority: Authority) -> None:
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    keyed = ["--replSet", "rs", "--keyFile", str(key), *member_options(authority)]
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        members = [Member(f"m{n}", "mongod", [*keyed, "--clusterAuthMode", "sendKeyFile"]) for n in range(2)]
        deployment.start(*members)
        initiate(members, "rs", authority, settings=SETTINGS)
        with client_of(members[0], authority) as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        for mode in ("sendX509", "x509"):
            for member in members:
                with client_of(member, authority, **ROOT) as client:
                    assert refused(lambda: client.admin.command("setParameter", 1, clusterAuthMode="keyFile")) == 2
                    client.admin.command("setParameter", 1, clusterAuthMode=mode)
        for number, member in enumerate(members):
            member.arguments[:] = ["--replSet", "rs", "--clusterAuthMode", "x509", *member_options(authority)]
            deployment.kill(member.name)
            deployment.restart(member.name)
            wait_until(lambda: write_everywhere(members, authority, number), 30)  # noqa: B023


def write_everywhere(members: list[Member], authority: Authority, number: int) -> bool:
    """Have the primary write a document that comes to all members; whether there was one."""
    for member in members:
        with client_of(member, authority, **ROOT) as client:
            if client.admin.command("hello")["isWritablePrimary"]:
                concern = pymongo.WriteConcern(w=len(members), wtimeout=20_000)
                client.test.get_collection("c", write_concern=concern).insert_one({"_id": number})
                return True
    return False
