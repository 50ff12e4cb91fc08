"""Statements over many documents while they run on a shard, and the moves that wait for them.

Such a statement goes through its documents in slices, and a router counts on each of them being looked at once. Always
true:

* what the shard owned when a statement began (or the part of it that the router asks for) is the statement's until it
  ends: a chunk of the collection does not leave before, and a version that rises because a chunk came does not end it;
* a move that is ready waits until the statements that run have ended, and those that come meanwhile wait for the move:
  neither keeps the other from going on for good. Writes of single documents wait for neither.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

from docstore.kernel.match.path_predicates import Ranges
from docstore.kernel.match.predicate import Always, Predicate
from docstore.node.shard_filter import MustWait
from docstore.sharding.routing import Routing
from docstore.sharding.targeting import KeyRanges, intersection


class Held(Protocol):
    """What a shard knows of its own part of a collection."""

    @property
    def routing(self) -> Routing: ...

    @property
    def owned(self) -> Predicate | None: ...


class Hold:
    """One statement. Implements `docstore.node.shard_filter.Hold`."""

    def __init__(
        self, known: Held, shard: str, within: KeyRanges | None, *, now: Callable[[], Held | None],
        ended: Callable[[Hold], None],
    ) -> None:  # fmt: skip
        self.owned = known.owned
        self._begun = known
        self._shard = shard
        self._within = within
        self._now = now
        self._ended = ended
        collection = known.routing.collection
        if collection is not None and within is not None:
            ranges = intersection(collection.chunks.owned(shard), within)
            self.owned = Ranges(collection.key.pattern, ranges) if ranges else Always(False)

    def kept(self) -> bool:
        """Whether the shard still owns what is the statement's."""
        now = self._now()
        if now is None or now.owned is None:
            return now is not None
        before, after = self._begun.routing.collection, now.routing.collection
        if before is None or after is None or before.epoch != after.epoch:
            return False
        mine: KeyRanges = before.chunks.owned(self._shard)
        if self._within is not None:
            mine = intersection(mine, self._within)
        return _covers(after.chunks.owned(self._shard), mine)

    def close(self) -> None:
        """Again is the same as once."""
        self._ended(self)


def _covers(owned: KeyRanges, wanted: KeyRanges) -> bool:
    """Whether each of the wanted ranges lies in one that is owned; neighbours are joined in both."""
    lows = [low for low, _ in owned]
    for low, high in wanted:
        place = bisect_right(lows, low) - 1
        if place < 0 or owned[place][1] < high:
            return False
    return True


class RunningStatements:
    """Those of one shard."""

    def __init__(self) -> None:
        self._holds: dict[str, set[Hold]] = {}
        self._gates: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()

    def begin(
        self, namespace: str, known: Held, shard: str, within: KeyRanges | None, now: Callable[[], Held | None]
    ) -> Hold:
        """A statement begins in the step in which it was let in. Errors: MustWait while a move waits for others."""
        gate = self._gates.get(namespace)
        if gate is not None:
            raise MustWait(lambda: _opened(gate))
        holds = self._holds.setdefault(namespace, set())

        def ended(hold: Hold) -> None:
            holds.discard(hold)
            if not holds and self._holds.get(namespace) is holds:
                del self._holds[namespace]
                self._changed.set()
                self._changed = asyncio.Event()

        hold = Hold(known, shard, within, now=now, ended=ended)
        holds.add(hold)
        return hold

    async def ended(self, namespace: str, seconds: float) -> bool:
        """Let none begin from now on, and wait so long for those that run; whether none runs any more."""
        self._gates.setdefault(namespace, asyncio.Event())
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while namespace in self._holds:
            left = end - loop.time()
            if left <= 0:
                return False
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                return False
        return True

    def let_begin(self, namespace: str) -> None:
        """The move has gone on, or was given up."""
        gate = self._gates.pop(namespace, None)
        if gate is not None:
            gate.set()


async def _opened(gate: asyncio.Event) -> None:
    await gate.wait()
