"""A sample of damaged directories, with new seeds in every run (`tests.contract.damaged_directories` runs more)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 10


@pytest.mark.timeout(120)
def test_nothing_is_lost_from_a_damaged_directory_without_a_word(tmp_path: Path) -> None:
    """In a process of its own: it forks, and this one may have engines open."""
    seed = random.randrange(1 << 32)
    run = subprocess.run(
        [sys.executable, "-m", "tests.contract.damaged_directories", "--cases", str(CASES), "--seed", str(seed)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr[-2000:]
