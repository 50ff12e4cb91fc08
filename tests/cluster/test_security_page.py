"""The commands that docs/security.md shows do what the page says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

pytestmark = pytest.mark.cluster
PAGE = Path(__file__).parents[2] / "docs/security.md"
MODULES = {"mongod": "mongod", "configsvr": "configsvr", "mongos": "mongos", "mongo": "shell"}


def blocks() -> list[str]:
    """The indented blocks of the page."""
    text = PAGE.read_text()
    return [block.replace("\n    ", "\n").strip() for block in re.findall(r"(?:\n    .+)+", text)]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def carried_out(directory: Path, block: str) -> Iterator[int]:
    """What a block's commands make, on other ports; the last port that it names. Nothing runs on afterwards."""
    names = sorted(set(re.findall(r"\b27\d{3}\b", block)))
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    script = re.sub(r"\b27\d{3}\b", lambda found: str(ports[found[0]]), block)
    executables = [f'{name}() {{ "{sys.executable}" -m {module} "$@"; }}' for name, module in MODULES.items()]
    environment = {**os.environ, "PYTHONPATH": str(PAGE.parents[1])}
    try:
        done = subprocess.run(
            ["bash", "-ec", "\n".join([*executables, script])], cwd=directory, env=environment, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        yield ports[names[-1]]
    finally:
        for log in directory.glob("*.log"):
            for pid in set(re.findall(r'"Waiting for connections".*?"pid":(\d+)', log.read_text())):
                os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("number", range(5))
def test_the_commands_of_the_page_run(tmp_path: Path, number: int) -> None:
    assert len(blocks()) == 5
    encryption: dict[str, Any] = {}
    if "--tlsMode" in blocks()[number]:
        files = {"tlsCAFile": "ca.pem", "tlsCertificateKeyFile": "client.pem"}
        encryption = {"tls": True, **{option: str(tmp_path / file) for option, file in files.items()}}
    with carried_out(tmp_path, blocks()[number]) as port:
        with pymongo.MongoClient("127.0.0.1", port, directConnection=True, **encryption) as anybody:
            with pytest.raises(OperationFailure) as refusal:
                anybody.test.c.find_one()
            assert refusal.value.code == 13
        options: dict[str, Any] = {"username": "root", "password": "secret", "directConnection": True, **encryption}
        with pymongo.MongoClient("127.0.0.1", port, **options) as root:
            reading = pymongo.ReadPreference.SECONDARY_PREFERRED
            assert root.test.get_collection("c", read_preference=reading).count_documents({"a": 1}) == 1
