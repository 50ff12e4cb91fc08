"""A short run of the torture: that its servers, faults, clients and checkers work together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.torture import namespaces
from tests.checkers.history import Outcome, load

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.cluster
def test_a_set_of_three_has_no_anomaly_and_leaves_nothing(tmp_path: Path) -> None:
    if subprocess.run([*namespaces(), "true"], check=False, capture_output=True).returncode:
        pytest.skip("namespaces of one's own are not allowed here")
    command = [sys.executable, "scripts/torture.py", "set3", "--minutes", "0.05", "--keep", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "anomalies: none" in run.stdout
    operations = load(tmp_path / "history.jsonl")
    assert sum(each.outcome is Outcome.OK for each in operations) > 200
    assert not [each for each in Path("/run/netns").glob("*") if each.name.startswith("member")]
