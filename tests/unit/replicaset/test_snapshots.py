"""Which state a majority read sees, and that none is kept for longer than needed."""

from __future__ import annotations

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replicaset.read.majority_snapshots import MAX_KEPT, MajoritySnapshots
from docstore.storage import Batch, Family, MemoryEngine, Snapshot


class Log:
    """An engine whose one key holds the log's last timestamp."""

    def __init__(self) -> None:
        self.engine = MemoryEngine()
        self.snapshots = MajoritySnapshots(self.engine)
        self.last = 0

    def write(self, timestamp: int) -> None:
        batch = Batch()
        batch.put(Family.META, b"last", str(timestamp).encode())
        self.engine.write(batch)
        self.last = timestamp

    def note(self, committed: int) -> None:
        self.snapshots.note(OpTime(1, self.last), OpTime(1, committed))

    def read(self) -> tuple[int, int] | None:
        """(position told, state seen)."""
        opened = self.snapshots.open()
        if opened is None:
            return None
        position, snapshot, release = opened
        value = snapshot.get(Family.META, b"last")
        assert value is not None
        release()
        release()
        return position.timestamp, int(value)


def test_before_the_first_step_there_is_nothing_to_read() -> None:
    assert Log().read() is None


def test_a_read_sees_the_state_at_the_commit_point_while_the_log_goes_on() -> None:
    log = Log()
    for timestamp in range(1, 6):
        log.write(timestamp)
        log.note(committed=min(timestamp, 2))
    assert log.read() == (2, 2)
    log.note(committed=4)
    assert log.read() == (4, 4)
    assert len(log.snapshots) == 2


def test_nothing_is_readable_while_nothing_is_committed() -> None:
    log = Log()
    log.write(1)
    log.snapshots.note(OpTime(1, 1), NULL_OPTIME)
    assert log.read() is None


def test_a_snapshot_being_read_outlives_its_place_in_the_list() -> None:
    log = Log()
    log.write(1)
    log.note(committed=1)
    opened = log.snapshots.open()
    assert opened is not None
    _, snapshot, release = opened
    log.write(2)
    log.note(committed=2)
    assert snapshot.get(Family.META, b"last") == b"1"
    release()
    assert log.read() == (2, 2)


def test_a_rollback_takes_the_states_that_it_undoes() -> None:
    log = Log()
    for timestamp in (1, 2, 3):
        log.write(timestamp)
        log.note(committed=1)
    log.write(1)
    log.note(committed=1)
    assert len(log.snapshots) == 1
    log.write(4)
    log.note(committed=1)
    assert log.read() == (1, 1)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 200)), max_size=60))
def test_the_list_stays_bounded_and_a_read_is_never_ahead_of_the_commit_point(steps: list[tuple[bool, int]]) -> None:
    log = Log()
    committed = 0
    for writes, amount in steps:
        for _ in range(amount if writes else 1):
            if writes:
                log.write(log.last + 1)
            else:
                committed = min(log.last, committed + amount)
            if log.last:
                log.note(committed)
        assert len(log.snapshots) <= MAX_KEPT
        seen = log.read()
        if seen is not None:
            assert seen[0] == seen[1] <= committed


class _Counted(MemoryEngine):
    """Counts the snapshots that are open."""

    open_now = 0

    def snapshot(self) -> Snapshot:
        self.open_now += 1
        return cast(Snapshot, _Counting(self))


class _Counting:
    def __init__(self, engine: _Counted) -> None:
        self._engine = engine

    def close(self) -> None:
        self._engine.open_now -= 1


def test_of_many_snapshots_that_go_a_few_are_released_at_a_time() -> None:
    """To release one is to put together what was written since the one before."""
    log = Log()
    log.engine = engine = _Counted()
    log.snapshots = MajoritySnapshots(engine)
    for timestamp in range(1, 4 * MAX_KEPT):
        before = engine.open_now
        log.write(timestamp)
        log.note(committed=0)
        log.snapshots.release_some()
        assert engine.open_now >= before - 8
    assert engine.open_now <= MAX_KEPT + MAX_KEPT // 2
    while log.snapshots.release_some():
        pass
    assert engine.open_now == len(log.snapshots) <= MAX_KEPT
    log.snapshots.close()
    assert engine.open_now == 0
