"""State of the other members. `heartbeats` maintains it; other modules add news through a peer's methods."""

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
    """The last known state of another member. Times are the driver's clock in seconds; `-inf` is never."""

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
    """Time of its last position from an update, which is then passed on upstream."""
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
    """Not to be used as sync source before this time."""

    def advance(self, applied: OpTime, durable: OpTime) -> None:
        """Raise its positions. They never fall: entries that replace rolled back ones have a higher term."""
        self.applied = max(self.applied, applied)
        self.durable = max(self.durable, durable)

    def has_nothing(self) -> None:
        """Reset its positions: it has lost its data."""
        self.applied = self.durable = NULL_OPTIME

    def report(self, applied: OpTime, durable: OpTime, now: float) -> None:
        """Record its position from an update, which is also a proof of life."""
        self.advance(applied, durable)
        self.heard_at = self.reported_at = now

    def ask_at(self, now: float) -> None:
        """Schedule the next heartbeat to it."""
        self.heartbeat_at = now

    def record_commit_point(self, commit_point: OpTime) -> None:
        """Record that it has received this commit point."""
        self.told_commit = max(self.told_commit, commit_point)

    def may_not_know_beyond(self, commit_point: OpTime) -> None:
        """Lower its known commit point to this one: values from other senders do not count."""
        self.told_commit = min(self.told_commit, commit_point)

    def avoid(self, until: float) -> None:
        """Do not use it as sync source before `until`."""
        self.avoid_until = until


def picture(
    config: ReplicaSetConfig, me: MemberConfig | None, current_peers: Mapping[str, Peer], now: float
) -> dict[str, Peer]:
    """Return the other members of a configuration by host, keeping the state of known ones.

    Heartbeats are due at once.
    """
    peers = {}
    for member in config.members:
        if me is None or member.id != me.id:
            peer = current_peers.get(member.host) or Peer(member.host, heard_at=now)
            peer.ask_at(now)
            peers[member.host] = peer
    return peers
