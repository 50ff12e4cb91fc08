"""Sets whose disks are full, fail, or are slow: members may die of it, and what was acknowledged stays."""

from __future__ import annotations

import functools

from tests.simulation.scenarios.elections import a_set, under_faults
from tests.simulation.schedule import Scenario

KINDS = (
    "disk full", "disk full", "disk error", "write error", "write error", "slow disk", "kill", "isolate", "power",
)  # fmt: skip

SCENARIOS = (
    Scenario(
        name="disks",
        what="a set of three whose disks are full, fail or are slow while members come and go",
        topology=functools.partial(a_set, size=3),
        run=functools.partial(
            under_faults,
            kinds=KINDS,
            seconds=6.0,
            count=4,
        ),
    ),
)
