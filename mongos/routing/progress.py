"""How far a statement is that goes to several shards, while chunks move between them.

Shards answer under the version that a request carries, and some call it stale. Always true:

* a statement about one document that no shard has found is asked of all shards again after a stale answer: those that
  answered may have done so before the document came to them. One that was found is not asked for again: where the
  answer was stale, the document may be the same one, moved;
* one that names its likely shard is asked of that alone first; where it is not found there, of all under one routing;
* a statement over many documents looks at each range of shard keys once: what a shard has seen to is what it owned
  under the version of the request, and only the rest is asked for again, of whoever owns it by then. It means what
  stays where it is: a document whose shard key changes meanwhile may be passed over, or met twice;
* of two shards of which one remembers a statement that the other has carried out or remembers too, because its document
  moved in between, one counts, whichever answers first: the document may also have moved since this try has begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.sharding.routing import Routing
from docstore.sharding.targeting import KeyRanges, intersection, joined, without
from mongos.routing.targeting import Reach, Target


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be asked of one shard. `keys`: only of these ranges; None for all that the shard owns."""

    shard: str
    keys: KeyRanges | None = None


@dataclass(slots=True)
class Progress:
    """One statement's. A round asks `parts`, tells what was `answered`, and ends with `end_round`."""

    found: bool = False
    narrow: bool = False
    """Only the likely shard is asked."""
    _widened: bool = False
    _remembered: bool = False
    _reach: Reach = Reach.ONE
    _answered: list[Part] = field(default_factory=list)
    _seen_to: list[tuple[bytes, bytes]] = field(default_factory=list)
    _epoch: Any = None

    def parts(self, routing: Routing, target: Target) -> list[Part]:
        """What is to be asked under this routing; nothing when all of it has been seen to."""
        self._reach = target.reach
        self.narrow = target.likely is not None and not self._widened
        if target.likely is not None and self.narrow:
            return [Part(target.likely)]
        collection = routing.collection
        if collection is None or collection.epoch != self._epoch:
            # Another incarnation has other documents.
            self._seen_to.clear()
            self._epoch = None if collection is None else collection.epoch
        if collection is None or not self._seen_to:
            return [Part(shard) for shard in target.shards]
        left = without(joined(target.keys), self._seen_to)
        owned = collection.chunks.owned
        parts = [Part(shard, intersection(owned(shard), left)) for shard in sorted(collection.chunks.shards)]
        return [part for part in parts if part.keys]

    def answered(self, part: Part, count: int, *, retried: bool) -> bool:
        """A shard has carried out its part, on so many documents, or remembers it as `retried`; whether these count."""
        self._answered.append(part)
        again = self.found and (retried or self._remembered)
        self.found = self.found or count > 0
        self._remembered = self._remembered or retried
        return not again

    def end_round(self, routing: Routing, stale: Sequence[Part]) -> bool:
        """Whether something is left to be asked, now that all parts have been answered or were called stale."""
        answered, self._answered = self._answered, []
        if not stale:
            self._widened = self.narrow and not self.found
            return self._widened
        if self._reach is Reach.ONE:
            return not self.found
        if routing.collection is not None:
            owned = routing.collection.chunks.owned
            done = [keys for part in answered for keys in (owned(part.shard) if part.keys is None else part.keys)]
            self._seen_to = joined([*self._seen_to, *done])
        return True
