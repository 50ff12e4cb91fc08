"""A data node as a process: its command line, its log, its end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymongo
import pytest

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
READY = re.compile(r"^mongod ready host=(\S+) port=(\d+) pid=(\d+)", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def waiting_router(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[str], Path] | None]:
    """A router without config servers, and its log. It gives up after half a minute, in which the other tests run."""
    if not any(
        test_a_router_says_what_it_waits_for_and_gives_up.__name__ in each.name for each in request.session.items
    ):
        yield None
        return
    log = tmp_path_factory.mktemp("waiting") / "log"
    options = ("--configdb", "127.0.0.1:1", "--port", "0", "--fork", "--logpath", str(log))
    command = [sys.executable, "-m", "mongos", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield process, log
        process.wait(60)


def mongod(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run to the end: with --fork that is when the server is ready."""
    command = [sys.executable, "-m", "mongod", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


class Forked:
    """A server in the background, with a log file."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.dbpath = directory / "data"
        self.dbpath.mkdir(exist_ok=True)
        self.log = directory / "node.log"
        result = mongod(
            "--dbpath", self.dbpath, "--port", "0", "--fork", "--logpath", self.log, "--logappend", *arguments
        )
        ready = READY.search(result.stdout)
        assert ready is not None, result.stderr
        self.port, self.pid = int(ready[2]), int(ready[3])

    def client(self) -> pymongo.MongoClient[dict[str, Any]]:
        return pymongo.MongoClient(
            "127.0.0.1", self.port, directConnection=True, serverSelectionTimeoutMS=5000, timeoutMS=10_000
        )

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def stop(self) -> subprocess.CompletedProcess[str]:
        return mongod("--shutdown", "--dbpath", self.dbpath)


def test_a_server_in_the_background_is_stopped_by_its_directory(tmp_path: Path) -> None:
    server = Forked(tmp_path)
    with server.client() as client:
        client.db.c.insert_one({"_id": 1})
    second = mongod("--dbpath", server.dbpath, "--port", "0")
    assert second.returncode == 100
    assert str(server.pid) in second.stderr
    stopped = server.stop()
    assert (stopped.returncode, stopped.stdout) == (0, f"killing process with pid: {server.pid}\n")
    nobody = server.stop()
    assert nobody.returncode == 1
    assert "doesn't seem to be a server" in nobody.stderr


def test_a_child_that_cannot_start_fails_its_parent(tmp_path: Path) -> None:
    log = tmp_path / "log"
    result = mongod("--dbpath", tmp_path / "none", "--port", "0", "--fork", "--logpath", log)
    assert result.returncode == 100
    assert "is not there" in result.stderr


def test_a_configuration_file_starts_a_server_and_the_log_tells_of_its_connections(tmp_path: Path) -> None:
    configuration = tmp_path / "node.conf"
    configuration.write_text(
        "operationProfiling: {slowOpThresholdMs: 0}\nsetParameter: {enableTestCommands: true}\n"
        "net: {maxIncomingConnections: 100, compression: {compressors: zlib}}\n"
    )
    server = Forked(tmp_path, "--config", str(configuration), "--slowms", "1")
    with server.client() as client:
        parsed = client.admin.command("getCmdLineOpts")["parsed"]
        assert parsed["setParameter"] == {"enableTestCommands": "true"}
        assert parsed["operationProfiling"] == {"slowOpThresholdMs": 1}
        data = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 5}
        client.admin.command({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data})
        client.db.c.find_one({"_id": 1})
    server.stop()
    by_message = {line["msg"]: line for line in server.lines()}
    slow = by_message["Slow query"]
    assert (slow["id"], slow["c"], slow["attr"]["ns"], slow["attr"]["command"]["find"]) == (
        51803,
        "COMMAND",
        "db.c",
        "c",
    )
    accepted = by_message["Connection accepted"]
    assert (accepted["id"], accepted["ctx"], accepted["attr"]["remote"][:10]) == (22943, "listener", "127.0.0.1:")
    assert "Connection ended" in by_message


def test_a_signal_rotates_the_log(tmp_path: Path) -> None:
    server = Forked(tmp_path)
    os.kill(server.pid, signal.SIGUSR1)
    wait_until(lambda: len(list(tmp_path.glob("node.log*"))) == 2, 5.0)
    with server.client() as client:
        client.admin.command("ping")
    server.stop()
    assert server.lines()[0]["msg"] == "Log rotated"


def test_a_shutdown_command_ends_the_process(tmp_path: Path) -> None:
    server = Forked(tmp_path)
    with server.client() as client, contextlib.suppress(pymongo.errors.AutoReconnect):
        client.admin.command("shutdown")
    wait_until(lambda: server.stop().returncode == 1, 10.0)


def test_parameters_that_are_none_are_refused(tmp_path: Path) -> None:
    result = mongod("--dbpath", tmp_path, "--port", "0", "--setParameter", "nosuch=1")
    assert result.returncode == 2
    assert "nosuch" in result.stderr


def mongos(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """With --fork, to where its output ends."""
    command = [sys.executable, "-m", "mongos", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_router_in_the_background_lets_go_of_its_callers_output(tmp_path: Path) -> None:
    """Its JavaScript worker too."""
    with stopped_at_end(Deployment(tmp_path / "cluster")) as deployment:
        deployment.start(Member("config", "configsvr", []))
        address = deployment.members["config"].address
        result = mongos("--configdb", address, "--port", "0", "--fork", "--logpath", tmp_path / "log")
        ready = re.search(r"^mongos ready host=(\S+) port=(\d+) pid=(\d+)", result.stdout, re.MULTILINE)
        assert ready is not None, result.stderr
        os.kill(int(ready[3]), signal.SIGTERM)


def test_what_a_server_cannot_have_it_names(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = mongod("--dbpath", tmp_path, "--port", port)
    assert refused.returncode == 48
    assert f"mongod: cannot listen on 127.0.0.1 port {port}: Address already in use; another server" in refused.stderr
    unknown = mongod("--dbpath", tmp_path, "--port", "0", "--bind_ip", "192.0.2.1")
    assert unknown.returncode == 48
    assert "an address in --bind_ip is none of this machine's" in unknown.stderr
    # A directory in which nobody can make a file.
    unwritable = mongod("--dbpath", "/proc/self/task", "--port", "0")
    assert unwritable.returncode == 100
    assert "mongod: cannot open the data in /proc/self/task: this process cannot write there" in unwritable.stderr
    assert "listen" not in unwritable.stderr.rpartition("mongod: ")[2]


def test_a_server_open_to_everyone_must_be_told_to_be(tmp_path: Path) -> None:
    refused = mongod("--dbpath", tmp_path, "--port", "0", "--bind_ip_all")
    assert refused.returncode == 2
    assert "mongod: whoever reaches 0.0.0.0 could read and change everything" in refused.stderr
    router = mongos("--configdb", "127.0.0.1:1", "--port", "0", "--bind_ip_all")
    assert (router.returncode, "--allowUnauthenticated" in router.stderr) == (2, True)
    # Without scripts there is nothing to say of what confines them.
    options = ["--bind_ip_all", "--allowUnauthenticated", "--noscripting"]
    with stopped_at_end(Deployment(tmp_path / "nodes")) as deployment:
        node = Member("node", "mongod", options)
        deployment.start(node)
        talk = subprocess.run(
            [sys.executable, "-m", "shell", node.address], input="exit\n", capture_output=True, text=True, timeout=60,
            cwd=Path(__file__).parents[2], check=True,
        ).stdout  # fmt: skip
        assert "The server generated these startup warnings when booting:" in talk
        assert "Z: Access control is not enabled" in talk or "00: Access control is not enabled" in talk
        with pymongo.MongoClient(node.address) as client:
            log = [json.loads(line) for line in client.admin.command("getLog", "startupWarnings")["log"]]
        assert [(line["id"], line["tags"]) for line in log] == [(22120, ["startupWarnings"])]


def test_clients_on_the_same_machine_come_by_files(tmp_path: Path) -> None:
    """Killed, a server leaves its files, which its successor takes over; stopped, it takes them with it."""
    places = ["--unixSocketPrefix", str(tmp_path), "--bind_ip", f"127.0.0.1,{tmp_path}/x.sock"]
    server = Forked(tmp_path, *places, "--auth")
    named, other = tmp_path / f"mongodb-{server.port}.sock", tmp_path / "x.sock"
    assert [path.stat().st_mode & 0o777 for path in (named, other)] == [0o700, 0o700]
    with pymongo.MongoClient(uri_of(named), serverSelectionTimeoutMS=5000) as client:
        assert client.admin.command("whatsmyuri")["you"] == "anonymous unix socket:27017"
        client.admin.command("createUser", "root", pwd="root", roles=["root"])
    with pymongo.MongoClient(uri_of(other), username="root", password="root", authSource="admin") as client:
        client.test.rows.insert_one({"_id": 1})
        told = client.admin.command("getCmdLineOpts")["parsed"]["net"]
        assert told["unixDomainSocket"] == {"pathPrefix": str(tmp_path)}
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: refuses(other), 10)
    assert named.exists()
    again = Forked(tmp_path, *places)
    script = "print(db.rows.count(), db.getMongo())"
    command = [sys.executable, "-m", "shell", uri_of(other), "--quiet", "--eval", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert result.stdout == f"1 connection to {other}\n"
    again.stop()
    assert set(tmp_path.glob("*.sock")) == {named}


def uri_of(path: Path) -> str:
    return f"mongodb://{quote(str(path), safe='')}/test?directConnection=true"


def refuses(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == errno.ECONNREFUSED


def test_a_router_says_what_it_waits_for_and_gives_up(waiting_router: tuple[subprocess.Popen[str], Path]) -> None:
    """The last of these tests, since it takes longest."""
    process, log = waiting_router
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "mongos: waiting: no answer from 127.0.0.1:1" in said
    assert "mongos: no answer from 127.0.0.1:1" in complained
    waiting = [json.loads(line) for line in log.read_text().splitlines() if '"msg":"Waiting"' in line]
    assert [line["attr"]["reason"] for line in waiting] == ["no answer from 127.0.0.1:1"]
