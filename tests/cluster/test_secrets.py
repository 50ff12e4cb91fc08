"""No password is in what a server, the tools and the shell say, of users who get in and of those who do not."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson import json_util
from click.testing import CliRunner
from pymongo.errors import OperationFailure

from docstore.tools import dump, export, grid_files, stat, top
from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster
RIGHT, WRONG = "right-hidden-word", "wrong-hidden-word"
TOOLS = (
    (dump.main, ("--out", "-", "--db", "test", "--collection", "c")),
    (export.main, ("--db", "test", "--collection", "c")),
    (grid_files.main, ("list",)),
    (stat.main, ("-n", "1")),
    (top.main, ("-n", "1")),
)
BROKEN = ("mongodb://ann:{}@:x/", "mongodb://ann:{}@[::1/", "mongodb:/ann:{}@a/", "http://ann:{}@a/")


def said_by_tools(uri: str) -> str:
    results = [CliRunner().invoke(command, ["--uri", uri, *arguments]) for command, arguments in TOOLS]
    return "".join(f"{result.output}{result.exception!r}" for result in results)


def said_by_the_shell(uri: str) -> str:
    command = [
        sys.executable,
        "-m",
        "shell",
        uri,
        "--eval",
        "print(db.getMongo(), tojson(db.adminCommand('currentOp')))",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_no_output_of_any_process_holds_a_password(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with stopped_at_end(ForkedDeployment(tmp_path / "nodes")) as deployment:
        node = Member("node", "mongod", ["--auth", "-vvvvv", "--slowms", "0", "--logpath", str(log)])
        deployment.start(node)
        client: pymongo.MongoClient[dict[str, Any]]
        with closing(pymongo.MongoClient(node.address)) as client:
            client.admin.command("createUser", "ann", pwd=RIGHT, roles=["root"])
        shown: list[Any] = []
        with (
            pytest.raises(OperationFailure) as refusal,
            closing(pymongo.MongoClient(node.address, username="ann", password=WRONG)) as client,
        ):
            client.admin.command("connectionStatus")
        shown.append(str(refusal.value))
        for mechanism in ("SCRAM-SHA-1", "SCRAM-SHA-256"):
            credentials: dict[str, Any] = {"username": "ann", "password": RIGHT, "authMechanism": mechanism}
            with closing(pymongo.MongoClient(node.address, **credentials)) as client:
                client.admin.command("updateUser", "ann", pwd=RIGHT)
                for command in ("getCmdLineOpts", "serverStatus", "currentOp"):
                    shown.append(client.admin.command(command))
                shown.append(client.admin.command("getLog", "global"))
        for password in (RIGHT, WRONG):
            uri = f"mongodb://ann:{password}@{node.address}/?authSource=admin"
            shown += [said_by_tools(uri), said_by_the_shell(uri)]
        for form in BROKEN:
            shown.append(said_by_tools(form.format(WRONG)))
        shown.append(said_by_the_shell(BROKEN[2].format(WRONG)))
    text = json.dumps(shown, default=json_util.default) + log.read_text() + deployment.output_of(node).read_text()
    assert text.count("Slow query") > 10
    assert text.count("Authentication failed") > 5
    assert "hidden-word" not in text
