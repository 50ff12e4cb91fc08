"""The donor's side of a migration, as decisions only.

    STARTING      the coordinator document and the pending range deletion are being written (majority)
    PREPARING     the recipient makes its collection ready and deletes leftovers in the range; it is asked how far it is
                  until it takes documents, for no longer than the limit
    CLONING       batches of what moves, read from a snapshot taken when the capture of changes began
    CATCHING_UP   captured changes, round by round, until few are left, hardly fewer than the round before has left, and
                  no statement over many documents runs
    CRITICAL      writes to what moves wait; the last changes are sent
    HANDING_OVER  the recipient makes all of it majority-committed
    ANNOUNCING    the document by which every member keeps reads waiting until the decision is being written (majority)
    COMMITTING    the config servers are asked to commit, again and again until they say yes or no
    RECOVERING    (instead of all before, after a crash or failover) reads and writes wait; the config servers are asked
                  who owns what moves, in a way that keeps a commit still under way from succeeding later
    DECIDING      operations go on; the decision is being written (majority)
    RESOLVING     the recipient is told the decision, again and again until it has heard it
    FORGETTING    the range deletion is made ready (committed) or removed (aborted), the coordinator document removed
    DONE

What moves is a chunk, or what is not sharded of a database (`docstore.sharding.migration`).

Always true:

* every `Persist...` effect has been majority-committed before the event that moves on, so no later step is taken on
  something that a failover could undo;
* nothing before COMMITTING decides for `committed`, nothing from COMMITTING on decides for `aborted` but a definite
  no of the config servers: an unknown outcome keeps operations waiting and is asked again;
* the critical section is entered before the last changes are read, and left only when the decision is known;
* the donor's log says that reads wait before any of the new owner's writes has a time: whoever has followed it to
  such a time, a secondary that is asked for a causal read, shows no old copy;
* a failure before COMMITTING aborts: the donor stays owner, the recipient deletes what it has received.

`receive` takes what happened and returns what to do, in order; the driver reports each effect's end as an event.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from docstore.errors import CommandError
from docstore.sharding.migration import AnyMigration, Decision
from docstore.sharding.recipient_state import PREPARING
from docstore.sharding.recipient_state import State as Receiving
from docstore.sharding.version import DatabaseVersion, Lastmod

STEADY_CHANGES = 256
"""So few captured changes may be sent while writes wait."""
FEW_CHANGES = 8
"""So few are not worth another round."""
RETRY_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds`: from the start until the critical section must have been reached; `prepare_seconds`: from the start
    until the recipient takes documents; `critical_seconds`: how long writes may wait before the commit is tried; else
    the migration is given up."""

    seconds: float = 3600.0
    prepare_seconds: float = 120.0
    critical_seconds: float = 20.0


class State(Enum):
    """See the module's heading."""

    STARTING = auto()
    PREPARING = auto()
    CLONING = auto()
    CATCHING_UP = auto()
    CRITICAL = auto()
    HANDING_OVER = auto()
    ANNOUNCING = auto()
    COMMITTING = auto()
    RECOVERING = auto()
    DECIDING = auto()
    RESOLVING = auto()
    FORGETTING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class PersistStart:
    """The coordinator document and the pending range deletion, in this order; answered by `Persisted`."""


@dataclass(frozen=True, slots=True)
class StartRecipient:
    """Tell it of the migration; answered by `RecipientPrepares`."""


@dataclass(frozen=True, slots=True)
class AskRecipient:
    """How far its preparation is, which may take a moment to answer; answered by `RecipientPrepares`."""


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Begin to capture changes and, in the same step, take the snapshot to clone from."""


@dataclass(frozen=True, slots=True)
class SendClone:
    """A batch; answered by `CloneSent`."""


@dataclass(frozen=True, slots=True)
class SendChanges:
    """Some of the captured ones; answered by `ChangesSent`. `majority`: when a majority of the recipient has them."""

    majority: bool


@dataclass(frozen=True, slots=True)
class BlockWrites:
    pass


@dataclass(frozen=True, slots=True)
class BlockReads:
    """Writes wait already, or begin to."""


@dataclass(frozen=True, slots=True)
class CommitRecipient:
    """Answered by `RecipientCommitted`."""


@dataclass(frozen=True, slots=True)
class PersistBlock:
    """That reads wait on every member from now until the decision; answered by `Persisted`."""


@dataclass(frozen=True, slots=True)
class CommitOnConfig:
    """After so many seconds; answered by `ConfigAnswered`."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class AskConfig:
    """Who owns the chunk, after so many seconds; answered by `ConfigAnswered`."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class StopCapture:
    pass


@dataclass(frozen=True, slots=True)
class RaiseRoutingFloor:
    """Write down, for every member, that no older routing is used here any more; of a database, none up to this
    version.
    """

    version: Lastmod | DatabaseVersion


@dataclass(frozen=True, slots=True)
class Unblock:
    """Forget what is known of the collection's routing, then let operations go on: they refresh first."""


@dataclass(frozen=True, slots=True)
class PersistDecision:
    """Answered by `Persisted`."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell whoever asked for the migration how it ended. `reason`: why it was aborted."""

    decision: Decision
    reason: str


@dataclass(frozen=True, slots=True)
class ResolveRecipient:
    """After so many seconds; answered by `RecipientResolved`."""

    decision: Decision
    after: float = 0.0


@dataclass(frozen=True, slots=True)
class Forget:
    """Make the range deletion ready (committed) or remove it (aborted), then the coordinator document; answered by
    `Forgotten`."""

    decision: Decision


Effect = (
    PersistStart
    | StartRecipient
    | AskRecipient
    | StartCapture
    | SendClone
    | SendChanges
    | BlockWrites
    | BlockReads
    | CommitRecipient
    | PersistBlock
    | CommitOnConfig
    | AskConfig
    | StopCapture
    | RaiseRoutingFloor
    | Unblock
    | PersistDecision
    | Answer
    | ResolveRecipient
    | Forget
)


class CommitOutcome(Enum):
    """What the config servers said: DONE and NOT_DONE are final, UNKNOWN is no answer."""

    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Persisted:
    """The last `Persist...` effect is majority-committed."""


@dataclass(frozen=True, slots=True)
class RecipientPrepares:
    """How far the recipient is. `reason`: why it has ended."""

    state: Receiving
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CloneSent:
    """A batch has been taken by the recipient, and those before it are stored; `exhausted` when it was the last."""

    exhausted: bool


@dataclass(frozen=True, slots=True)
class ChangesSent:
    """Changes have been stored by the recipient; `left`: captured and not sent yet. `statements`: some over many
    documents run on the donor, which the chunk must not leave in their midst.
    """

    left: int
    statements: bool = False


@dataclass(frozen=True, slots=True)
class RecipientCommitted:
    """A majority of the recipient has all that was sent."""


@dataclass(frozen=True, slots=True)
class ConfigAnswered:
    """To `CommitOnConfig`: whether it is committed. To `AskConfig`: whether the donor has lost what moves. `version`:
    the floor to raise, None where there is none: of a collection its version when it was decided, of a database the one
    that is over. `refusal`: why it is not committed, where the config servers say so.
    """

    answer: CommitOutcome
    version: Lastmod | DatabaseVersion | None = None
    refusal: CommandError | None = None


@dataclass(frozen=True, slots=True)
class RecipientResolved:
    """The recipient has (`heard`) or has not yet heard the decision."""

    heard: bool


@dataclass(frozen=True, slots=True)
class Forgotten:
    """`Forget` is done."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An effect before the commit did not succeed, or the migration is to be given up."""

    reason: str


Event = (
    Persisted
    | RecipientPrepares
    | CloneSent
    | ChangesSent
    | RecipientCommitted
    | ConfigAnswered
    | RecipientResolved
    | Forgotten
    | Failed
)

_BEFORE_COMMIT = frozenset(
    (
        State.STARTING, State.PREPARING, State.CLONING, State.CATCHING_UP, State.CRITICAL, State.HANDING_OVER,
        State.ANNOUNCING,
    )
)  # fmt: skip


class Donor:
    """One migration on the donor's primary."""

    def __init__(self, migration: AnyMigration, now: float, limits: Limits | None = None) -> None:
        self.migration = migration
        self.state = State.STARTING
        self.decision: Decision | None = None
        self.reason = ""
        self._limits = limits or Limits()
        self._give_up = now + self._limits.seconds
        self._prepared_by = now + self._limits.prepare_seconds
        self._left_before = 2 * STEADY_CHANGES

    def start(self) -> list[Effect]:
        """A new migration."""
        assert self.state is State.STARTING
        return [PersistStart()]

    def resume(self, decision: Decision | None) -> list[Effect]:
        """Carry on from a coordinator document found on disk by a new primary or after a restart."""
        assert self.state is State.STARTING
        if decision is None:
            self.state = State.RECOVERING
            return [BlockWrites(), BlockReads(), AskConfig()]
        self.decision = decision
        self.state = State.RESOLVING
        return [ResolveRecipient(decision)]

    @property
    def undecided(self) -> bool:
        """Whether the migration can still be given up."""
        return self.state in _BEFORE_COMMIT

    def receive(self, event: Event, now: float) -> list[Effect]:
        """What follows from an event; an event that the state does not wait for is a broken driver."""
        if isinstance(event, Failed):
            assert self.undecided, f"{event} in {self.state}"
            return self._decide(Decision.ABORTED, event.reason)
        if isinstance(event, RecipientPrepares) and self.state is State.PREPARING:
            return self._prepared(event, now)
        effects = self._moved(event)
        assert effects is not None, f"{event} in {self.state}"
        return effects if not self.undecided else self._in_time(effects, now)

    def _in_time(self, effects: list[Effect], now: float) -> list[Effect]:
        if BlockWrites() in effects:
            self._give_up = now + self._limits.critical_seconds
        elif now > self._give_up:
            return self._decide(Decision.ABORTED, f"the migration took too long while {self.state.name.lower()}")
        return effects

    def _prepared(self, event: RecipientPrepares, now: float) -> list[Effect]:
        if event.state is Receiving.RECEIVING:
            return self._in_time(self._to(State.CLONING, StartCapture(), SendClone()), now)
        if event.state not in PREPARING:
            return self._decide(Decision.ABORTED, f"the recipient is not ready: {event.reason or event.state.name}")
        if now > self._prepared_by:
            return self._decide(Decision.ABORTED, "the recipient is not ready in time")
        return self._in_time([AskRecipient()], now)

    def _moved(self, event: Event) -> list[Effect] | None:
        match self.state, event:
            case State.STARTING, Persisted():
                return self._to(State.PREPARING, StartRecipient())
            case State.CLONING, CloneSent(exhausted=False):
                return [SendClone()]
            case State.CLONING, CloneSent():
                return self._to(State.CATCHING_UP, SendChanges(majority=True))
            case State.CATCHING_UP, ChangesSent(left, statements) if statements or self._catches_up(left):
                return [SendChanges(majority=True)]
            case State.CATCHING_UP, ChangesSent():
                return self._to(State.CRITICAL, BlockWrites(), SendChanges(majority=False))
            case State.CRITICAL, ChangesSent(left) if left > 0:
                return [SendChanges(majority=False)]
            case State.CRITICAL, ChangesSent():
                return self._to(State.HANDING_OVER, CommitRecipient())
            case State.HANDING_OVER, RecipientCommitted():
                return self._to(State.ANNOUNCING, BlockReads(), PersistBlock())
            case State.ANNOUNCING, Persisted():
                return self._to(State.COMMITTING, CommitOnConfig())
            case _:
                return self._ended(event)

    def _catches_up(self, left: int) -> bool:
        """Whether another round before the critical section leaves less to be sent in it."""
        halved = left <= self._left_before // 2
        self._left_before = left
        return left > STEADY_CHANGES or (halved and left > FEW_CHANGES)

    def _ended(self, event: Event) -> list[Effect] | None:
        match self.state, event, self.decision:
            case State.COMMITTING, ConfigAnswered(CommitOutcome.UNKNOWN), None:
                return [CommitOnConfig(after=RETRY_SECONDS)]
            case State.RECOVERING, ConfigAnswered(CommitOutcome.UNKNOWN), None:
                return [AskConfig(after=RETRY_SECONDS)]
            case ((State.COMMITTING | State.RECOVERING), ConfigAnswered(CommitOutcome.DONE, version), None):
                return self._decide(Decision.COMMITTED, "", version)
            case ((State.COMMITTING | State.RECOVERING), ConfigAnswered(_, version), None):
                return self._decide(Decision.ABORTED, "the config servers refused the commit", version)
            case State.DECIDING, Persisted(), Decision() as decision:
                return self._to(State.RESOLVING, Answer(decision, self.reason), ResolveRecipient(decision))
            case State.RESOLVING, RecipientResolved(heard=True), Decision() as decision:
                return self._to(State.FORGETTING, Forget(decision))
            case State.RESOLVING, RecipientResolved(), Decision() as decision:
                return [ResolveRecipient(decision, after=RETRY_SECONDS)]
            case State.FORGETTING, Forgotten(), _:
                return self._to(State.DONE)
            case _:
                return None

    def _to(self, state: State, *effects: Effect) -> list[Effect]:
        self.state = state
        return list(effects)

    def _decide(
        self, decision: Decision, reason: str, version: Lastmod | DatabaseVersion | None = None
    ) -> list[Effect]:
        """The floor is raised first: from then on no older routing is used here, nor on any member that has it."""
        self.decision = decision
        self.reason = reason
        floor = [] if version is None else [RaiseRoutingFloor(version)]
        return self._to(State.DECIDING, StopCapture(), *floor, Unblock(), PersistDecision(decision))
