"""The recipient's core alone: what it does about every event in every state, again, late, and after a restart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from bson.binary import Binary
from bson.objectid import ObjectId

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision, RangeDeletion
from docstore.sharding.recipient import DECIDED_REMEMBERED, NEVER, SILENCE_SECONDS, Recipient, State, Status
from docstore.sharding.recipient_messages import (
    AwaitDeletions,
    AwaitMajority,
    BuildIndexes,
    CheckCollection,
    Commit,
    Definition,
    Done,
    Effect,
    Event,
    Failed,
    ForgetRouting,
    GetStatus,
    HoldColumnFamily,
    InsertDocuments,
    Interrupted,
    LogDecision,
    Logged,
    MajorityFailed,
    MajorityReached,
    MakeCollection,
    MergeRows,
    PersistDeletion,
    PersistResolution,
    ReadRouting,
    RememberStatements,
    ReplaceDocuments,
    Reply,
    Resolve,
    RoutingRead,
    Start,
    StopWork,
    SweepRange,
    TakeDocuments,
    TakeStatements,
    WakeDeleter,
    Work,
)
from tests.unit.sharding.test_migration import MIGRATION

ID = bytes(MIGRATION.id)
OTHER = replace(MIGRATION, id=Binary(b"o" * 16, 4))
DOCUMENTS = Definition(b"options", (b"index",))
ROWS = Definition(b"options", (), b"keyspace")
PENDING = RangeDeletion.of(MIGRATION, pending=True, delayed=False)
READY = replace(PENDING, pending=False)
NOT_PRIMARY = CommandError(Code.NotWritablePrimary, "not primary")


class Played:
    """A core that is told events at `now`; `refused` says how the request with a token was answered."""

    def __init__(self) -> None:
        self.core = Recipient()
        self.now = 0.0
        self.work: Work | None = None
        self.token = 0

    def tell(self, event: Event) -> list[Effect]:
        effects = self.core.receive(event, self.now)
        self.core.check()
        for effect in effects:
            if not isinstance(effect, Reply | StopWork | ForgetRouting | WakeDeleter | AwaitMajority | LogDecision):
                self.work = None if isinstance(effect, PersistResolution) else effect
        return effects

    def start(self, migration: Any = MIGRATION, definition: Definition = DOCUMENTS, **fields: Any) -> list[Effect]:
        return self.tell(Start(token=self.next(), migration=migration, definition=definition, shard="shard2", **fields))

    def next(self) -> int:
        self.token += 1
        return self.token

    def done(self) -> list[Effect]:
        """The work under way succeeds."""
        assert self.work is not None
        if isinstance(self.work, ReadRouting):
            return self.tell(RoutingRead(self.work, MIGRATION.epoch, "shard1", False))
        return self.tell(Done(self.work))

    def fail(self, error: CommandError = NOT_PRIMARY) -> list[Effect]:
        assert self.work is not None
        return self.tell(Failed(self.work, error))

    def batch(self, number: int, **fields: Any) -> list[Effect]:
        return self.tell(TakeDocuments(token=self.next(), id=ID, number=number, documents=[b"doc"], **fields))

    def store(self, number: int) -> None:
        self.batch(number)
        self.done()

    def commit(self, last: int) -> list[Effect]:
        return self.tell(Commit(token=self.next(), id=ID, last=last))

    def resolve(self, decision: Decision, deletion: RangeDeletion | None = PENDING) -> list[Effect]:
        return self.tell(Resolve(token=self.next(), id=ID, namespace="test.test", decision=decision, deletion=deletion))

    def majority(self, token: int | None = None) -> list[Effect]:
        return self.tell(MajorityReached(self.token if token is None else token))

    def status(self, seconds: float = 0.0) -> list[Effect]:
        return self.tell(GetStatus(token=self.next(), id=ID, seconds=seconds))

    @property
    def state(self) -> State | None:
        """None where no migration is known."""
        result = reply(self.status())
        return result.state if isinstance(result, Status) else None


def reply(effects: list[Effect]) -> Any:
    """The result of the one reply."""
    (found,) = [effect for effect in effects if isinstance(effect, Reply)]
    return found.result


def is_refused(effects: list[Effect], match: str = "") -> bool:
    result = reply(effects)
    return isinstance(result, CommandError) and result.code == Code.OperationFailed and match in result.message


def started() -> Played:
    played = Played()
    played.start()
    return played


def at(state: State, definition: Definition = DOCUMENTS) -> Played:
    """In a state; what is not prepared has its last piece of work of that state under way."""
    played = Played()
    played.start(definition=definition)
    steps = {State.CLEARING: 1, State.PERSISTING: 4, State.SWEEPING: 5}.get(state, 6)
    for _ in range(steps):
        played.done()
    if state in (State.SECURING, State.SECURED):
        played.store(1)
        played.commit(1)
    if state is State.SECURED:
        played.majority()
    if state is State.ENDED:
        played.batch(7)
    assert played.state is state
    return played


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


# Batches


def test_each_batch_is_stored_once_and_in_order() -> None:
    played = at(State.RECEIVING)
    stored = 0
    for number in (1, 2, 2, 3, 1):
        (effect,) = played.batch(number)
        if isinstance(effect, ReplaceDocuments):
            stored += 1
            assert reply(played.done()) is None
        else:
            assert effect == Reply(played.token)
    assert stored == 3
    played.commit(3)
    assert played.majority() == [Reply(played.token)]
    assert played.commit(3) == [Reply(played.token)]


@pytest.mark.parametrize("ask", [lambda played: played.batch(2), lambda played: played.commit(1)])
def test_a_recipient_fails_when_a_batch_is_missing(ask: Callable[[Played], list[Effect]]) -> None:
    played = at(State.RECEIVING)
    effects = ask(played)
    assert effects[0] == StopWork()
    assert is_refused(effects)
    assert played.state is State.ENDED


def test_batches_that_come_while_one_is_stored_wait_for_it_and_a_repeated_one_is_answered_with_it() -> None:
    played = at(State.RECEIVING)
    (first,) = played.batch(1)
    assert played.batch(2) == []
    assert played.batch(1) == []
    tokens = [played.token - 2, played.token]
    replies = played.done()
    assert replies[:2] == [Reply(token) for token in tokens]
    assert isinstance(replies[2], ReplaceDocuments)
    assert played.tell(Done(first)) == [], "the same end again"  # type: ignore[arg-type]
    assert played.done() == [Reply(played.token - 1)]


def test_a_batch_that_cannot_be_stored_ends_the_migration_with_its_own_error() -> None:
    played = at(State.RECEIVING)
    played.batch(1)
    played.batch(2)
    error = CommandError(Code.DuplicateKey, "taken")
    own, stop, refused = played.fail(error)
    assert (own, stop) == (Reply(played.token - 1, error), StopWork())
    assert is_refused([refused], "taken")


def test_what_a_batch_is_decides_how_it_is_stored() -> None:
    played = at(State.RECEIVING)
    assert played.batch(1, clone=True)[0] == InsertDocuments(MIGRATION, [b"doc"])
    played.done()
    gone = [(16, b"\0\0\0\0")]
    assert played.batch(2, gone=gone) == [ReplaceDocuments(MIGRATION, [b"doc"], gone)]
    played.done()
    statements = TakeStatements(token=played.next(), id=ID, number=3, statements=[b"s"])
    assert played.tell(statements) == [RememberStatements(MIGRATION, [b"s"])]
    assert at(State.RECEIVING, ROWS).batch(1, clone=True)[0] == MergeRows(MIGRATION, [b"doc"])


def test_a_batch_of_the_clone_is_acknowledged_when_its_storing_begins() -> None:
    played = at(State.RECEIVING)
    assert played.batch(1, clone=True)[1:] == [Reply(played.token)]
    assert played.batch(2, clone=True) == []
    assert played.batch(3) == []
    second, third = played.token - 1, played.token
    stored, answered = played.done()
    assert isinstance(stored, InsertDocuments)
    assert answered == Reply(second)
    (stored,) = played.done()
    assert isinstance(stored, ReplaceDocuments), "it is answered when it is stored, and all before it"
    assert played.done() == [Reply(third)]


def test_a_batch_of_the_clone_that_cannot_be_stored_refuses_what_comes_after_it() -> None:
    played = at(State.RECEIVING)
    played.batch(1, clone=True)
    played.batch(2, clone=True)
    stop, refused = played.fail(CommandError(Code.DuplicateKey, "taken"))
    assert stop == StopWork()
    assert isinstance(refused, Reply)
    assert refused.token == played.token
    assert is_refused([refused], "taken")
    assert is_refused(played.batch(3), "taken")


def test_a_batch_of_the_clone_is_not_answered_again_when_the_migration_ends() -> None:
    played = at(State.RECEIVING)
    played.batch(1, clone=True)
    assert played.resolve(Decision.ABORTED)[:-1] == [StopWork()]


def test_a_batch_of_the_clone_that_waits_for_a_majority_is_acknowledged_by_that() -> None:
    played = at(State.RECEIVING)
    (stored,) = played.batch(1, clone=True, majority=True)
    assert isinstance(stored, InsertDocuments)
    assert played.done() == [AwaitMajority(played.token)]


def test_a_batch_may_wait_for_a_majority_and_others_are_stored_meanwhile() -> None:
    played = at(State.RECEIVING)
    played.batch(1, majority=True)
    waiting = played.token
    assert played.done() == [AwaitMajority(waiting)]
    played.store(2)
    assert played.majority(waiting) == [Reply(waiting)]
    assert played.majority(waiting) == [], "late"
    played.batch(2, majority=True)
    error = CommandError(Code.WriteConcernFailed, "too slow")
    assert played.tell(MajorityFailed(played.token, error)) == [Reply(played.token, error)]
    assert played.state is State.RECEIVING


def test_nothing_is_committed_before_it_is_stored() -> None:
    played = at(State.RECEIVING)
    played.batch(1)
    stop, *refusals = played.commit(1)
    assert stop == StopWork()
    assert [type(effect) for effect in refusals] == [Reply, Reply]
    assert played.state is State.ENDED


@pytest.mark.parametrize("state", State)
def test_documents_are_taken_in_one_state_only(state: State) -> None:
    played = at(state)
    if state is State.RECEIVING:
        assert isinstance(played.batch(1)[0], ReplaceDocuments)
    else:
        assert is_refused(played.batch(2), state.name.lower())
        assert played.state is state


# Securing


@pytest.mark.parametrize("state", State)
def test_what_is_answered_to_a_commit(state: State) -> None:
    played = at(state)
    last = 0 if state is State.RECEIVING else 1
    effects = played.commit(last)
    if state is State.SECURED:
        assert effects == [Reply(played.token)]
    elif state in (State.RECEIVING, State.SECURING):
        assert effects == [AwaitMajority(played.token)]
    else:
        assert is_refused(effects, state.name.lower())


def test_a_commit_that_found_no_majority_may_be_asked_for_again() -> None:
    played = at(State.SECURING)
    played.commit(1)
    error = CommandError(Code.WriteConcernFailed, "too slow")
    assert played.tell(MajorityFailed(played.token, error)) == [Reply(played.token, error)]
    assert played.state is State.SECURING
    played.commit(1)
    assert played.majority() == [Reply(played.token)]
    assert played.state is State.SECURED


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
