"""The coordinator of one DDL operation, as pure decisions: events in, effects out.

    find who takes part -> HOLDING -> find again -> the phases of the plan -> RELEASING -> forget

Invariants:

- a phase is majority-committed before its effects begin. The next primary of the coordinator's shard repeats the
  effects of the phase that it finds, so each effect is idempotent;
- the phases after HOLDING begin once all participants are held. The participants are looked up again after that, and
  do not change while they are held;
- an operation is given up only while everything done can be undone: after a refusal in HOLDING or PREPARING, or when
  the config servers refuse to commit something new. Prepared changes are undone first;
- the client is answered once, and not before the outcome is decided and majority-committed.

If an outcome is unknown (no answer came), the driver asks again; it gives up only where `Effect.may_fail` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docstore.errors import CommandError
from docstore.sharding.ddl.operation import Operation, Phase
from docstore.sharding.ddl.plans import PLANS, asked_of, noted, result_of


@dataclass(frozen=True, slots=True)
class Effect:
    """`may_fail`: a refusal, or a long silence, becomes `Refused`; else the effect is tried until it succeeds."""

    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class Find(Effect):
    """Look up participants and facts for the next phases; answered by `Findings`, `NothingToDo` or `Refused`."""


@dataclass(frozen=True, slots=True)
class Persist(Effect):
    """Write the coordinator document; answered by `Done`."""


@dataclass(frozen=True, slots=True)
class HoldShards(Effect):
    """Take the hold on the participants; answered by `Done`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Effect):
    """Have these shards carry out the phase; answered by `Answered`."""

    shards: Sequence[str]


@dataclass(frozen=True, slots=True)
class Commit(Effect):
    """Have the config servers change the catalog; answered by `Answered`."""


@dataclass(frozen=True, slots=True)
class Release(Effect):
    """Release the participants; answered by `Done`, or by `Unreachable` while one of them does not answer."""


@dataclass(frozen=True, slots=True)
class Forget(Effect):
    """Remove the coordinator document; answered by `Done`."""


@dataclass(frozen=True, slots=True)
class Answer(Effect):
    """Give the client the operation's failure or its result."""


@dataclass(frozen=True, slots=True)
class Findings:
    """`shards` take part."""

    shards: tuple[str, ...]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The operation's goal is already reached."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """The last effect is done."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A participant has not been released yet."""


@dataclass(frozen=True, slots=True)
class Answered:
    """The replies by shard; that of the config servers under the empty name."""

    replies: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Refused:
    """A participant has refused, or has not answered in time."""

    error: CommandError


Event = Findings | NothingToDo | Done | Unreachable | Answered | Refused


class Coordinator:
    """One operation on its coordinator's primary."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.answered = False
        self.ended = False
        self._waits: Effect | None = None
        self._held = False

    def start(self) -> list[Effect]:
        """A new operation."""
        assert self.operation.phase is Phase.HOLDING
        return self._do(Find(may_fail=True))

    def resume(self) -> list[Effect]:
        """Resume from a document found on disk by a new primary or after a restart."""
        return self._effects_of_phase()

    def receive(self, event: Event) -> list[Effect]:
        """Return the effects of an event. An unexpected event is an error of the driver."""
        waits, self._waits = self._waits, None
        match waits, event:
            case Find(), Findings(shards, facts):
                return self._add_participants(shards, facts)
            case Find(), NothingToDo(result):
                return self._nothing_to_do(result)
            case Find() | HoldShards() | Ask() | Commit(), Refused(error) if waits is not None and waits.may_fail:
                return self._give_up(error)
            case Persist(), Done():
                return self._effects_of_phase()
            case HoldShards(), Done():
                self._held = True
                return self._do(Find(may_fail=True))
            case Ask() | Commit(), Answered(replies):
                return self._answered(replies)
            case Release(), Done():
                return self._do(Forget())
            case Release(), Unreachable():
                return [*self._answer(), *self._do(Release())]
            case Forget(), Done():
                self.ended = True
                return self._answer()
        raise AssertionError(f"{event} where {waits} is under way")

    def _add_participants(self, shards: tuple[str, ...], facts: Mapping[str, Any]) -> list[Effect]:
        operation = self.operation
        new = set(shards) - set(operation.participants)
        participants = tuple(sorted({*operation.participants, *shards}))
        self.operation = replace(operation, participants=participants, facts={**operation.facts, **facts})
        if self._held and not new:
            return self._next_phase()
        self._held = False
        return self._do(Persist())

    def _nothing_to_do(self, result: Mapping[str, Any]) -> list[Effect]:
        self.operation = replace(self.operation, result=result)
        if self.operation.participants:
            return self._to(Phase.RELEASING)
        self.ended = True
        return self._answer()

    def _give_up(self, error: CommandError) -> list[Effect]:
        operation = self.operation
        self.operation = replace(operation, failure=error.reply())
        if not operation.participants:
            self.ended = True
            return self._answer()
        undo = operation.phase is not Phase.HOLDING and PLANS[operation.kind].undoes
        return self._to(Phase.UNDOING if undo else Phase.RELEASING)

    def _answered(self, replies: Mapping[str, Mapping[str, Any]]) -> list[Effect]:
        if self.operation.phase is Phase.UNDOING:
            return self._to(Phase.RELEASING)
        self.operation = replace(self.operation, facts={**self.operation.facts, **noted(self.operation, replies)})
        return self._next_phase()

    def _next_phase(self) -> list[Effect]:
        phases = PLANS[self.operation.kind].phases
        following = phases[phases.index(self.operation.phase) + 1]
        if following is Phase.RELEASING:
            self.operation = replace(self.operation, result=result_of(self.operation))
        return self._to(following)

    def _to(self, phase: Phase) -> list[Effect]:
        self.operation = replace(self.operation, phase=phase)
        return self._do(Persist())

    def _effects_of_phase(self) -> list[Effect]:
        plan = PLANS[self.operation.kind]
        match self.operation.phase:
            case Phase.HOLDING:
                return self._do(HoldShards(may_fail=True))
            case Phase.COMMITTING:
                return self._do(Commit(may_fail=plan.may_be_refused))
            case Phase.RELEASING:
                return self._do(Release())
            case phase:
                shards = asked_of(self.operation)
                return self._do(Ask(may_fail=phase is Phase.PREPARING, shards=shards))

    def _do(self, effect: Effect) -> list[Effect]:
        self._waits = effect
        return [effect]

    def _answer(self) -> list[Effect]:
        if self.answered:
            return []
        self.answered = True
        return [Answer()]

    def check(self) -> None:
        """Assert the invariants of the state."""
        operation = self.operation
        assert operation.phase in (*PLANS[operation.kind].phases, Phase.UNDOING)
        assert operation.phase is not Phase.UNDOING or operation.failure is not None
        assert operation.failure is None or operation.phase in (Phase.HOLDING, Phase.UNDOING, Phase.RELEASING)
        assert not self.answered or self.ended or operation.phase is Phase.RELEASING
