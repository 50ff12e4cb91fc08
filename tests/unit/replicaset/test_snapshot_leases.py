"""States that are kept for reads at the same cluster time."""

from __future__ import annotations

from typing import Any, cast

from docstore.replicaset.read.snapshot_leases import MOST, MOST_BYTES, SECONDS, SnapshotLeases


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _keep(leases: SnapshotLeases, at: int, released: list[int]) -> None:
    leases.keep(at, cast(Any, f"state {at}"), lambda: released.append(at))


def test_a_state_is_kept_for_a_while() -> None:
    clock, released = Clock(), list[int]()
    leases = SnapshotLeases(clock)
    _keep(leases, 1, released)
    clock.now = SECONDS - 1
    assert leases.has(1)
    clock.now = SECONDS + 1
    assert not leases.has(1)
    assert released == [1]


def test_a_reader_outlives_the_lease() -> None:
    clock, released = Clock(), list[int]()
    leases = SnapshotLeases(clock)
    _keep(leases, 1, released)
    state, release = leases.open(1)
    leases.close()
    assert (state, released) == ("state 1", [])
    release()
    release()
    assert released == [1]


def test_a_state_that_is_kept_already_is_renewed() -> None:
    clock, released = Clock(), list[int]()
    leases = SnapshotLeases(clock)
    _keep(leases, 1, released)
    clock.now = SECONDS - 1
    leases.keep(1, cast(Any, "again"), lambda: released.append(-1))
    clock.now = SECONDS + 1
    assert leases.has(1)
    assert released == [-1]


def test_the_oldest_goes_when_there_are_too_many() -> None:
    released = list[int]()
    leases = SnapshotLeases(Clock())
    for at in range(MOST + 2):
        _keep(leases, at, released)
    assert (len(leases), released) == (MOST, [0, 1])


def test_states_that_take_memory_take_a_bounded_amount_together() -> None:
    released = list[int]()
    leases = SnapshotLeases(Clock())
    _keep(leases, 0, released)
    for at in range(1, 4):
        leases.keep(at, cast(Any, at), lambda at=at: released.append(at), MOST_BYTES // 2)  # type: ignore[misc]
    assert (len(leases), released) == (3, [1])
    leases.keep(4, cast(Any, 4), lambda: released.append(4), 2 * MOST_BYTES)
    assert (leases.has(0), leases.has(4), released) == (True, True, [1, 2, 3])
