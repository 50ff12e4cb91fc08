"""The topology of a replica set as a client knows it, derived from hello replies. No I/O, no clock.

Follows the public Server Discovery and Monitoring specification for replica sets; a standalone node counts as a set of
one.

- At most one member counts as primary.
- The primary's list of hosts is the list of members.
- Replies of a primary with an older election than one seen before are ignored.
- A member that names another set is not a member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from bson.datetime_ms import DatetimeMS

from docstore.commands.concerns import ReadMode, ReadPreference

HEARTBEAT_SECONDS = 10.0
"""Maximum interval between two checks of a member."""
_NEVER_ELECTED = (b"", -1)


class Kind(Enum):
    """The role a member reported."""

    UNKNOWN = "unknown"
    PRIMARY = "primary"
    SECONDARY = "secondary"
    OTHER = "other"
    """Arbiters, hidden, recovering and uninitiated members."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member, from its last hello reply.

    `round_trip`: seconds. `heard`: on the client's clock. `last_write`: seconds since 1970 on the member's clock.
    """

    address: str
    kind: Kind = Kind.UNKNOWN
    set_name: str | None = None
    hosts: tuple[str, ...] = ()
    arbiters: frozenset[str] = frozenset()
    me: str | None = None
    election: tuple[bytes, int] = _NEVER_ELECTED
    tags: frozenset[tuple[str, str]] = frozenset()
    round_trip: float = field(default=0.0, compare=False)
    heard: float = field(default=0.0, compare=False)
    last_write: float | None = field(default=None, compare=False)
    topology_version: Mapping[str, Any] | None = field(default=None, compare=False)


def member_from_hello(address: str, hello: Mapping[str, Any], round_trip: float, heard: float = 0.0) -> Member:
    """Return a member from its decoded hello reply."""
    writable = bool(hello.get("isWritablePrimary") or hello.get("ismaster"))
    set_name = hello.get("setName")
    if hello.get("isreplicaset") or hello.get("hidden"):
        kind = Kind.OTHER
    elif writable:
        kind = Kind.PRIMARY
    elif set_name is not None and hello.get("secondary"):
        kind = Kind.SECONDARY
    else:
        kind = Kind.OTHER
    election_id = hello.get("electionId")
    hosts = [host.lower() for name in ("hosts", "passives", "arbiters") for host in hello.get(name, ())]
    me = hello.get("me")
    return Member(
        address,
        kind,
        set_name,
        tuple(hosts),
        frozenset(host.lower() for host in hello.get("arbiters", ())),
        me.lower() if me else None,
        (election_id.binary if election_id is not None else b"", int(hello.get("setVersion", -1))),
        frozenset((name, str(value)) for name, value in hello.get("tags", {}).items()),
        round_trip,
        heard,
        _seconds(hello.get("lastWrite", {}).get("lastWriteDate")),
        hello.get("topologyVersion"),
    )


def _seconds(date: DatetimeMS | None) -> float | None:
    return int(date) / 1000 if date is not None else None


class Topology:
    """The members of one set. An empty `set_name` becomes that of the first member that reports one."""

    def __init__(self, seeds: Iterable[str], set_name: str = "") -> None:
        self.set_name = set_name
        self.members: dict[str, Member] = {seed.lower(): Member(seed.lower()) for seed in seeds}
        self._newest_election = _NEVER_ELECTED

    @property
    def data_bearing(self) -> list[Member]:
        """Return the data-bearing members, except hidden ones, which no member reports."""
        arbiters = frozenset[str]().union(*(member.arbiters for member in self.members.values()))
        return [member for address, member in self.members.items() if address not in arbiters]

    @property
    def primary(self) -> Member | None:
        return next((member for member in self.members.values() if member.kind is Kind.PRIMARY), None)

    def update(self, member: Member) -> bool:
        """Apply a member's reply, or its failure (Kind.UNKNOWN). True if anything changed.

        This may add and remove members, including the sender.
        """
        before = dict(self.members)
        if member.address not in before:
            return False
        if member.set_name is not None and member.kind is not Kind.UNKNOWN:
            self._take_in(member)
        elif member.kind is Kind.PRIMARY and (self.set_name or len(before) > 1):
            # A standalone is no member of a set.
            del self.members[member.address]
        else:
            self.members[member.address] = member
        return self.members != before

    def suspect(self, address: str) -> bool:
        """Mark a member's state as unknown. True if it was known."""
        member = self.members.get(address.lower())
        return member is not None and self.update(Member(member.address))

    def _take_in(self, member: Member) -> None:
        if not self.set_name:
            self.set_name = member.set_name or ""
        if member.set_name != self.set_name:
            del self.members[member.address]
            return
        if member.kind is Kind.PRIMARY:
            self._take_in_primary(member)
            return
        self.members[member.address] = member
        if self.primary is None:
            self._add(member.hosts)
        if member.me is not None and member.me != member.address and member.me in member.hosts:
            # The set knows it by another name, which is a member now.
            self._add((member.me,))
            del self.members[member.address]

    def _take_in_primary(self, member: Member) -> None:
        if member.election < self._newest_election:
            self.members[member.address] = Member(member.address)
            return
        self._newest_election = member.election
        for other in list(self.members.values()):
            if other.kind is Kind.PRIMARY and other.address != member.address:
                self.members[other.address] = Member(other.address)
        self.members[member.address] = member
        self._add(member.hosts)
        for address in [address for address in self.members if address not in member.hosts]:
            del self.members[address]

    def _add(self, hosts: Iterable[str]) -> None:
        for host in hosts:
            self.members.setdefault(host, Member(host))

    def suitable(self, preference: ReadPreference) -> list[Member]:
        """Return the members that may serve the read, nearest first; empty if there are none."""
        primary = self.primary
        first = [primary] if primary is not None else []
        mode = preference.mode
        if mode is ReadMode.PRIMARY or (mode is ReadMode.PRIMARY_PREFERRED and first):
            return first
        secondaries = _tagged(self._fresh_secondaries(preference.max_staleness_seconds), preference)
        if mode is ReadMode.NEAREST:
            return sorted([*_tagged(first, preference), *secondaries], key=_distance)
        if mode is ReadMode.SECONDARY_PREFERRED and not secondaries:
            return first
        return sorted(secondaries, key=_distance)

    def _fresh_secondaries(self, max_staleness: int | None) -> list[Member]:
        """Return the secondaries within the maximum staleness, by the specification's estimate."""
        secondaries = [member for member in self.members.values() if member.kind is Kind.SECONDARY]
        if max_staleness is None:
            return secondaries
        fresh = []
        for member in secondaries:
            staleness = self.staleness_of(member)
            if staleness is not None and staleness + HEARTBEAT_SECONDS <= max_staleness:
                fresh.append(member)
        return fresh

    def staleness_of(self, member: Member) -> float | None:
        """Return a member's staleness in seconds, by the specification's estimate; None if its last write is unknown.

        It is relative to the primary; without a primary, to the newest secondary.
        """
        if member.last_write is None:
            return None
        primary = self.primary
        if primary is not None and primary.last_write is not None:
            return (member.heard - member.last_write) - (primary.heard - primary.last_write)
        secondaries = [secondary for secondary in self.members.values() if secondary.kind is Kind.SECONDARY]
        return max((secondary.last_write or 0.0 for secondary in secondaries), default=0.0) - member.last_write

    def document(self) -> list[dict[str, Any]]:
        """Return the members for connPoolStats, by address. `lastWriteDate` and `lagSeconds` are present if the last
        write is known.
        """
        return [self._described(self.members[address]) for address in sorted(self.members)]

    def _described(self, member: Member) -> dict[str, Any]:
        description: dict[str, Any] = {
            "addr": member.address,
            "ok": member.kind is not Kind.UNKNOWN,
            "ismaster": member.kind is Kind.PRIMARY,
            "hidden": False,
            "secondary": member.kind is Kind.SECONDARY,
            "pingTimeMillis": round(member.round_trip * 1000),
        }
        if member.tags:
            description["tags"] = dict(sorted(member.tags))
        staleness = self.staleness_of(member)
        if member.last_write is not None and staleness is not None:
            description |= {
                "lastWriteDate": DatetimeMS(round(member.last_write * 1000)),
                "lagSeconds": max(staleness, 0.0),
            }
        return description


def _tagged(members: Iterable[Member], preference: ReadPreference) -> list[Member]:
    """Return the members with all tags of the first tag set that matches any."""
    members = list(members)
    for tag_set in preference.tag_sets or ((),):
        required_tags = frozenset(tag_set)
        chosen = [member for member in members if required_tags <= member.tags]
        if chosen:
            return chosen
    return []


def _distance(member: Member) -> float:
    return member.round_trip


def with_round_trip(member: Member, earlier: Member | None) -> Member:
    """Return the member with its round trip time smoothed over the earlier one's; 0 is no measurement."""
    if earlier is None or not earlier.round_trip:
        return member
    if not member.round_trip:
        return replace(member, round_trip=earlier.round_trip)
    return replace(member, round_trip=0.2 * member.round_trip + 0.8 * earlier.round_trip)
