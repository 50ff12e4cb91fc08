from __future__ import annotations

import bson
import pytest
from bson.binary import Binary
from bson.raw_bson import RawBSONDocument

from docstore.sharding.donor import (
    FEW_CHANGES,
    RETRY_SECONDS,
    STEADY_CHANGES,
    Answer,
    AskConfig,
    AskRecipient,
    BlockReads,
    BlockWrites,
    ChangesSent,
    CloneSent,
    CommitOnConfig,
    CommitOutcome,
    CommitRecipient,
    ConfigAnswered,
    Donor,
    Event,
    Failed,
    Forget,
    Forgotten,
    Limits,
    PersistBlock,
    PersistDecision,
    Persisted,
    PersistStart,
    RaiseRoutingFloor,
    RecipientCommitted,
    RecipientPrepares,
    RecipientResolved,
    ResolveRecipient,
    SendChanges,
    SendClone,
    StartCapture,
    StartRecipient,
    State,
    StopCapture,
    Unblock,
)
from docstore.sharding.key import KeyRange
from docstore.sharding.migration import (
    Coordinator,
    Decision,
    Migration,
    RangeDeletion,
    migration_fields,
    migration_from,
)
from docstore.sharding.recipient_state import State as Receiving
from docstore.sharding.version import Lastmod
from tests.unit.sharding.maps import EPOCH, KEY, at

MIGRATION = Migration(
    id=Binary(bytes(16), 4),
    namespace="test.test",
    uuid=Binary(bytes(range(16)), 4),
    epoch=EPOCH,
    key=KEY,
    range=KeyRange(at("1"), at("999")),
    lastmod=Lastmod(1, 3),
    donor="shard1",
    recipient="shard2",
)
READY = RecipientPrepares(Receiving.RECEIVING)
SMOOTH = [
    (Persisted(), [StartRecipient()]),
    (READY, [StartCapture(), SendClone()]),
    (CloneSent(exhausted=False), [SendClone()]),
    (CloneSent(exhausted=True), [SendChanges(majority=True)]),
    (ChangesSent(STEADY_CHANGES + 1), [SendChanges(majority=True)]),
    (ChangesSent(3), [BlockWrites(), SendChanges(majority=False)]),
    (ChangesSent(0), [CommitRecipient()]),
    (RecipientCommitted(), [BlockReads(), PersistBlock()]),
    (Persisted(), [CommitOnConfig()]),
    (ConfigAnswered(CommitOutcome.DONE), [StopCapture(), Unblock(), PersistDecision(Decision.COMMITTED)]),
    (Persisted(), [Answer(Decision.COMMITTED, ""), ResolveRecipient(Decision.COMMITTED)]),
    (RecipientResolved(heard=True), [Forget(Decision.COMMITTED)]),
    (Forgotten(), []),
]


def test_records_and_messages_come_back_as_they_were() -> None:
    coordinator = Coordinator(MIGRATION, Decision.ABORTED)
    deletion = RangeDeletion.of(MIGRATION, pending=True, delayed=True, seconds=7)
    blocking = Coordinator(MIGRATION, blocks_reads=True)
    assert Coordinator.from_raw(bson.encode(coordinator.document())) == coordinator
    assert Coordinator.from_raw(bson.encode(blocking.document())) == blocking
    assert RangeDeletion.from_raw(bson.encode(deletion.document())) == deletion
    assert migration_from(bson.encode(migration_fields(MIGRATION))) == MIGRATION
    assert isinstance(migration_fields(MIGRATION)["min"], RawBSONDocument)


def test_a_migration_goes_through_its_phases_in_order() -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.start() == [PersistStart()]
    for event, effects in SMOOTH:
        assert donor.receive(event, 1.0) == effects
    assert donor.state is State.DONE
    assert donor.decision is Decision.COMMITTED


@pytest.mark.parametrize("step", range(9))
def test_a_failure_before_the_commit_aborts(step: int) -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:step]:
        donor.receive(event, 1.0)
    assert donor.receive(Failed("gone"), 1.0) == [StopCapture(), Unblock(), PersistDecision(Decision.ABORTED)]
    assert donor.decision is Decision.ABORTED
    assert donor.receive(Persisted(), 1.0) == [Answer(Decision.ABORTED, "gone"), ResolveRecipient(Decision.ABORTED)]


@pytest.mark.parametrize("state", [Receiving.CLEARING, Receiving.PERSISTING, Receiving.SWEEPING])
def test_a_recipient_is_asked_until_it_takes_documents_within_the_limit(state: Receiving) -> None:
    donor = Donor(MIGRATION, now=0.0, limits=Limits(prepare_seconds=10.0))
    donor.start()
    donor.receive(Persisted(), 0.0)
    for now in (0.0, 5.0, 10.0):
        assert donor.receive(RecipientPrepares(state), now) == [AskRecipient()]
    assert PersistDecision(Decision.ABORTED) in donor.receive(RecipientPrepares(state), 10.1)
    assert "in time" in donor.reason


@pytest.mark.parametrize("state", [Receiving.ENDED, Receiving.SECURING, Receiving.SECURED])
def test_a_recipient_that_will_not_take_documents_ends_the_migration(state: Receiving) -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    donor.receive(Persisted(), 0.0)
    assert PersistDecision(Decision.ABORTED) in donor.receive(RecipientPrepares(state, "owned already"), 0.0)
    assert donor.reason == "the recipient is not ready: owned already"


def test_an_unknown_commit_is_asked_again_and_keeps_operations_waiting() -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:9]:
        donor.receive(event, 1.0)
    for _ in range(3):
        assert donor.receive(ConfigAnswered(CommitOutcome.UNKNOWN), 1e9) == [CommitOnConfig(after=RETRY_SECONDS)]
    assert not donor.undecided
    assert Unblock() in donor.receive(ConfigAnswered(CommitOutcome.NOT_DONE), 1e9)
    assert donor.decision is Decision.ABORTED


def test_writes_do_not_wait_longer_than_the_limit_for_the_last_changes() -> None:
    donor = Donor(MIGRATION, now=0.0, limits=Limits(seconds=100, critical_seconds=5))
    donor.start()
    for event, _ in SMOOTH[:6]:
        donor.receive(event, 50.0)
    assert Unblock() in donor.receive(ChangesSent(1), 56.0)
    assert donor.decision is Decision.ABORTED


def test_changes_are_sent_in_rounds_while_a_round_leaves_half_of_what_the_one_before_left() -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:4]:
        donor.receive(event, 1.0)
    for left in (3 * STEADY_CHANGES, STEADY_CHANGES + 1, STEADY_CHANGES // 2, STEADY_CHANGES // 4):
        assert donor.receive(ChangesSent(left), 1.0) == [SendChanges(majority=True)]
    assert donor.receive(ChangesSent(STEADY_CHANGES // 8 + 1), 1.0) == [BlockWrites(), SendChanges(majority=False)]


def test_few_changes_are_not_worth_another_round() -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:4]:
        donor.receive(event, 1.0)
    assert donor.receive(ChangesSent(FEW_CHANGES + 1), 1.0) == [SendChanges(majority=True)]
    assert donor.receive(ChangesSent(FEW_CHANGES), 1.0) == [BlockWrites(), SendChanges(majority=False)]


def test_a_migration_that_never_catches_up_is_given_up() -> None:
    donor = Donor(MIGRATION, now=0.0, limits=Limits(seconds=100))
    donor.start()
    for event, _ in SMOOTH[:4]:
        donor.receive(event, 50.0)
    assert PersistDecision(Decision.ABORTED) in donor.receive(ChangesSent(STEADY_CHANGES + 1), 101.0)


def test_a_new_primary_without_a_decision_blocks_and_asks_until_it_knows() -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.resume(None) == [BlockWrites(), BlockReads(), AskConfig()]
    assert donor.receive(ConfigAnswered(CommitOutcome.UNKNOWN), 1.0) == [AskConfig(after=RETRY_SECONDS)]
    assert donor.receive(ConfigAnswered(CommitOutcome.DONE), 1.0)[1] == Unblock()
    assert donor.decision is Decision.COMMITTED


@pytest.mark.parametrize("decision", list(Decision))
def test_a_new_primary_with_a_decision_only_tells_it(decision: Decision) -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.resume(decision) == [ResolveRecipient(decision)]
    assert donor.receive(RecipientResolved(heard=False), 1.0) == [ResolveRecipient(decision, after=RETRY_SECONDS)]
    assert donor.receive(RecipientResolved(heard=True), 1.0) == [Forget(decision)]


def donor_in(state: State) -> Donor:
    """A donor that has come to a state without trouble."""
    donor = Donor(MIGRATION, now=0.0)
    if state is State.RECOVERING:
        donor.resume(None)
        return donor
    donor.start()
    for event, _ in SMOOTH:
        if donor.state is state:
            break
        donor.receive(event, 1.0)
    assert donor.state is state
    return donor


AWAITED: dict[State, set[type[Event]]] = {
    State.STARTING: {Persisted, Failed},
    State.PREPARING: {RecipientPrepares, Failed},
    State.CLONING: {CloneSent, Failed},
    State.CATCHING_UP: {ChangesSent, Failed},
    State.CRITICAL: {ChangesSent, Failed},
    State.HANDING_OVER: {RecipientCommitted, Failed},
    State.ANNOUNCING: {Persisted, Failed},
    State.COMMITTING: {ConfigAnswered},
    State.RECOVERING: {ConfigAnswered},
    State.DECIDING: {Persisted},
    State.RESOLVING: {RecipientResolved},
    State.FORGETTING: {Forgotten},
    State.DONE: set(),
}
EVENTS: list[Event] = [
    Persisted(), READY, CloneSent(exhausted=True), ChangesSent(0), RecipientCommitted(),
    ConfigAnswered(CommitOutcome.DONE), RecipientResolved(heard=True), Forgotten(), Failed("gone"),
]  # fmt: skip


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_a_donor_takes_the_events_that_its_state_waits_for_and_no_other(state: State, event: Event) -> None:
    donor = donor_in(state)
    if type(event) in AWAITED[state]:
        donor.receive(event, 1.0)
        assert donor.state is not state
    else:
        with pytest.raises(AssertionError):
            donor.receive(event, 1.0)
        assert donor.state is state


@pytest.mark.parametrize("state", [State.COMMITTING, State.RECOVERING])
@pytest.mark.parametrize("outcome", [CommitOutcome.DONE, CommitOutcome.NOT_DONE])
def test_the_routing_floor_is_raised_before_operations_go_on(state: State, outcome: CommitOutcome) -> None:
    donor = donor_in(state)
    decision = Decision.COMMITTED if outcome is CommitOutcome.DONE else Decision.ABORTED
    assert donor.receive(ConfigAnswered(outcome, Lastmod(2, 1)), 1.0) == [
        StopCapture(),
        RaiseRoutingFloor(Lastmod(2, 1)),
        Unblock(),
        PersistDecision(decision),
    ]
