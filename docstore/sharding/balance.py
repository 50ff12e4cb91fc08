"""Which chunk the balancer moves next: the policy of 6.0, by data size.

Per collection: first off a shard that is draining; else from the shard with most data to the one with least, when they
differ by three chunk sizes or more. A collection that is young, so that its chunks still split below that size
(`docstore.sharding.split`), is spread early: there half the size in force is enough, so that of the four chunks that
26 MB make no shard of two keeps more than two thirds.

The chunk: where there are few, the one that leaves the two shards most alike, if that takes away a quarter of the
difference: what is written meanwhile must not send chunks to and fro. Where there are many, the first that has
anything, beginning where the donor's range adjoins the receiver's, so that ranges stay together. A chunk as large as
the difference stays, so every move brings the shards closer and moves come to an end. Jumbo chunks stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from docstore.sharding.chunks import Chunk, ChunkMap
from docstore.sharding.split import target_bytes

DIFFERENCE_CHUNKS = 3
FIRST_LARGE_STEP = 3
"""With fewer chunks a collection splits at sizes that are not worth a move."""


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard as the balancer sees it."""

    name: str
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where chunks of a collection should go. `difference`: in bytes between the two; None to empty a
    shard, whatever there is."""

    donor: str
    to: str
    difference: int | None = None


def tolerated_bytes(chunk_count: int, chunk_bytes: int) -> int:
    """A collection whose shards differ by less is balanced."""
    in_force = target_bytes(max(chunk_count, FIRST_LARGE_STEP), chunk_bytes)
    return in_force // 2 if in_force < chunk_bytes else DIFFERENCE_CHUNKS * chunk_bytes


def choose_route(
    chunks: ChunkMap, shards: Sequence[ShardState], sizes: Mapping[str, int], chunk_bytes: int
) -> Route | None:
    """The route that a collection needs most; None when it is balanced. `shards`: every shard, in their order; `sizes`:
    the bytes that each owns, nothing where it is not named."""
    receivers = [shard.name for shard in shards if not shard.draining]
    if not receivers:
        return None
    to = min(receivers, key=lambda name: sizes.get(name, 0))
    for shard in shards:
        if shard.draining and any(not chunk.jumbo for chunk in chunks.of(shard.name)):
            return Route(shard.name, to)
    donor = max(receivers, key=lambda name: sizes.get(name, 0))
    difference = sizes.get(donor, 0) - sizes.get(to, 0)
    return Route(donor, to, difference) if difference >= tolerated_bytes(len(chunks), chunk_bytes) else None


def candidates(chunks: ChunkMap, route: Route) -> Iterator[Chunk]:
    """The chunks that may take the route, the best place first."""
    received = next(chunks.of(route.to), None)
    last = next(chunks.of(route.donor, reverse=True), None)
    backwards = received is not None and last is not None and last.max.key == received.min.key
    return (chunk for chunk in chunks.of(route.donor, reverse=backwards) if not chunk.jumbo)


def choose_chunk(route: Route, sized: Sequence[tuple[Chunk, int]], *, few: bool) -> Chunk | None:
    """One of the candidates with their sizes in bytes; None when none of them helps. `few`: they are all there are."""
    difference = route.difference
    if difference is None:
        return sized[0][0] if sized else None
    if few:
        left = {chunk: abs(difference - 2 * size) for chunk, size in sized}
        best = min(left, key=left.__getitem__, default=None)
        return best if best is not None and 4 * left[best] <= 3 * difference else None
    return next((chunk for chunk, size in sized if 0 < size < difference), None)
