"""A short run of the torture: that its servers, faults, clients and checkers work together."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.torture import namespaces_allowed
from tests.checkers.history import Kind, Outcome, load
from tests.torture.fuzz import fuzz

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.cluster
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("what", "minutes", "least", "options"),
    [("set3", "0.05", 200, []), ("set3", "0.05", 200, ["--proxy"]), ("shards", "0.25", 400, [])],
)
def test_a_run_under_faults_has_no_anomaly_and_leaves_nothing(
    tmp_path: Path, what: str, minutes: str, least: int, options: list[str]
) -> None:
    """Transactions, and change streams that are followed; of two shards also statements by `_id` and over many
    documents, drops, index builds and shardCollection beside moves, kills and cuts."""
    if not options and not namespaces_allowed():
        pytest.skip("namespaces of one's own are not allowed here")
    command = [sys.executable, "scripts/torture.py", what, "--minutes", minutes, "--keep", str(tmp_path), *options]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "anomalies: none" in run.stdout
    operations = load(tmp_path / "history.jsonl")
    assert sum(each.outcome is Outcome.OK for each in operations) > least
    assert any(each.ok for each in operations if each.kind in (Kind.TRANSFER, Kind.TRANSACTION, Kind.READ_BANK))
    assert re.search("change events: [1-9][0-9]*, [1-9]", run.stdout), run.stdout
    assert not [each for each in Path("/run/netns").glob("*") if each.name.startswith("member")]


@pytest.mark.cluster
def test_broken_messages_get_nobody_in(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    found = fuzz(tmp_path, 4000, seed)
    assert found.codes.total() > 1000
    assert not found.wrong, (seed, found.wrong[:5])
