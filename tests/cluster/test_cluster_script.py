"""What `scripts/cluster up --auth --tls` makes lets in who has its files, and nobody else."""

from __future__ import annotations

import stat
from argparse import Namespace
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from scripts.cluster import Secrets, up
from scripts.deployment import stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster
Client = pymongo.MongoClient[dict[str, Any]]


def test_a_safe_cluster_lets_in_who_has_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "made"
    options = Namespace(auth=True, tls=True, shards=2, members=1, config=1, routers=1)
    client: Client
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        assert up(deployment, options) == 0
        files = Secrets(directory)
        shown = capsys.readouterr().out
        assert files.password_file.read_text() not in shown
        address = next(line for line in shown.splitlines() if line.startswith("mongodb://root@"))
        with pymongo.MongoClient(address.replace("root@", f"root:{files.password_file.read_text()}@")) as client:
            client.test.c.insert_one({"_id": 1})
            assert [each["_id"] for each in client.admin.command("listShards")["shards"]] == ["shard1", "shard2"]
        for member in deployment.members.values():
            where: dict[str, Any] = {
                "host": member.address, "directConnection": True, "serverSelectionTimeoutMS": 500,
            }  # fmt: skip
            with (
                pymongo.MongoClient(**where, **files.encryption()) as client,
                pytest.raises(OperationFailure, match="requires authentication"),
            ):
                client.test.c.find_one()
            with pymongo.MongoClient(**where) as client, pytest.raises(ServerSelectionTimeoutError):
                client.admin.command("ping")
        certificates = [files.certificates / f"{role}.pem" for role in ("server", "client")]
        for path in (files.key_file, files.password_file, *certificates):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
