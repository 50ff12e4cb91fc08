"""What goes into the core: requests of other members, answers to our own, progress of the local log, commands.

Members are known by host ("name:port") and by an id that another host may have in another configuration: positions
name both. Requests and replies carry the `replica_set_id` of their sender's configuration, None before the first: what
comes from another set of the same name is never counted. A request that wants an answer carries a `token`, the driver's
own name for the conversation; the answer comes back as a `Reply` effect with the same token.
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
"""What a member reports that has no configuration yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVote:
    """The vote a member may never contradict; durable before any answer that depends on it (rule 5)."""

    term: Term
    candidate: int


NO_VOTE = LastVote(term=0, candidate=NO_MEMBER)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Every member to every member (rule 2). `commit_point` saves an idle set the wait for the next reply."""

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
    """`config_document` is the replier's configuration when it is newer than the asker's."""

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
    """Ask for a vote in `term`; in a real round the sender has made its own vote durable before (rule 4)."""

    set_name: str
    dry_run: bool
    term: Term
    candidate: int
    config: ConfigVersion
    last_op: OpTime
    if_no_primary: bool = False
    """A dry run that nobody shall grant who hears a primary."""
    replica_set_id: ObjectId | None = None
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteReply:
    """`reason` says why not."""

    term: Term
    granted: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far one member has come. `durable <= applied`."""

    member: int
    host: str
    applied: OpTime
    durable: OpTime


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionUpdate:
    """Progress going upstream along the sync tree: the sender's and that of those that sync from it (rule 15)."""

    term: Term
    config: ConfigVersion
    positions: tuple[Position, ...]
    replica_set_id: ObjectId | None = None
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionReply:
    """What the sync source knows; proof of life of the primary for those that sync from it (rule 3)."""

    term: Term
    commit_point: OpTime
    primary_id: int
    config: ConfigVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class StepUpRequest:
    """The leaving primary asks its best secondary to run at once, without a dry run (rule 4)."""

    token: int = field(default=0, compare=False)


Request = HeartbeatRequest | VoteRequest | PositionUpdate | StepUpRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer of `peer` to a request of ours, or None when none came (refused, unreachable, too late). `refused`:
    its port refused the connection, or closed it: nobody is there."""

    peer: str
    request: Request
    reply: HeartbeatReply | VoteReply | PositionReply | None
    round_trip: float = 0.0
    error: str = ""
    refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The local log: everything up to `applied` is applied, up to `durable` is on disk. Falls only by rollback."""

    applied: OpTime
    durable: OpTime


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerState:
    """The driver's work decides what a member that is not primary is: STARTUP2 (initial sync), RECOVERING (too stale,
    maintenance, start), ROLLBACK or SECONDARY."""

    state: MemberState


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFailed:
    """The sync source cannot be used: avoid it for `seconds`. `reason` is shown in the status."""

    peer: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpEnded:
    """The driver cannot fetch more for the new primary (nothing newer, or logs have parted): drain now."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """These hosts mean us, too: the driver has found it out."""

    hosts: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """All that had been fetched is applied; nothing is being fetched."""

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
    """Be primary no more for `seconds`, after at most `catch_up_seconds` of waiting for a successor (rule 9).
    `while_reachable`: only as long as somebody is heard of who could be it."""

    seconds: float
    catch_up_seconds: float
    force: bool = False
    while_reachable: bool = False
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """Do not run for `seconds`; 0 takes that back."""

    seconds: float
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncFrom:
    """Use `host` as the next sync source, once (rule 13)."""

    host: str
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Stay in RECOVERING, unread and unelected, until taken back as often as asked for."""

    on: bool
    token: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortCatchUp:
    """`replSetAbortPrimaryCatchUp`: a new primary shall take writes without what others have beyond it."""

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
