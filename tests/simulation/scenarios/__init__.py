"""The scenarios: each a topology and what happens to it, one module for each kind of cluster or change."""

from __future__ import annotations

from tests.simulation.scenarios import ddl, disks, elections, membership, moves
from tests.simulation.schedule import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for module in (elections, disks, membership, moves, ddl) for scenario in module.SCENARIOS
}
