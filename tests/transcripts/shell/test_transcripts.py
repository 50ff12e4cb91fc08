"""Every transcript in this folder holds, against our own node and against a real one where there is one."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import bson
import pytest

from scripts.deployment import Deployment as Processes
from scripts.deployment import Member, stopped_at_end
from shell.address import parse_address
from shell.deployment import Deployment, Unreachable
from tests.harness.waiting import wait_until
from tests.transcripts.shell.runner import matches, run_transcript

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.txt"))
REFERENCE = os.environ.get("DOCSTORE_REFERENCE")

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def our_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    processes = Processes(tmp_path_factory.mktemp("shell"))
    with stopped_at_end(processes):
        node = Member("node", "mongod", [])
        processes.start(node)
        yield node.port


@pytest.fixture(scope="module")
def reference_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if REFERENCE is None:
        pytest.skip("DOCSTORE_REFERENCE names no real mongod")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("reference")
    command = [REFERENCE, "--dbpath", str(folder), "--port", str(port), "--logpath", str(folder / "log")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def check(path: Path, port: int) -> None:
    deployment = Deployment(parse_address(f"127.0.0.1:{port}/transcript"))
    wait_until(lambda: answers(deployment), 20)
    deployment.run(bson.encode({"dropDatabase": 1, "$db": "transcript"}), any_member=False)
    for step, printed in run_transcript(path, deployment):
        assert matches(step.expected, printed), "\n".join(
            (*step.lines, "printed:", printed, "expected:", *step.expected)
        )


def answers(deployment: Deployment) -> bool:
    try:
        deployment.run(bson.encode({"ping": 1, "$db": "admin"}), any_member=True)
    except Unreachable:
        return False
    return True


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_against_our_node(path: Path, our_port: int) -> None:
    check(path, our_port)


@pytest.mark.reference
@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_against_a_real_server(path: Path, reference_port: int) -> None:
    check(path, reference_port)
