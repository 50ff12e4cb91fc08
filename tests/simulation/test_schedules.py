"""A slice of the simulation in every run of the tests: seeds that were never tried before, and that it can be trusted.

It runs in interpreters of its own, whose clock and dice are replaced before anything is imported.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEW_SEEDS = {
    "elections": 20,
    "rollbacks": 20,
    "five": 8,
    "votes": 10,
    "catch-up": 10,
    "reconfig": 10,
    "step-down": 8,
    "strangers": 8,
    "disks": 10,
    "moves": 5,
    "moves-faults": 5,
}
"""How many schedules of each scenario a run tries."""


def simulate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "simulate"), "--jobs", "1", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.parametrize("scenario", NEW_SEEDS)
def test_schedules_of_new_seeds_break_nothing(scenario: str) -> None:
    first = random.SystemRandom().randrange(1_000_000, 1_000_000_000)
    seeds = f"{first}-{first + NEW_SEEDS[scenario] - 1}"
    ran = simulate("--scenario", scenario, "--seeds", seeds)
    assert ran.returncode == 0, f"seeds {seeds} of {scenario}:\n{ran.stdout}\n{ran.stderr}"


def test_a_seed_replays_its_schedule_step_by_step() -> None:
    first, second = (simulate("--scenario", "elections", "--seeds", "4711").stdout.splitlines() for _ in range(2))
    assert len(first) > 50
    assert first[:-1] == second[:-1]


def test_a_planted_bug_is_found_and_its_seed_finds_it_again() -> None:
    plant = ("--plant", "two votes a term")
    found = simulate(*plant, "--seeds", "1-300")
    assert found.returncode == 1, found.stdout
    line = next(line for line in found.stdout.splitlines() if line.startswith("FAILED"))
    again = simulate(*plant, "--seeds", line.split()[2])
    assert line.partition(": ")[2] in again.stdout
