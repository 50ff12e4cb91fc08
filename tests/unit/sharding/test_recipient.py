"""The recipient's core alone: what it does about every event in every state, again, late, and after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision, RangeDeletion
from docstore.sharding.recipient import DECIDED_REMEMBERED, NEVER, SILENCE_SECONDS
from docstore.sharding.recipient_messages import (
    AwaitDeletions,
    BuildIndexes,
    CheckCollection,
    Definition,
    Done,
    Effect,
    Failed,
    ForgetRouting,
    HoldColumnFamily,
    InsertDocuments,
    Interrupted,
    LogDecision,
    Logged,
    MajorityFailed,
    MajorityReached,
    MakeCollection,
    PersistDeletion,
    PersistResolution,
    ReadRouting,
    Reply,
    Resolve,
    RoutingRead,
    StopWork,
    SweepRange,
    WakeDeleter,
)
from docstore.sharding.recipient_state import State
from tests.unit.sharding.received import (
    DOCUMENTS,
    NOT_PRIMARY,
    OTHER,
    PENDING,
    READY,
    ROWS,
    Played,
    at,
    is_refused,
    reply,
    started,
)
from tests.unit.sharding.test_migration import MIGRATION


def test_a_migration_is_prepared_step_by_step_and_the_deletion_is_durable_before_anything_is_deleted() -> None:
    played = Played()
    work = [played.start(), *(played.done() for _ in range(6))]
    assert [[type(effect) for effect in effects] for effects in work] == [
        [AwaitDeletions, Reply],
        [ReadRouting],
        [MakeCollection],
        [BuildIndexes],
        [PersistDeletion],
        [SweepRange],
        [],
    ]
    assert work[4] == [PersistDeletion(PENDING)]
    assert played.state is State.RECEIVING


@pytest.mark.parametrize(
    ("primary", "definition", "expected"),
    [
        ("shard1", DOCUMENTS, MakeCollection(MIGRATION, DOCUMENTS)),
        ("shard2", DOCUMENTS, MakeCollection(MIGRATION, DOCUMENTS)),
        ("shard1", ROWS, HoldColumnFamily(MIGRATION, ROWS)),
        ("shard2", ROWS, CheckCollection(MIGRATION)),
    ],
)
def test_where_the_definition_comes_from(primary: str, definition: Definition, expected: Effect) -> None:
    played = Played()
    played.start(definition=definition)
    (asked,) = played.done()
    assert isinstance(asked, ReadRouting)
    assert played.tell(RoutingRead(asked, MIGRATION.epoch, primary, False)) == [expected]
    assert played.done() == [BuildIndexes(MIGRATION, definition)]


@pytest.mark.parametrize("epoch", [None, ObjectId()])
def test_a_routing_of_another_epoch_is_read_anew_once(epoch: ObjectId | None) -> None:
    played = started()
    (first,) = played.done()
    assert isinstance(first, ReadRouting)
    assert not first.anew
    (second,) = played.tell(RoutingRead(first, epoch, "shard1", False))
    assert second == ReadRouting(MIGRATION, anew=True)
    assert played.tell(RoutingRead(second, epoch, "shard1", False)) == [StopWork()]
    assert played.state is State.ENDED
    assert is_refused(played.batch(1), "not sharded under the donor's epoch")


def test_a_range_that_is_owned_here_is_refused() -> None:
    played = started()
    (asked,) = played.done()
    assert isinstance(asked, ReadRouting)
    played.tell(RoutingRead(asked, MIGRATION.epoch, "shard1", True))
    assert is_refused(played.batch(1), "owned here already")


@pytest.mark.parametrize("steps", range(6))
def test_a_failure_of_any_step_of_the_preparation_ends_the_migration(steps: int) -> None:
    played = started()
    for _ in range(steps):
        played.done()
    assert played.fail() == [StopWork()]
    assert played.state is State.ENDED
    assert reply(played.status()).reason == "not primary"
    assert played.core.running is None


def test_a_failure_without_a_word_ends_the_migration_too() -> None:
    played = at(State.RECEIVING)
    played.batch(1)
    played.fail(CommandError(Code.OperationFailed, ""))
    assert played.state is State.ENDED


# Beginning


def test_the_same_request_to_start_is_the_same_migration_in_every_state() -> None:
    for state in State:
        played = at(state)
        (answered,) = played.start()
        assert isinstance(answered, Reply)
        assert answered.result.state is state


def test_another_migration_waits_for_the_end_of_the_first() -> None:
    for state in State:
        played = at(state)
        effects = played.start(OTHER)
        if state is State.ENDED:
            assert [type(effect) for effect in effects] == [AwaitDeletions, Reply]
            assert played.core.running == OTHER
        else:
            assert reply(effects).code == Code.ConflictingOperationInProgress
            assert played.core.running == MIGRATION


def test_a_migration_is_refused_for_what_else_the_shard_does_or_is() -> None:
    conflict = CommandError(Code.ConflictingOperationInProgress, "it gives a chunk away")
    played = Played()
    assert reply(played.start(conflict=conflict)) is conflict
    elsewhere = reply(played.start(replace(MIGRATION, recipient="shard3")))
    assert elsewhere.code == Code.ConflictingOperationInProgress
    assert played.state is None


def test_a_decided_migration_does_not_begin_again() -> None:
    played = at(State.RECEIVING)
    played.resolve(Decision.ABORTED)
    assert is_refused(played.start(), "decided")
    for number in range(1, DECIDED_REMEMBERED + 1):
        other = number.to_bytes(16, "big")
        played.tell(Resolve(token=played.next(), id=other, namespace="a.b", decision=Decision.ABORTED, deletion=None))
    assert played.core.running is None
    played.start()
    assert played.core.running == MIGRATION


# Silence and status


@pytest.mark.parametrize("state", State)
def test_a_silent_donor_is_given_up_in_every_state(state: State) -> None:
    played = at(state)
    played.now = SILENCE_SECONDS - 0.1
    assert played.core.tick(played.now) == []
    assert played.core.next_wakeup() == (NEVER if state is State.ENDED else SILENCE_SECONDS)
    effects = played.core.tick(SILENCE_SECONDS)
    assert effects[:1] == ([] if state is State.ENDED else [StopWork()])
    assert all(is_refused([effect], "silent") for effect in effects[1:])
    assert played.core.running is None
    assert played.core.next_wakeup() == NEVER


def test_what_the_donor_asks_and_what_gets_done_break_the_silence() -> None:
    played = at(State.RECEIVING)
    played.now = SILENCE_SECONDS - 1
    played.batch(1)
    played.now += SILENCE_SECONDS - 1
    played.done()
    played.now += SILENCE_SECONDS - 1
    assert played.state is State.RECEIVING
    played.now += SILENCE_SECONDS
    assert is_refused(played.batch(2), "silent")


def test_a_status_waits_for_the_end_of_the_preparation() -> None:
    played = at(State.SWEEPING)
    assert played.status(5.0) == []
    assert played.core.next_wakeup() == 5.0
    assert reply(played.done()).state is State.RECEIVING
    assert reply(played.status(5.0)).state is State.RECEIVING


def test_a_status_waits_no_longer_than_asked_and_hears_of_a_failure() -> None:
    played = at(State.SWEEPING)
    played.status(5.0)
    assert played.core.tick(4.9) == []
    assert reply(played.core.tick(5.0)).state is State.SWEEPING
    played.status(5.0)
    assert reply(played.fail()).state is State.ENDED


# The decision


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("decision", Decision)
def test_a_decision_ends_the_migration_in_every_state_and_is_durable_before_the_donor_hears(
    state: State, decision: Decision
) -> None:
    played = at(state)
    effects = played.resolve(decision)
    change = MIGRATION.id if decision is Decision.COMMITTED else READY
    stop = [] if state is State.ENDED else [StopWork()]
    waiting = [effect for effect in effects if isinstance(effect, Reply) and effect.token != played.token]
    assert effects == [*stop, *waiting, PersistResolution(played.token, change)]
    forget = [ForgetRouting("test.test")] if decision is Decision.COMMITTED else []
    assert played.majority() == [*forget, WakeDeleter(), LogDecision(played.token, MIGRATION, decision)]
    assert played.tell(Logged(played.token)) == [Reply(played.token)]
    assert played.state is None
    assert is_refused(played.batch(1), "no such migration")


def test_whoever_waits_hears_of_the_decision() -> None:
    played = at(State.RECEIVING)
    played.batch(1, majority=True)
    played.done()
    played.batch(2)
    refused = [effect for effect in played.resolve(Decision.ABORTED) if isinstance(effect, Reply)]
    assert [effect.token for effect in refused] == [played.token - 1, played.token - 2]
    assert all(is_refused([effect], "aborted") for effect in refused)
    assert played.majority(played.token - 2) == [], "late"


@pytest.mark.parametrize("decision", Decision)
@pytest.mark.parametrize("deletion", [None, PENDING, READY])
def test_a_new_primary_makes_a_decision_true_from_the_document_alone(
    deletion: RangeDeletion | None, decision: Decision
) -> None:
    played = Played()
    wanted = None if deletion is None else READY if decision is Decision.ABORTED else MIGRATION.id
    for _ in range(2):
        assert played.resolve(decision, deletion) == [PersistResolution(played.token, wanted)]
        forget = [ForgetRouting("test.test")] if decision is Decision.COMMITTED else []
        assert played.majority() == [*forget, WakeDeleter(), Reply(played.token)]


def test_a_decision_without_a_majority_is_told_again() -> None:
    played = at(State.SECURED)
    played.resolve(Decision.COMMITTED)
    error = CommandError(Code.WriteConcernFailed, "too slow")
    assert played.tell(MajorityFailed(played.token, error)) == [Reply(played.token, error)]
    assert played.resolve(Decision.COMMITTED, None) == [PersistResolution(played.token, None)]
    assert reply(played.majority()) is None


def test_a_decision_about_another_migration_leaves_this_one_alone() -> None:
    played = at(State.RECEIVING)
    played.tell(
        Resolve(token=played.next(), id=bytes(OTHER.id), namespace="a.b", decision=Decision.ABORTED, deletion=None)
    )
    assert played.state is State.RECEIVING


# Restarts and late messages


@pytest.mark.parametrize("state", State)
def test_a_new_term_ends_what_runs_and_answers_who_waits(state: State) -> None:
    played = at(state)
    played.resolve(Decision.ABORTED) if state is State.SECURED else None
    interrupted = played.tell(Interrupted("the primary changed"))
    assert all(isinstance(effect, StopWork | Reply) for effect in interrupted)
    if state is State.SECURED:
        assert reply(interrupted).code == Code.InterruptedDueToReplStateChange
        assert played.majority() == [], "late"
    assert played.state is None
    assert is_refused(played.commit(1), "no such migration")


def test_a_restarted_recipient_refuses_what_it_does_not_know() -> None:
    played = Played()
    for effects in (played.batch(1), played.commit(0), played.status()):
        assert is_refused(effects, "no such migration runs here")


@pytest.mark.parametrize("state", State)
def test_the_end_of_work_that_was_stopped_is_ignored(state: State) -> None:
    played = at(state)
    late = [Done(SweepRange(MIGRATION)), Failed(InsertDocuments(OTHER, []), NOT_PRIMARY), MajorityReached(99)]
    for event in [*late, Logged(99), MajorityFailed(99, NOT_PRIMARY)]:
        assert played.tell(event) == []
    assert played.state is state
