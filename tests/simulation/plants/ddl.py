"""Planted bugs of definitions: what coordinators undo."""

from __future__ import annotations

from tests.simulation.plants.plant import Plant

PLANTS = (
    Plant(
        "what one shard refuses stays on the others",
        "indexes",
        "docstore.sharding.ddl.coordinator:Coordinator._give_up",
        "undo = operation.phase is not Phase.HOLDING and PLANS[operation.kind].undoes",
        "undo = False",
    ),
)
