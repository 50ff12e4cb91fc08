"""The shards that an operation must reach.

`docstore.query.plan.bounds` turns a filter's conditions on the shard key into ranges of encoded keys. Those may hold
keys that the filter refuses, never the other way round: targeting misses no document. Shard key fields hold no
arrays, so all conditions on one path may be intersected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docstore.bson.walk import ARRAY
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import Filter
from docstore.query.plan.bounds import equalities
from docstore.query.plan.bounds import key_ranges as filter_ranges
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.key import ShardKey

KeyRanges = Sequence[tuple[bytes, bytes]]
"""Encoded shard keys in `[low, high)` pairs, in order."""


def key_ranges(key: ShardKey, tree: Filter) -> KeyRanges:
    """The shard keys that a filter admits; empty when nothing can match, everything when it says nothing."""
    ranges = filter_ranges(tree, key.pattern.fields)
    return [(key.min.key, key.max.key)] if ranges is None else ranges


def exact_key(key: ShardKey, tree: Filter) -> bytes | None:
    """The encoded shard key when the filter fixes every field of it, as single-document writes need; else None."""
    fixed = equalities(tree)
    encoded = b""
    for field in key.fields:
        value = fixed.get(field)
        if value is None or value[0] == ARRAY:
            return None
        encoded += encode_key(value)
    return encoded


def shards_for(chunks: ChunkMap, ranges: KeyRanges) -> list[str]:
    """The shards to ask, by name. A filter that nothing can match still goes to one shard, which gives the reply its
    shape (an empty cursor, a count of zero)."""
    shards: set[str] = set()
    for low, high in ranges:
        shards |= chunks.shards_between(low, high)
        if len(shards) == len(chunks.counts):
            break
    return sorted(shards) or sorted(chunks.counts)[:1]


def shards_for_filter(chunks: ChunkMap, tree: Filter) -> list[str]:
    """The shards that may hold a document which the filter admits."""
    return shards_for(chunks, key_ranges(chunks.key, tree))


def intersection(ranges: KeyRanges, other: KeyRanges) -> list[tuple[bytes, bytes]]:
    """Return the ranges common to both; each is in order and without overlaps."""
    common_ranges: list[tuple[bytes, bytes]] = []
    position = other_position = 0
    while position < len(ranges) and other_position < len(other):
        low = max(ranges[position][0], other[other_position][0])
        high = min(ranges[position][1], other[other_position][1])
        if low < high:
            common_ranges.append((low, high))
        if ranges[position][1] <= other[other_position][1]:
            position += 1
        else:
            other_position += 1
    return common_ranges


def without(ranges: KeyRanges, excluded: KeyRanges) -> list[tuple[bytes, bytes]]:
    """Return `ranges` without `excluded`; both are in order and without overlaps."""
    remaining: list[tuple[bytes, bytes]] = []
    for low, high in ranges:
        for gone_low, gone_high in excluded:
            if gone_high <= low or gone_low >= high:
                continue
            if gone_low > low:
                remaining.append((low, gone_low))
            low = max(low, gone_high)
        if low < high:
            remaining.append((low, high))
    return remaining


def joined(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the ranges in order and without overlaps, with neighbours joined."""
    spans: list[tuple[bytes, bytes]] = []
    for low, high in sorted(ranges):
        if spans and low <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(high, spans[-1][1]))
        else:
            spans.append((low, high))
    return spans
