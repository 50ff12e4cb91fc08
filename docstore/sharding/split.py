"""The size at which chunks split, and the split points: the rules of 2012.

A router counts the bytes that it writes to each chunk and asks the shard at every fifth of the target size. The shard
measures the chunk and returns split points only when it has reached the target. The target grows with the number of
chunks, so that a small collection is spread early. Chunks at the ends of the key space use nine tenths of it, because
growing keys arrive there.

A chunk at the low end of the key space is split above its lowest key, a chunk at the high end at its highest key
(each leaves a chunk with a single key at the open end), any other at every half target. The lone-key chunk at the top
gets later writes of growing keys: it is moved at once to the shard with fewest chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap

KIB = 1024
MIB = 1024 * KIB
DEFAULT_CHUNK_BYTES = 128 * MIB
ASK_FRACTION = 5
MAX_SPLIT_POINTS = 8192


def target_bytes(chunk_count: int, configured: int = DEFAULT_CHUNK_BYTES) -> int:
    """Return the size at which chunks split in a collection with `chunk_count` chunks. `configured`: the setting
    `chunksize`.

    The lower steps are those of 2012, when it was 64 MB, and follow it only downwards.
    """
    if chunk_count <= 1:
        return min(KIB, configured)
    if chunk_count < 3:
        return min(512 * KIB, configured)
    if chunk_count < 10:
        return min(max(configured // 4, MIB), 16 * MIB, configured)
    if chunk_count < 20:
        return min(max(configured // 2, MIB), 32 * MIB, configured)
    return configured


def chunk_target_bytes(chunks: ChunkMap, chunk: Chunk, configured: int = DEFAULT_CHUNK_BYTES) -> int:
    """Return the size at which this chunk splits, which the router passes to the shard."""
    target = target_bytes(len(chunks), configured)
    at_an_end = chunk.min.key == chunks.key.min.key or chunk.max.key == chunks.key.max.key
    return target * 9 // 10 if at_an_end else target


class WriteCounts:
    """Bytes written through one router to each chunk of one collection since it last asked about the chunk."""

    def __init__(self) -> None:
        self._written: dict[tuple[bytes, bytes], int] = {}
        # The targets of the chunks of one map, which stays the same for many writes.
        self._targets: dict[tuple[bytes, bytes], int] = {}
        self._targets_of: tuple[ChunkMap, int] | None = None

    def add(self, chunks: ChunkMap, chunk: Chunk, size: int, configured: int = DEFAULT_CHUNK_BYTES) -> int | None:
        """Count a write of `size` bytes. The target to ask the shard with when it is time to ask, else None."""
        ends = (chunk.min.key, chunk.max.key)
        written = self._written.get(ends, 0) + size
        if (chunks, configured) != self._targets_of:
            self._targets_of, self._targets = (chunks, configured), {}
        target = self._targets.get(ends)
        if target is None:
            target = self._targets[ends] = chunk_target_bytes(chunks, chunk, configured)
        if written * ASK_FRACTION < target:
            self._written[ends] = written
            return None
        self._written.pop(ends, None)
        return target

    def forget_stale(self, chunks: ChunkMap) -> None:
        """Drop the counts of chunks that are no longer there."""
        for low, high in list(self._written):
            bounds = chunks.chunk_at(low).range
            if (bounds.min.key, bounds.max.key) != (low, high):
                del self._written[low, high]


@dataclass(frozen=True, slots=True)
class SplitTarget:
    """The parameters of a shard's search for split points in a chunk; see `split_target`."""

    low_end: bool
    high_end: bool
    keys_in_target: int
    """A chunk with fewer keys has not reached the target."""


def split_target(chunks_min: bool, chunks_max: bool, target: int, average_bytes: int) -> SplitTarget:
    """The target of a chunk that begins (`chunks_min`) or ends (`chunks_max`) with the key space; the low end wins when
    both do. `average_bytes`: of the collection's documents."""
    return SplitTarget(
        low_end=chunks_min,
        high_end=chunks_max and not chunks_min,
        keys_in_target=max(-(-target // max(average_bytes, 1)), 1),
    )


class SplitScan:
    """Finds the split points of one chunk from its keys, given in rising order.

    `add` every encoded key of the chunk, duplicates included, until it returns False or there are none left; then
    `points`. Decides by number of keys, as documents are not read.
    """

    def __init__(self, low: bytes, target: SplitTarget) -> None:
        self._low = low
        self._target = target
        self._step = max(target.keys_in_target // 2, 1)
        self._seen = 0
        self._since_point = 0
        self._first: bytes | None = None
        self._second: bytes | None = None
        self._last: bytes | None = None
        self._medians: list[bytes] = []

    def add(self, key: bytes) -> bool:
        """Take one key; False when the rest of the chunk cannot change the answer."""
        self._seen += 1
        if self._first is None:
            self._first = key
        elif self._second is None and key != self._first:
            self._second = key
        if self._target.low_end:
            return self._second is None or self._seen < self._target.keys_in_target
        if self._target.high_end:
            return self._seen < self._target.keys_in_target
        if self._since_point >= self._step and key != self._last and key > self._low:
            self._medians.append(key)
            self._since_point = 0
        self._since_point += 1
        self._last = key
        return len(self._medians) < MAX_SPLIT_POINTS

    def points(self, highest: bytes | None) -> list[bytes]:
        """The encoded keys to cut at, empty when the chunk is below the target or has too few distinct keys.

        `highest`: the chunk's highest key, None when it has none.
        """
        if self._seen < self._target.keys_in_target or self._first is None or highest is None:
            return []
        if self._target.low_end:
            return [] if self._second is None else [self._second]
        if self._target.high_end:
            return [highest] if highest > self._first else []
        if len(self._medians) > 1 and self._since_point * 2 < self._step:
            return self._medians[:-1]
        return self._medians


class PartScan:
    """Finds where to split off one end of a chunk, from its keys: rising for the lower end, falling for the upper.

    `add` every encoded key with the bytes of its document until it returns False or there are none left; then `cut`.
    Equal keys stay together.
    """

    def __init__(self, target_bytes: int, max_bytes: int, *, upper: bool) -> None:
        """In bytes: about `target_bytes`, at most `max_bytes`."""
        self._target_bytes = target_bytes
        self._max_bytes = max_bytes
        self._upper = upper
        self._bytes = 0
        self._enough = False
        self._last: bytes | None = None
        self._best: tuple[int, bytes] | None = None

    def add(self, key: bytes, size: int) -> bool:
        """Take one key; False when the rest of the chunk cannot change the answer."""
        if self._last is not None and key != self._last:
            self._note(self._last if self._upper else key)
            self._enough = self._bytes >= self._target_bytes
            if self._enough:
                return False
        self._last = key
        self._bytes += size
        return True

    def cut(self, low: bytes) -> bytes | None:
        """Return the encoded key at which the part begins (the upper end) or before which it ends; None if no part is
        small enough.

        `low`: the chunk's low end, returned if the whole chunk is small enough.
        """
        if not self._enough and self._bytes <= self._max_bytes:
            return low
        return None if self._best is None else self._best[1]

    def _note(self, point: bytes) -> None:
        away = abs(self._bytes - self._target_bytes)
        if self._bytes <= self._max_bytes and (self._best is None or away < self._best[0]):
            self._best = away, point


def median_of(keys: Sequence[bytes]) -> bytes | None:
    """The key to cut at so that both halves have about as many documents; None when all keys are equal.

    `keys`: every encoded key of the chunk in rising order, duplicates included.
    """
    if not keys or keys[0] == keys[-1]:
        return None
    middle = keys[len(keys) // 2]
    if middle > keys[0]:
        return middle
    return next(key for key in keys if key > middle)


def top_chunk_receiver(chunks: ChunkMap, donor: str, shards: Sequence[str]) -> str | None:
    """Return the shard for the lone-key chunk at the top after a split; None if the donor has no more chunks than it.

    It is the shard with fewest chunks; ties are broken by the order of `shards`, which leaves out draining ones.
    """
    best = min(shards, key=lambda shard: chunks.counts.get(shard, 0), default=None)
    if best is None or best == donor or chunks.counts.get(best, 0) >= chunks.counts.get(donor, 0):
        return None
    return best
