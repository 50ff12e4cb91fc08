"""Members as their hello replies describe them, and the one that a read preference chooses among them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LATENCY_WINDOW = 0.015
"""Seconds by which a member may be slower than the nearest one and still be chosen."""
IDLE_WRITE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Member:
    """One server that answered. `round_trip` in seconds."""

    host: tuple[str, int]
    hello: Mapping[str, Any]
    round_trip: float

    @property
    def router(self) -> bool:
        return self.hello.get("msg") == "isdbgrid"

    @property
    def writable(self) -> bool:
        return self.router or bool(self.hello.get("isWritablePrimary"))

    @property
    def secondary(self) -> bool:
        return bool(self.hello.get("secondary"))

    def known_addresses(self) -> Iterator[tuple[str, int]]:
        """The data-bearing members that this one knows of."""
        addresses = [*self.hello.get("hosts", ()), *self.hello.get("passives", ())]
        if isinstance(self.hello.get("primary"), str):
            addresses.append(self.hello["primary"])
        for text in addresses:
            name, _, port = text.rpartition(":")
            yield name.strip("[]"), int(port)

    def written(self) -> float | None:
        """Return the time of its newest write in seconds since 1970; None if the member does not report it."""
        date = self.hello.get("lastWrite", {}).get("lastWriteDate")
        return date.timestamp() if date is not None else None


def choose(members: Sequence[Member], preference: Mapping[str, Any]) -> Member | None:
    """Return the member for a read preference; without one, routers and primaries come first."""
    for member in members:
        if member.router:
            return member
    primary = next((member for member in members if member.writable), None)
    mode = preference["mode"]
    if mode == "primary":
        return primary
    if mode == "primaryPreferred" and primary is not None:
        return primary
    secondaries = [member for member in members if member.secondary]
    eligible = secondaries if mode != "nearest" else [*secondaries, *([primary] if primary is not None else [])]
    fresh = _fresh(eligible, members, preference.get("maxStalenessSeconds"))
    nearest = _nearest(_tagged(fresh, preference.get("tags") or [{}]))
    if nearest is None and mode == "secondaryPreferred":
        return primary
    return nearest


def _fresh(eligible: Sequence[Member], members: Sequence[Member], most: float | None) -> Sequence[Member]:
    """Return the members within `most` seconds of the newest known write."""
    if most is None or most < 0:
        return eligible
    newest = max((member.written() or 0.0 for member in members), default=0.0)
    return [member for member in eligible if newest - (member.written() or 0.0) + IDLE_WRITE_SECONDS <= most]


def _tagged(members: Sequence[Member], tag_sets: Sequence[Mapping[str, Any]]) -> Sequence[Member]:
    """Return the members with all tags of the first tag set that matches any."""
    for tags in tag_sets:
        fitting = [member for member in members if tags.items() <= dict(member.hello.get("tags", {})).items()]
        if fitting:
            return fitting
    return ()


def _nearest(members: Sequence[Member]) -> Member | None:
    if not members:
        return None
    least = min(member.round_trip for member in members)
    return random.choice([member for member in members if member.round_trip <= least + LATENCY_WINDOW])
