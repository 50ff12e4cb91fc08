"""Quantiles of many numbers in little memory, by a merging t-digest.

A digest is exact while it holds at most `EXACT` numbers. Beyond that it keeps centroids: the means and counts of
neighbouring numbers. The ends have centroids of single numbers, the middle ever larger ones. So a quantile near an end
is nearly exact, and one in the middle is off by at most a thousandth of the ranks.

Invariants:
- The least and the greatest number are exact.
- Digests of parts merge to a digest of the whole.
- Infinities are counted separately, so that no mean includes them.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterable, Sequence

EXACT = 10_000
_DELTA = 2000
"""The compression of the t-digest: at most twice as many centroids remain."""
_HEAD = struct.Struct("<qq")


def rank_of(fraction: float, count: int) -> int:
    """Return the rank, from 0, of a quantile among `count` numbers in order."""
    return max(math.ceil(fraction * count) - 1, 0)


class Digest:
    """Collects numbers, except NaN."""

    __slots__ = ("_above", "_below", "_centroids", "_fresh")

    def __init__(self) -> None:
        self._fresh = array("d")
        # (mean, how many), in order of the means.
        self._centroids: list[tuple[float, int]] = []
        self._below = self._above = 0

    def add(self, number: float) -> None:
        if math.isfinite(number):
            self._fresh.append(number)
            if len(self._fresh) > EXACT:
                self._compress()
        elif number > 0:
            self._above += 1
        elif number < 0:
            self._below += 1

    @property
    def size(self) -> int:
        """The approximate bytes of memory."""
        return 8 * len(self._fresh) + 100 * len(self._centroids)

    def dump(self) -> bytes:
        """Return the digest as bytes for `load`."""
        centroids = self._merged()
        means = array("d", (mean for mean, _ in centroids))
        weights = array("q", (weight for _, weight in centroids))
        return _HEAD.pack(self._below, self._above) + means.tobytes() + weights.tobytes()

    def load(self, dumped: bytes) -> None:
        """Merge another digest into this one."""
        below, above = _HEAD.unpack_from(dumped)
        self._below += below
        self._above += above
        half = (len(dumped) - _HEAD.size) // 2
        means, weights = array("d"), array("q")
        means.frombytes(dumped[_HEAD.size : _HEAD.size + half])
        weights.frombytes(dumped[_HEAD.size + half :])
        new_centroids = [(mean, weight) for mean, weight in zip(means, weights, strict=True) if weight > 1]
        self._centroids = sorted([*self._centroids, *new_centroids])
        self._fresh.extend(mean for mean, weight in zip(means, weights, strict=True) if weight == 1)
        if len(self._fresh) > EXACT or len(self._centroids) > EXACT:
            self._compress()

    def quantiles(self, fractions: Sequence[float]) -> list[float] | None:
        """Return the quantile of each fraction from 0 to 1; None if there are no numbers."""
        centroids = self._merged()
        count = self._below + self._above + sum(weight for _, weight in centroids)
        return [self._at(rank_of(fraction, count), centroids) for fraction in fractions] if count else None

    def _at(self, rank: int, centroids: list[tuple[float, int]]) -> float:
        """Return the approximate number of this rank."""
        if rank < self._below:
            return -math.inf
        before = self._below
        for index, (mean, weight) in enumerate(centroids):
            if rank < before + weight:
                return mean if weight == 1 else _between(centroids, index, rank - before)
            before += weight
        return math.inf

    def _merged(self) -> list[tuple[float, int]]:
        fresh = ((number, 1) for number in sorted(self._fresh))
        return sorted([*self._centroids, *fresh]) if self._centroids else list(fresh)

    def _compress(self) -> None:
        merged = self._merged()
        self._centroids = list(_compressed(merged, sum(weight for _, weight in merged)))
        self._fresh = array("d")


def _between(centroids: list[tuple[float, int]], index: int, inside: int) -> float:
    """Return the number at index `inside` (from 0) of a centroid, on the line from its mean to that of its
    neighbour.
    """
    mean, weight = centroids[index]
    middle = (weight - 1) / 2
    step = -1 if inside < middle else 1
    if not 0 <= index + step < len(centroids) or inside == middle:
        return mean
    neighbour_mean, neighbour_weight = centroids[index + step]
    distance = (weight + neighbour_weight) / 2
    return mean + (neighbour_mean - mean) * abs(inside - middle) / distance


def _compressed(merged: Iterable[tuple[float, int]], total: int) -> Iterable[tuple[float, int]]:
    """Yield the centroids with neighbours merged as far as the scale, which is steep at both ends, allows."""
    mean, weight, before = 0.0, 0, 0
    limit = 0.0
    for next_mean, count in merged:
        if weight and (before + weight + count) / total <= limit:
            weight += count
            mean += (next_mean - mean) * count / weight
            continue
        if weight:
            yield mean, weight
            before += weight
        mean, weight = next_mean, count
        limit = _limit(before / total)
    if weight:
        yield mean, weight


def _limit(fraction: float) -> float:
    """Return the fraction at which a centroid that begins at `fraction` must end."""
    scaled = _DELTA / (2 * math.pi) * math.asin(min(max(2 * fraction - 1, -1.0), 1.0)) + 1
    return (math.sin(min(scaled * 2 * math.pi / _DELTA, math.pi / 2)) + 1) / 2
