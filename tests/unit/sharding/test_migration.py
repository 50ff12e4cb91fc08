from __future__ import annotations

import bson
import pytest
from bson.binary import Binary
from bson.raw_bson import RawBSONDocument

from docstore.sharding.donor import (
    STEADY_CHANGES,
    ChangesSent,
    CloneSent,
    CommitOutcome,
    ConfigAnswered,
    Donor,
    Effect,
    Failed,
    Forgotten,
    Limits,
    Persisted,
    RecipientCommitted,
    RecipientReady,
    RecipientResolved,
)
from docstore.sharding.donor import State as DonorState
from docstore.sharding.key import KeyRange
from docstore.sharding.migration import (
    Coordinator,
    Decision,
    Migration,
    RangeDeletion,
    migration_fields,
    migration_from,
)
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
SMOOTH = [
    (Persisted(), [Effect.PREPARE_RECIPIENT]),
    (RecipientReady(), [Effect.START_CAPTURE, Effect.SEND_CLONE]),
    (CloneSent(exhausted=False), [Effect.SEND_CLONE]),
    (CloneSent(exhausted=True), [Effect.SEND_CHANGES]),
    (ChangesSent(STEADY_CHANGES + 1), [Effect.SEND_CHANGES]),
    (ChangesSent(3), [Effect.BLOCK_WRITES, Effect.SEND_CHANGES]),
    (ChangesSent(0), [Effect.COMMIT_RECIPIENT]),
    (RecipientCommitted(), [Effect.BLOCK_READS, Effect.COMMIT_ON_CONFIG]),
    (ConfigAnswered(CommitOutcome.DONE), [Effect.STOP_CAPTURE, Effect.UNBLOCK, Effect.PERSIST_DECISION]),
    (Persisted(), [Effect.ANSWER, Effect.RESOLVE_RECIPIENT]),
    (RecipientResolved(heard=True), [Effect.FORGET]),
    (Forgotten(), []),
]


def test_records_and_messages_come_back_as_they_were() -> None:
    coordinator = Coordinator(MIGRATION, Decision.ABORTED)
    deletion = RangeDeletion.of(MIGRATION, pending=True, delayed=True, seconds=7)
    assert Coordinator.from_raw(bson.encode(coordinator.document())) == coordinator
    assert RangeDeletion.from_raw(bson.encode(deletion.document())) == deletion
    assert migration_from(bson.encode(migration_fields(MIGRATION))) == MIGRATION
    assert isinstance(migration_fields(MIGRATION)["min"], RawBSONDocument)


def test_a_migration_goes_through_its_phases_in_order() -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.start() == [Effect.PERSIST_START]
    for event, effects in SMOOTH:
        assert donor.receive(event, 1.0) == effects
    assert donor.state is DonorState.DONE
    assert donor.decision is Decision.COMMITTED


@pytest.mark.parametrize("step", range(8))
def test_a_failure_before_the_commit_aborts(step: int) -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:step]:
        donor.receive(event, 1.0)
    assert donor.receive(Failed("gone"), 1.0) == [Effect.STOP_CAPTURE, Effect.UNBLOCK, Effect.PERSIST_DECISION]
    assert donor.decision is Decision.ABORTED
    assert donor.receive(Persisted(), 1.0) == [Effect.ANSWER, Effect.RESOLVE_RECIPIENT]


def test_an_unknown_commit_is_asked_again_and_keeps_operations_waiting() -> None:
    donor = Donor(MIGRATION, now=0.0)
    donor.start()
    for event, _ in SMOOTH[:8]:
        donor.receive(event, 1.0)
    for _ in range(3):
        assert donor.receive(ConfigAnswered(CommitOutcome.UNKNOWN), 1e9) == [Effect.COMMIT_ON_CONFIG_LATER]
    assert not donor.undecided
    assert Effect.UNBLOCK in donor.receive(ConfigAnswered(CommitOutcome.NOT_DONE), 1e9)
    assert donor.decision is Decision.ABORTED


def test_writes_do_not_wait_longer_than_the_limit_for_the_last_changes() -> None:
    donor = Donor(MIGRATION, now=0.0, limits=Limits(seconds=100, critical_seconds=5))
    donor.start()
    for event, _ in SMOOTH[:6]:
        donor.receive(event, 50.0)
    assert Effect.UNBLOCK in donor.receive(ChangesSent(1), 56.0)
    assert donor.decision is Decision.ABORTED


def test_a_migration_that_never_catches_up_is_given_up() -> None:
    donor = Donor(MIGRATION, now=0.0, limits=Limits(seconds=100))
    donor.start()
    for event, _ in SMOOTH[:4]:
        donor.receive(event, 50.0)
    assert Effect.PERSIST_DECISION in donor.receive(ChangesSent(STEADY_CHANGES + 1), 101.0)


def test_a_new_primary_without_a_decision_blocks_and_asks_until_it_knows() -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.resume(None) == [Effect.BLOCK_WRITES, Effect.BLOCK_READS, Effect.ASK_CONFIG]
    assert donor.receive(ConfigAnswered(CommitOutcome.UNKNOWN), 1.0) == [Effect.ASK_CONFIG_LATER]
    assert donor.receive(ConfigAnswered(CommitOutcome.DONE), 1.0)[1] is Effect.UNBLOCK
    assert donor.decision is Decision.COMMITTED


@pytest.mark.parametrize("decision", list(Decision))
def test_a_new_primary_with_a_decision_only_tells_it(decision: Decision) -> None:
    donor = Donor(MIGRATION, now=0.0)
    assert donor.resume(decision) == [Effect.RESOLVE_RECIPIENT]
    assert donor.receive(RecipientResolved(heard=False), 1.0) == [Effect.RESOLVE_RECIPIENT_LATER]
    assert donor.receive(RecipientResolved(heard=True), 1.0) == [Effect.FORGET]
