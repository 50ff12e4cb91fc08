"""What one member knows: its own position in the protocol and its picture of the others.

Only the modules of this package change a `State`; the driver reads it. `check()` asserts what must hold between events:

* a leader's term is the term of its last vote, and that vote was for itself;
* a writable leader's log ends in its own term; nobody but a leader holds an office;
* `durable <= applied`; the commit point never falls (rule 15);
* the last vote is never for a term above the current one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ConfigVersion, MemberConfig, ReplicaSetConfig
from docstore.replication.effects import Effect
from docstore.replication.messages import NO_CONFIG, NO_MEMBER, NO_VOTE, LastVote, Term
from docstore.replication.states import MemberState, PrimaryState, Role

NEVER = math.inf


@dataclass(slots=True)
class Peer:
    """Another member as we last heard of it. Times are the driver's clock in seconds; `-inf` is never."""

    host: str
    heard_at: float = -math.inf
    """Last proof of life: a heartbeat reply, or its position in an update (rule 10)."""
    up_since: float = -math.inf
    up: bool = False
    request_at: float = -math.inf
    state: MemberState = MemberState.UNKNOWN
    config: ConfigVersion = NO_CONFIG
    applied: OpTime = NULL_OPTIME
    durable: OpTime = NULL_OPTIME
    reported_at: float = -math.inf
    """Last time its position came through an update, which we then pass on upstream."""
    ping: float = 0.0
    primary_id: int = NO_MEMBER
    sync_source: str = ""
    electable: bool = False
    election_time: int = 0
    message: str = ""
    heartbeat_at: float = -math.inf
    in_flight: bool = False
    told_commit: OpTime = NULL_OPTIME
    avoid_until: float = -math.inf
    """Not to be used as sync source before."""
    config_asked_at: float = -math.inf

    def advance(self, applied: OpTime, durable: OpTime) -> None:
        """Positions only rise: what went down was rolled back, and the entries that replace it have a higher term."""
        self.applied = max(self.applied, applied)
        self.durable = max(self.durable, durable)


@dataclass(slots=True)
class Election:
    """A round in progress."""

    term: Term
    dry_run: bool
    reason: str
    started_at: float
    granted: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)


@dataclass(slots=True)
class PendingStepDown:
    """A step-down that waits for its successor (rule 9)."""

    token: int
    until: float
    frozen_until: float
    forced: bool


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
class State:
    """One member's whole protocol state. `dice()` gives [0, 1); `own_hosts` are the addresses that mean us."""

    set_name: str
    rng: Callable[[], float]
    own_hosts: set[str] = field(default_factory=set)
    config: ReplicaSetConfig | None = None
    me: MemberConfig | None = None
    term: Term = 0
    vote: LastVote = NO_VOTE
    role: Role = Role.FOLLOWER
    primary_state: PrimaryState | None = None
    primary_since: float = -math.inf
    follower_state: MemberState = MemberState.STARTUP
    peers: dict[str, Peer] = field(default_factory=dict)
    applied: OpTime = NULL_OPTIME
    durable: OpTime = NULL_OPTIME
    commit_point: OpTime = NULL_OPTIME
    primary_id: int = NO_MEMBER

    election: Election | None = None
    election_at: float = NEVER
    takeover_at: float = NEVER
    takeover_reason: str = ""
    frozen_until: float = -math.inf
    eager_until: float = -math.inf
    """After initiation: run as soon as a majority has the configuration, instead of waiting for the timeout."""
    last_election: ElectionRecord | None = None
    election_time: int = 0
    """Packed timestamp of the first entry of our last term in office."""

    catch_up_until: float = NEVER
    catch_up_awaits: set[str] = field(default_factory=set)
    step_down: PendingStepDown | None = None
    config_target: OpTime = NULL_OPTIME
    """The commit point when the configuration was installed: must be on a majority of it before the next (rule 21)."""

    maintenance: int = 0
    """How often maintenance mode was asked for and not taken back."""

    source: str | None = None
    source_reason: str = ""
    source_retry_at: float = -math.inf
    forced_source: str | None = None
    position_in_flight: bool = False
    position_dirty: bool = False
    position_at: float = NEVER
    commit_push_at: float = NEVER

    @property
    def member_state(self) -> MemberState:
        """What we tell others (rule 23a)."""
        if self.config is None:
            return MemberState.STARTUP
        if self.me is None:
            return MemberState.REMOVED
        if self.me.arbiter_only:
            return MemberState.ARBITER
        if self.role is Role.LEADER:
            return MemberState.PRIMARY
        if self.maintenance and self.follower_state is MemberState.SECONDARY:
            return MemberState.RECOVERING
        return self.follower_state

    @property
    def writable(self) -> bool:
        return self.primary_state is PrimaryState.WRITABLE

    @property
    def config_version(self) -> ConfigVersion:
        return NO_CONFIG if self.config is None else self.config.config_version

    @property
    def my_id(self) -> int:
        return NO_MEMBER if self.me is None else self.me.id

    @property
    def primary(self) -> Peer | None:
        """The other member that is primary in the current term, as far as we know."""
        member = None if self.config is None else self.config.member(self.primary_id)
        return None if member is None else self.peers.get(member.host)

    def member_of(self, host: str) -> MemberConfig | None:
        return None if self.config is None else self.config.member_at(host)

    def voting_peers(self) -> list[Peer]:
        """The other voters."""
        assert self.config is not None
        return [self.peers[member.host] for member in self.config.voters if member.host in self.peers]

    def install(self, config: ReplicaSetConfig, now: float) -> None:
        """Make `config` the current one; the picture of members that stay is kept. Heartbeats go out at once."""
        assert self.config is None or config.config_version.newer_than(self.config.config_version)
        self.config = config
        self.me = next((member for member in config.members if member.host in self.own_hosts), None)
        known = self.peers
        self.peers = {}
        for member in config.members:
            if self.me is None or member.id != self.me.id:
                peer = known.get(member.host) or Peer(member.host, heard_at=now)
                peer.heartbeat_at = now
                self.peers[member.host] = peer
        if config.member(self.primary_id) is None:
            self.primary_id = NO_MEMBER

    def check(self) -> None:
        """Assert the module's invariants."""
        assert self.durable <= self.applied, (self.durable, self.applied)
        assert self.vote.term <= self.term, (self.vote, self.term)
        assert (self.role is Role.LEADER) == (self.primary_state is not None), (self.role, self.primary_state)
        assert (self.role is Role.CANDIDATE) == (self.election is not None), (self.role, self.election)
        if self.role is Role.LEADER:
            assert self.me is not None
            assert self.vote == LastVote(term=self.term, candidate=self.me.id), (self.vote, self.term)
        if self.writable:
            assert self.applied.term == self.term, (self.applied, self.term)
        if self.step_down is not None:
            assert self.primary_state is PrimaryState.STEPPING_DOWN
        if self.config is not None:
            assert set(self.peers) == {m.host for m in self.config.members if self.me is None or m.id != self.me.id}


Effects = list[Effect]
