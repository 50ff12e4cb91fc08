"""Reads that ask for more than the newest state: never what may be rolled back, and not for ever without a majority."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, cast

import pytest
from bson.timestamp import Timestamp

from docstore.collection.collection import Collection
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.errors import Code, CommandError
from docstore.optime import OpTime, unpack_timestamp
from docstore.replicaset.read.majority_snapshots import MAX_KEPT
from docstore.replicaset.read.read_concern import ReadConcernWaiters
from docstore.replication.state import State
from docstore.storage import Reader
from tests.harness.serving import run, until
from tests.unit.collection.building import doc, insert, make, read, remove, store_on, update

MAJORITY = ReadConcern(level=ReadLevel.MAJORITY)


class Primary:
    """A store, the readers that wait on it, and what the test says of the set."""

    def __init__(self) -> None:
        self.store = store_on()
        self.coll: Collection = make(self.store, "test.c", doc(0))
        self.term, self.writable = 1, True
        self.commit_point = self.store.last_optime
        self.reading = ReadConcernWaiters(self.store, lambda: cast(State, self), self.advance_primary)
        self.progressed()

    async def advance_primary(self, after: int) -> None:
        raise AssertionError("no other member is primary")

    def write(self, *ids: int) -> OpTime:
        for each in ids:
            insert(self.store, self.coll, doc(each))
        self.progressed()
        return self.store.last_optime

    def progressed(self) -> None:
        self.reading.progressed(self.store.last_optime, self.commit_point, keep=True)

    def committed_up_to(self, optime: OpTime) -> None:
        self.commit_point = optime
        self.progressed()

    def elected(self) -> None:
        """It is the primary of a later term, and its commit point is what the former one had told it."""
        oplog = self.store.oplog
        assert oplog is not None
        oplog.term = self.term = 2

    def replaced(self) -> None:
        """Another primary has come, and what only this one had has been rolled back."""
        self.term, self.writable = 2, False
        self.committed_up_to(OpTime(2, self.store.last_optime.timestamp + 100))

    def ids(self, reader: Reader) -> list[int]:
        return [found["_id"] for found in read(self.coll, reader)]

    async def majority(self, after: int | None = None) -> list[int]:
        reader, release = await self.reading.open(
            ReadConcern(level=ReadLevel.MAJORITY, after_cluster_time=after), deadline=None
        )
        try:
            return self.ids(reader)
        finally:
            release()


def test_a_majority_read_sees_all_that_is_committed_also_where_no_snapshot_was_kept() -> None:
    """The commit point stands between two snapshots, and the majority is gone: nothing moves any more."""

    async def scenario() -> None:
        primary = Primary()
        primary.write(1)
        remove(primary.store, primary.coll, 0)
        insert(primary.store, primary.coll, doc(2))
        reached = primary.store.last_optime
        update(primary.store, primary.coll, doc(1, changed=True))
        remove(primary.store, primary.coll, 2)
        remove(primary.store, primary.coll, 1)
        primary.progressed()
        primary.write(4)
        primary.committed_up_to(reached)
        assert await primary.majority() == [1, 2]
        assert await primary.majority(reached.timestamp) == [1, 2]
        assert primary.reading._snapshots.committed == reached

    run(scenario(), 10)


@pytest.mark.parametrize("asked_for", [False, True])
def test_a_majority_read_needs_no_snapshot_that_was_thinned_out(asked_for: bool) -> None:
    async def scenario() -> None:
        primary = Primary()
        acknowledged = [primary.write(n) for n in range(1, 3 * MAX_KEPT)][6]
        primary.committed_up_to(acknowledged)
        assert await primary.majority(acknowledged.timestamp if asked_for else None) == list(range(8))

    run(scenario(), 10)


def test_a_majority_read_waits_for_a_time_that_is_not_committed() -> None:
    async def scenario() -> None:
        primary = Primary()
        wanted = primary.write(1)
        asked = asyncio.ensure_future(primary.majority(wanted.timestamp))
        await asyncio.sleep(0.1)
        assert not asked.done()
        primary.committed_up_to(wanted)
        assert await asked == [0, 1]

    run(scenario(), 10)


def test_a_majority_read_of_a_new_primary_sees_what_its_predecessor_acknowledged() -> None:
    """The majority was told of it, and this member not that it was: only an entry of its own term tells it."""

    async def scenario() -> None:
        primary = Primary()
        primary.write(1)
        primary.elected()
        asked = asyncio.ensure_future(primary.majority())
        await asyncio.sleep(0)
        assert not asked.done()
        primary.committed_up_to(primary.write(2))
        assert await asked == [0, 1, 2]

    run(scenario(), 10)


def test_a_new_primary_that_is_replaced_before_it_knows_what_is_committed_sends_majority_reads_elsewhere() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.write(1)
        primary.elected()
        asked = asyncio.ensure_future(primary.majority())
        await asyncio.sleep(0)
        primary.writable = False
        primary.reading.wake()
        with pytest.raises(CommandError) as interrupted:
            await asked
        assert interrupted.value.code == Code.InterruptedDueToReplStateChange
        assert await primary.majority() == [0], "whoever asks a secondary is told what that knows"

    run(scenario(), 10)


def test_states_of_a_log_that_an_initial_sync_replaces_are_never_read() -> None:
    """A commit point of a later term lies above them, though they were never committed."""

    async def scenario() -> None:
        primary = Primary()
        lost = primary.write(1)
        primary.reading.progressed(OpTime(-1, 0), primary.commit_point, keep=False)
        remove(primary.store, primary.coll, 1)
        oplog = primary.store.oplog
        assert oplog is not None
        oplog.term = primary.term = 3
        insert(primary.store, primary.coll, doc(2))
        committed = primary.store.last_optime
        insert(primary.store, primary.coll, doc(3))
        primary.progressed()
        primary.committed_up_to(committed)
        assert lost < committed
        assert await primary.majority() == [0, 2]

    run(scenario(), 10)


def snapshot_at(timestamp: int) -> ReadConcern:
    return ReadConcern(level=ReadLevel.SNAPSHOT, at_cluster_time=timestamp)


def test_a_state_beyond_the_commit_point_is_neither_read_nor_kept_when_it_is_rolled_back() -> None:
    async def scenario() -> None:
        primary = Primary()
        at = primary.write(1).timestamp
        asked = asyncio.ensure_future(primary.reading.open_snapshot(snapshot_at(at), None))
        await until(lambda: len(primary.reading._waiters) == 1)
        primary.replaced()
        with pytest.raises(CommandError) as refused:
            await asked
        assert refused.value.code == Code.InterruptedDueToReplStateChange
        assert not primary.reading.leases.has(at)

    run(scenario(), 10)


def test_a_primary_that_steps_down_lets_go_of_who_waits_for_its_entries() -> None:
    async def scenario() -> None:
        primary = Primary()
        at = primary.write(1).timestamp
        waiting: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(primary.reading.open_snapshot(snapshot_at(at), None)),
            asyncio.ensure_future(primary.reading.open(ReadConcern(level=ReadLevel.LINEARIZABLE), None)),
        ]
        await until(lambda: len(primary.reading._waiters) == 2)
        primary.writable = False
        primary.progressed()
        for asked in waiting:
            with pytest.raises(CommandError) as refused:
                await asked
            assert refused.value.code == Code.InterruptedDueToReplStateChange

    run(scenario(), 10)


def test_a_linearizable_read_does_not_return_what_a_later_term_has_rolled_back() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.write(1)
        asked = asyncio.ensure_future(primary.reading.open(ReadConcern(level=ReadLevel.LINEARIZABLE), None))
        await until(lambda: len(primary.reading._waiters) == 1)
        primary.replaced()
        with pytest.raises(CommandError) as refused:
            await asked
        assert refused.value.code == Code.InterruptedDueToReplStateChange

    run(scenario(), 10)


def test_no_later_primary_can_write_at_a_time_whose_state_is_leased() -> None:
    """A time between two entries is fixed only by a committed entry behind it."""

    async def scenario() -> None:
        primary = Primary()
        primary.committed_up_to(primary.write(1))
        oplog = primary.store.oplog
        assert oplog is not None
        at = oplog.last.timestamp + 500
        oplog.observe(at)
        asked = asyncio.ensure_future(primary.reading.open_snapshot(snapshot_at(at), None))
        await until(lambda: len(primary.reading._waiters) == 1)
        assert oplog.last.timestamp > at
        primary.committed_up_to(oplog.last)
        found, reader, release = await asked
        assert (found, primary.ids(reader)) == (at, [0, 1])
        release()

    run(scenario(), 10)


def test_a_cluster_time_that_nobody_has_given_out_is_refused() -> None:
    async def scenario() -> None:
        primary = Primary()
        oplog = primary.store.oplog
        assert oplog is not None
        future = oplog.cluster_time + 1
        with pytest.raises(CommandError, match=str(unpack_timestamp(future).time)) as refused:
            await primary.reading.open_snapshot(snapshot_at(future), None)
        assert refused.value.code == Code.InvalidOptions
        assert isinstance(unpack_timestamp(future), Timestamp)

    run(scenario(), 10)


def test_a_time_that_was_given_to_a_client_can_be_read_long_after_the_log_has_passed_it() -> None:
    """Nobody read at that time before, and no snapshot of it was kept."""

    async def scenario() -> None:
        primary = Primary()
        given = [primary.write(n).timestamp for n in range(1, 8)]
        update(primary.store, primary.coll, doc(3, changed=True))
        remove(primary.store, primary.coll, 1)
        for n in range(8, 600):
            primary.committed_up_to(primary.write(n))
            primary.store.discard_undo(primary.commit_point)
        for place, at in enumerate(given, 1):
            found, reader, release = await primary.reading.open_snapshot(snapshot_at(at), None)
            assert (found, read(primary.coll, reader)) == (at, [doc_of(n) for n in range(place + 1)])
            release()

    run(scenario(), 10)


def test_a_past_time_between_two_entries_shows_the_earlier_one() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.writable = False
        at = primary.write(1).timestamp + 500
        oplog = primary.store.oplog
        assert oplog is not None
        oplog.observe(at + 500)
        primary.committed_up_to(primary.write(2))
        found, reader, release = await primary.reading.open_snapshot(snapshot_at(at), None)
        assert (found, primary.ids(reader)) == (at, [0, 1])
        release()

    run(scenario(), 10)


def test_a_time_beyond_the_window_is_too_old() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.store.undo_history.window = 0
        at = primary.write(1).timestamp
        for n in range(2, 400):
            primary.committed_up_to(primary.write(n))
            primary.store.discard_undo(primary.commit_point)
        with pytest.raises(CommandError, match="is older than the oldest available timestamp") as refused:
            await primary.reading.open_snapshot(snapshot_at(at), None)
        assert refused.value.code == Code.SnapshotTooOld

    run(scenario(), 10)


def doc_of(number: int) -> dict[str, Any]:
    return {"_id": number}


def test_the_newest_state_is_read_at_once_where_it_is_the_one_that_is_asked_for() -> None:
    """Over random steps of a set: what is told of the newest state is what the general way would read."""

    told: list[int] = []

    async def scenario(seed: int) -> None:
        rng = random.Random(seed)
        primary = Primary()
        optimes = [primary.store.last_optime]
        for step in range(1, 40):
            act = rng.randrange(4)
            if act < 2:
                optimes.append(primary.write(step))
            elif act == 2:
                primary.committed_up_to(max(primary.commit_point, rng.choice(optimes)))
            else:
                insert(primary.store, primary.coll, doc(step))
                optimes.append(primary.store.last_optime)
            level = rng.choice(list(ReadLevel))
            after = rng.choice([None, rng.choice(optimes).timestamp])
            concern = ReadConcern(level=level, after_cluster_time=after)
            at = primary.reading.newest(concern)
            if at is None:
                assert primary.commit_point < optimes[-1] or level is ReadLevel.LINEARIZABLE, concern
                continue
            told.append(at)
            reader, release = await general(primary, concern)
            assert (at, primary.ids(reader)) == (optimes[-1].timestamp, primary.ids(primary.store.engine)), concern
            release()
        primary.reading.close()

    async def general(primary: Primary, concern: ReadConcern) -> tuple[Reader, Callable[[], None]]:
        if concern.level is not ReadLevel.SNAPSHOT:
            return await primary.reading.open(concern, deadline=None)
        at, *state = await primary.reading.open_snapshot(concern, deadline=None)
        assert at == primary.store.last_optime.timestamp
        return state[0], state[1]

    for seed in range(40):
        run(scenario(seed), 10)
    assert len(told) > 300


def test_a_state_that_was_read_at_once_is_there_for_who_asks_for_its_time_again() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.committed_up_to(primary.write(1))
        at = primary.reading.newest(ReadConcern(level=ReadLevel.SNAPSHOT))
        assert at == primary.store.last_optime.timestamp
        again = ReadConcern(level=ReadLevel.SNAPSHOT, at_cluster_time=at)
        assert primary.reading.newest(again) == at
        primary.committed_up_to(primary.write(2))
        assert primary.reading.newest(again) is None
        _, reader, release = await primary.reading.open_snapshot(again, deadline=None)
        assert primary.ids(reader) == [0, 1]
        release()
        assert primary.reading.newest(ReadConcern(after_cluster_time=at + (1 << 32))) is None
        primary.reading.close()

    run(scenario(), 10)


def test_a_new_primary_gives_no_newest_state_before_it_knows_what_is_committed() -> None:
    async def scenario() -> None:
        primary = Primary()
        primary.committed_up_to(primary.write(1))
        primary.elected()
        assert primary.reading.newest(MAJORITY) is None
        assert primary.reading.newest(ReadConcern(after_cluster_time=1)) is not None
        primary.committed_up_to(primary.write(2))
        assert primary.reading.newest(MAJORITY) == primary.store.last_optime.timestamp

    run(scenario(), 10)
