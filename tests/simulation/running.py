"""Running schedules from a test: in an interpreter of their own, whose clock and dice are replaced first of all."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`scripts/simulate`, with one job."""
    command = [sys.executable, str(ROOT / "scripts" / "simulate.py"), "--jobs", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def break_nothing(scenario: str, count: int) -> None:
    """So many schedules of seeds that were never tried before."""
    first = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
    seeds = f"{first}-{first + count - 1}"
    ran = simulate("--scenario", scenario, "--seeds", seeds)
    assert ran.returncode == 0, f"seeds {seeds} of {scenario}:\n{ran.stdout}\n{ran.stderr}"
