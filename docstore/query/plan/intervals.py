"""Sets of encoded keys of one field, as sorted half-open ranges.

A range `[lo, hi)` is over the ascending keys of `docstore.kernel.keys.encoding`. These are self-delimiting: a bound
that is a prefix of keys sorts before all of them, and `prefix_end` of it sorts after all of them. The same bounds work
in the middle of a compound key. Ranges of one set do not overlap and do not touch.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

from docstore.bson.allowance import spend
from docstore.bson.walk import Value
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import INVERTED, KEY_OF_NULL, KEY_OF_UNDEFINED, encode_key
from docstore.query.value.long_lists import sort_keys

_SPENT = 64 * 1024

LOWEST = b"\x01"
HIGHEST = b"\xfe"
"""Bounds below and above every key of a single value, in either direction."""


class Range(NamedTuple):
    """Keys k with lo <= k < hi. `point`: the range holds the keys of exactly one value, and `lo` is its key."""

    lo: bytes
    hi: bytes
    point: bool = False

    def descending(self) -> Range:
        """Return the same values in keys of a descending field."""
        if self.point:
            # It begins with the key itself, which other fields may follow: a shorter bound may sort at the same place.
            key = self.lo.translate(INVERTED)
            return Range(key, prefix_end(key), True)
        return Range(prefix_end(self.hi.translate(INVERTED)), prefix_end(self.lo.translate(INVERTED)), self.point)


Ranges = tuple[Range, ...]

EVERYTHING: Ranges = (Range(LOWEST, HIGHEST),)


def point(value: Value) -> Range:
    """Return the range of one value's keys."""
    key = encode_key(value)
    return Range(key, prefix_end(key), True)


def points_of(keys: list[bytes]) -> Ranges:
    """Return the ranges of the values that have one of these keys."""
    sort_keys(keys)
    points: list[Range] = []
    last = b""
    for key in keys:
        if key != last:
            last = key
            points.append(Range(key, prefix_end(key), True))
            if not len(points) & 1023:
                spend(_SPENT)
    return tuple(points)


def union(ranges: Iterable[Range]) -> Ranges:
    """Return all keys of any of the ranges. Touching ranges of two types stay separate."""
    merged: list[Range] = []
    for item in sorted(ranges, key=itemgetter(0, 1)):
        if item.lo >= item.hi:
            continue
        if merged and (item.lo < merged[-1].hi or _join(merged[-1], item)):
            last = merged[-1]
            if item.hi > last.hi:
                merged[-1] = Range(last.lo, item.hi)
        else:
            merged.append(item)
    return tuple(merged)


def intersection(first: Ranges, second: Ranges) -> Ranges:
    """Return the keys that both sets hold."""
    if EVERYTHING in (first, second):
        return second if first == EVERYTHING else first
    ranges: list[Range] = []
    i = j = 0
    while i < len(first) and j < len(second):
        a, b = first[i], second[j]
        lo, hi = max(a.lo, b.lo), min(a.hi, b.hi)
        if lo < hi:
            ranges.append(
                Range(lo, hi, (a.point and (lo, hi) == (a.lo, a.hi)) or (b.point and (lo, hi) == (b.lo, b.hi)))
            )
        if a.hi <= b.hi:
            i += 1
        else:
            j += 1
        if (i + j) & 1023 == 1023:
            spend(_SPENT)
    return tuple(ranges)


def _join(first: Range, second: Range) -> bool:
    """True if two ranges can be merged: they touch, not between two types, and neither is a point."""
    return first.hi == second.lo and len(first.hi) > 1 and not (first.point or second.point)


def complement(ranges: Ranges) -> Ranges:
    """Return all keys that the set does not hold."""
    gaps: list[Range] = []
    start = LOWEST
    for item in ranges:
        # No key lies between undefined and null.
        if start < item.lo and (start, item.lo) != (prefix_end(KEY_OF_UNDEFINED), KEY_OF_NULL):
            gaps.append(Range(start, item.lo))
        start = item.hi
    if start < HIGHEST:
        gaps.append(Range(start, HIGHEST))
    return tuple(gaps)


def compound(per_field: Iterable[tuple[Ranges, int]], limit: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return (sorted ranges over compound keys, number of leading fields that they bound exactly).

    Each of `per_field` is (ranges, direction) of a field. Points of leading fields are multiplied out; the first field
    that is not all points ends the bounds. If that would make more than `limit` ranges, a field's ranges become the one
    range that spans them.
    """
    prefixes: list[bytes] = [b""]
    used = 0
    for ranges, direction in per_field:
        fits_limit = len(prefixes) * len(ranges) <= limit
        if not fits_limit:
            ranges = (Range(ranges[0].lo, ranges[-1].hi),)
        if direction < 0:
            ranges = tuple(item.descending() for item in reversed(ranges))
        if not all(item.point for item in ranges):
            return [(prefix + item.lo, prefix + item.hi) for prefix in prefixes for item in ranges], used + fits_limit
        prefixes = [prefix + item.lo for prefix in prefixes for item in ranges]
        used += 1
    return [(prefix, prefix_end(prefix)) for prefix in prefixes], used
