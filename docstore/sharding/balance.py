"""Which chunk the balancer moves next: the policy of 2012.

Per collection: first off a shard that is draining; else from the shard with most chunks to the one with fewest, when
they differ by at least 8, or by at least 2 while the round before moved something (so that what was begun is
finished). A router asks for one move at a time and asks again after it.

The chunk: the one that adjoins the receiver's range, when the donor's range ends where the receiver's begins or the
other way round, so that ranges stay together; else the donor's first. Jumbo chunks stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.sharding.chunks import Chunk, ChunkMap

START_DIFFERENCE = 8
CONTINUE_DIFFERENCE = 2


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard as the balancer sees it."""

    name: str
    draining: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Move `chunk` from the shard that has it to another."""

    chunk: Chunk
    to: str

    @property
    def donor(self) -> str:
        return self.chunk.shard


def choose_move(chunks: ChunkMap, shards: Sequence[ShardState], *, moved_last_round: bool) -> Move | None:
    """The move that a collection needs most; None when it is balanced. `shards`: every shard, in their order."""
    counts = {shard.name: chunks.counts.get(shard.name, 0) for shard in shards}
    receivers = [shard.name for shard in shards if not shard.draining]
    if not receivers:
        return None
    receiver = min(receivers, key=counts.__getitem__)
    for shard in shards:
        if shard.draining and counts[shard.name] and (chunk := _pick(chunks, shard.name, receiver)) is not None:
            return Move(chunk, receiver)
    donor = max(receivers, key=counts.__getitem__)
    needed = CONTINUE_DIFFERENCE if moved_last_round else START_DIFFERENCE
    if counts[donor] - counts[receiver] < needed:
        return None
    chunk = _pick(chunks, donor, receiver)
    return None if chunk is None else Move(chunk, receiver)


def _pick(chunks: ChunkMap, donor: str, receiver: str) -> Chunk | None:
    movable = [chunk for chunk in chunks if chunk.shard == donor and not chunk.jumbo]
    if not movable:
        return None
    received = [chunk for chunk in chunks if chunk.shard == receiver]
    if received and movable[-1].max.key == received[0].min.key:
        return movable[-1]
    return movable[0]
