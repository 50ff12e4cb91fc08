"""The chunk map of one sharded collection, and the versions that splits and moves give to chunks.

Always true (`ChunkMap.check`): the chunks cover the key space from its lowest to its highest end without gap or
overlap; no two have the same version; all belong to one epoch. A map is never changed: refreshing makes a new one.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.sharding.key import Bound, KeyRange, ShardKey, raw_field
from docstore.sharding.version import NO_CHUNKS, Lastmod, ShardVersion


class InconsistentChunks(Exception):
    """Chunks that do not make a map: read while they changed. Ask again, for all of them."""


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
        """From `{min, max, shard, lastmod, [jumbo]}`, other fields ignored: config.chunks and routing replies."""
        fields = document_to_python(raw)
        return cls(
            key.range(raw_field(raw, "min"), raw_field(raw, "max")),
            str(fields["shard"]),
            Lastmod.from_timestamp(fields["lastmod"]),
            bool(fields.get("jumbo", False)),
        )

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


class ChunkMap:
    """All chunks of one incarnation of a collection, by encoded low end."""

    def __init__(self, key: ShardKey, epoch: Any, chunks: Iterable[Chunk]) -> None:
        """Takes chunks in any order, unchecked; what was read from a catalog goes through `from_catalog`."""
        self.key = key
        self.epoch = epoch
        self._chunks = sorted(chunks, key=_low_end)
        self._lows = [chunk.range.min.key for chunk in self._chunks]
        self._highest: dict[str, Lastmod] = {}
        self._counts: dict[str, int] = {}
        for chunk in self._chunks:
            self._highest[chunk.shard] = max(self._highest.get(chunk.shard, NO_CHUNKS), chunk.lastmod)
            self._counts[chunk.shard] = self._counts.get(chunk.shard, 0) + 1

    @classmethod
    def from_catalog(cls, key: ShardKey, epoch: Any, chunks: Iterable[Chunk]) -> ChunkMap:
        """A map from records that may show the first half of a split: the new upper parts are there, the lower part
        still has its old end. Ownership is the same either way; the lower part is shown cut.
        InconsistentChunks otherwise."""
        ordered = sorted(chunks, key=_low_end)
        for position in range(len(ordered) - 1):
            chunk, following = ordered[position], ordered[position + 1]
            if chunk.max.key > following.min.key and chunk.shard == following.shard:
                ordered[position] = replace(chunk, range=KeyRange(chunk.min, following.min))
        made = cls(key, epoch, ordered)
        made.check()
        return made

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Chunk]:
        """In key order."""
        return iter(self._chunks)

    @property
    def version(self) -> ShardVersion:
        """Of the whole collection."""
        return ShardVersion(self.epoch, max(self._highest.values(), default=NO_CHUNKS))

    def shard_version(self, shard: str) -> ShardVersion:
        """Of the collection on one shard."""
        return ShardVersion(self.epoch, self._highest.get(shard, NO_CHUNKS))

    @property
    def shards(self) -> frozenset[str]:
        """The shards that own chunks."""
        return frozenset(self._counts)

    @property
    def counts(self) -> Mapping[str, int]:
        """Chunks per shard that has any."""
        return self._counts

    def chunk_at(self, key: bytes) -> Chunk:
        """The chunk that holds an encoded key."""
        return self._chunks[bisect_right(self._lows, key) - 1]

    def overlapping(self, low: bytes, high: bytes) -> Iterator[Chunk]:
        """Chunks that hold any key in `[low, high)`, in key order."""
        if low >= high:
            return
        for chunk in islice(self._chunks, max(bisect_right(self._lows, low) - 1, 0), None):
            if chunk.min.key >= high:
                return
            if chunk.max.key > low:
                yield chunk

    def exact(self, bounds: KeyRange) -> Chunk | None:
        """The chunk with exactly these bounds."""
        chunk = self.chunk_at(bounds.min.key)
        return chunk if chunk.range.same(bounds) else None

    def owned(self, shard: str) -> list[tuple[bytes, bytes]]:
        """The encoded ranges that a shard owns, in order, neighbours joined."""
        joined: list[tuple[bytes, bytes]] = []
        for chunk in self:
            if chunk.shard != shard:
                continue
            if joined and joined[-1][1] == chunk.min.key:
                joined[-1] = (joined[-1][0], chunk.max.key)
            else:
                joined.append((chunk.min.key, chunk.max.key))
        return joined

    def owns_any(self, shard: str, bounds: KeyRange) -> bool:
        """Whether the shard owns any key of the range."""
        return any(chunk.shard == shard for chunk in self.overlapping(bounds.min.key, bounds.max.key))

    def updated(self, changed: Sequence[Chunk]) -> ChunkMap:
        """The map after an incremental refresh: `changed` holds every chunk whose lastmod is at or above this map's
        version. InconsistentChunks when the result would not be a map."""
        fresh = {chunk.min.key: chunk for chunk in changed}
        gone = set(fresh)
        for chunk in changed:
            gone.update(old.min.key for old in self.overlapping(chunk.min.key, chunk.max.key))
        kept = [chunk for chunk in self._chunks if chunk.range.min.key not in gone]
        return ChunkMap.from_catalog(self.key, self.epoch, [*kept, *fresh.values()])

    def check(self) -> None:
        """InconsistentChunks unless everything in the module's heading holds."""
        expected = self.key.min.key
        for chunk in self:
            if chunk.min.key != expected:
                raise InconsistentChunks(f"{chunk} does not begin where its neighbour ends")
            if chunk.max.key <= chunk.min.key:
                raise InconsistentChunks(f"{chunk} is empty")
            expected = chunk.max.key
        if expected != self.key.max.key:
            raise InconsistentChunks("the chunks do not reach the end of the key space")
        if len({chunk.lastmod for chunk in self}) != len(self):
            raise InconsistentChunks("two chunks have the same version")


def _low_end(chunk: Chunk) -> bytes:
    return chunk.range.min.key


def first_chunk(key: ShardKey, shard: str) -> Chunk:
    """What a newly sharded collection consists of."""
    return Chunk(key.everything, shard, Lastmod(1, 0))


def first_chunks(key: ShardKey, points: Sequence[Bound], shards: Sequence[str]) -> list[Chunk]:
    """What a collection that is spread from its beginning consists of: the parts between the points, as many of them
    next to each other on each shard.
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
