"""State of a member's roles: candidate, primary, follower with a sync source, observer of a primary's loss.

`docstore.replication.state.State` has one object of each. `elections`, `leadership`, `following` and `primary_loss`
change them through their methods. Times are seconds of the driver's clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.optime import OpTime
from docstore.replication.config import MemberConfig, ReplicaSetConfig
from docstore.replication.messages import Term

NEVER = math.inf
"""Time of an event that is not scheduled."""
BY_TIMEOUT = "electionTimeout"
BY_PRIORITY = "priorityTakeover"
BY_CATCH_UP = "catchUpTakeover"
BY_STEP_UP = "stepUpRequestSkipDryRun"
BY_REFUSED_PORT = "primaryPortRefused"
TIMEOUT_SPREAD = 0.15
"""Random part of the election timeout, as a fraction of it."""
RETRY_FRACTION = 0.5
"""After a lost election: the least wait, as a fraction of the timeout; at most the whole."""
REFUSALS = 2
"""Consecutive refusals that count as evidence: a single one may be a reset connection."""


@dataclass(slots=True)
class Election:
    """A round in progress."""

    term: Term
    dry_run: bool
    reason: str
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    heard: set[int] = field(default_factory=set)
    """Members that have replied, with any result."""

    @property
    def for_want_of_primary(self) -> bool:
        """True if no other candidate is expected: if this round is cancelled, the set stays without a primary."""
        return self.reason in (BY_TIMEOUT, BY_STEP_UP)


@dataclass(slots=True)
class Candidacy:
    """A member's candidacy and its schedule. Times are the driver's clock in seconds."""

    election: Election | None = None
    election_at: float = NEVER
    takeover_at: float = NEVER
    takeover_reason: str = ""
    frozen_until: float = -math.inf
    out_of_reach: bool = False
    """The last round was lost because too few voters could be reached to win it."""
    eager_until: float = -math.inf
    """After initiation: run as soon as a majority has the configuration and the initial data, without the timeout."""
    maintenance: int = 0
    """Number of maintenance requests that were not undone."""

    def wait_for_silence(
        self, config: ReplicaSetConfig | None, me: MemberConfig | None, now: float, rng: Callable[[], float]
    ) -> None:
        """Schedule an election after a full timeout from now."""
        self.election_at = NEVER
        self.out_of_reach = False
        if config is not None and me is not None and me.electable:
            self.election_at = now + config.settings.election_timeout * (1 + TIMEOUT_SPREAD * rng())

    def retry_later(self, timeout: float, now: float, rng: Callable[[], float]) -> None:
        """Schedule a retry after a lost round, at a random time, so that the same candidates do not collide again."""
        self.end_round()
        self.election_at = now + timeout * (RETRY_FRACTION + (1 - RETRY_FRACTION) * rng())

    def run_by(self, at: float) -> None:
        """Schedule the election no later than `at`."""
        self.election_at = min(self.election_at, at)

    def run_before_timeout(self, at: float) -> None:
        """Schedule the election no later than `at`, if one is scheduled."""
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
        """End the won round and return it; clear the schedule."""
        election = self.election
        assert election is not None
        self.end_round()
        self.out_of_reach = False
        self.election_at = self.takeover_at = NEVER
        self.eager_until = -math.inf
        return election


@dataclass(slots=True)
class PrimaryLoss:
    """The last known primary, and evidence of its end. Times are the driver's clock in seconds."""

    host: str = ""
    until: float = -math.inf
    """Time from which the election timeout decides."""
    refusals: int = 0
    run_at: float = NEVER

    def heard(self, host: str, until: float) -> None:
        """Record a proof of life; discard the evidence."""
        self.host, self.until, self.refusals, self.run_at = host, until, 0, NEVER

    def refused(self) -> bool:
        """Count a refusal; return True if they are evidence."""
        self.refusals += 1
        return self.refusals >= REFUSALS

    def run(self, at: float) -> None:
        self.run_at = min(self.run_at, at)

    def settle(self) -> None:
        """Cancel the election: one is running, or another candidate got this member's vote."""
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
    """The last won election, for the status. Times are the driver's clock."""

    reason: str
    term: Term
    at: float
    commit_point: OpTime
    last_seen: OpTime
    votes_needed: int
    priority: float
    caught_up_at: float | None = None
    majority_at: float | None = None
    """Time at which a majority had the first entry of the term."""

    def reached_majority(self, now: float) -> None:
        """Record that a majority has the first entry of the term."""
        self.majority_at = now


@dataclass(slots=True)
class Leadership:
    """State of a primary, and of its last term. Times are the driver's clock in seconds."""

    since: float = -math.inf
    heard_until: float = -math.inf
    """A majority is in contact until this time at least: news of members only defers it."""
    catch_up_until: float = NEVER
    catch_up_awaits: set[str] = field(default_factory=set)
    """Members without a reply to a heartbeat sent since the election."""
    catches_up: bool = False
    """True after a member was found to be ahead of this one."""
    patient_until: float = NEVER
    """Until then, members among them that are believed down are awaited too."""
    step_down: PendingStepDown | None = None
    commit_push_at: float = NEVER
    last_election: ElectionRecord | None = None
    election_time: int = 0
    """Packed timestamp of the first entry of the last own term as primary."""

    def end(self) -> PendingStepDown | None:
        """End the primary's state; return the step-down command that waits for this, if any."""
        pending, self.step_down = self.step_down, None
        self.end_catch_up()
        self.commit_push_at = NEVER
        return pending

    def count_silence_anew(self) -> None:
        """Recompute the contact limit: the voters or the timeout may have changed."""
        self.heard_until = -math.inf

    def begin_catch_up(self) -> None:
        """Record that a member is ahead of this one."""
        self.catches_up = True

    def end_catch_up(self) -> None:
        """Stop waiting for members' replies."""
        self.catch_up_awaits = set()
        self.catches_up = False
        self.catch_up_until = self.patient_until = NEVER

    def heard_of(self, host: str) -> None:
        """Stop waiting for this member's reply."""
        self.catch_up_awaits.discard(host)


@dataclass(slots=True)
class SyncSource:
    """The member that the oplog is fetched from (None: no one), and the position updates to it.

    Times are the driver's clock in seconds.
    """

    host: str | None = None
    reason: str = ""
    """Reason why the last one was left, or why none was found."""
    retry_at: float = -math.inf
    forced: str | None = None
    position_in_flight: bool = False
    position_dirty: bool = False
    position_at: float = NEVER

    def search_at(self, now: float) -> None:
        """Search for a source at `now` if there is none."""
        self.retry_at = now

    def leave(self) -> None:
        self.host = None
