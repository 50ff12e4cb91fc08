"""The state of a member's roles: candidate, primary, follower with a sync source, witness of a primary's loss.

`docstore.replication.state.State` holds one object of each. Their methods change them; `elections`, `leadership`,
`following` and `primary_loss` call these. Times are seconds of the driver's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.optime import OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.messages import Term

NEVER = math.inf
"""The time of what is not to happen."""
BY_TIMEOUT = "electionTimeout"
BY_PRIORITY = "priorityTakeover"
BY_CATCH_UP = "catchUpTakeover"
BY_STEP_UP = "stepUpRequestSkipDryRun"
BY_REFUSED_PORT = "primaryPortRefused"
TIMEOUT_SPREAD = 0.15
"""Random part of the election timeout, as a fraction of it."""
RETRY_FRACTION = 0.5
"""After a lost election: wait between this fraction of the timeout and all of it."""
REFUSALS = 2
"""How many in a row are evidence: one may be a connection that was reset on the way."""


@dataclass(slots=True)
class Election:
    """A round in progress."""

    term: Term
    dry_run: bool
    reason: str
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    heard: set[int] = field(default_factory=set)
    """Who has answered, whatever the answer."""

    @property
    def for_want_of_primary(self) -> bool:
        """Nobody else may be about to run: if this round is broken off, the set stays without a primary."""
        return self.reason in (BY_TIMEOUT, BY_STEP_UP)


@dataclass(slots=True)
class Candidacy:
    """Whether this member runs, and when it will. Times are the driver's clock in seconds."""

    election: Election | None = None
    election_at: float = NEVER
    takeover_at: float = NEVER
    takeover_reason: str = ""
    frozen_until: float = -math.inf
    out_of_reach: bool = False
    """The last round was lost because too few voters could be reached to win it."""
    eager_until: float = -math.inf
    """After initiation: run as soon as a majority has the configuration and the data that members begin with, without
    the timeout."""
    maintenance: int = 0
    """How often maintenance mode was asked for and not taken back."""

    def wait_for_silence(
        self, config: ReplicaSetConfig | None, me: MemberConfig | None, now: float, rng: Callable[[], float]
    ) -> None:
        """Run after a whole timeout from now."""
        self.election_at = NEVER
        self.out_of_reach = False
        if config is not None and me is not None and me.electable:
            self.election_at = now + config.settings.election_timeout * (1 + TIMEOUT_SPREAD * rng())

    def retry_later(self, timeout: float, now: float, rng: Callable[[], float]) -> None:
        """The round was lost: the same two candidates should not meet again."""
        self.end_round()
        self.election_at = now + timeout * (RETRY_FRACTION + (1 - RETRY_FRACTION) * rng())

    def run_by(self, at: float) -> None:
        """Do not wait longer than until then."""
        self.election_at = min(self.election_at, at)

    def run_before_timeout(self, at: float) -> None:
        """Do not wait longer than until then, if we run at all."""
        if self.election_at != NEVER:
            self.run_by(at)

    def run_eagerly(self, now: float, until: float) -> None:
        self.election_at, self.eager_until = now, until

    def end_eagerness(self, now: float) -> None:
        self.eager_until = now

    def drop_takeover(self) -> None:
        self.takeover_at = NEVER

    def freeze_until(self, until: float) -> None:
        self.frozen_until = max(self.frozen_until, until)

    def end_round(self) -> None:
        self.election = None

    def won(self) -> Election:
        """The round that was won; there is nothing to run for now."""
        election = self.election
        assert election is not None
        self.end_round()
        self.out_of_reach = False
        self.election_at = self.takeover_at = NEVER
        self.eager_until = -math.inf
        return election


@dataclass(slots=True)
class PrimaryLoss:
    """The primary heard of last, and what speaks for its end. Times are the driver's clock in seconds."""

    host: str = ""
    until: float = -math.inf
    """From then on the election timeout decides."""
    refusals: int = 0
    run_at: float = NEVER

    def heard(self, host: str, until: float) -> None:
        """It lives."""
        self.host, self.until, self.refusals, self.run_at = host, until, 0, NEVER

    def refused(self) -> bool:
        """Whether that is evidence."""
        self.refusals += 1
        return self.refusals >= REFUSALS

    def run(self, at: float) -> None:
        self.run_at = min(self.run_at, at)

    def settle(self) -> None:
        """An election is under way, or somebody else got our vote."""
        self.run_at = NEVER


@dataclass(slots=True)
class PendingStepDown:
    """A step-down that waits for its successor (rule 9)."""

    token: int
    until: float
    frozen_until: float
    forced: bool
    while_reachable: bool


@dataclass(slots=True)
class ElectionRecord:
    """The last election won, for the status. Times are the driver's clock."""

    reason: str
    term: Term
    at: float
    commit_point: OpTime
    last_seen: OpTime
    votes_needed: int
    priority: float
    caught_up_at: float | None = None


@dataclass(slots=True)
class Leadership:
    """A primary's own affairs, and what is remembered of them. Times are the driver's clock in seconds."""

    since: float = -math.inf
    heard_until: float = -math.inf
    """No majority can have been silent for too long before then: whoever is heard of only moves that on."""
    catch_up_until: float = NEVER
    catch_up_awaits: set[str] = field(default_factory=set)
    """The members of whom no heartbeat sent since the election has brought news."""
    patient_until: float = NEVER
    """Till then also those among them are awaited that are believed down."""
    step_down: PendingStepDown | None = None
    commit_push_at: float = NEVER
    last_election: ElectionRecord | None = None
    election_time: int = 0
    """Packed timestamp of the first entry of our last term as primary."""

    def end(self) -> PendingStepDown | None:
        """No longer primary; the command that waited for this, if one did."""
        pending, self.step_down = self.step_down, None
        self.end_catch_up()
        self.commit_push_at = NEVER
        return pending

    def count_silence_anew(self) -> None:
        """Others may be a majority now, or may be silent for another time."""
        self.heard_until = -math.inf

    def end_catch_up(self) -> None:
        """Nobody's answer is awaited (any more)."""
        self.catch_up_awaits = set()
        self.catch_up_until = self.patient_until = NEVER

    def heard_of(self, host: str) -> None:
        """Catching up need not wait for it (any more)."""
        self.catch_up_awaits.discard(host)


@dataclass(slots=True)
class SyncSource:
    """The member that the log is fetched from, None for nobody, and how we tell it where we are. Times are the
    driver's clock in seconds."""

    host: str | None = None
    reason: str = ""
    """Why the one before was left, or none is found."""
    retry_at: float = -math.inf
    forced: str | None = None
    position_in_flight: bool = False
    position_dirty: bool = False
    position_at: float = NEVER

    def search_at(self, now: float) -> None:
        """Look for one then, if there is none."""
        self.retry_at = now

    def leave(self) -> None:
        self.host = None
