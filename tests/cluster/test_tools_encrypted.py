"""Tools and backups of servers whose connections are encrypted, by users and by those who have the key file."""

from __future__ import annotations

from pathlib import Path

import pytest
from click import Command
from click.testing import CliRunner

from docstore.backup import program
from docstore.tools import dump, restore
from scripts.deployment import Member, stopped_at_end
from tests.cluster.test_encrypted import KEY, ROOT, client_of, encryption, initiate
from tests.harness.certificates import Authority, name
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster


def run(command: Command, *arguments: object) -> str:
    result = CliRunner().invoke(command, list(map(str, arguments)))
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.output


def test_a_set_with_encryption_and_a_key(tmp_path: Path) -> None:
    authority, key = Authority(tmp_path / "certificates"), tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    deployment = ForkedDeployment(tmp_path / "nodes")
    with stopped_at_end(deployment):
        node = Member("node", "mongod", ["--replSet", "rs", "--keyFile", str(key), *encryption(authority)])
        deployment.start(node)
        initiate([node], "rs", authority)
        with client_of(node, authority) as client:
            wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        keeper = authority.issue("keeper", name(DC="org", CN="keeper"))
        with client_of(node, authority, **ROOT) as client:
            roles = [{"role": role, "db": "admin"} for role in ("backup", "restore")]
            client["$external"].command("createUser", "CN=keeper,DC=org", roles=roles)
            client["shop"]["rows"].insert_many({"_id": n} for n in range(10))
        server = ("--host", node.address, "--sslCAFile", authority.ca_file, "--sslPEMKeyFile", keeper)
        by_certificate = (*server, "--authenticationMechanism", "MONGODB-X509")
        run(dump.main, "--ssl", *by_certificate, "--out", tmp_path / "dump")
        run(restore.main, *by_certificate, "--nsFrom", "shop.*", "--nsTo", "copy.*", tmp_path / "dump")
        with client_of(node, authority, **ROOT) as client:
            assert client["copy"]["rows"].count_documents({}) == 10
        place = tmp_path / "backups"
        run(program.main, "backup", "create", place, *by_certificate)
        run(program.main, "backup", "create", place, *server, "--keyFile", key)
        encrypted = f"tls=true&tlsCAFile={authority.ca_file}&tlsCertificateKeyFile={keeper}"
        run(program.main, "backup", "create", place, f"mongodb://root:r@{node.address}/?{encrypted}")
    assert "is good" in run(program.main, "backup", "verify", place)
