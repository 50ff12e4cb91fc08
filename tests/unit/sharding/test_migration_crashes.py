"""Both state machines against a small world: two shards' documents, their durable records, and the config servers.

Every effect is carried out in one step; between any two steps a client writes, and at a chosen step something breaks:
the donor or the recipient loses all that is not durable, or an answer is lost on its way. At the end every document
that was acknowledged is visible exactly once, and nothing else is left.
"""

from __future__ import annotations

import random
import struct

import pytest

from docstore.bson import INT32
from docstore.errors import CommandError
from docstore.sharding.donor import (
    Answer,
    AskConfig,
    BlockReads,
    BlockWrites,
    ChangesSent,
    CloneSent,
    CommitOnConfig,
    CommitOutcome,
    CommitRecipient,
    ConfigAnswered,
    Donor,
    Effect,
    Event,
    Failed,
    Forget,
    Forgotten,
    PersistBlock,
    PersistDecision,
    Persisted,
    PersistStart,
    RecipientCommitted,
    RecipientPrepares,
    RecipientResolved,
    ResolveRecipient,
    SendChanges,
    SendClone,
    StartCapture,
    StartRecipient,
    StopCapture,
    Unblock,
)
from docstore.sharding.migration import Decision, RangeDeletion
from docstore.sharding.recipient import Recipient
from docstore.sharding.recipient_messages import (
    AwaitDeletions,
    AwaitMajority,
    BuildIndexes,
    Commit,
    Definition,
    Done,
    ForgetRouting,
    LogDecision,
    Logged,
    MajorityReached,
    MakeCollection,
    PersistDeletion,
    PersistResolution,
    ReadRouting,
    ReplaceDocuments,
    Reply,
    Resolve,
    RoutingRead,
    Start,
    StopWork,
    SweepRange,
    TakeDocuments,
    WakeDeleter,
)
from docstore.sharding.recipient_messages import Effect as RecipientEffect
from docstore.sharding.recipient_messages import Event as RecipientEvent
from docstore.sharding.recipient_state import State
from tests.unit.sharding.test_migration import MIGRATION

BATCH = 3
DONOR, RECIPIENT = "shard1", "shard2"
LEFTOVER = 99
"""On the recipient before the migration, of an earlier time."""


class World:
    """`documents[shard]` and the records are durable; `donor`, `recipient`, `captured`, `cloning`, `blocked` not."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.acknowledged = dict.fromkeys(range(8), 0)
        self.documents: dict[str, dict[int, int]] = {DONOR: dict(self.acknowledged), RECIPIENT: {LEFTOVER: 0}}
        self.owner = DONOR
        self.lastmod = MIGRATION.lastmod
        self.coordinator: tuple[Decision | None] | None = None
        self.deletions: dict[str, str | None] = {DONOR: None, RECIPIENT: None}
        self.recipient = Recipient()
        self.donor: Donor | None = None
        self.captured: set[int] | None = None
        self.cloning: dict[int, int] = {}
        self.blocked = False
        self.batches = 0
        self.answered: list[Decision] = []
        self.lose_answer = False

    def write(self) -> None:
        """A client's write, which arrives where the config servers say, unless that shard makes it wait."""
        if self.blocked and self.owner == DONOR:
            return
        number, value = self.rng.randrange(12), self.rng.randrange(1, 1000)
        held = self.documents[self.owner]
        assert self.deletions[self.owner] != "ready", "an owned range is about to be deleted"
        if self.rng.random() < 0.3:
            held.pop(number, None)
            self.acknowledged.pop(number, None)
        else:
            held[number] = self.acknowledged[number] = value
        if self.owner == DONOR and self.captured is not None:
            self.captured.add(number)

    def crash_donor(self) -> None:
        self.donor, self.captured, self.blocked, self.cloning, self.batches = None, None, False, {}, 0

    def crash_recipient(self) -> None:
        self.recipient = Recipient()

    def begin(self) -> list[Effect]:
        self.donor = Donor(MIGRATION, 0.0)
        if self.coordinator is not None:
            return self.donor.resume(self.coordinator[0])
        return self.donor.start() if self.owner == DONOR and not self.answered else []

    def carry_out(self, effect: Effect) -> Event | None:
        try:
            event = self.do(effect)
        except CommandError as error:
            event = Failed(str(error))
        if self.lose_answer and event is not None:
            self.lose_answer = False
            return self.lost(event)
        return event

    def lost(self, event: Event) -> Event:
        """What the donor sees when the answer to its request does not arrive."""
        if isinstance(event, ConfigAnswered):
            return ConfigAnswered(CommitOutcome.UNKNOWN)
        if isinstance(event, RecipientResolved):
            return RecipientResolved(heard=False)
        return event if isinstance(event, Persisted | Forgotten) else Failed("no answer")

    def do(self, effect: Effect) -> Event | None:
        match effect:
            case PersistStart():
                return self.persist_start()
            case StartRecipient():
                return self.prepare_recipient()
            case StartCapture():
                self.captured, self.cloning = set(), dict(self.documents[DONOR])
            case SendClone():
                return self.send_clone()
            case SendChanges():
                return self.send_changes()
            case BlockWrites() | BlockReads():
                self.blocked = True
            case CommitRecipient():
                return self.commit_recipient()
            case PersistBlock():
                return Persisted()
            case CommitOnConfig():
                return self.commit_on_config()
            case AskConfig():
                return self.ask_config()
            case _:
                return self.conclude(effect)
        return None

    def conclude(self, effect: Effect) -> Event | None:
        match effect:
            case StopCapture():
                self.captured = None
            case Unblock():
                self.blocked = False
            case PersistDecision(decision):
                self.coordinator = (decision,)
                return Persisted()
            case Answer(decision):
                self.answered.append(decision)
            case ResolveRecipient(decision):
                return self.resolve_recipient(decision)
            case Forget(decision):
                self.deletions[DONOR] = "ready" if decision is Decision.COMMITTED else None
                self.coordinator = None
                return Forgotten()
            case _:
                raise AssertionError(effect)
        return None

    def persist_start(self) -> Event:
        self.coordinator, self.deletions[DONOR] = (None,), "pending"
        return Persisted()

    def prepare_recipient(self) -> Event:
        assert self.deletions[RECIPIENT] is None
        self.tell(Start(token=1, migration=MIGRATION, definition=Definition(b""), shard=RECIPIENT))
        return RecipientPrepares(State.RECEIVING)

    def tell(self, event: RecipientEvent) -> None:
        """Have the recipient's core take in an event, and carry out all that follows; a refusal is raised."""
        refused = None
        pending = self.recipient.receive(event, 0.0)
        while pending:
            self.recipient.check()
            effect = pending.pop(0)
            if isinstance(effect, Reply):
                refused = effect.result if isinstance(effect.result, CommandError) else refused
            elif (outcome := self.done_by_recipient(effect)) is not None:
                pending += self.recipient.receive(outcome, 0.0)
        if refused is not None:
            raise refused

    def done_by_recipient(self, effect: RecipientEffect) -> RecipientEvent | None:
        held = self.documents[RECIPIENT]
        match effect:
            case ReadRouting():
                return RoutingRead(effect, MIGRATION.epoch, DONOR, self.owner == RECIPIENT)
            case PersistDeletion(deletion):
                assert deletion.pending
                self.deletions[RECIPIENT] = "pending"
                return Done(effect)
            case SweepRange():
                assert self.deletions[RECIPIENT] == "pending", "nothing is deleted before the durable document says so"
                held.clear()
                return Done(effect)
            case ReplaceDocuments(_, documents, gone):
                assert self.deletions[RECIPIENT] == "pending"
                for _, number in gone:
                    held.pop(int.from_bytes(number, "little"), None)
                held.update(struct.unpack("<ii", raw) for raw in documents)
                return Done(effect)
            case PersistResolution(token, change):
                if change is not None:
                    self.deletions[RECIPIENT] = "ready" if isinstance(change, RangeDeletion) else None
                return MajorityReached(token)
            case AwaitMajority(token):
                return MajorityReached(token)
            case AwaitDeletions() | MakeCollection() | BuildIndexes():
                return Done(effect)
            case LogDecision(token):
                return Logged(token)
            case _:
                assert isinstance(effect, StopWork | ForgetRouting | WakeDeleter)
                return None

    def push(self, rows: dict[int, int | None]) -> None:
        self.batches += 1
        documents = [struct.pack("<ii", number, value) for number, value in rows.items() if value is not None]
        gone = [(INT32, number.to_bytes(4, "little")) for number, value in rows.items() if value is None]
        self.tell(
            TakeDocuments(
                token=2,
                id=bytes(MIGRATION.id),
                number=self.batches,
                documents=documents,
                removed_ids=gone,
                majority=True,
            )
        )

    def send_clone(self) -> Event:
        chosen = sorted(self.cloning)[:BATCH]
        self.push({number: self.cloning.pop(number) for number in chosen})
        return CloneSent(exhausted=not self.cloning)

    def send_changes(self) -> Event:
        assert self.captured is not None
        chosen = sorted(self.captured)[:BATCH]
        self.captured -= set(chosen)
        self.push({number: self.documents[DONOR].get(number) for number in chosen})
        return ChangesSent(len(self.captured) * 100)

    def commit_recipient(self) -> Event:
        self.tell(Commit(token=3, id=bytes(MIGRATION.id), last=self.batches))
        return RecipientCommitted()

    def commit_on_config(self) -> Event:
        if self.owner == DONOR and self.lastmod == MIGRATION.lastmod:
            self.owner, self.lastmod = RECIPIENT, self.lastmod._replace(major=self.lastmod.major + 1, minor=0)
        return ConfigAnswered(CommitOutcome.DONE if self.owner == RECIPIENT else CommitOutcome.NOT_DONE)

    def ask_config(self) -> Event:
        if self.lastmod <= MIGRATION.lastmod:
            self.lastmod = self.lastmod._replace(major=self.lastmod.major + 1)
        return ConfigAnswered(CommitOutcome.DONE if self.owner != DONOR else CommitOutcome.NOT_DONE)

    def resolve_recipient(self, decision: Decision) -> Event:
        found = self.deletions[RECIPIENT]
        self.tell(
            Resolve(
                token=4,
                id=bytes(MIGRATION.id),
                namespace=MIGRATION.namespace,
                decision=decision,
                deletion=found and RangeDeletion.of(MIGRATION, pending=found == "pending", delayed=False),
            )
        )
        return RecipientResolved(heard=True)

    def run(self, break_at: int, breaking: str) -> int:
        """Run to the end; the number of steps taken."""
        pending = self.begin()
        steps = 0
        while pending and steps < 200:
            if steps == break_at:
                if breaking == "donor":
                    self.crash_donor()
                    pending = self.begin()
                    if not pending:
                        break
                elif breaking == "recipient":
                    self.crash_recipient()
                elif breaking == "answer":
                    self.lose_answer = True
            steps += 1
            for _ in range(self.rng.randrange(3)):
                self.write()
            event = self.carry_out(pending.pop(0))
            if event is not None:
                assert self.donor is not None
                assert not pending, "an effect that is answered comes last"
                pending = self.donor.receive(event, 0.0)
        assert steps < 200, "the migration does not end"
        return steps

    def delete_ranges(self) -> None:
        for shard, state in self.deletions.items():
            assert state != "pending", "a range deletion was left undecided"
            if state == "ready":
                assert self.owner != shard
                self.documents[shard].clear()
                self.deletions[shard] = None


@pytest.mark.parametrize("breaking", ["nothing", "donor", "recipient", "answer"])
def test_every_document_is_visible_exactly_once_whatever_breaks_at_whatever_step(breaking: str) -> None:
    for seed in range(8):
        longest = World(seed).run(-1, "nothing")
        for break_at in range(longest + 1):
            world = World(seed * 1000 + break_at)
            world.run(break_at, breaking)
            assert world.coordinator is None
            assert world.documents[world.owner] == world.acknowledged
            world.delete_ranges()
            others = RECIPIENT if world.owner == DONOR else DONOR
            assert not set(world.documents[others]) - {LEFTOVER}
            if breaking == "nothing":
                assert world.answered == [Decision.COMMITTED]
