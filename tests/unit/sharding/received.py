"""The recipient of a migration, played by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.sharding.migration import Decision, RangeDeletion
from docstore.sharding.recipient import Recipient
from docstore.sharding.recipient_messages import (
    AwaitMajority,
    Commit,
    Definition,
    Done,
    Effect,
    Event,
    Failed,
    ForgetRouting,
    GetStatus,
    LogDecision,
    MajorityReached,
    PersistResolution,
    ReadRouting,
    Reply,
    Resolve,
    RoutingRead,
    Start,
    StopWork,
    TakeDocuments,
    WakeDeleter,
    Work,
)
from docstore.sharding.recipient_state import State, Status
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
