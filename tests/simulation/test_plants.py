"""The planted bugs still fit the code, and some of them are caught in every run."""

from __future__ import annotations

import pytest

from tests.simulation.plants import MODULES, PLANTS
from tests.simulation.running import Simulator

QUICK = ("granted vote not persisted", "commit counts applied", "voters change several at a time")
"""Caught within few schedules that cost little."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_fits_the_code(name: str) -> None:
    PLANTS[name].check()


def test_each_plant_has_a_name_of_its_own() -> None:
    assert len(PLANTS) == sum(len(module.PLANTS) for module in MODULES) >= 60


@pytest.mark.parametrize("name", QUICK)
def test_a_plant_is_caught(simulator: Simulator, name: str) -> None:
    ran = simulator.simulate("--plant", name, "--seeds", "1-30")
    assert ran.status == 1, ran.printed
    assert "the simulation itself" not in ran.printed
