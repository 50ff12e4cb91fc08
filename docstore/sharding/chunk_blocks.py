"""Blocks of neighbouring chunks: what chunk maps consist of and share.

A map of 100,000 chunks that differs from another by one move differs in one or two blocks. What is asked of a whole
map (how many chunks a shard has, its highest version, its ranges) is kept for each block and put together from blocks.

Always true: a block is never changed and never empty; its chunks stand in key order, each beginning where the one
before it ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from docstore.sharding.version import NO_CHUNKS, Lastmod

if TYPE_CHECKING:
    from docstore.sharding.chunks import Chunk

BLOCK_CHUNKS = 256
"""A block that is made has at most so many chunks, one that has changed at most twice as many."""


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
        found = self._owned.get(shard)
        if found is None:
            if self.counts[shard] == len(self.chunks):
                found = [(self.low, self.end)]
            else:
                found = joined((chunk.min.key, chunk.max.key) for chunk in self.chunks if chunk.shard == shard)
            self._owned[shard] = found
        return found


def blocks_of(chunks: Sequence[Chunk], most: int) -> Iterator[Block]:
    """Chunks in key order, cut to blocks of about equal size."""
    if not chunks:
        return
    parts = -(-len(chunks) // most)
    size = -(-len(chunks) // parts)
    for at in range(0, len(chunks), size):
        yield Block(list(chunks[at : at + size]))


def joined(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Ranges in order, those that touch made one."""
    found: list[tuple[bytes, bytes]] = []
    for low, high in ranges:
        if found and found[-1][1] == low:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return found


Totals = tuple[dict[str, int], dict[str, Lastmod]]
"""Chunks and the highest version by shard."""


def totals(blocks: Iterable[Block]) -> Totals:
    """Of all the blocks together."""
    counts: dict[str, int] = {}
    highest: dict[str, Lastmod] = {}
    for block in blocks:
        for shard, count in block.counts.items():
            counts[shard] = counts.get(shard, 0) + count
            highest[shard] = max(highest.get(shard, NO_CHUNKS), block.highest[shard])
    return counts, highest


def totals_after(before: Totals, left: Iterable[Block], come: Iterable[Block], blocks: Sequence[Block]) -> Totals:
    """Of `blocks`, which are those of `before` without those that have `left` and with those that have `come`."""
    counts, highest = dict(before[0]), dict(before[1])
    fewer, lost = totals(left)
    more, gained = totals(come)
    for shard in fewer.keys() | more.keys():
        count = counts.get(shard, 0) - fewer.get(shard, 0) + more.get(shard, 0)
        if not count:
            del counts[shard], highest[shard]
            continue
        counts[shard] = count
        known, new = highest.get(shard, NO_CHUNKS), gained.get(shard, NO_CHUNKS)
        if new >= known or lost.get(shard) != known:
            highest[shard] = max(known, new)
        else:
            highest[shard] = max(block.highest.get(shard, NO_CHUNKS) for block in blocks)
    return counts, highest
