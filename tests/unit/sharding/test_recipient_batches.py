"""What a recipient does with the batches of the donor: each is stored once, in order, before anything is committed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision
from docstore.sharding.recipient_messages import (
    AwaitMajority,
    Done,
    Effect,
    InsertDocuments,
    MajorityFailed,
    MergeRows,
    RememberStatements,
    ReplaceDocuments,
    Reply,
    StopWork,
    TakeStatements,
)
from docstore.sharding.recipient_state import State
from tests.unit.sharding.received import ID, ROWS, Played, at, is_refused, reply
from tests.unit.sharding.test_migration import MIGRATION

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
    assert played.batch(2, removed_ids=gone) == [ReplaceDocuments(MIGRATION, [b"doc"], gone)]
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
