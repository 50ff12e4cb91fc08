"""Files of processes and tools are their owner's alone, whatever the caller's umask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.test_process import Forked

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable(*directories: Path) -> list[str]:
    """The files below directories that others than their owner may read or write, sockets left out."""
    files = [path for directory in directories for path in [directory, *directory.rglob("*")]]
    return [str(path) for path in files if path.stat().st_mode & 0o077 and not path.is_socket()]


def run(module: str, *arguments: str | Path) -> None:
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_what_processes_and_tools_write_is_their_owners_alone(tmp_path: Path) -> None:
    server = Forked(tmp_path, "--pidfilepath", str(tmp_path / "pid"), "--replSet", "rs")
    made = tmp_path / "made"
    made.mkdir(mode=0o700)
    try:
        with server.client() as client:
            client.admin.command(
                {"replSetInitiate": {"_id": "rs", "members": [{"_id": 0, "host": f"127.0.0.1:{server.port}"}]}}
            )
            run(
                "shell",
                "--port",
                str(server.port),
                "--quiet",
                "--eval",
                "while (!db.hello().isWritablePrimary) sleep(20)",
            )
            client.db.c.insert_many([{"_id": number, "x": "x" * 1000} for number in range(1000)])
            client.admin.command("fsync")
            client.admin.command({"logRotate": 1})
        port = ("--port", str(server.port))
        run("docstore.tools.dump", *port, "--out", made / "dump")
        run("docstore.tools.export", *port, "--db", "db", "--collection", "c", "--out", made / "c.json")
        run("docstore.backup.program", "backup", "create", made / "backups", *port)
    finally:
        server.stop()
    server.dbpath.chmod(0o700)
    logs = sorted(tmp_path.glob("node.log*"))
    assert len(logs) == 2
    assert not [path for path in logs if path.stat().st_mode & 0o077]
    assert readable(server.dbpath, made) == []


def test_a_node_warns_of_data_files_that_others_may_read(tmp_path: Path) -> None:
    server = Forked(tmp_path)
    try:
        assert "can be read by other users" not in server.log.read_text()
    finally:
        server.stop()
    for path in server.dbpath.glob("[0-9]*"):
        path.chmod(0o644)
    again = Forked(tmp_path)
    try:
        assert "can be read by other users" in again.log.read_text()
    finally:
        again.stop()
