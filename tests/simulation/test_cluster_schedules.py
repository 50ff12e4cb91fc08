"""A slice of the simulation of sharded clusters in every run of the tests."""

from __future__ import annotations

import pytest

from tests.simulation.running import Simulator

NEW_SEEDS = {
    "moves": 4, "moves-faults": 4, "handover": 6, "handover-many": 4, "handover-secondaries": 3, "groups": 3,
    "groups-everywhere": 3, "groups-faults": 3, "moves-moments": 4, "handover-uncommitted": 1,
    "ddl": 4, "ddl-moves": 4, "ddl-moments": 4,
    "ddl-moves-moments": 4, "drain": 3, "drain-moments": 3, "acknowledged": 4, "acknowledged-moments": 4,
    "drops": 3, "drops-deaths": 3, "drops-deposed": 3, "drops-joined": 2, "drops-halves": 2, "indexes": 3,
    "drain-ddl": 3, "primaries": 3, "drain-held": 2, "primaries-back": 2, "primaries-unfinished": 2,
    "primaries-late": 3, "primaries-deaths": 3, "primaries-many": 3, "primaries-transactions": 3, "primaries-away": 3,
    "routed-streams": 4, "routed-streams-faults": 3, "repeated-commits": 6, "waiting": 2,
    "prepared-changes": 3, "commits-away": 2,
    "hints": 3, "hints-held": 2, "families-remade": 3,
    "retries-short-log": 4, "retries-rollback": 3, "retries-copied": 3, "retries-primaries": 4,
    "retries-many-sessions": 2, "concern-defaults": 2, "key-changes": 3, "active-window": 1, "internal-fields": 2,
    "schemas": 2,
}  # fmt: skip
"""How many schedules of each scenario a run tries."""


@pytest.mark.parametrize("scenario", NEW_SEEDS)
def test_schedules_of_new_seeds_break_nothing(simulator: Simulator, scenario: str) -> None:
    simulator.break_nothing(scenario, NEW_SEEDS[scenario])
