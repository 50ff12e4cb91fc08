"""The scenarios: each a topology and what happens to it, one module for each kind of cluster or change."""

from __future__ import annotations

from tests.simulation.scenarios import (
    acknowledged,
    active_window,
    concern_defaults,
    ddl,
    definitions,
    deposed,
    disks,
    drain,
    elections,
    failed_moves,
    groups,
    halves,
    handover,
    heirs,
    hints,
    idle_reads,
    internal_fields,
    key_changes,
    lost_disks,
    membership,
    moments,
    moves,
    prepared_changes,
    primaries,
    repeated_commits,
    retries,
    routed_streams,
    routed_transactions,
    same_term,
    schemas,
    silent,
    sliced,
    special_members,
    streams,
    transactions,
    transactions_ddl,
    uncommitted,
    undoing,
    unsynced,
    voters,
    waiting,
)
from tests.simulation.schedule import Scenario

MODULES = (
    elections, same_term, deposed, undoing, unsynced, disks, membership, voters, sliced, heirs, silent,
    moves, handover, uncommitted, groups, ddl, moments, drain, acknowledged, definitions, halves, lost_disks,
    special_members, streams, primaries, failed_moves, transactions, transactions_ddl, routed_transactions,
    routed_streams, hints, prepared_changes, repeated_commits, retries, waiting, concern_defaults,
    idle_reads, key_changes, active_window, internal_fields, schemas,
)  # fmt: skip

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for module in MODULES for scenario in module.SCENARIOS}
