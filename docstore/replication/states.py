"""Member states, numbered as `replSetGetStatus` shows them (rule 23a of the replication protocol).

STARTUP -> STARTUP2 -> RECOVERING or SECONDARY -> PRIMARY. Reads need SECONDARY or PRIMARY. A REMOVED member is not in
its own configuration.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class MemberState(IntEnum):
    """The states by their numbers on the wire; never renumber."""

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
        """The name in `stateStr`; an unreachable or unknown member has the reference's text."""
        return "(not reachable/healthy)" if self in (MemberState.DOWN, MemberState.UNKNOWN) else self.name

    @property
    def readable(self) -> bool:
        return self in (MemberState.PRIMARY, MemberState.SECONDARY)


class Role(Enum):
    """Role of a member in elections."""

    FOLLOWER = "follower"
    CANDIDATE = "candidate"
    LEADER = "leader"


class PrimaryState(Enum):
    """Progress of a leader (rule 7): only WRITABLE accepts writes."""

    CATCHING_UP = "catching up"
    DRAINING = "draining"
    WRITABLE = "writable"
    STEPPING_DOWN = "stepping down"
