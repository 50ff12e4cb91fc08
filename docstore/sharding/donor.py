"""The donor's side of a migration, as pure decisions.

    STARTING      the coordinator document and the pending range deletion are being written (majority)
    PREPARING     the recipient prepares its collection and deletes leftovers in the range; the donor polls it until it
                  accepts documents, within the limit
    CLONING       batches are sent from a snapshot taken when the capture of changes began
    CATCHING_UP   captured changes are sent in rounds, until few remain, a round leaves hardly fewer than the one
                  before, and no statement over many documents runs
    CRITICAL      writes wait; the last changes are sent
    HANDING_OVER  the recipient makes everything majority-committed
    ANNOUNCING    the document that blocks reads on every member until the decision is being written (majority)
    COMMITTING    the config servers are asked to commit, again and again until they say yes or no
    RECOVERING    (instead of all before, after a crash or failover) reads and writes wait; the config servers are asked
                  for the owner, in a way that keeps a commit still under way from succeeding later
    DECIDING      operations continue; the decision is being written (majority)
    RESOLVING     the decision is sent to the recipient, again and again until it acknowledges
    FORGETTING    the range deletion is made ready (committed) or removed (aborted), the coordinator document removed
    DONE

A migration moves a chunk, or the unsharded collections of a database (`docstore.sharding.migration`).

Invariants:

- every `Persist...` effect is majority-committed before the event that leads on, so no later step relies on something
  that a failover could undo;
- no state before COMMITTING decides for `committed`. From COMMITTING on, only a definite no of the config servers
  decides for `aborted`: an unknown outcome keeps operations waiting and is asked again;
- the critical section is entered before the last changes are read, and left only when the decision is known;
- in the donor's log, the block on reads precedes every time of the new owner's writes. A secondary that has followed
  the log to one of these times, for a causal read, shows no old copy;
- a failure before COMMITTING aborts: the donor stays owner, the recipient deletes the received documents.

`receive` takes an event and returns the effects, in order; the driver reports each effect's end as an event.
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
"""The maximal number of captured changes to send while writes wait."""
FEW_CHANGES = 8
"""The number of changes below which another round is not worth it."""
RETRY_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits; a migration that exceeds one is aborted. `seconds`: from the start to the critical section;
    `prepare_seconds`: from the start until the recipient accepts documents; `critical_seconds`: how long writes may
    wait before the commit is tried.
    """

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
    """Write the coordinator document and the pending range deletion, in this order; answered by `Persisted`."""


@dataclass(frozen=True, slots=True)
class StartRecipient:
    """Announce the migration to the recipient; answered by `RecipientPrepares`."""


@dataclass(frozen=True, slots=True)
class AskRecipient:
    """Ask the recipient for the state of its preparation, which may take a moment; answered by `RecipientPrepares`."""


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Begin to capture changes and, in the same step, take the snapshot to clone from."""


@dataclass(frozen=True, slots=True)
class SendClone:
    """Send a batch of the snapshot; answered by `CloneSent`."""


@dataclass(frozen=True, slots=True)
class SendChanges:
    """Send captured changes; answered by `ChangesSent`. `majority`: once a majority of the recipient has them."""

    majority: bool


@dataclass(frozen=True, slots=True)
class BlockWrites:
    pass


@dataclass(frozen=True, slots=True)
class BlockReads:
    """Writes wait already, or begin to."""


@dataclass(frozen=True, slots=True)
class CommitRecipient:
    """Make everything majority-committed on the recipient; answered by `RecipientCommitted`."""


@dataclass(frozen=True, slots=True)
class PersistBlock:
    """Write the document that blocks reads on every member until the decision; answered by `Persisted`."""


@dataclass(frozen=True, slots=True)
class CommitOnConfig:
    """Ask the config servers to commit, after that many seconds; answered by `ConfigAnswered`."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class AskConfig:
    """Ask the config servers for the owner, after that many seconds; answered by `ConfigAnswered`."""

    after: float = 0.0


@dataclass(frozen=True, slots=True)
class StopCapture:
    pass


@dataclass(frozen=True, slots=True)
class RaiseRoutingFloor:
    """Write the routing floor, for every member: no older routing is used here any more. For a database: none up to
    this version.
    """

    version: Lastmod | DatabaseVersion


@dataclass(frozen=True, slots=True)
class Unblock:
    """Forget the cached routing of the collection, then let operations continue: they refresh first."""


@dataclass(frozen=True, slots=True)
class PersistDecision:
    """Write the decision; answered by `Persisted`."""

    decision: Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """Report the outcome to the requester of the migration. `reason`: of an abort."""

    decision: Decision
    reason: str


@dataclass(frozen=True, slots=True)
class ResolveRecipient:
    """Tell the recipient the decision, after that many seconds; answered by `RecipientResolved`."""

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
    """The config servers' answer: DONE and NOT_DONE are final, UNKNOWN means that no answer came."""

    DONE = auto()
    NOT_DONE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Persisted:
    """The last `Persist...` effect is majority-committed."""


@dataclass(frozen=True, slots=True)
class RecipientPrepares:
    """The state of the recipient. `reason`: why it has ended."""

    state: Receiving
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CloneSent:
    """The recipient has taken a batch and stored those before it; `exhausted`: it was the last."""

    exhausted: bool


@dataclass(frozen=True, slots=True)
class ChangesSent:
    """The recipient has stored changes. `unsent`: captured changes not sent yet; `statements`: statements over many
    documents run on the donor, and the chunk may not leave during them.
    """

    unsent: int
    statements: bool = False


@dataclass(frozen=True, slots=True)
class RecipientCommitted:
    """A majority of the recipient has all that was sent."""


@dataclass(frozen=True, slots=True)
class ConfigAnswered:
    """To `CommitOnConfig`: whether it is committed. To `AskConfig`: whether the donor has lost ownership.

    `version`: the floor to raise, None if there is none. For a collection its version at the decision, for a database
    the version that has ended. `refusal`: the config servers' reason not to commit.
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
    """An effect before the commit has failed, or the migration must be given up."""

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
        self._unsent_before = 2 * STEADY_CHANGES

    def start(self) -> list[Effect]:
        """A new migration."""
        assert self.state is State.STARTING
        return [PersistStart()]

    def resume(self, decision: Decision | None) -> list[Effect]:
        """Resume from a coordinator document found on disk by a new primary or after a restart."""
        assert self.state is State.STARTING
        if decision is None:
            self.state = State.RECOVERING
            return [BlockWrites(), BlockReads(), AskConfig()]
        self.decision = decision
        self.state = State.RESOLVING
        return [ResolveRecipient(decision)]

    @property
    def undecided(self) -> bool:
        """True if the migration can still be given up."""
        return self.state in _BEFORE_COMMIT

    def receive(self, event: Event, now: float) -> list[Effect]:
        """Return the effects of an event. An event for which the state does not wait is an error of the driver."""
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

    def _catches_up(self, unsent: int) -> bool:
        """True if another round before the critical section will leave fewer changes to send in it."""
        halved = unsent <= self._unsent_before // 2
        self._unsent_before = unsent
        return unsent > STEADY_CHANGES or (halved and unsent > FEW_CHANGES)

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
