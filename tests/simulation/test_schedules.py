"""A slice of the simulation of sets in every run of the tests, and that the simulation itself can be trusted."""

from __future__ import annotations

import pytest

from tests.simulation.running import Simulator, simulate_afresh

NEW_SEEDS = {
    "elections": 20, "rollbacks": 20, "five": 8, "votes": 10, "catch-up": 10, "reconfig": 10, "step-down": 8,
    "strangers": 8, "disks": 10, "same-term": 8, "deposed": 6, "unsynced": 8,
    "undoing": 6, "voters": 6, "sliced": 8, "heirs": 8, "streams": 8,
    "initial-sync": 10, "lost-disk": 8, "repaired": 6, "falls-off": 6, "all-kinds": 6, "forced": 6,
    "idle-reads": 4,
}  # fmt: skip
"""How many schedules of each scenario a run tries."""


@pytest.mark.parametrize("scenario", NEW_SEEDS)
def test_schedules_of_new_seeds_break_nothing(simulator: Simulator, scenario: str) -> None:
    simulator.break_nothing(scenario, NEW_SEEDS[scenario])


@pytest.mark.parametrize(("scenario", "seed"), [("elections", "4711"), ("transactions-ddl", "1")])
def test_a_seed_replays_its_schedule_step_by_step(simulator: Simulator, scenario: str, seed: str) -> None:
    """Whatever else is in memory: what happens depends on no addresses."""
    one = ("--scenario", scenario, "--seeds", seed)
    first, second = (run(*one).printed.splitlines() for run in (simulator.simulate, simulate_afresh))
    assert len(first) > 50
    assert first[:-1] == second[:-1]


def test_a_planted_bug_is_found_and_its_seed_finds_it_again(simulator: Simulator) -> None:
    plant = ("--plant", "two votes a term")
    found = simulator.simulate(*plant, "--seeds", "1-300")
    assert found.status == 1, found.printed
    line = next(line for line in found.printed.splitlines() if line.startswith("FAILED"))
    again = simulate_afresh(*plant, "--seeds", line.split()[2])
    assert line.partition(": ")[2] in again.printed
