"""Strangers who open all connections that there are leave a node the files that it needs."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pymongo
import pytest

from tests.cluster.test_process import READY

pytestmark = pytest.mark.cluster
LIMIT = 256
PROGRAM = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT}))
sys.argv[0] = "mongod"
runpy.run_module("mongod", run_name="__main__")
"""


def test_a_node_serves_on_while_strangers_hold_connections(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = [
        sys.executable,
        "-c",
        PROGRAM,
        "--dbpath",
        str(data),
        "--port",
        "0",
        "--nounixsocket",
        "--logpath",
        str(tmp_path / "log"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, ExitStack() as strangers:
        try:
            assert server.stdout is not None
            ready = READY.match(server.stdout.readline())
            assert ready is not None
            address = ("127.0.0.1", int(ready[2]))
            with pymongo.MongoClient(*address, directConnection=True, timeoutMS=20_000) as client:
                client.db.c.insert_one({})
                for _ in range(2 * LIMIT):
                    strangers.enter_context(socket.create_connection(address, timeout=10))
                for number in range(20):
                    client.db[f"c{number}"].insert_many([{"x": "x" * 10_000} for _ in range(10)])
                client.admin.command("fsync")
                statistics = client.admin.command("serverStatus")["connections"]
            assert LIMIT // 4 < statistics["current"] <= LIMIT // 2
            assert server.poll() is None
        finally:
            server.terminate()
