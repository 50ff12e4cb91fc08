"""A backup made while clients write is a database of its own, and a damaged one serves again after --repair."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pymongo import WriteConcern
from pymongo.errors import OperationFailure

from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.mixed_load import DocumentClient, check_consistent, connect

pytestmark = pytest.mark.cluster


def test_a_backup_under_load_starts_as_a_node_and_validates(tmp_path: Path) -> None:
    deployment = ForkedDeployment(tmp_path)
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        writers = [DocumentClient(node.port, random.Random(n), f"w{n}") for n in range(2)]
        with closing(connect(node.port)) as client:
            client.load.before.insert_many([{"_id": n} for n in range(500)])
            client.load.w0.create_index("tags")
            for writer in writers:
                writer.start()
            with pytest.raises(OperationFailure, match="inside the database's own directory"):
                client.admin.command("backup", path=str(tmp_path / "node" / "000099.log"))
            reply = client.admin.command("backup", path=str(tmp_path / "copy"))
            assert reply["path"] == str(tmp_path / "copy")
            deployment.kill("node")
        for writer in writers:
            writer.join(30)
        copy = Member("copy", "mongod", [])
        deployment.start(copy)
        with closing(connect(copy.port)) as client:
            assert client.load.before.count_documents({}) == 500
            assert check_consistent(client) >= 2
            assert set(client.load.w0.index_information()) == {"_id_", "tags_1"}


def test_a_damaged_directory_serves_again_after_repair(tmp_path: Path) -> None:
    deployment = ForkedDeployment(tmp_path)
    noise = random.Random(1)
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        with closing(connect(node.port)) as client:
            client.load.c.create_index("a")
            client.load.c.insert_many([{"_id": n, "a": n % 7, "noise": noise.randbytes(300)} for n in range(3000)])
        deployment.kill("node")
        deployment.restart("node")
        deployment.kill("node")
        [directory] = {file.parent for file in tmp_path.rglob("CURRENT")}
        table = max(directory.glob("*.sst"), key=lambda file: file.stat().st_size)
        content = bytearray(table.read_bytes())
        content[len(content) // 2] ^= 0xFF
        table.write_bytes(content)
        status, said = run_mongod(directory, "--repair")
        assert (status, "a damaged block of records cannot be read, of load.c" in said) == (65, True), said
        # It is said again as long as the record of that repair stands.
        status, said = run_mongod(directory, "--repair")
        assert (status, "a damaged block of records cannot be read, of load.c" in said) == (65, True), said
        shutil.rmtree(directory / "repair" / "1")
        assert run_mongod(directory, "--repair")[0] == 0
        deployment.restart("node")
        with closing(connect(node.port)) as client:
            assert check_consistent(client) == 1
            assert 2700 < client.load.c.estimated_document_count() < 3000


def test_a_supervisor_that_starts_a_damaged_directory_again_and_again_loses_nothing(tmp_path: Path) -> None:
    deployment = ForkedDeployment(tmp_path)
    with stopped_at_end(deployment):
        node = Member("node", "mongod", [])
        deployment.start(node)
        with closing(connect(node.port)) as client:
            journaled = client.load.get_collection("c", write_concern=WriteConcern(w=1, j=True))
            journaled.insert_many([{"_id": n} for n in range(500)])
        deployment.kill("node")
        [current] = tmp_path.rglob("CURRENT")
        current.unlink()
        for _ in range(3):
            status, said = run_mongod(current.parent)
            assert (status, "the file CURRENT is missing" in said) == (100, True), said
        status, said = run_mongod(current.parent, "--repair")
        assert (status, "damage was found" in said) == (0, True), said
        deployment.restart("node")
        with closing(connect(node.port)) as client:
            assert client.load.c.count_documents({}) == 500


def run_mongod(directory: Path, *options: str) -> tuple[int, str]:
    """(exit status, all that was said) of a process that ends by itself."""
    command = [sys.executable, "-m", "mongod", "--dbpath", str(directory), "--port", "0", *options]
    run = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr
