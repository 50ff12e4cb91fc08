"""State of one member: its own position in the protocol and the known state of the others.

Only the modules of this package change a `State`, each its own part; the driver reads it. `check()` asserts the
invariants between events:

* a leader's term is the term of its last vote, and that vote was for itself;
* a writable leader's log ends in its own term; only a leader has a `primary_state`;
* `durable <= applied`; the commit point never falls (rule 15);
* the last vote is never for a term above the current one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bson.objectid import ObjectId

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ConfigVersion, MemberConfig, ReplicaSetConfig
from docstore.replication.election_counts import ElectionCounts
from docstore.replication.messages import NO_CONFIG, NO_MEMBER, NO_VOTE, LastVote, Term
from docstore.replication.peers import Peer
from docstore.replication.roles import Candidacy, Leadership, PrimaryLoss, SyncSource
from docstore.replication.states import MemberState, PrimaryState, Role


@dataclass(slots=True)
class State:
    """The protocol state of one member: shared fields, then the roles, which are changed by their methods only.

    `rng()` returns numbers in [0, 1); `own_hosts` are addresses of this member.
    """

    set_name: str
    rng: Callable[[], float]
    own_hosts: set[str] = field(default_factory=set)
    config: ReplicaSetConfig | None = None
    me: MemberConfig | None = None
    config_target: OpTime = NULL_OPTIME
    """The commit point when the configuration was installed.

    The next change requires it on a majority of this configuration (rule 21).
    """

    term: Term = 0
    vote: LastVote = NO_VOTE
    role: Role = Role.FOLLOWER
    primary_state: PrimaryState | None = None
    follower_state: MemberState = MemberState.STARTUP
    applied: OpTime = NULL_OPTIME
    durable: OpTime = NULL_OPTIME
    commit_point: OpTime = NULL_OPTIME
    peers: dict[str, Peer] = field(default_factory=dict)
    primary_id: int = NO_MEMBER

    candidacy: Candidacy = field(default_factory=Candidacy)
    primary_loss: PrimaryLoss = field(default_factory=PrimaryLoss)
    leadership: Leadership = field(default_factory=Leadership)
    sync_source: SyncSource = field(default_factory=SyncSource)
    counts: ElectionCounts = field(default_factory=ElectionCounts)

    @property
    def member_state(self) -> MemberState:
        """The state reported to other members (rule 23a)."""
        if self.config is None:
            return MemberState.STARTUP
        if self.me is None:
            return MemberState.REMOVED
        if self.me.arbiter_only:
            return MemberState.ARBITER
        if self.role is Role.LEADER:
            return MemberState.PRIMARY
        if self.candidacy.maintenance and self.follower_state is MemberState.SECONDARY:
            return MemberState.RECOVERING
        return self.follower_state

    @property
    def writable(self) -> bool:
        return self.primary_state is PrimaryState.WRITABLE

    @property
    def config_version(self) -> ConfigVersion:
        return NO_CONFIG if self.config is None else self.config.config_version

    @property
    def replica_set_id(self) -> ObjectId | None:
        """The set's id, which distinguishes sets of the same name; None before the first configuration."""
        return None if self.config is None else self.config.settings.replica_set_id

    @property
    def my_id(self) -> int:
        return NO_MEMBER if self.me is None else self.me.id

    @property
    def primary(self) -> Peer | None:
        """The other member that is primary in the current term, as far as known."""
        member = None if self.config is None else self.config.member(self.primary_id)
        return None if member is None else self.peers.get(member.host)

    def member_of(self, host: str) -> MemberConfig | None:
        return None if self.config is None else self.config.member_at(host)

    def voting_peers(self) -> list[Peer]:
        """Return the other voters."""
        assert self.config is not None
        return [self.peers[member.host] for member in self.config.voters if member.host in self.peers]

    def check(self) -> None:
        """Assert the module's invariants."""
        assert self.durable <= self.applied, (self.durable, self.applied)
        assert self.vote.term <= self.term, (self.vote, self.term)
        assert (self.role is Role.LEADER) == (self.primary_state is not None), (self.role, self.primary_state)
        assert (self.role is Role.CANDIDATE) == (self.candidacy.election is not None), (
            self.role,
            self.candidacy.election,
        )
        if self.role is Role.LEADER:
            assert self.me is not None
            assert self.vote == LastVote(term=self.term, candidate=self.me.id), (self.vote, self.term)
        if self.writable:
            assert self.applied.term == self.term, (self.applied, self.term)
        if self.leadership.step_down is not None:
            assert self.primary_state is PrimaryState.STEPPING_DOWN
        if self.config is not None:
            assert len(self.peers) == len(self.config.members) - (self.me is not None), (self.peers, self.config)
