"""The units for systemd: systemd understands them, and each server starts with the configuration beside its unit."""

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
UNITS = Path(__file__).parents[2] / "scripts" / "deploy" / "systemd"
_ELSEWHERE = re.compile(r"\n  unixDomainSocket:\n    pathPrefix: /run/docstore-\w+")


def started_by(name: str) -> list[str]:
    """The command line of a unit."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(UNITS / f"docstore-{name}.service")
    return unit["Service"]["ExecStart"].split()


def member(name: str, directory: Path, **hosts: str) -> Member:
    """The server of a unit, with its configuration, but for places of this machine."""
    program, option, path = started_by(name)
    assert (program, option, path) == (f"/opt/docstore/bin/{name}", "--config", f"/etc/docstore/{name}.conf")
    text = (UNITS / f"{name}.conf").read_text()
    text, removed = _ELSEWHERE.subn("", text)
    assert removed == 1
    for there, here in {"/etc/docstore": str(directory), **hosts}.items():
        text = text.replace(there, here)
    configuration = directory / f"{name}.conf"
    configuration.write_text(text)
    return Member(name, name, ["--config", str(configuration)])


def test_what_the_units_start_serves(tmp_path: Path) -> None:
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
def test_systemd_understands_the_units(tmp_path: Path) -> None:
    places = sorted(UNITS.glob("*.service"))
    assert len(places) == 3
    for place in places:
        text = place.read_text().replace("/opt/docstore/bin/", f"{tmp_path}/")
        (tmp_path / place.name).write_text(text)
        program = tmp_path / place.stem.removeprefix("docstore-")
        program.touch(mode=0o755)
    found = [str(tmp_path / place.name) for place in places]
    ran = subprocess.run(["systemd-analyze", "verify", *found], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
