"""Chunks, each a range of keys with the shard that owns it, and blocks of neighbouring chunks.

Chunk maps consist of blocks and share them: two maps of 100,000 chunks that differ by one migration differ in one or
two blocks. A block caches its part of a map's figures: each shard's number of chunks, highest version and ranges.

Invariants: a block is immutable and not empty; its chunks are in key order, each beginning where the one before ends.
"""

from __future__ import annotations

import struct
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from docstore.bson import elements
from docstore.errors import Code, CommandError
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.version import NO_CHUNKS, Lastmod

_STAMP = struct.Struct("<II")
BLOCK_CHUNKS = 256
"""The maximal chunks of a new block; a changed one has at most twice as many."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of keys and the shard that owns it."""

    range: KeyRange
    shard: str
    lastmod: Lastmod
    jumbo: bool = False

    @property
    def min(self) -> Bound:
        return self.range.min

    @property
    def max(self) -> Bound:
        return self.range.max

    @classmethod
    def from_raw(cls, key: ShardKey, raw: bytes) -> Chunk:
        """Decode `{min, max, shard, lastmod, [jumbo]}` of config.chunks and routing replies; ignores other fields."""
        return chunk_from_raw(key.bound, raw)

    def document(self) -> dict[str, Any]:
        """`{min, max, shard, lastmod, [jumbo]}`"""
        body: dict[str, Any] = {
            "min": self.min.document(),
            "max": self.max.document(),
            "shard": self.shard,
            "lastmod": self.lastmod.to_timestamp(),
        }
        if self.jumbo:
            body["jumbo"] = True
        return body

    def __str__(self) -> str:
        return f"{self.range} on {self.shard} {self.lastmod}"


def chunk_from_raw(bound: Callable[[bytes], Bound], raw: bytes) -> Chunk:
    """Return the chunk as `Chunk.from_raw` does, with bounds made by `bound`. Errors: BadValue for an empty range."""
    fields = {name: data for name, _, data in elements(raw)}
    low, high = bound(fields["min"]), bound(fields["max"])
    if low.key >= high.key:
        raise CommandError(Code.BadValue, f"the range {KeyRange(low, high)} is empty")
    minor, major = _STAMP.unpack(fields["lastmod"])
    return Chunk(
        KeyRange(low, high), sys.intern(fields["shard"][4:-1].decode()), Lastmod(major, minor),
        any(fields.get("jumbo", b"")),
    )  # fmt: skip


class Block:
    """`lows`: the encoded low ends of `chunks`; by shard, of those that have any: `counts` the chunks, `runs` the
    ranges that they make together, `highest` the highest version."""

    __slots__ = ("_owned", "chunks", "counts", "highest", "lows", "runs")

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = chunks
        self.lows = [chunk.range.min.key for chunk in chunks]
        self.counts: dict[str, int] = {}
        self.runs: dict[str, int] = {}
        self.highest: dict[str, Lastmod] = {}
        self._owned: dict[str, list[tuple[bytes, bytes]]] = {}
        before = ""
        for chunk in chunks:
            shard = chunk.shard
            self.counts[shard] = self.counts.get(shard, 0) + 1
            if shard != before:
                self.runs[shard] = self.runs.get(shard, 0) + 1
                before = shard
            if chunk.lastmod > self.highest.get(shard, NO_CHUNKS):
                self.highest[shard] = chunk.lastmod

    @property
    def low(self) -> bytes:
        return self.lows[0]

    @property
    def end(self) -> bytes:
        """The encoded high end of the last chunk."""
        return self.chunks[-1].range.max.key

    def between(self, low: bytes, high: bytes) -> Iterator[Chunk]:
        """The chunks that hold any key in `[low, high)`, in key order."""
        begin = max(bisect_right(self.lows, low) - 1, 0)
        for chunk in islice(self.chunks, begin, bisect_left(self.lows, high)):
            if chunk.range.max.key > low:
                yield chunk

    def owned(self, shard: str) -> list[tuple[bytes, bytes]]:
        """The encoded ranges that a shard owns, in order, neighbours joined."""
        if shard not in self.counts:
            return []
        ranges = self._owned.get(shard)
        if ranges is None:
            if self.counts[shard] == len(self.chunks):
                ranges = [(self.low, self.end)]
            else:
                ranges = joined((chunk.min.key, chunk.max.key) for chunk in self.chunks if chunk.shard == shard)
            self._owned[shard] = ranges
        return ranges


def blocks_of(chunks: Sequence[Chunk], most: int) -> Iterator[Block]:
    """Divide chunks in key order into blocks of about equal size."""
    if not chunks:
        return
    parts = -(-len(chunks) // most)
    size = -(-len(chunks) // parts)
    for at in range(0, len(chunks), size):
        yield Block(list(chunks[at : at + size]))


def joined(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return ranges in order, with touching ones joined."""
    spans: list[tuple[bytes, bytes]] = []
    for low, high in ranges:
        if spans and spans[-1][1] == low:
            spans[-1] = (spans[-1][0], high)
        else:
            spans.append((low, high))
    return spans


Totals = tuple[dict[str, int], dict[str, Lastmod]]
"""Chunks and the highest version by shard."""


def totals(blocks: Iterable[Block]) -> Totals:
    """Return the sums of all the blocks."""
    counts: dict[str, int] = {}
    highest: dict[str, Lastmod] = {}
    for block in blocks:
        for shard, count in block.counts.items():
            counts[shard] = counts.get(shard, 0) + count
            highest[shard] = max(highest.get(shard, NO_CHUNKS), block.highest[shard])
    return counts, highest


def totals_after(before: Totals, removed: Iterable[Block], added: Iterable[Block], blocks: Sequence[Block]) -> Totals:
    """Return the totals of `blocks`: those of `before` minus the blocks `removed` plus the blocks `added`."""
    counts, highest = dict(before[0]), dict(before[1])
    removed_counts, lost = totals(removed)
    added_counts, gained = totals(added)
    for shard in removed_counts.keys() | added_counts.keys():
        count = counts.get(shard, 0) - removed_counts.get(shard, 0) + added_counts.get(shard, 0)
        if not count:
            del counts[shard], highest[shard]
            continue
        counts[shard] = count
        previous, new = highest.get(shard, NO_CHUNKS), gained.get(shard, NO_CHUNKS)
        if new >= previous or lost.get(shard) != previous:
            highest[shard] = max(previous, new)
        else:
            highest[shard] = max(block.highest.get(shard, NO_CHUNKS) for block in blocks)
    return counts, highest
