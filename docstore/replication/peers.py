"""The picture of the other members. `heartbeats` draws it; others add what they learn, by a peer's methods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from docstore.optime import NULL_OPTIME, OpTime
from docstore.replication.config import ConfigVersion, MemberConfig, ReplicaSetConfig
from docstore.replication.messages import NO_CONFIG, NO_MEMBER
from docstore.replication.states import MemberState


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

    def advance(self, applied: OpTime, durable: OpTime) -> None:
        """Positions only rise: what went down was rolled back, and the entries that replace it have a higher term."""
        self.applied = max(self.applied, applied)
        self.durable = max(self.durable, durable)

    def has_nothing(self) -> None:
        """Whatever it held before, it does not hold it now."""
        self.applied = self.durable = NULL_OPTIME

    def report(self, applied: OpTime, durable: OpTime, now: float) -> None:
        """Its position came through an update: it lives."""
        self.advance(applied, durable)
        self.heard_at = self.reported_at = now

    def ask_at(self, now: float) -> None:
        """The next heartbeat goes to it then."""
        self.heartbeat_at = now

    def told(self, commit_point: OpTime) -> None:
        """It has been told this commit point."""
        self.told_commit = max(self.told_commit, commit_point)

    def may_not_know_beyond(self, commit_point: OpTime) -> None:
        """What it was told by others before does not count."""
        self.told_commit = min(self.told_commit, commit_point)

    def avoid(self, until: float) -> None:
        """As sync source."""
        self.avoid_until = until


def picture(
    config: ReplicaSetConfig, me: MemberConfig | None, known: Mapping[str, Peer], now: float
) -> dict[str, Peer]:
    """By host, the other members of a configuration: what is known of those that stay is kept. Heartbeats go out at
    once."""
    peers = {}
    for member in config.members:
        if me is None or member.id != me.id:
            peer = known.get(member.host) or Peer(member.host, heard_at=now)
            peer.ask_at(now)
            peers[member.host] = peer
    return peers
