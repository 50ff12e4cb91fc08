"""Thousands of schedules of a replica set, each replayed by its seed.

A failing seed is printed by its test's name: `pytest "tests/simulation/test_replication.py::test_...[17]"` runs it
again.
"""

from __future__ import annotations

import pytest

from docstore.replication.config import MemberConfig, Settings
from tests.simulation.cluster import Cluster
from tests.simulation.faults import Clients, Nemesis
from tests.simulation.invariants import Invariants

SETTINGS = Settings(heartbeat_interval_millis=200, election_timeout_millis=1000)


def three() -> list[MemberConfig]:
    return [MemberConfig(id=i, host=f"m{i}:1") for i in range(3)]


def five_with_priorities() -> list[MemberConfig]:
    return [MemberConfig(id=i, host=f"m{i}:1", priority=(0, 1, 1, 2, 3)[4 - i]) for i in range(5)]


def with_arbiter() -> list[MemberConfig]:
    return [*three()[:2], MemberConfig(id=2, host="m2:1", arbiter_only=True, priority=0)]


def disturbed(
    seed: int, members: list[MemberConfig], seconds: float, *, spares: int = 0
) -> tuple[Cluster, Invariants, Nemesis]:
    """A run under faults, then ten quiet seconds, then the final checks."""
    invariants = Invariants()
    cluster = Cluster(seed, members, invariants, settings=SETTINGS, spares=spares)
    cluster.start()
    clients, nemesis = Clients(cluster), Nemesis(cluster, reconfigures=spares > 0)
    clients.start()
    cluster.run(3)
    nemesis.start()
    cluster.run(seconds)
    nemesis.stop()
    cluster.run(6)
    clients.stop()
    cluster.run(4)
    invariants.check_end(cluster)
    return cluster, invariants, nemesis


@pytest.mark.parametrize("seed", range(12))
def test_three_members_never_lose_a_committed_write(seed: int) -> None:
    cluster, invariants, _ = disturbed(seed, three(), 30)
    assert cluster.steps > 1000
    assert invariants.acks, "the schedule must let some majority writes through to mean anything"


@pytest.mark.parametrize("seed", range(100, 105))
def test_five_members_with_priorities_never_lose_a_committed_write(seed: int) -> None:
    _, invariants, _ = disturbed(seed, five_with_priorities(), 20)
    assert invariants.acks


@pytest.mark.parametrize("seed", range(200, 204))
def test_an_arbiter_votes_and_never_makes_a_write_safe(seed: int) -> None:
    _, invariants, _ = disturbed(seed, with_arbiter(), 20)
    assert invariants.acks


@pytest.mark.parametrize("seed", range(300, 304))
def test_members_that_come_and_go_never_take_a_committed_write_with_them(seed: int) -> None:
    _, invariants, nemesis = disturbed(seed, three(), 30, spares=2)
    assert nemesis.done["reconfigure"]
    assert invariants.acks


def test_the_same_seed_gives_the_same_schedule() -> None:
    first, one, _ = disturbed(1, three(), 5)
    second, two, _ = disturbed(1, three(), 5)
    assert first.steps == second.steps
    assert one.committed == two.committed
