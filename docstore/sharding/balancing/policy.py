"""The balancer's choice of the next migration: the policy of 6.0, by data size.

A collection first leaves a draining shard. Otherwise it moves from the shard with most data to the one with least, if
they differ by three chunk sizes or more. The chunks of a young collection still split below that size
(`docstore.sharding.split`), and it is spread early: half of its current chunk size is enough there. Of the four
chunks that 26 MB make, no shard of two then keeps more than two thirds.

A transfer takes about half of the difference, and at most a chunk's size (`target_bytes`). It is a whole chunk of about
that size (`fits`), else a part of a larger one, which the donor splits off (`Transfer.part_bytes`), else the largest
chunk. If there are few chunks, all are compared. If there are many, the first suitable one is taken, beginning where
the donor's range adjoins the receiver's, so that ranges stay together. Jumbo chunks stay.

Invariants, which make migrations end and keep concurrent writes from moving chunks to and fro:

- a transfer is smaller than the difference, so the sizes of the shards converge with every migration;
- its share of the difference or of the chunk size does not shrink with the number of rounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from docstore.sharding.chunk import Chunk
from docstore.sharding.chunks import ChunkMap
from docstore.sharding.split import target_bytes

DIFFERENCE_CHUNKS = 3
FIRST_LARGE_STEP = 3
"""With fewer chunks a collection splits at sizes that are not worth a move."""
FEW_CHUNKS = 20
TOO_BIG_PERCENT = 130
"""In percent of the intended bytes, or of the chunk size: a larger chunk does not move whole."""


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard as the balancer sees it."""

    name: str
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """The donor and the recipient of a collection's data. `difference`: in bytes between the two; None to empty a
    shard. `target_bytes`: the bytes to move at once.
    """

    donor: str
    to: str
    target_bytes: int
    difference: int | None = None


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer for a route: a chunk of `size` bytes, or `part_bytes` of it from its lower or (`upper`) its upper
    end.
    """

    chunk: Chunk
    size: int
    part_bytes: int = 0
    upper: bool = False


def most_bytes(target_bytes: int) -> int:
    """Return the maximal bytes of one transfer where about `target_bytes` are intended."""
    return target_bytes * TOO_BIG_PERCENT // 100


def fits(size: int, target_bytes: int) -> bool:
    """True if a chunk may move whole where about `target_bytes` bytes are intended."""
    return target_bytes <= 2 * size and size <= most_bytes(target_bytes)


def tolerated_bytes(chunk_count: int, chunk_bytes: int) -> int:
    """Return the difference between shards below which a collection is balanced."""
    in_force = target_bytes(max(chunk_count, FIRST_LARGE_STEP), chunk_bytes)
    return in_force // 2 if in_force < chunk_bytes else DIFFERENCE_CHUNKS * chunk_bytes


def choose_route(
    chunks: ChunkMap, shards: Sequence[ShardState], sizes: Mapping[str, int], chunk_bytes: int
) -> Route | None:
    """Return the most urgent route of a collection; None if it is balanced. `shards`: every shard, in order; `sizes`:
    the bytes that each owns, 0 if missing.
    """
    receivers = [shard.name for shard in shards if not shard.draining]
    if not receivers:
        return None
    to = min(receivers, key=lambda name: sizes.get(name, 0))
    for shard in shards:
        if shard.draining and any(not chunk.jumbo for chunk in chunks.of(shard.name)):
            return Route(shard.name, to, chunk_bytes)
    donor = max(receivers, key=lambda name: sizes.get(name, 0))
    difference = sizes.get(donor, 0) - sizes.get(to, 0)
    if difference < tolerated_bytes(len(chunks), chunk_bytes):
        return None
    return Route(donor, to, min(difference // 2, chunk_bytes), difference)


def candidates(chunks: ChunkMap, route: Route) -> Iterator[Chunk]:
    """Yield the chunks that may take the route, the best first."""
    received = next(chunks.of(route.to), None)
    last = next(chunks.of(route.donor, reverse=True), None)
    backwards = received is not None and last is not None and last.max.key == received.min.key
    return (chunk for chunk in chunks.of(route.donor, reverse=backwards) if not chunk.jumbo)


def at_once(chunks: ChunkMap, route: Route, sized: Sequence[tuple[Chunk, int]]) -> Transfer | None:
    """Return a transfer that needs no comparison with further candidates; None if there is none. `sized`: the next
    candidates with their bytes.
    """
    if route.difference is not None and len(chunks) < FEW_CHUNKS:
        return None
    least = 0 if route.difference is None else route.target_bytes // 2
    candidate = next((row for row in sized if row[1] >= least), None)
    return None if candidate is None else _transfer(chunks, route, *candidate)


def best_of(chunks: ChunkMap, route: Route, sized: Sequence[tuple[Chunk, int]]) -> Transfer | None:
    """Return the best transfer when `at_once` gave none. `sized`: all candidates with their bytes.

    None if no candidate helps: most data is then in jumbo chunks, or in chunks that cannot be split.
    """
    difference = route.difference
    if not sized or difference is None:
        return None
    fitting = [row for row in sized if fits(row[1], route.target_bytes)]
    if fitting:
        return Transfer(*min(fitting, key=lambda row: abs(difference - 2 * row[1])))
    chunk, size = max(sized, key=lambda row: row[1])
    if 2 * size * len(chunks) < difference:
        return None
    return _transfer(chunks, route, chunk, size)


def _transfer(chunks: ChunkMap, route: Route, chunk: Chunk, size: int) -> Transfer:
    if size <= most_bytes(route.target_bytes):
        return Transfer(chunk, size)
    at_the_top = chunk.max.key == chunks.key.max.key
    upper = not at_the_top and chunks.chunk_at(chunk.max.key).shard == route.to
    return Transfer(chunk, size, part_bytes=route.target_bytes, upper=upper)
