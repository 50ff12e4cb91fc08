"""The recipient's core under random events: it keeps its invariants, answers every request once, and has one piece of
work under way at a time, in an order that a crash at any moment may cut."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision, RangeDeletion
from docstore.sharding.recipient import Recipient
from docstore.sharding.recipient_messages import (
    AwaitMajority,
    Commit,
    Definition,
    Done,
    Event,
    Failed,
    ForgetRouting,
    GetStatus,
    InsertDocuments,
    Interrupted,
    LogDecision,
    Logged,
    MajorityFailed,
    MajorityReached,
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

ERROR = CommandError(Code.OperationFailed, "it went wrong")


class Stress:
    """Plays a donor that does not know its part, and a driver that does."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.core = Recipient()
        self.now = 0.0
        self.asked: set[int] = set()
        self.work: list[Work] = []
        self.waiting: list[int] = []
        self.resolving: list[int] = []
        self.logging: list[int] = []
        self.durable = False
        """The pending deletion of the migration that runs is on a majority."""
        self.last = 0
        self.seen: set[type] = set()

    def step(self) -> None:
        event = self.event()
        if event is None:
            self.now = self.core.next_wakeup() if self.rng.random() < 0.02 else self.now + self.rng.random()
            if self.now == float("inf"):
                self.now = 0.0
            effects = self.core.tick(self.now)
        else:
            effects = self.core.receive(event, self.now)
        self.core.check()
        for effect in effects:
            self.seen.add(type(effect))
            match effect:
                case Reply(token):
                    assert token in self.asked, "an answer that nobody asked for, or a second one"
                    self.asked.remove(token)
                case StopWork():
                    self.work.clear()
                    self.waiting.clear()
                    self.durable = False
                case AwaitMajority(token):
                    self.waiting.append(token)
                case PersistResolution(token):
                    self.resolving.append(token)
                case LogDecision(token):
                    self.logging.append(token)
                case ForgetRouting() | WakeDeleter():
                    pass
                case _:
                    assert not self.work, "one piece at a time"
                    if isinstance(effect, SweepRange | InsertDocuments | ReplaceDocuments | RememberStatements):
                        assert self.durable, "documents are touched before someone knows what to delete"
                    self.work.append(effect)

    def event(self) -> Event | None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.35 and self.work:
            return self.outcome(self.work.pop())
        if kind < 0.45 and self.waiting + self.resolving:
            pool = self.waiting if self.waiting else self.resolving
            token = pool.pop(rng.randrange(len(pool)))
            return MajorityFailed(token, ERROR) if rng.random() < 0.2 else MajorityReached(token)
        if kind < 0.5 and self.logging:
            return Logged(self.logging.pop())
        if 0.5 <= kind < 0.503:
            self.logging.clear()
            self.resolving.clear()
            return Interrupted("a new term")
        if 0.503 <= kind < 0.6:
            return None
        return self.request()

    def outcome(self, work: Work) -> Event:
        if self.rng.random() < 0.03:
            return Failed(work, ERROR)
        if isinstance(work, ReadRouting):
            epoch = None if self.rng.random() < 0.1 else MIGRATION.epoch
            return RoutingRead(work, epoch, "shard1", self.rng.random() < 0.05)
        if isinstance(work, PersistDeletion):
            self.durable = True
        return Done(work)

    def request(self) -> Event:
        rng = self.rng
        self.last = token = self.last + 1
        self.asked.add(token)
        running = self.core.running
        fresh = replace(MIGRATION, id=Binary(rng.randbytes(16), 4))
        migration = running if running is not None and rng.random() < 0.95 else fresh
        identity = bytes(migration.id)
        match rng.randrange(40):
            case 0 | 1 | 2:
                return Start(token=token, migration=migration, definition=Definition(b""), shard="shard2")
            case 3 | 4:
                return GetStatus(token=token, id=identity, seconds=rng.choice((0.0, 3.0)))
            case 5 if rng.random() < 0.2:
                return Commit(token=token, id=identity, last=self.taken())
            case 6 if rng.random() < 0.4:
                pending = RangeDeletion.of(migration, pending=True, delayed=False)
                return Resolve(
                    token=token,
                    id=identity,
                    namespace="a.b",
                    decision=rng.choice(list(Decision)),
                    deletion=rng.choice((None, pending)),
                )
            case 7:
                return TakeStatements(token=token, id=identity, number=self.taken() + 1, statements=[])
            case _:
                number = max(1, self.taken() + rng.choice((1,) * 40 + (0, -1, 2)))
                majority, clone = rng.random() < 0.3, rng.random() < 0.3
                return TakeDocuments(
                    token=token, id=identity, number=number, documents=[], clone=clone, majority=majority
                )

    def taken(self) -> int:
        return self.core._incoming.admitted if self.core._incoming is not None else 0

    def end(self) -> None:
        for effect in self.core.receive(Interrupted("the end"), self.now):
            if isinstance(effect, Reply):
                self.asked.remove(effect.token)
        assert not self.asked, "requests without an answer"


@pytest.mark.parametrize("seed", range(20))
def test_every_request_is_answered_once_whatever_happens(seed: int) -> None:
    stress = Stress(seed)
    for _ in range(5000):
        stress.step()
    stress.end()
    assert {
        InsertDocuments,
        ReplaceDocuments,
        RememberStatements,
        AwaitMajority,
        PersistResolution,
        LogDecision,
    } <= stress.seen
