"""Planted bugs: each makes the shipping code wrong in one place, and names the scenario that must catch it."""

from __future__ import annotations

from tests.simulation.plants import (
    change_streams,
    ddl,
    groups,
    hints,
    history,
    primaries,
    processes,
    replication,
    routed_transactions,
    sharding,
    storage,
    transactions,
)
from tests.simulation.plants.plant import Plant

MODULES = (
    replication, storage, sharding, groups, ddl, primaries, history, change_streams, transactions, routed_transactions,
    hints, processes,
)  # fmt: skip
PLANTS: dict[str, Plant] = {plant.name: plant for module in MODULES for plant in module.PLANTS}
