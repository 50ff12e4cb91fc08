"""Events for the core: requests of other members, replies to own requests, progress of the local log, commands.

* Members are identified by host ("name:port"), and by an id that another configuration may assign to another host.
  Positions carry both.
* Requests and replies carry the sender's `replica_set_id`, None before its first configuration. Messages from another
  set of the same name are ignored.
* A request that needs a reply has a `token`, chosen by the driver; the `Reply` effect has the same token.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bson.objectid import ObjectId

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ConfigVersion, ReplicaSetConfig
from docstore.replication.states import MemberState

Term = int
NO_MEMBER = -1
NO_CONFIG = ConfigVersion(-1, -2)
"""The configuration version reported by a member without configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVote:
    """The vote that a member may never contradict; durable before any reply that depends on it (rule 5)."""

    term: Term
    candidate: int


NO_VOTE = LastVote(term=0, candidate=NO_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """From every member to every other (rule 2). In an idle set `commit_point` need not wait for the next reply."""

    set_name: str
    sender: str
    sender_id: int
    config: ConfigVersion
    term: Term
    commit_point: OpTime = NULL_OPTIME
    replica_set_id: ObjectId | None = None
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """Reply to a heartbeat. `config_document`: the replier's configuration if it is newer than the requester's."""

    set_name: str
    state: MemberState
    term: Term
    config: ConfigVersion
    applied: OpTime
    durable: OpTime
    commit_point: OpTime
    primary_id: int = NO_MEMBER
    sync_source: str = ""
    electable: bool = False
    election_time: int = 0
    replica_set_id: ObjectId | None = None
    config_document: ReplicaSetConfig | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """Request for a vote in `term`; in a real round the sender's own vote is durable before (rule 4)."""

    set_name: str
    dry_run: bool
    term: Term
    candidate: int
    config: ConfigVersion
    last_op: OpTime
    if_no_primary: bool = False
    """A dry run that members in contact with a primary must reject."""
    replica_set_id: ObjectId | None = None
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteReply:
    """Reply to a vote request. `reason`: why it was rejected."""

    term: Term
    granted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Log position of one member. `durable <= applied`."""

    member: int
    host: str
    applied: OpTime
    durable: OpTime


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionUpdate:
    """Positions sent up the sync tree: the sender's and those behind it (rule 15)."""

    term: Term
    config: ConfigVersion
    positions: tuple[Position, ...]
    replica_set_id: ObjectId | None = None
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReply:
    """State of the sync source; proof of life of the primary for the members behind it (rule 3)."""

    term: Term
    commit_point: OpTime
    primary_id: int
    config: ConfigVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpRequest:
    """A request of the primary that steps down: its best secondary runs at once, without a dry run (rule 4)."""

    token: int = field(default=0, compare=False)


Request = HeartbeatRequest | VoteRequest | PositionUpdate | StepUpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The outcome of an own request to `peer`; `reply` is None if none came (rejected, unreachable, too late).

    `refused`: the port refused or closed the connection, so no process is there.
    """

    peer: str
    request: Request
    reply: HeartbeatReply | VoteReply | PositionReply | None
    round_trip: float = 0.0
    error: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of the local log: entries up to `applied` are applied, up to `durable` on disk.

    Only a rollback decreases them.
    """

    applied: OpTime
    durable: OpTime


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerState:
    """State of a non-primary member, set by the driver: STARTUP2 (initial sync), RECOVERING, ROLLBACK or SECONDARY.

    RECOVERING: start, maintenance, or too stale.
    """

    state: MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed:
    """The sync source is unusable: avoid it for `seconds`. `reason` is shown in the status."""

    peer: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpEnded:
    """The new primary cannot fetch more (nothing newer, or logs have diverged): drain now."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """The driver has found that these hosts are addresses of this member."""

    hosts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """All fetched entries are applied; nothing is being fetched."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class BecamePrimary:
    """The first entry of the new term is in the local log."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Initiate:
    """Install the first configuration on a member without one. The driver has asked all members before."""

    config: ReplicaSetConfig
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconfigure:
    """Install the next configuration (rule 21); `force` runs on any member and skips the safety checks.

    `concern_is_set`: an operator has set the default write concern, so the implicit one may change.
    """

    config: ReplicaSetConfig
    force: bool = False
    concern_is_set: bool = False
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepDown:
    """Step down for `seconds`, after waiting at most `catch_up_seconds` for a successor (rule 9).

    `while_reachable`: only while a possible successor is reachable.
    """

    seconds: float
    catch_up_seconds: float
    force: bool = False
    while_reachable: bool = False
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Do not run for `seconds`; 0 ends the freeze."""

    seconds: float
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFrom:
    """Use `host` as the next sync source, once (rule 13)."""

    host: str
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Stay in RECOVERING, without reads and elections; each request must be undone by another."""

    on: bool
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCatchUp:
    """`replSetAbortPrimaryCatchUp`: a new primary accepts writes without the entries that only others have."""

    token: int = field(default=0, compare=False)


Event = (
    Request
    | Answered
    | Progress
    | FollowerState
    | SourceFailed
    | CatchUpEnded
    | Recognized
    | Drained
    | BecamePrimary
    | Initiate
    | Reconfigure
    | StepDown
    | Freeze
    | SyncFrom
    | Maintenance
    | AbortCatchUp
)
