"""A request to move a range, from its arrival to the migration, as pure decisions.

    READING    the routing is being read anew
    MEASURING  the size of the range is being measured, or the end of the part to move looked up
    SPLITTING  the config servers split the chunk, so that the range to move is a chunk; then READING once more
    ENDED      a migration has begun, or one that ran already is joined; or `to` owns the range; or it is refused

Invariants:

- a migration begins for exactly one chunk, which this shard owned when the routing was last read, and only if nothing
  that runs here conflicts;
- a chunk is split only under the same conditions.

A request that fails midway has at most split a chunk, and a repeated request continues from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from docstore.errors import Code, CommandError
from docstore.sharding.balancing.policy import most_bytes
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import Bound, KeyRange
from docstore.sharding.migration import Migration
from docstore.sharding.routing import CollectionRouting


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a range to move.

    `most_bytes`: the chunk size, 0 for any size; `part_bytes`: about that many from the lower or (`upper`) the upper
    end, 0 for all.
    """

    most_bytes: int = 0
    part_bytes: int = 0
    upper: bool = False


EVERYTHING = Extent()


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """A request. `low`, `high`: the documents of the bounds, of a range in one chunk."""

    namespace: str
    epoch: Any
    low: bytes
    high: bytes
    to: str
    extent: Extent = EVERYTHING


@dataclass(frozen=True, slots=True)
class Situation:
    """The state of the shard at an event. `running`: the undecided migrations away from it; `conflict`: why none may
    begin now.
    """

    running: Sequence[Migration] = ()
    conflict: CommandError | None = None


class State(Enum):
    """See the module's heading."""

    READING = auto()
    MEASURING = auto()
    SPLITTING = auto()
    ENDED = auto()


# Effects; each but the last three is answered by the event named


@dataclass(frozen=True, slots=True)
class ReadRouting:
    """Read the routing anew from the config servers; answered by `RoutingRead`."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure the bytes in a range, up to a little more than `max_bytes`; answered by `Measured`."""

    routed: CollectionRouting
    range: KeyRange
    most: int


@dataclass(frozen=True, slots=True)
class FindPart:
    """Find the end of a part of about `target_bytes` bytes, and at most `max_bytes`; answered by `PartFound`."""

    routed: CollectionRouting
    range: KeyRange
    target_bytes: int
    max_bytes: int
    upper: bool


@dataclass(frozen=True, slots=True)
class Split:
    """Split the chunk; answered by `SplitDone`."""

    routed: CollectionRouting
    chunk: Chunk
    points: list[Bound]


@dataclass(frozen=True, slots=True)
class Begin:
    """Move the chunk."""

    routed: CollectionRouting
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class Join:
    """Wait for the migration that runs."""

    migration: Migration


@dataclass(frozen=True, slots=True)
class Answer:
    """End without a migration: successfully, or with an error."""

    error: CommandError | None = None


Effect = ReadRouting | Measure | FindPart | Split | Begin | Join | Answer


@dataclass(frozen=True, slots=True)
class RoutingRead:
    """The routing; None for a collection that is not sharded."""

    collection: CollectionRouting | None


@dataclass(frozen=True, slots=True)
class Measured:
    bytes: int


@dataclass(frozen=True, slots=True)
class PartFound:
    """The part; None if keys with too much data leave none."""

    range: KeyRange | None


@dataclass(frozen=True, slots=True)
class SplitDone:
    """The chunk is cut."""


Event = RoutingRead | Measured | PartFound | SplitDone


class Moving:
    """One request at the shard `shard`."""

    def __init__(self, request: MoveRequest, shard: str) -> None:
        self.state = State.READING
        self._request = request
        self._shard = shard
        self._measured = request.extent == EVERYTHING
        self._part: KeyRange | None = None
        """The range to move, once it is known."""
        self._found: tuple[CollectionRouting, Chunk, KeyRange] | None = None

    def start(self) -> Effect:
        return ReadRouting()

    def receive(self, event: Event, situation: Situation) -> Effect:
        """Return the effect of an event. An event for which the state does not wait is an error of the driver."""
        match self.state, event:
            case State.READING, RoutingRead(collection):
                return self._judge(collection, situation)
            case State.MEASURING, Measured(size):
                self._measured = True
                assert self._found is not None, "measured is what was found"
                if size > most_bytes(self._request.extent.most_bytes):
                    return self._too_big(self._found[2])
                return self._go(situation)
            case State.MEASURING, PartFound(part):
                assert self._found is not None, "measured is what was found"
                if part is None:
                    return self._too_big(self._found[2])
                self._part, self._measured = part, True
                self._found = (*self._found[:2], part)
                return self._go(situation)
            case State.SPLITTING, SplitDone():
                self.state = State.READING
                return ReadRouting()
            case _:
                raise AssertionError(f"{event} in {self.state}")

    def _judge(self, routed: CollectionRouting | None, situation: Situation) -> Effect:
        request = self._request
        if routed is None or routed.epoch != request.epoch:
            why = f"{request.namespace} is not sharded under the epoch {request.epoch}"
            return self._end(Answer(CommandError(Code.StaleEpoch, why)))
        bounds = self._part or routed.key.range(request.low, request.high)
        running = self._same(bounds, situation)
        if running is not None:
            return self._end(Join(running))
        chunk = self._at_the_end(routed, bounds)
        partly = self._part is None and request.extent.part_bytes > 0
        reaches = chunk.min.key <= bounds.min.key and bounds.max.key <= chunk.max.key
        if chunk.shard == request.to and (reaches or partly):
            return self._end(Answer())
        if chunk.shard != self._shard or not (reaches or partly):
            why = f"{self._shard} has no chunk {bounds} of {request.namespace}"
            return self._end(Answer(CommandError(Code.ConflictingOperationInProgress, why)))
        low, high = max(bounds.min, chunk.min, key=_key), min(bounds.max, chunk.max, key=_key)
        self._found = routed, chunk, KeyRange(low, high)
        return self._go(situation)

    def _at_the_end(self, routed: CollectionRouting, bounds: KeyRange) -> Chunk:
        """The chunk at the end of the range that the request counts from."""
        *_, last = routed.chunks.overlapping(bounds.min.key, bounds.max.key)
        return last if self._request.extent.upper else routed.chunks.chunk_at(bounds.min.key)

    def _same(self, bounds: KeyRange, situation: Situation) -> Migration | None:
        """Return the running migration that an earlier copy of this request started."""
        request = self._request
        for migration in situation.running:
            if (migration.namespace, migration.recipient) != (request.namespace, request.to):
                continue
            at_our_end = (
                migration.range.max.key == bounds.max.key
                if request.extent.upper
                else migration.range.min.key == bounds.min.key
            )
            if migration.range.same(bounds) or (request.extent.part_bytes and at_our_end):
                return migration
        return None

    def _go(self, situation: Situation) -> Effect:
        """Return the next step for the range: measure it, split it off, or begin, unless something conflicts."""
        assert self._found is not None, "it was found"
        routed, chunk, bounds = self._found
        running = self._same(bounds, situation)
        if running is not None:
            return self._end(Join(running))
        if situation.conflict is not None:
            return self._end(Answer(situation.conflict))
        extent = self._request.extent
        if not self._measured:
            self.state = State.MEASURING
            if extent.part_bytes:
                most = most_bytes(extent.part_bytes)
                return FindPart(routed, bounds, extent.part_bytes, most, extent.upper)
            return Measure(routed, bounds, most_bytes(extent.most_bytes))
        points = [point for point in (bounds.min, bounds.max) if chunk.min.key < point.key < chunk.max.key]
        if points:
            self._part = bounds
            self.state = State.SPLITTING
            return Split(routed, chunk, points)
        return self._end(Begin(routed, chunk))

    def _too_big(self, bounds: KeyRange) -> Effect:
        extent = self._request.extent
        least = most_bytes(extent.part_bytes or extent.most_bytes)
        why = f"Cannot move chunk: the chunk {bounds} of {self._request.namespace} is larger than {least} bytes"
        return self._end(Answer(CommandError(Code.ChunkTooBig, why)))

    def _end(self, effect: Effect) -> Effect:
        self.state = State.ENDED
        return effect


def _key(bound: Bound) -> bytes:
    return bound.key
