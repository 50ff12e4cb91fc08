"""Every document of a sharded collection is owned by one shard, and is visible once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.checkers.history import Anomaly


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """Keys from `minimum` up to and without `maximum`; keys are anything that has an order."""

    minimum: Any
    maximum: Any
    shard: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as a shard's primary holds it: its `_id` and the key by which it is placed."""

    id: Hashable
    key: Any


def check_chunk_map(ranges: Iterable[OwnedRange], minimum: Any, maximum: Any) -> list[Anomaly]:
    """The ranges cover everything from `minimum` to `maximum`, once."""
    found = []
    reached = minimum
    for each in sorted(ranges, key=lambda each: each.minimum):
        if each.minimum > reached:
            found.append(Anomaly("gap in the chunk map", f"nobody owns {reached!r} to {each.minimum!r}"))
        elif each.minimum < reached:
            found.append(Anomaly("overlap in the chunk map", f"{each.minimum!r} to {reached!r} has two chunks"))
        reached = max(reached, each.maximum)
    if reached < maximum:
        found.append(Anomaly("gap in the chunk map", f"nobody owns {reached!r} to {maximum!r}"))
    return found


def check_ownership(
    ranges: Collection[OwnedRange],
    stored: Mapping[str, Iterable[Stored]],
    *,
    visible: Iterable[Hashable],
    expected: Collection[Hashable] = (),
    orphans_remain: bool = False,
) -> list[Anomaly]:
    """Documents by shard, filtered by who owns them, against what a router showed.

    `expected`: ids that must be there. `orphans_remain`: range deletions are not done, so a shard may still hold what
    it does not own; otherwise that is an anomaly too.
    """
    owners: dict[Hashable, list[str]] = defaultdict(list)
    orphans: dict[Hashable, list[str]] = defaultdict(list)
    for shard, documents in stored.items():
        for document in documents:
            place = owners if _owner(ranges, document.key) == shard else orphans
            place[document.id].append(shard)
    found = [
        Anomaly("owned twice", f"{id_!r} on {' and '.join(shards)}")
        for id_, shards in owners.items()
        if len(shards) > 1
    ]
    for id_ in expected:
        if id_ not in owners:
            text = f"{id_!r}: held by {', '.join(orphans[id_])}, which do not own it" if id_ in orphans else f"{id_!r}"
            found.append(Anomaly("owned by nobody", text))
    if not orphans_remain:
        found += [Anomaly("orphan", f"{id_!r} remained on {', '.join(shards)}") for id_, shards in orphans.items()]
    shown = Counter(visible)
    found += [Anomaly("visible twice", f"{id_!r} {count} times") for id_, count in shown.items() if count > 1]
    found += [Anomaly("invisible", f"{id_!r} on {shards[0]}") for id_, shards in owners.items() if id_ not in shown]
    return found + [Anomaly("visible without an owner", f"{id_!r}") for id_ in shown if id_ not in owners]


def _owner(ranges: Collection[OwnedRange], key: Any) -> str | None:
    return next((each.shard for each in ranges if each.minimum <= key < each.maximum), None)
