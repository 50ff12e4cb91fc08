"""Clusters whose faults come at dangerous moments: each state of a migration, each phase of a change of definition."""

from __future__ import annotations

import functools

from tests.simulation.moments import COORDINATION, MIGRATION, ROUTING
from tests.simulation.scenarios import ddl, moves
from tests.simulation.schedule import Scenario

KINDS = ("kill", "kill", "power", "blink", "step down", "step down", "pause", "isolate", "one way", "die at write")

SCENARIOS = (
    Scenario(
        name="moves-moments",
        what="chunks move while clients write; faults at the states of the migrations",
        topology=moves.a_cluster,
        run=functools.partial(moves.moving, kinds=KINDS, count=4, seconds=3.0, moments=(*MIGRATION, *ROUTING)),
    ),
    Scenario(
        name="ddl-moments",
        what="collections are made, sharded, indexed, dropped; faults at the phases of these",
        topology=ddl.a_cluster,
        run=functools.partial(
            ddl.changing, statements=ddl.ALL_STATEMENTS, kinds=KINDS, count=4,
            moments=(*COORDINATION, *COORDINATION, *ROUTING),
        ),
    ),
    Scenario(
        name="ddl-moves-moments",
        what="indexes and drops beside moves; faults at the states of both",
        topology=ddl.a_cluster,
        run=functools.partial(
            ddl.changing, statements=ddl.BESIDE_MOVES, kinds=KINDS, count=4,
            moments=(*COORDINATION, *COORDINATION, *MIGRATION, *ROUTING),
        ),
    ),
)  # fmt: skip
