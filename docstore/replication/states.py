"""Member states, numbered as `replSetGetStatus` shows them (rule 23a of the replication protocol).

STARTUP -> STARTUP2 -> RECOVERING or SECONDARY -> PRIMARY. Reads need SECONDARY or PRIMARY; REMOVED is a member that its
own configuration does not name.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """The state as numbers on the wire; never renumber."""

    STARTUP = 0
    PRIMARY = 1
    SECONDARY = 2
    RECOVERING = 3
    STARTUP2 = 5
    UNKNOWN = 6
    ARBITER = 7
    DOWN = 8
    ROLLBACK = 9
    REMOVED = 10

    @property
    def label(self) -> str:
        """The name in `stateStr`; a member never heard of shows as in the real server."""
        return "(not reachable/healthy)" if self in (MemberState.DOWN, MemberState.UNKNOWN) else self.name

    @property
    def readable(self) -> bool:
        return self in (MemberState.PRIMARY, MemberState.SECONDARY)


class Role(Enum):
    """What a member is in the protocol of elections."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class PrimaryState(Enum):
    """How far a leader is (rule 7): only WRITABLE accepts writes."""

    CATCHING_UP = "catching up"
    DRAINING = "draining"
    WRITABLE = "writable"
    STEPPING_DOWN = "stepping down"
