"""The chunk map of one sharded collection, and the versions that splits and moves give to chunks.

Always true (`ChunkMap.check`): the chunks cover the key space from its lowest to its highest end without gap or
overlap; no two have the same version; all belong to one epoch. A map is never changed: refreshing makes a new one,
which shares the blocks (`docstore.sharding.chunk`) that are the same.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from docstore.errors import Code, CommandError
from docstore.sharding.chunk import BLOCK_CHUNKS, Block, Chunk, blocks_of, joined, totals, totals_after
from docstore.sharding.key import Bound, KeyRange, ShardKey
from docstore.sharding.version import NO_CHUNKS, Lastmod, ShardVersion


class InconsistentChunks(Exception):
    """The chunks do not form a map: they were read while they changed. Read all of them again."""


class ChunkMap:
    """All chunks of one incarnation of a collection, by encoded low end."""

    def __init__(self, key: ShardKey, epoch: Any, chunks: Iterable[Chunk]) -> None:
        """Take chunks in any order, unchecked; chunks read from a catalog go through `from_catalog`."""
        blocks = list(blocks_of(sorted(chunks, key=_low_end), BLOCK_CHUNKS))
        self._set(key, epoch, blocks, *totals(blocks))

    def _set(
        self, key: ShardKey, epoch: Any, blocks: list[Block], counts: dict[str, int], highest: dict[str, Lastmod]
    ) -> None:
        self.key = key
        self.epoch = epoch
        self._blocks = blocks
        self._lows = [block.low for block in blocks]
        self._counts = counts
        self._highest = highest

    @classmethod
    def from_catalog(cls, key: ShardKey, epoch: Any, chunks: Iterable[Chunk]) -> ChunkMap:
        """Return the map of records that may show the first half of a split: the new upper parts exist, the lower
        part still has its old end. Ownership is the same either way; the lower part is shown cut.

        Of several records with one low end, that with the highest version counts. InconsistentChunks for other
        errors.
        """
        chunk_map = cls(key, epoch, _cut(chunks))
        chunk_map.check()
        return chunk_map

    def __len__(self) -> int:
        return sum(self._counts.values())

    def __iter__(self) -> Iterator[Chunk]:
        """Yield the chunks in key order."""
        return itertools.chain.from_iterable(block.chunks for block in self._blocks)

    @property
    def version(self) -> ShardVersion:
        """Return the version of the whole collection."""
        return ShardVersion(self.epoch, max(self._highest.values(), default=NO_CHUNKS))

    def shard_version(self, shard: str) -> ShardVersion:
        """Return the version of the collection on one shard."""
        return ShardVersion(self.epoch, self._highest.get(shard, NO_CHUNKS))

    @property
    def shards(self) -> frozenset[str]:
        """The shards that own chunks."""
        return frozenset(self._counts)

    @property
    def counts(self) -> Mapping[str, int]:
        """Return the number of chunks by shard, for shards with chunks."""
        return self._counts

    def chunk_at(self, key: bytes) -> Chunk:
        """The chunk that holds an encoded key."""
        block = self._blocks[bisect_right(self._lows, key) - 1]
        return block.chunks[bisect_right(block.lows, key) - 1]

    def overlapping(self, low: bytes, high: bytes) -> Iterator[Chunk]:
        """Chunks that hold any key in `[low, high)`, in key order."""
        if low >= high:
            return
        for block in itertools.islice(self._blocks, self._block_at(low), None):
            if block.low >= high:
                return
            yield from block.between(low, high)

    def shards_between(self, low: bytes, high: bytes) -> set[str]:
        """The shards that own any key in `[low, high)`. Takes as long as there are chunks at the ends of the range and
        blocks between them, and no longer than until every shard is found."""
        shards: set[str] = set()
        if low >= high:
            return shards
        for block in itertools.islice(self._blocks, self._block_at(low), None):
            if block.low >= high or len(shards) == len(self._counts):
                break
            if low <= block.low and block.end <= high:
                shards.update(block.counts)
            else:
                shards.update(chunk.shard for chunk in block.between(low, high))
        return shards

    def exact(self, bounds: KeyRange) -> Chunk | None:
        """The chunk with exactly these bounds."""
        chunk = self.chunk_at(bounds.min.key)
        return chunk if chunk.range.same(bounds) else None

    def of(self, shard: str, *, reverse: bool = False) -> Iterator[Chunk]:
        """The chunks of one shard, in key order or backwards."""
        for block in reversed(self._blocks) if reverse else self._blocks:
            if shard in block.counts:
                listed = reversed(block.chunks) if reverse else block.chunks
                yield from (chunk for chunk in listed if chunk.shard == shard)

    def ranges_at_most(self, shard: str) -> int:
        """Return an upper bound of the number of ranges in `owned`, close to it."""
        return sum(block.runs.get(shard, 0) for block in self._blocks)

    def owned(self, shard: str) -> list[tuple[bytes, bytes]]:
        """The encoded ranges that a shard owns, in order, neighbours joined."""
        return joined(itertools.chain.from_iterable(block.owned(shard) for block in self._blocks))

    def owns_any(self, shard: str, bounds: KeyRange) -> bool:
        """True if the shard owns any key of the range."""
        return shard in self.shards_between(bounds.min.key, bounds.max.key)

    def updated(self, changed: Sequence[Chunk]) -> ChunkMap:
        """The map after an incremental refresh: `changed` holds every chunk whose lastmod is at or above this map's
        version. Takes as long as `changed` and the blocks that it touches are. InconsistentChunks when the result would
        not be a map."""
        if all(chunk == self.chunk_at(chunk.range.min.key) for chunk in changed):
            return self
        fresh: dict[int, list[Chunk]] = {}
        removed_keys: dict[int, set[bytes]] = {}
        replaced: set[Lastmod] = set()
        for chunk in changed:
            fresh.setdefault(self._block_at(chunk.range.min.key), []).append(chunk)
            for old in self.overlapping(chunk.range.min.key, chunk.range.max.key):
                removed_keys.setdefault(self._block_at(old.range.min.key), set()).add(old.range.min.key)
                replaced.add(old.lastmod)
        blocks: list[Block] = []
        removed_blocks: list[Block] = []
        new_blocks: list[Block] = []
        next_number = 0
        for number in sorted(fresh.keys() | removed_keys.keys()):
            block, without = self._blocks[number], removed_keys.get(number, ())
            remaining = [chunk for chunk in block.chunks if chunk.range.min.key not in without]
            parts = list(blocks_of(_cut([*remaining, *fresh.get(number, ())]), 2 * BLOCK_CHUNKS))
            blocks += [*self._blocks[next_number:number], *parts]
            removed_blocks.append(block)
            new_blocks += parts
            next_number = number + 1
        blocks += self._blocks[next_number:]
        chunk_map = ChunkMap.__new__(ChunkMap)
        chunk_map._set(
            self.key,
            self.epoch,
            blocks,
            *totals_after((self._counts, self._highest), removed_blocks, new_blocks, blocks),
        )
        chunk_map._check_joints()
        for block in new_blocks:
            _check_chain(block.chunks)
        version = self.version.lastmod
        if any(chunk.lastmod <= version and chunk.lastmod not in replaced for chunk in changed):
            chunk_map.check()
        return chunk_map

    def _block_at(self, key: bytes) -> int:
        return max(bisect_right(self._lows, key) - 1, 0)

    def check(self) -> None:
        """InconsistentChunks unless everything in the module's heading holds."""
        self._check_joints()
        for block in self._blocks:
            _check_chain(block.chunks)
        if len({chunk.lastmod for chunk in self}) != len(self):
            raise InconsistentChunks("two chunks have the same version")

    def _check_joints(self) -> None:
        expected = self.key.min.key
        for block in self._blocks:
            if block.low != expected:
                raise InconsistentChunks(f"{block.chunks[0]} does not begin where its neighbour ends")
            expected = block.end
        if expected != self.key.max.key:
            raise InconsistentChunks("the chunks do not reach the end of the key space")


def _check_chain(chunks: Sequence[Chunk]) -> None:
    """InconsistentChunks unless each begins where the one before it ends."""
    expected = chunks[0].range.min.key
    for chunk in chunks:
        bounds = chunk.range
        if bounds.min.key != expected:
            raise InconsistentChunks(f"{chunk} does not begin where its neighbour ends")
        expected = bounds.max.key
        if expected <= bounds.min.key:
            raise InconsistentChunks(f"{chunk} is empty")


def _cut(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Records in key order: the newest of those with one low end, cut where a part of the same shard begins."""
    ordered: list[Chunk] = []
    for chunk in sorted(chunks, key=_low_end):
        if ordered and ordered[-1].range.min.key == chunk.range.min.key:
            if chunk.lastmod > ordered[-1].lastmod:
                ordered[-1] = chunk
        else:
            ordered.append(chunk)
    for position, (chunk, following) in enumerate(itertools.pairwise(ordered)):
        if chunk.range.max.key > following.range.min.key and chunk.shard == following.shard:
            ordered[position] = replace(chunk, range=KeyRange(chunk.min, following.min))
    return ordered


def _low_end(chunk: Chunk) -> bytes:
    return chunk.range.min.key


def first_chunk(key: ShardKey, shard: str) -> Chunk:
    """Return the one chunk of a newly sharded collection."""
    return Chunk(key.everything, shard, Lastmod(1, 0))


def first_chunks(key: ShardKey, points: Sequence[Bound], shards: Sequence[str]) -> list[Chunk]:
    """Return the chunks of a collection that is sharded from its beginning: the ranges between the points.

    Each shard gets a run of neighbouring ranges, all of about the same length.
    """
    parts = list(itertools.pairwise([key.min, *points, key.max]))
    return [
        Chunk(KeyRange(low, high), shards[number * len(shards) // len(parts)], Lastmod(1, number))
        for number, (low, high) in enumerate(parts)
    ]


def split_chunk(chunk: Chunk, points: Sequence[Bound], version: Lastmod) -> list[Chunk]:
    """The parts of a chunk cut at `points`, versioned minor+1, minor+2, ... under the collection's `version`.

    BadValue unless the points rise strictly inside the chunk.
    """
    parts: list[Chunk] = []
    edges = [chunk.min, *points, chunk.max]
    for offset, (low, high) in enumerate(itertools.pairwise(edges), start=1):
        if low.key >= high.key:
            raise CommandError(Code.BadValue, f"split points must rise strictly inside {chunk.range}")
        parts.append(Chunk(KeyRange(low, high), chunk.shard, Lastmod(version.major, version.minor + offset)))
    if len(parts) < 2:
        raise CommandError(Code.BadValue, "no split points were given")
    return parts


def move_chunk(chunk: Chunk, to: str, remaining: Chunk | None, version: Lastmod) -> tuple[Chunk, Chunk | None]:
    """(the moved chunk, the donor's chunk whose version changes with it) after a collection at `version`.

    `remaining`: the first of the chunks that the donor keeps, None when it keeps none.
    """
    assert remaining is None or (remaining.shard == chunk.shard and remaining.min.key != chunk.min.key)
    moved = replace(chunk, shard=to, lastmod=Lastmod(version.major + 1, 0), jumbo=False)
    return moved, None if remaining is None else replace(remaining, lastmod=Lastmod(version.major + 1, 1))
