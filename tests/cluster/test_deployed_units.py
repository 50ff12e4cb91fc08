"""The unit for systemd: systemd understands it for each server, which starts with the configuration beside the unit."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pymongo
import pytest

from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster
UNIT = Path(__file__).parents[2] / "scripts" / "deploy" / "systemd" / "docstore@.service"
SERVERS = ("mongod", "configsvr", "mongos")
_ELSEWHERE = re.compile(r"\n  unixDomainSocket:\n    pathPrefix: /run/docstore-\w+")


def started_by(name: str) -> list[str]:
    """The command line of the unit of a server."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(UNIT)
    return unit["Service"]["ExecStart"].replace("%i", name).split()


def member(name: str, directory: Path, **hosts: str) -> Member:
    """A server with its configuration, but for places of this machine."""
    program, option, path = started_by(name)
    assert (program, option, path) == (f"/opt/docstore/bin/{name}", "--config", f"/etc/docstore/{name}.conf")
    text = UNIT.with_name(f"{name}.conf").read_text()
    text, removed = _ELSEWHERE.subn("", text)
    assert removed == 1
    for there, here in {"/etc/docstore": str(directory), **hosts}.items():
        text = text.replace(there, here)
    configuration = directory / f"{name}.conf"
    configuration.write_text(text)
    return Member(name, name, ["--config", str(configuration)])


def test_what_the_unit_starts_serves(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("aGVsbG8gd29ybGQ=")
    client: pymongo.MongoClient[dict[str, Any]]
    with stopped_at_end(ForkedDeployment(tmp_path / "nodes")) as deployment:
        node, config = member("mongod", tmp_path), member("configsvr", tmp_path)
        deployment.start(node, config)
        with pymongo.MongoClient(config.address, directConnection=True) as client:
            members = [{"_id": 0, "host": config.address}]
            client.admin.command("replSetInitiate", {"_id": "config", "configsvr": True, "members": members})
        router = member("mongos", tmp_path, **{"127.0.0.1:27019": config.address})
        deployment.start(router)
        for each in (node, router):
            with pymongo.MongoClient(each.address, directConnection=True) as client:
                client.admin.command("createUser", "root", pwd="r", roles=["root"])
                with pytest.raises(pymongo.errors.OperationFailure, match="requires authentication"):
                    client.admin.command("listDatabases")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here to judge")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = UNIT.read_text().replace("/opt/docstore/bin/", f"{tmp_path}/")
    found = [tmp_path / f"docstore@{name}.service" for name in SERVERS]
    for name, place in zip(SERVERS, found, strict=True):
        place.write_text(text)
        (tmp_path / name).touch(mode=0o755)
    ran = subprocess.run(["systemd-analyze", "verify", *found], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
