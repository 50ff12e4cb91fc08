"""The member that a read preference chooses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shell.members import Member, choose


def member(name: str, *, slow: float = 0.0, written: int = 1000, **hello: Any) -> Member:
    last = {"lastWrite": {"lastWriteDate": datetime.fromtimestamp(written, UTC)}}
    return Member((name, 1), last | hello, 0.001 + slow)


P = member("p", isWritablePrimary=True, tags={"dc": "east"})
E = member("e", secondary=True, tags={"dc": "east", "rack": "1"})
W = member("w", secondary=True, tags={"dc": "west"}, slow=0.1)
OLD = member("old", secondary=True, written=900)


@pytest.mark.parametrize(
    ("members", "preference", "name"),
    [
        ([E, P], {"mode": "primary"}, "p"),
        ([E, W], {"mode": "primary"}, None),
        ([E, P], {"mode": "primaryPreferred"}, "p"),
        ([E], {"mode": "primaryPreferred"}, "e"),
        ([P, E, W], {"mode": "secondary"}, "e"),
        ([P], {"mode": "secondary"}, None),
        ([P], {"mode": "secondaryPreferred"}, "p"),
        ([P, W], {"mode": "secondaryPreferred"}, "w"),
        ([P, W], {"mode": "nearest"}, "p"),
        ([P, E, W], {"mode": "secondary", "tags": [{"dc": "west"}]}, "w"),
        ([P, E, W], {"mode": "secondary", "tags": [{"dc": "north"}]}, None),
        ([P, E, W], {"mode": "secondary", "tags": [{"dc": "north"}, {"dc": "west"}]}, "w"),
        ([P, E, W], {"mode": "secondaryPreferred", "tags": [{"dc": "north"}]}, "p"),
        ([P, OLD], {"mode": "secondary", "maxStalenessSeconds": 90}, None),
        ([P, OLD], {"mode": "secondary", "maxStalenessSeconds": 120}, "old"),
        ([E, member("r", msg="isdbgrid")], {"mode": "secondary"}, "r"),
        ([], {"mode": "nearest"}, None),
    ],
)
def test_the_choice(members: list[Member], preference: dict[str, Any], name: str | None) -> None:
    chosen = choose(members, preference)
    assert (chosen and chosen.host[0]) == name


def test_a_member_tells_of_the_others() -> None:
    hello = {"hosts": ["a:1", "b:2"], "passives": ["c:3"], "primary": "[::1]:4", "arbiters": ["d:5"]}
    assert list(member("x", **hello).known_addresses()) == [("a", 1), ("b", 2), ("c", 3), ("::1", 4)]
