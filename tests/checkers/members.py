"""Members of one set hold the same; owners of one collection have the same options and indexes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.checkers.history import Anomaly


@dataclass(slots=True)
class Description:
    """A collection as one member describes it: plain values that can be compared, indexes by name."""

    options: Any
    indexes: Mapping[str, Any] = field(default_factory=dict)


def check_converged(positions: Mapping[str, Hashable]) -> list[Anomaly]:
    """Every member's last position in the log is the same."""
    return _equal("not converged", "the last position", positions)


def check_hashes(hashes: Mapping[str, Mapping[str, str]]) -> list[Anomaly]:
    """What `dbHash` says of each collection, by member."""
    names = sorted({name for found in hashes.values() for name in found})
    return [
        anomaly
        for name in names
        for anomaly in _equal(
            "data differ", f"dbHash of {name}", {member: found.get(name) for member, found in hashes.items()}
        )
    ]


def check_sessions_agree(rows: Mapping[str, Mapping[str, str]]) -> list[Anomaly]:
    """What members know of the newest write of each session, by member: a retry is answered by whoever is primary."""
    sessions = sorted({session for found in rows.values() for session in found})
    return [
        anomaly
        for session in sessions
        for anomaly in _equal(
            "sessions differ", f"session {session}", {member: found.get(session) for member, found in rows.items()}
        )
    ]


def check_catalogs(
    catalogs: Mapping[str, Mapping[str, Description]], owners: Mapping[str, Collection[str]] | None = None
) -> list[Anomaly]:
    """Collections by namespace, by member. `owners`: which members must have a namespace, all of them by default.

    A member that has the collection without having to is compared too: what it holds may come to matter again.
    """
    found = []
    for namespace in sorted({name for catalog in catalogs.values() for name in catalog}):
        needed = catalogs if owners is None else owners.get(namespace, ())
        holders = {member: catalog[namespace] for member, catalog in catalogs.items() if namespace in catalog}
        missing = sorted(member for member in needed if member not in holders)
        if missing:
            found.append(Anomaly("collection missing", f"{namespace} on {', '.join(missing)}"))
        options = {member: repr(held.options) for member, held in holders.items()}
        found += _equal("options differ", f"those of {namespace}", options)
        for index in sorted({name for held in holders.values() for name in held.indexes}):
            definitions = {member: repr(held.indexes.get(index)) for member, held in holders.items()}
            found += _equal("indexes differ", f"{index} of {namespace}", definitions)
    return found


def check_counts(counted: Mapping[str, tuple[int, int]]) -> list[Anomaly]:
    """(documents that a collection claims, documents that are there), by what says where."""
    return [
        Anomaly("miscounted", f"{name}: {claimed} claimed, {held} there")
        for name, (claimed, held) in sorted(counted.items())
        if claimed != held
    ]


def _equal(kind: str, what: str, values: Mapping[str, Hashable]) -> list[Anomaly]:
    holders: dict[Hashable, list[str]] = defaultdict(list)
    for member, value in values.items():
        holders[value].append(member)
    if len(holders) <= 1:
        return []
    return [Anomaly(kind, f"{what}: " + "; ".join(f"{', '.join(who)}: {value}" for value, who in holders.items()))]
